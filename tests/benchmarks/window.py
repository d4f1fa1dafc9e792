"""How fast the window opens, and how long it ever stops answering.

Start-up: wall time of whole processes, from start to the first idle moment after the first paint;
ours against a bare PySide6 window with one pyqtgraph plot, alternating, medians of several runs.
Pauses: a timer beats in the window's event loop while a recipe is opened, analysed, merged and its
layers are walked through; the longest silence between two beats is the longest pause. ``tour``
looks at every panel besides.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

BARE = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMainWindow
import pyqtgraph
app = QApplication([])
window = QMainWindow()
window.resize(1440, 900)
window.setCentralWidget(pyqtgraph.PlotWidget())
window.show()
QTimer.singleShot(0, lambda: QTimer.singleShot(0, app.quit))
app.exec()
"""

OURS = """
import os, sys
from ace_gui import cli
from PySide6.QtCore import QTimer
from ace_gui.gui.app import Workbench, make_application
app = make_application()
bench = Workbench(app)
bench.window.show()
QTimer.singleShot(0, lambda: QTimer.singleShot(0, lambda: os._exit(0)))
app.exec()
"""


def start_up(runs: int = 9) -> tuple[float, float]:
    """Median seconds of the bare window and of ours, run in turn after one warm-up each."""
    bare, ours = [], []
    for number in range(runs + 1):
        for script, times in ((BARE, bare), (OURS, ours)):
            seconds = _run(script)
            if number:
                times.append(seconds)
    return statistics.median(bare), statistics.median(ours)


def longest_pause(recipe: Path) -> dict[str, tuple[float, float]]:
    """Longest silence of the event loop in seconds, and of processor, by what was going on."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QTimer

    from ace_gui.gui.picture import Studio
    from tests.benchmarks.pulse import Pulse

    studio = Studio("light")
    pulse = Pulse()
    try:
        studio.settle()
        pulse.doing = "open and analyse"
        studio.open(recipe)
        pulse.doing = "merge, walking through the layers"
        session = studio.window.session
        plan = session.draft.plan
        assert plan is not None
        names = [row.name for row in plan.rows if row.in_base]
        walk = QTimer()
        walk.setInterval(200)
        steps = cycle(names)
        walk.timeout.connect(lambda: session.select(next(steps)))
        walk.start()
        studio.merge()
        walk.stop()
        pulse.doing = "look at a spectrum"
        studio.select_most_heterogeneous()
    finally:
        pulse.stop()
        studio.close()
    return pulse.longest


def main() -> None:
    """Print both."""
    bare, ours = start_up()
    print(f"start-up: bare window {bare:.2f} s, ours {ours:.2f} s, ratio {ours / bare:.2f}")
    for recipe in sys.argv[1:]:
        for doing, (wall, processor) in longest_pause(Path(recipe)).items():
            milliseconds = f"{1000 * wall:.0f} ms, {1000 * processor:.0f} ms of processor"
            print(f"longest pause, {doing}: {milliseconds}")


def _run(script: str) -> float:
    with tempfile.TemporaryDirectory() as settings:
        environment = {**os.environ, "XDG_CONFIG_HOME": settings, "XDG_CACHE_HOME": settings}
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", script], env=environment, check=True, capture_output=True
        )
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
