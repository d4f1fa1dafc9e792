"""Many layers in the window: ``python -m tests.benchmarks.many_layers [--rows 20000]``.

A made-up plan, so that nothing but the window is measured. The table: opening, sorting by each
column, filtering, each to the end of the repaint. The views: frames a second while τ is dragged
over 2 000 layers, the table and every view following at once. Wall and processor time; the latter
is what counts on a machine that others use too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QCoreApplication, QEventLoop, Qt

from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.gui.app import make_application
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.models.layer_columns import COLUMNS
from ace_gui.gui.panels.all_layers import LayersView
from ace_gui.gui.plots.gamma_plot import EnergiesAlongPlot, GammaPlot
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import apply_theme
from tests.gui.fakes import BASE, COLA, ENGINE, SST2, FakeWorker, plan, recipe, row
from tests.helpers.windows import keep_settings_in

ROLES = ("query", "key", "value", "attention output", "MLP gate", "MLP up", "MLP down")
EXPERTS = ("cola", "sst2")
DRAGGED_LAYERS = 2000
FRAMES = 60


def rows_of(count: int) -> tuple[PlanRow, ...]:
    """Blocks of seven matrices and a norm each."""
    rows = []
    for index in range(count):
        block, position = divmod(index, len(ROLES) + 1)
        matrix = position < len(ROLES)
        changes = (
            {"role": ROLES[position]}
            if matrix
            else {"role": "norm", "shape": (4,), "disposition": Disposition.AVERAGED}
        )
        rows.append(row(f"model.layers.{block}.part{position}.weight", block=block, **changes))
    return tuple(rows)


def statistics_of(rows: tuple[PlanRow, ...]) -> dict[str, LayerStatistics]:
    """γ spread around the threshold, energies of two experts."""
    draws = np.random.default_rng(0)
    by_name = {}
    for entry in rows:
        merged = entry.disposition is Disposition.MERGED
        energies = dict(zip(EXPERTS, draws.lognormal(-4, 1, 2).tolist(), strict=True))
        gamma = float(draws.lognormal(-1.2, 1)) if merged else None
        mean = float(np.mean(np.log(list(energies.values())))) if merged else None
        by_name[entry.name] = LayerStatistics(
            name=entry.name, energies=energies, gamma=gamma, mean_log_energy=mean
        )
    return by_name


class Bench:
    """A window over a worker that does nothing, and a stopwatch."""

    def __init__(self, folder: Path) -> None:
        keep_settings_in(folder)
        self.app = make_application()
        apply_theme(self.app)
        self.window = MainWindow(FakeWorker(), Settings(), MergeStores(folder / "merges"))
        self.window.resize(1440, 900)
        self.window.show()
        self.window.session.set_engine(ENGINE)
        self.workspace = self.window.workspace
        self.settle()

    def open(self, rows: tuple[PlanRow, ...]) -> None:
        """A model with these tensors, its experts not yet compared."""
        self.window.session.layers.statistics = {}
        inputs = Inputs(base=BASE).with_experts([COLA, SST2])
        self.window.session.adopt(inputs, plan(recipe(COLA, SST2), rows=rows))
        self.window._show_page()

    def learn(self, rows: tuple[PlanRow, ...]) -> None:
        """The experts are compared."""
        self.window.session.layers.statistics = statistics_of(rows)
        self.window.session.finish_analysis()
        self.settle()

    def settle(self) -> None:
        """Until nothing is left to do."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 50)

    def time(self, what: str, action: Callable[[], object], times: int = 1) -> None:
        """Print how long an action took, with the repaint that follows, at its slowest."""
        wall = []
        processor = []
        for _ in range(times):
            started = time.perf_counter()
            used = time.process_time()
            action()
            QCoreApplication.processEvents()
            wall.append(time.perf_counter() - started)
            processor.append(time.process_time() - used)
        print(f"{what:<34} {1000 * max(wall):7.0f} ms {1000 * max(processor):7.0f} ms of processor")


def table(bench: Bench, count: int) -> None:
    """Open, sort and filter the table."""
    layers = bench.workspace.layers
    print(f"{count} rows")
    rows = rows_of(count)
    bench.time("open", lambda: bench.open(rows))
    bench.learn(rows)
    for column in range(len(COLUMNS)):
        order = Qt.SortOrder.DescendingOrder
        bench.time(
            f"sort by {COLUMNS[column].title}", lambda c=column, o=order: layers.model.sort(c, o)
        )
        bench.settle()
    bench.time("sort back", lambda: layers.model.sort(-1, Qt.SortOrder.AscendingOrder))
    for text in ("7", "layers.7", "nothing of the sort", ""):
        bench.time(f"filter “{text}”", lambda t=text: layers.text.setText(t))
    bench.time("filter by role", lambda: layers.role.setCurrentIndex(2))
    layers.role.setCurrentIndex(0)


def drag(bench: Bench) -> None:
    """Drag τ in every view that has it."""
    rows = rows_of(DRAGGED_LAYERS * (len(ROLES) + 1) // len(ROLES))
    bench.open(rows)
    bench.learn(rows)
    tabs = bench.workspace.heterogeneity.tabs
    for index in range(tabs.count()):
        view = tabs.content(index)
        if not isinstance(view, LayersView) or isinstance(view.plot, EnergiesAlongPlot):
            continue
        tabs.setCurrentIndex(index)
        bench.settle()
        started = time.perf_counter()
        used = time.process_time()
        for frame in range(FRAMES):
            _move(bench, view, 10 ** (-1.2 + 1.5 * frame / FRAMES))
            QCoreApplication.processEvents()
        wall = time.perf_counter() - started
        processor = time.process_time() - used
        print(
            f"τ over {DRAGGED_LAYERS} layers, {tabs.tabText(index):<16} "
            f"{FRAMES / wall:5.0f} frames/s, {FRAMES / processor:5.0f} by processor time"
        )


def _move(bench: Bench, view: LayersView, tau: float) -> None:
    plot = view.plot
    if isinstance(plot, GammaPlot):
        plot.threshold.setValue(np.log10(tau))
        plot._dragged()
    else:
        bench.window.session.draft.preview_tau(tau)


def main() -> None:
    """Print the table's times and the views' frames a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        table(bench, options.rows)
        drag(bench)
        bench.window.close_unasked()


if __name__ == "__main__":
    main()
