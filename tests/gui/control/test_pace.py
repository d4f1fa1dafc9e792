import pytest

from ace_gui.engine.contract.plan import Disposition
from ace_gui.gui.control.merge_operation import QUIET, Pace, cost
from tests.gui.fakes import Clock, row


def test_nothing_is_said_at_the_beginning():
    clock = Clock()
    pace = Pace(clock)
    assert pace.seconds_left(0, 10) is None
    clock.now = QUIET / 2
    assert pace.seconds_left(1, 10) is None
    clock.now = QUIET
    assert pace.seconds_left(1, 10) == pytest.approx(9 * QUIET)
    assert pace.seconds_left(0, 10) is None, "another sequence"


def test_what_an_earlier_run_did_took_no_time():
    clock = Clock()
    pace = Pace(clock)
    pace.seconds_left(8, 10)
    clock.now = 10.0
    assert pace.seconds_left(8, 10) is None, "nothing was merged yet"
    assert pace.seconds_left(9, 10) == pytest.approx(10.0)


def test_cheap_tensors_first_do_not_promise_a_quick_end():
    cheap = row("b", shape=(128,), disposition=Disposition.AVERAGED)
    large = row("w", shape=(128, 128))
    assert cost(large) > 100 * cost(cheap)


def test_one_slow_tensor_moves_it_only_so_far():
    clock = Clock()
    pace = Pace(clock)
    pace.seconds_left(0, 10)
    for done in range(1, 5):
        clock.now += 2.0
        steady = pace.seconds_left(done, 10)
    clock.now += 10.0
    after = pace.seconds_left(5, 10)
    assert steady is not None
    assert after is not None
    # The mean alone would say 18 s.
    assert after < 10.0
