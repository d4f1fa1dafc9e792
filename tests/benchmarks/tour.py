"""Pauses of the window in all of its states: ``python -m tests.benchmarks.tour [--recipe RECIPE]``.

A timer beats in the window's event loop while ``tests.walk`` leads through every state: merges,
pages, tabs, tables, dialogs, scores, tuning, another scheme. The longest silence between two beats
is the pause of a state, with what brought the window there: its wall time, and what the window's
own thread had to do. A silence that is much longer than that is the machine's, which had others to
serve.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from ace_gui.gui.theme import current_theme, set_scheme
from ace_gui.paths import Sample
from tests.walk.__main__ import Walk, use_folder

STEP = 120  # ms between two things that a person does
WORST_SHOWN = 40
SCHEMES = ("light", "dark")


class Tour(Walk):
    """Looks at nothing; ``pauses`` has the longest silence in each state, of both kinds."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.pauses: dict[str, tuple[float, float]] = {}
        self.longest = (0.0, 0.0)
        self.last = (time.perf_counter(), time.thread_time())
        self.timer = QTimer(interval=1, timerType=Qt.TimerType.PreciseTimer)
        self.timer.timeout.connect(self.beat)
        self.timer.start()

    def beat(self) -> None:
        now = time.perf_counter(), time.thread_time()
        silence = (now[0] - self.last[0], now[1] - self.last[1])
        self.longest = max(self.longest, silence)
        self.last = now

    def look(self, name: str, root: QWidget) -> None:
        """Until it is painted; then in the other scheme and back."""
        QTest.qWait(STEP)
        self.note(name)
        for scheme in sorted(
            SCHEMES, key=lambda scheme_name: (scheme_name == "dark") == current_theme().dark
        ):
            set_scheme(scheme)
            QTest.qWait(STEP)
        self.note(f"{name}, other colours")

    def note(self, name: str) -> None:
        self.pauses[name] = self.longest
        self.longest = (0.0, 0.0)


def main() -> None:
    """Print the longest pauses, worst first."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tour")
    parser.add_argument("--recipe", type=Path, default=Sample.IMAGES.recipe)
    parser.add_argument("--size", type=int, nargs=2, default=(1440, 900))
    parser.add_argument("--brief", action="store_true", help="only states that come quickly")
    defaults = argparse.Namespace(font=100, late=False, scheme=SCHEMES[:1], pictures=None)
    options = parser.parse_args(namespace=defaults)
    with tempfile.TemporaryDirectory() as folder:
        use_folder(Path(folder), options.size)
        tour = Tour(options)
        tour.run()
    worst = sorted(tour.pauses.items(), key=lambda pair: -pair[1][0])
    print(f"{len(worst)} pauses; the longest:")
    for state, (wall, processor) in worst[:WORST_SHOWN]:
        print(f"{1000 * wall:6.0f} ms {1000 * processor:6.0f} ms of processor  {state}")


if __name__ == "__main__":
    main()
