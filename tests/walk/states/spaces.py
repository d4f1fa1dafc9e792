"""The other workspaces, with what they show once they have computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from PySide6.QtCore import Qt

from ace_gui.gui.panels.scores.examples_tab import ExamplesTab
from ace_gui.gui.panels.scores.scores_tab import ScoresTab
from ace_gui.gui.panels.scores.tasks_tab import TasksTab
from ace_gui.gui.panels.scores.try_tab import TryTab
from ace_gui.gui.panels.scores.tune_tab import TuneTab
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from tests.walk.states.doing import Step, choose_method, each_tab, opened

COMPARED: Final = ("ace", "linear", "task_arithmetic", "ties", "tsv_m", "slerp")
OTHER: Final = "task_arithmetic"
"""What the recipe's own method is compared with."""
EXAMPLES_USED: Final = 40
"""Of each task: the window shows as much with them as with all."""


def scores(studio: Studio) -> Iterator[Step]:
    """Tasks, scores, examples, trying and tuning, where the recipe has tasks."""
    window, session = studio.window, studio.window.session
    before = session.draft.inputs.tasks
    if not before:
        return
    session.draft.set_tasks(tuple(replace(task, limit=EXAMPLES_USED) for task in before))
    page, known, scoring = window.workspace.show_scores(), session.results.scores, window.scoring
    page.show_tab(TasksTab)
    studio.wait(lambda: all(map(known.described, known.tasks)), known.changed)
    yield "scores: tasks", window
    scoring.evaluate()
    studio.wait(lambda: not scoring.is_running, scoring.changed)
    page.show_tab(ScoresTab)
    yield "scores: scores", window
    yield from _examples(studio)
    yield from _tune(studio)
    session.draft.set_tasks(before)
    yield from each_tab("scores", page.tabs, window)
    window.workspace.show_space(0)


def _examples(studio: Studio) -> Iterator[Step]:
    window, page = studio.window, studio.window.workspace.show_scores()
    index, scoring = page.show_tab(ExamplesTab), studio.window.scoring
    index.compare_button.click()
    studio.wait(lambda: not scoring.is_running, scoring.changed)
    yield "scores: examples", window
    index.detail.try_button.click()
    page.show_tab(TryTab)
    studio.wait(lambda: not scoring.trying.is_running, scoring.trying.changed)
    yield "scores: tried", window


def _tune(studio: Studio) -> Iterator[Step]:
    window, index = studio.window, studio.window.workspace.show_scores().show_tab(TuneTab)
    index.merges.setValue(3)
    index.limit.setValue(EXAMPLES_USED)
    index.button.click()
    tuning = window.scoring.tuning
    yield "scores: tuning", window
    studio.wait(lambda: not tuning.is_running, tuning.changed)
    yield "scores: tuned", window


def comparison(studio: Studio) -> Iterator[Step]:
    """Methods beside each other, two merges, and the report's page."""
    window, session = studio.window, studio.window.session
    workspace = window.workspace
    workspace.show_methods()
    methods = workspace.comparison.methods
    for (method, _variant), box in methods.choices.boxes.items():
        box.setChecked(method in COMPARED)
    methods.start.click()
    yield "methods are compared", window
    studio.wait(lambda: not window.comparison.is_running, window.comparison.changed)
    model = methods.model
    for index in range(model.columnCount()):
        if model.headerData(index, Qt.Orientation.Horizontal) == "Mean ↑":
            methods.table.sortByColumn(index, Qt.SortOrder.DescendingOrder)
    methods.table.selectRow(0)
    yield "methods compared", window
    yield from _two_merges(studio)
    yield from opened("report", window.actions_.report.trigger)
    workspace.show_space(0)
    session.select(session.layers.most_heterogeneous)


def _two_merges(studio: Studio) -> Iterator[Step]:
    window, session = studio.window, studio.window.session
    own = session.draft.inputs.method
    choose_method(studio, OTHER)
    studio.merge()
    yield "merged by another method", window
    window.workspace.show_comparison()
    name, found = session.selection, session.results.comparison
    studio.wait(lambda: name in found.spectra, found.changed)
    yield "two merges", window
    tables = window.workspace.comparison.panel.findChildren(PlotWithTable)
    for table in tables:
        table.show_table(True)
    yield "two merges as tables", window
    for table in tables:
        table.show_table(False)
    window.workspace.show_space(0)
    choose_method(studio, own)


def routing(studio: Studio) -> Iterator[Step]:
    """Which experts a merge with a router takes."""
    window, session = studio.window, studio.window.session
    if not session.draft.inputs.tasks:
        return
    choose_method(studio, "smile")
    studio.merge()
    scoring, routing = window.scoring, window.scoring.routing
    scoring.evaluate()
    studio.wait(lambda: not scoring.is_running, scoring.changed)
    table = window.workspace.show_scores().show_tab(ScoresTab).routes
    yield "routing: nothing computed", window
    table.button.click()
    studio.wait(lambda: not routing.is_running, routing.changed)
    yield "routing", window
    window.workspace.show_space(0)
