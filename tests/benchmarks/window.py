"""How fast the window opens: ``python -m tests.benchmarks.window``. Its pauses: ``tour``.

Whole processes, from start to the first idle moment after the first paint; ours against a bare
PySide6 window with one pyqtgraph plot, alternating, medians of several runs: wall time, and
processor time, which other work on the machine hardly disturbs. On the display, or without one.
Then from start to the spectrum of a matrix of the merged sample, with the engine's time, against a
process that only imports torch. Python's bytecode must be cached, as it is where a package is
installed: without it (PYTHONDONTWRITEBYTECODE) the window takes twice as long.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile

from tests.benchmarks.measuring import Run, idle_torch, run

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


MERGED = """
import sys, time
started = time.perf_counter()
from ace_gui.cli import commands
from ace_gui.engine.contract.engine_process import EngineProcess
engine = EngineProcess()
from ace_gui.gui.picture import Studio
from ace_gui.paths import Sample
studio = Studio(engine=engine)
studio.open(Sample.IMAGES.recipe)
studio.merge()
studio.select_most_heterogeneous()
studio.window.grab()
print(time.perf_counter() - started, flush=True)
studio.close()
"""
MERGES = 3


def start_up(runs: int = 9) -> tuple[list[Run], list[Run]]:
    """The bare window and ours, run in turn after one warm-up each."""
    bare: list[Run] = []
    ours: list[Run] = []
    for number in range(runs + 1):
        for script, series in ((BARE, bare), (OURS, ours)):
            done = _open_window(script)
            if number:
                series.append(done)
    return bare, ours


def main() -> None:
    """Print the medians."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder}
        _print_start_up()
        _print_first_spectrum()


def _print_start_up() -> None:
    series = start_up()
    for kind in ("processor_seconds", "seconds"):
        bare, ours = (
            statistics.median(getattr(attempt, kind) for attempt in runs) for runs in series
        )
        what = kind.replace("_", " ")
        print(f"start-up: bare window {bare:.2f} {what}, ours {ours:.2f}, ratio {ours / bare:.2f}")


def _print_first_spectrum() -> None:
    """After one warm-up, which measures the sample's experts for the cache."""
    seconds: list[float] = []
    torch: list[float] = []
    processor: list[float] = []
    for number in range(MERGES + 1):
        with tempfile.NamedTemporaryFile("r") as printed:
            done = _open_window(f"import sys; sys.stdout = open({printed.name!r}, 'w'){MERGED}")
            taken = float(printed.read())
        bare = idle_torch().seconds
        if number:
            seconds.append(taken)
            processor.append(done.processor_seconds)
            torch.append(bare)
    print(
        f"first spectrum of the merged sample: {statistics.median(seconds):.2f} seconds, "
        f"{statistics.median(processor):.2f} processor seconds of window and engine; "
        f"import of torch alone {statistics.median(torch):.2f} seconds"
    )


def _open_window(script: str) -> Run:
    done = run([sys.executable, "-c", script])
    if done.status:
        sys.exit("The window did not open; the lines above say why.")
    return done


if __name__ == "__main__":
    main()
