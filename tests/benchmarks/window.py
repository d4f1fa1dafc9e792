"""How fast the window opens, and how long it ever stops answering.

Start-up: whole processes, from start to the first idle moment after the first paint; ours against a
bare PySide6 window with one pyqtgraph plot, alternating, medians of several runs: wall time, and
processor time, which other work on the machine hardly disturbs. On the display, or without one.
Pauses: a timer beats in the window's event loop while a recipe is opened, analysed, merged, its
layers are walked through and the scheme changes; the longest silence between two beats is the
longest pause. ``tour`` looks at every panel besides.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from itertools import cycle
from pathlib import Path

from tests.benchmarks.measuring import Run, run

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


def start_up(runs: int = 9) -> tuple[list[Run], list[Run]]:
    """The bare window and ours, run in turn after one warm-up each."""
    bare: list[Run] = []
    ours: list[Run] = []
    for number in range(runs + 1):
        for script, found in ((BARE, bare), (OURS, ours)):
            done = _open_window(script)
            if number:
                found.append(done)
    return bare, ours


def longest_pause(recipe: Path) -> dict[str, tuple[float, float]]:
    """Longest silence of the event loop in seconds, and of processor, by what was going on."""
    from PySide6.QtCore import QTimer

    from ace_gui.gui.picture import Studio
    from ace_gui.gui.theme import set_scheme
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
        studio.settle()
        pulse.doing = "change the scheme"
        for scheme in ("dark", "light"):
            set_scheme(scheme)
            studio.settle()
    finally:
        pulse.stop()
        studio.close()
    return pulse.longest


def main() -> None:
    """Print both."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder}
        _print_start_up()
        for recipe in sys.argv[1:]:
            for doing, (wall, processor) in longest_pause(Path(recipe)).items():
                milliseconds = f"{1000 * wall:.0f} ms, {1000 * processor:.0f} ms of processor"
                print(f"longest pause, {doing}: {milliseconds}")


def _print_start_up() -> None:
    found = start_up()
    for kind in ("processor_seconds", "seconds"):
        bare, ours = (statistics.median(getattr(one, kind) for one in runs) for runs in found)
        what = kind.replace("_", " ")
        print(f"start-up: bare window {bare:.2f} {what}, ours {ours:.2f}, ratio {ours / bare:.2f}")


def _open_window(script: str) -> Run:
    done = run([sys.executable, "-c", script])
    if done.status:
        sys.exit("The window did not open; the lines above say why.")
    return done


if __name__ == "__main__":
    main()
