import pytest

from ace_gui.gui.control.time_left import Pace


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_time_left_follows_the_bytes_of_this_run_only() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.start(bytes_total=1000)
    clock.now = 1.0
    assert pace.seconds_left(600) is None  # 500 of these were there before
    clock.now = 3.0
    assert pace.seconds_left(700) == pytest.approx(6.0)


def test_nothing_is_left_at_the_end() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.start(bytes_total=300)
    pace.seconds_left(100)
    clock.now = 2.0
    assert pace.seconds_left(300) == 0
