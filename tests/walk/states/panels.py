"""The panels, the other workspaces, the dialogs and the menus, with a finished merge."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu, QScrollArea
from shiboken6 import isValid

from ace_gui.engine.contract.figures.findings import LayerDistribution, LayerSubspaces
from ace_gui.gui.dialogs.command_palette import CommandPalette
from ace_gui.gui.panels.layer.one_plot_panels import DistributionPanel, SpectraPanel
from ace_gui.gui.panels.layer.subspaces_panel import SubspacesPanel, SubspaceView
from ace_gui.gui.panels.scores.examples_tab import ExamplesTab
from ace_gui.gui.panels.scores.scores_tab import ScoresTab
from ace_gui.gui.panels.scores.tasks_tab import TasksTab
from ace_gui.gui.panels.scores.try_tab import TryTab
from ace_gui.gui.panels.scores.tune_tab import TuneTab
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.one_layer.spectrum_plot import Quantity
from ace_gui.gui.shell.layout.cards import INSPECTOR, LAYERS, VIEWS
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.widgets.files.file_dialogs import offers
from ace_gui.gui.widgets.layout.arrangement import Folding
from ace_gui.recipe import Override
from ace_gui.recipe.tasks import TaskKind
from tests.walk.states.doing import Step, choose_method, each_tab, newest_dialog, opened, turn_to


def panels(studio: Studio) -> Iterator[Step]:
    """A panel alone, the left column, the table without a row."""
    window, workspace = studio.window, studio.window.workspace
    workspace.cards.bring(LAYERS)
    workspace.cards.toggle_maximised()
    yield "a panel alone", window
    workspace.cards.toggle_maximised()
    workspace.layers.text.setText("nothing is called so")
    yield "no row is found", window
    workspace.layers.text.setText("")
    workspace.layers.show_only(1)
    yield "all tensors", window
    workspace.layers.show_only(0)
    yield from _left_column(studio)


def _left_column(studio: Studio) -> Iterator[Step]:
    window, left = studio.window, studio.window.workspace.left
    folded = left.is_folded
    left.fold(False)
    for folding in window.workspace.method.findChildren(Folding):
        folding.unfold()
    yield "more options", window
    for area in left.findChildren(QScrollArea):
        for share in (0.5, 1.0):
            bar = area.verticalScrollBar()
            bar.setValue(round(share * bar.maximum()))
            yield f"the left column, scrolled to {share:.0%}", window
    left.fold(not folded)
    yield "the left column, the other way", window
    left.fold(folded)


def all_tabs(studio: Studio) -> Iterator[Step]:
    """Every tab of both panels, and values tried under What if."""
    window, workspace = studio.window, studio.window.workspace
    workspace.cards.bring(INSPECTOR)
    yield from each_tab("inspector", workspace.inspector.tabs, window)
    workspace.cards.bring(VIEWS)
    what_if = window.what_if
    what_if.try_parameter("epsilon", 1e-3)
    what_if.try_parameter("k_frac", 0.1)
    studio.wait(lambda: what_if.new is not None, window.session.results.findings.changed)
    yield from each_tab("all layers", workspace.heterogeneity.tabs, window)
    what_if.back()


def looks_at_a_layer(studio: Studio) -> Iterator[Step]:
    """Every choice of what is drawn of one layer."""
    window, session = studio.window, studio.window.session
    workspace, known = window.workspace, studio.window.session.results.findings
    workspace.cards.bring(INSPECTOR)
    tabs, name = workspace.inspector.tabs, session.selection or ""
    spectra = turn_to(tabs, SpectraPanel)
    assert isinstance(spectra, SpectraPanel)
    for quantity in Quantity:
        spectra.plot.quantity.choose(quantity)
        yield f"spectrum: {quantity.name.lower()}", window
    spectra.plot.quantity.choose(Quantity.VALUE)
    subspaces, key = turn_to(tabs, SubspacesPanel), session.draft.recipe_key()
    assert isinstance(subspaces, SubspacesPanel)
    studio.wait(lambda: known.get(LayerSubspaces, name, key) is not None, known.changed)
    for view_choice in SubspaceView:
        subspaces.view_choice.choose(view_choice)
        yield f"subspaces: {view_choice.name.lower()}", window
    turn_to(tabs, DistributionPanel)
    models = session.draft.models_key()
    studio.wait(lambda: known.get(LayerDistribution, name, models) is not None, known.changed)
    yield "distribution", window
    tabs.setCurrentIndex(0)


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
    tab = page.show_tab(TasksTab)
    studio.wait(lambda: all(map(known.described, known.tasks)), known.changed)
    yield "scores: tasks", window
    found = known.described(known.tasks[0])
    assert found is not None
    language = replace(found, kind=TaskKind.CAUSAL_LM)
    tab.editor.show_task(known.tasks[0], language, None, session.draft.inputs.names)
    yield "scores: a language model's task", window
    tab.recolour()
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


RULE = Override(blocks="0-1", disposition="base")


def openers(window: MainWindow) -> tuple[tuple[str, Callable[[], object]], ...]:
    """What opens each dialog that needs nothing more, by its name."""
    return (
        ("methods to choose from", window.dialogs.choose_method),
        ("help", window.help.show_help),
        ("glossary", lambda: window.help.show_page("glossary", "Ridge mass")),
        ("shortcuts", window.help.show_shortcuts),
        ("log", window.help.show_log),
        ("report of a problem", window.help.report_problem),
        ("preferences", window.actions_.preferences.trigger),
        ("about", window.help.show_about),
        ("cached models", window.opener.open_cached),
        ("a new override", lambda: window.dialogs.complete_override(RULE)),
        ("closing", lambda: window.dialogs.ask_before_closing(window.close_unasked)),
        ("workers of a cluster", window.menus.devices._ask),
        ("memory for merging", window.menus.memory._ask),
    )


def dialogs(studio: Studio) -> Iterator[Step]:
    """One after the other, with a finished merge behind them."""
    window = studio.window
    for name, open_it in openers(window):
        yield from opened(name, open_it)
    yield from _palette(studio)
    yield from _export(studio)
    yield from _messages(studio)


def _palette(studio: Studio) -> Iterator[Step]:
    studio.window.help.show_palette()
    palette = newest_dialog()
    assert isinstance(palette, CommandPalette)
    palette.setWindowFlags(Qt.WindowType.Dialog)  # some displays close popups by themselves
    palette.show()
    yield "commands", palette
    palette.field.setText("glossary")
    yield "commands: some found", palette
    palette.field.setText("nothing is called so")
    yield "commands: none found", palette
    palette.close()


def _export(studio: Studio) -> Iterator[Step]:
    window = studio.window
    with tempfile.TemporaryDirectory() as name:
        window.dialogs.open_export()
        dialog = window.dialogs.export
        assert dialog is not None
        dialog.folder.setText(name)
        yield "export: a folder that is there", dialog
        dialog.folder.setText(str(Path(name) / "merged-model"))
        yield "export", dialog
        dialog.export_button.click()
        studio.wait(lambda: not window.engine.is_busy, window.engine.idle)
        yield "exported", dialog
        dialog.reject()


def _messages(studio: Studio) -> Iterator[Step]:
    window = studio.window
    window.help.copy_diagnostics()
    yield "news", window
    report = Path("sample-merge.html")
    window.notice.offer(f"The report is in {report}.", offers(report))
    yield "a file written", window
    window.help.crash = "Fatal Python error: Segmentation fault\n\nCurrent thread …"
    window.recent_projects.show_crash(window.help.crash)
    yield "after a crash", window
    window.help.crash = ""
    window.notice.hide()


def runs(studio: Studio) -> Iterator[Step]:
    """Several runs, one of them with a name of its own, and the questions about them."""
    window, session = studio.window, studio.window.session
    panel, all_runs = window.workspace.runs, session.results.runs.all
    window.runs.rename(all_runs[-1], "less refined")
    panel.list.setCurrentIndex(panel.model.index(1))
    folded = window.workspace.left.is_folded
    window.workspace.left.fold(False)
    yield "runs", window
    window.workspace.left.fold(folded)
    yield from opened("delete runs", lambda: window.dialogs.delete_runs(list(all_runs[:2])))
    yield from opened("clean up", window.dialogs.clean_up_runs)
    yield from opened("save changes", lambda: window.project.before_leaving(lambda: None))


def menus(studio: Studio) -> Iterator[Step]:
    """Every menu of the menu bar, with those in it, and those of panels."""
    window = studio.window
    for entry in window.menuBar().actions():
        menu = entry.menu()
        assert isinstance(menu, QMenu)
        yield from _menu(studio, menu)
    yield from _menu(studio, window.workspace.layers.menu())


def _menu(studio: Studio, menu: QMenu) -> Iterator[Step]:
    title = menu.title().replace("&", "") or menu.accessibleName() or "of the layers"
    menu.popup(studio.window.mapToGlobal(studio.window.rect().topLeft()))
    yield f"menu {title}", menu
    inner = [found for action in menu.actions() if isinstance(found := action.menu(), QMenu)]
    menu.close()
    for each in inner:  # some menus are filled anew whenever they are shown
        if isValid(each) and each.actions():
            yield from _menu(studio, each)
