import pytest

from ace_gui.engine.contract.plan import Disposition
from ace_gui.gui.control.time_left import QUIET, Pace, cost
from tests.gui.fakes import row

ROWS = [row(f"layer.{index}", shape=(128, 128)) for index in range(10)]


class Clock:
    """Stands still until it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_said_at_the_beginning() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.start(ROWS, ())
    pace.finish("layer.0")
    clock.now = QUIET / 2
    assert pace.seconds_left() is None
    clock.now = QUIET
    assert pace.seconds_left() == pytest.approx(9 * QUIET)


def test_what_an_earlier_run_did_took_no_time() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.start(ROWS, {each.name for each in ROWS[:8]})
    clock.now = 10.0
    assert pace.seconds_left() is None, "nothing was merged yet"
    pace.finish("layer.8")
    assert pace.seconds_left() == pytest.approx(10.0)


def test_cheap_tensors_first_do_not_promise_a_quick_end() -> None:
    cheap = [row(f"bias.{n}", shape=(128,), disposition=Disposition.AVERAGED) for n in range(90)]
    clock = Clock()
    pace = Pace(clock)
    pace.start([*cheap, *ROWS], ())
    for each in cheap:
        pace.finish(each.name)
    clock.now = 4.0
    pace.finish("layer.0")
    assert pace.seconds_left() == pytest.approx(36.0, rel=0.2)
    assert cost(ROWS[0]) > 100 * cost(cheap[0])


def test_one_slow_tensor_moves_it_only_so_far() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.start(ROWS, ())
    for index in range(4):
        clock.now += 2.0
        pace.finish(f"layer.{index}")
    steady = pace.seconds_left()
    clock.now += 10.0
    pace.finish("layer.4")
    after = pace.seconds_left()
    assert steady is not None
    assert after is not None
    # The mean alone would say 18 s.
    assert after < 10.0
