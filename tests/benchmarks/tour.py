"""A tour of the window during merges: ``python -m tests.benchmarks.tour RECIPE --seconds 120``.

A timer beats in the window's event loop while the tour walks through the layers, turns to every
tab, reads every table, drags τ, sorts and filters, tries other values, opens every dialog, scores
and tunes, and switches colours, letters and sizes; the merge under it begins anew, with another ε,
whenever a round is done. The longest silence between two beats is the longest pause; it is told by
what was being done.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from ace_gui.gui.panels.compare_page import TWO_MERGES

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtWidgets import QApplication, QDialog

from ace_gui.gui.models.layer_columns import COLUMNS
from ace_gui.gui.panels.all_layers import LayersView
from ace_gui.gui.panels.examples_tab import ExamplesTab
from ace_gui.gui.panels.scores_page import TABS
from ace_gui.gui.panels.tune_tab import TuneTab
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.plots.gamma_plot import GammaPlot
from ace_gui.gui.state.activity import State
from ace_gui.gui.theme import set_scheme
from tests.helpers.windows import keep_settings_in
from tests.walk.states import openers

STEP = 120  # ms between two things that a person does
WORST_SHOWN = 40


class Pulse:
    """The longest silence of the event loop, by what was being done: seconds, and of processor.

    The second is what the window's own thread had to do; a silence that is much longer is the
    machine's, which had others to serve.
    """

    def __init__(self) -> None:
        self.longest: dict[str, tuple[float, float]] = {}
        self.doing = "start"
        self._last = time.perf_counter(), time.thread_time()
        self._timer = QTimer()
        self._timer.setInterval(1)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def stop(self) -> None:
        """No more beats."""
        self._timer.stop()

    def _beat(self) -> None:
        now = time.perf_counter(), time.thread_time()
        wall, processor = (after - before for after, before in zip(now, self._last, strict=True))
        longest = self.longest.get(self.doing, (0.0, 0.0))
        self.longest[self.doing] = max(longest[0], wall), max(longest[1], processor)
        self._last = now


class Tour:
    """Steps through everything that there is to look at, again and again."""

    def __init__(self, studio: Studio, recipe: Path) -> None:
        self._recipe = recipe
        self._window = studio.window
        self._session = studio.window.session
        self._workspace = studio.window.workspace
        self._epsilon = cycle((1e-5, 1e-4, 1e-3))
        self._changed = False
        self._steps = self._what_there_is()

    def _what_there_is(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """What is done, and how."""
        while True:
            yield from self._walk()
            yield from self._turn("inspector", self._workspace.inspector.tabs)
            yield from self._turn("all layers", self._workspace.heterogeneity.tabs)
            yield from self._drag()
            yield from self._table()
            yield from self._try_out()
            yield from self._dialogs()
            yield from self._score()
            yield from self._compare()
            yield from self._window_wide()

    def next_step(self) -> tuple[str, Callable[[], object]]:
        """What to do now; if nothing is merging, it is to merge once more, with another ε."""
        session = self._session
        waiting = session.can_merge and not session.activity.is_running(State.ANALYSING)
        if self._changed and waiting:
            self._changed = False
            return "merge", self._merge
        if waiting:
            self._changed = True
            epsilon = next(self._epsilon)
            return "another ε", lambda: self._window.conductor.set_parameter("epsilon", epsilon)
        return next(self._steps)

    def _merge(self) -> None:
        self._session.checks.accept()
        self._window.merge.start()

    def _walk(self, count: int = 8) -> Iterator[tuple[str, Callable[[], object]]]:
        names = [row.name for row in self._session.layers.merged]
        yield "select a layer", lambda: self._session.select(names[0])
        for _ in range(count):
            yield "next layer", lambda: self._workspace.layers.step(1)

    def _turn(self, where: str, tabs) -> Iterator[tuple[str, Callable[[], object]]]:
        for index in range(tabs.count()):
            title = tabs.tabText(index)
            yield f"{where}: {title}", lambda i=index: tabs.setCurrentIndex(i)
            yield f"{where}: {title}, another layer", lambda: self._workspace.layers.step(1)
            plots = self._plots_with_tables(tabs)
            for shown in (True, False):
                yield (
                    f"{where}: {title}, table",
                    lambda shown=shown, plots=plots: [p.show_table(shown) for p in plots],
                )
        yield f"{where}: first tab", lambda: tabs.setCurrentIndex(0)

    def _plots_with_tables(self, tabs) -> list[PlotWithTable]:
        current = tabs.current
        own = [current] if isinstance(current, PlotWithTable) else []
        return [*own, *current.findChildren(PlotWithTable)]

    def _drag(self) -> Iterator[tuple[str, Callable[[], object]]]:
        view = self._workspace.heterogeneity.tabs.content(0)
        if not isinstance(view, LayersView) or not isinstance(view.plot, GammaPlot):
            return
        plot = view.plot

        def move(position: float) -> None:
            plot.threshold.setValue(position)
            plot._dragged()

        for step in range(10):
            yield "drag τ", lambda at=-1.5 + step / 8: move(at)
        yield "let go of τ", lambda: self._window.conductor.set_parameter("tau", 0.3)

    def _table(self) -> Iterator[tuple[str, Callable[[], object]]]:
        layers = self._workspace.layers
        for column in range(len(COLUMNS)):
            order = Qt.SortOrder.DescendingOrder
            yield "sort the table", lambda c=column, o=order: layers.table.sortByColumn(c, o)
        ascending = Qt.SortOrder.AscendingOrder
        yield "sort the table", lambda: layers.table.sortByColumn(-1, ascending)
        for text in ("1", "1.", ""):
            yield "filter the table", lambda t=text: layers.text.setText(t)

    def _try_out(self) -> Iterator[tuple[str, Callable[[], object]]]:
        what_if = self._window.what_if
        for name, value in (("epsilon", 1e-2), ("k_frac", 0.1), ("tau", 5.0)):
            yield "what if", lambda n=name, v=value: what_if.try_parameter(n, v)
        yield "what if: another scope", lambda: what_if.try_scope("authors-vit")
        yield "what if: back", what_if.back

    def _dialogs(self) -> Iterator[tuple[str, Callable[[], object]]]:
        window = self._window
        others = (
            ("diagnostics", window.help.copy_diagnostics),
            ("scan", lambda: window.opener.scan_folders([self._recipe.parent], None)),
        )
        for name, open_it in (*openers(window).items(), *others):
            yield f"open: {name}", open_it
            yield f"look at: {name}", lambda: None
            yield f"close: {name}", _close_dialogs
        tour = []
        yield "begin the tutorial", lambda: tour.append(window.help.begin_tutorial())
        yield "end the tutorial", lambda: tour.pop().end()

    def _score(self) -> Iterator[tuple[str, Callable[[], object]]]:
        window, session = self._window, self._session
        few = tuple(replace(task, limit=20) for task in session.draft.inputs.tasks)
        yield "few examples", lambda: session.draft.set_tasks(few)
        yield "scores", window.workspace.show_scores
        yield "evaluate", window.scoring.evaluate
        tabs = window.workspace.show_scores().tabs
        for index, (kind, title, _tip) in enumerate(TABS):
            yield f"scores: {title}", lambda index=index: tabs.setCurrentIndex(index)
            if kind is ExamplesTab:
                yield "compare answers", lambda: tabs.current.compare_button.click()
                yield from (("answers compared", lambda: None) for _ in range(20))
            if kind is TuneTab:
                yield "tune", lambda: tabs.current.button.click()
                yield from (("tuning", lambda: None) for _ in range(20))
                yield "stop tuning", lambda: tabs.current.button.click()
        yield "layers", lambda: window.workspace.show_space(0)

    def _compare(self) -> Iterator[tuple[str, Callable[[], object]]]:
        workspace = self._window.workspace
        yield "compare methods", workspace.show_look
        yield "compare merges", lambda: workspace.show_look(TWO_MERGES)
        yield "layers", lambda: workspace.show_space(0)

    def _window_wide(self) -> Iterator[tuple[str, Callable[[], object]]]:
        yield "dark", lambda: set_scheme("dark")
        yield "light", lambda: set_scheme("light")
        for size in ((1100, 700), (1300, 800), (1440, 900)):
            yield "resize", lambda size=size: self._resize(*size)
        for percent in (125, 100):
            yield "letters", lambda percent=percent: self._window.preferences.enlarge(percent)

    def _resize(self, width: int, height: int) -> None:
        """As a window manager does it, and so that it is laid out and painted once."""
        handle = self._window.windowHandle()
        assert handle is not None
        handle.resize(width, height)


def _close_dialogs() -> None:
    for widget in QApplication.topLevelWidgets():
        if isinstance(widget, QDialog) and widget.isVisible():
            widget.close()


def tour(recipe: Path, seconds: float) -> dict[str, tuple[float, float]]:
    """Longest pauses in seconds, and of processor, by what was being done."""
    studio = Studio("light")
    pulse = Pulse()
    try:
        studio.settle()
        studio.window.activateWindow()  # Qt asks the style more of a window that is not
        pulse.doing = "open"
        studio.open(recipe)
        tour = Tour(studio, recipe)
        loop = QEventLoop()

        def go_on() -> None:
            pulse.doing, action = tour.next_step()
            action()

        walk = QTimer()
        walk.setInterval(STEP)
        walk.timeout.connect(go_on)
        walk.start()
        QTimer.singleShot(round(1000 * seconds), loop.quit)
        loop.exec()
        walk.stop()
        found = dict(pulse.longest)
        pulse.doing = "end"
        studio.window.conductor.cancel()
    finally:
        pulse.stop()
        studio.close()
    return found


def main() -> None:
    """Print the longest pauses, worst first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keep_settings_in(Path(folder))
        os.environ["XDG_CACHE_HOME"] = folder
        found = tour(options.recipe, options.seconds)
    longest, busiest = (max(pauses) for pauses in zip(*found.values(), strict=True))
    print(
        f"longest pause in {options.seconds:.0f} s: {1000 * longest:.0f} ms, "
        f"{1000 * busiest:.0f} ms of processor; the longest, by occasion:"
    )
    worst = sorted(found.items(), key=lambda pair: -pair[1][1])
    for doing, (wall, processor) in worst[:WORST_SHOWN]:
        print(f"{1000 * wall:6.0f} ms {1000 * processor:6.0f} ms of processor  {doing}")


if __name__ == "__main__":
    main()
