"""Every state of the window in turn, with the sample or with models of one's own.

Each method of ``States`` brings the window somewhere, and yields the name of what is then to be
looked at; with it the dialog or menu, where that is not the window.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialog, QMenu, QScrollArea, QWidget
from shiboken6 import isValid

from ace_gui.errors import CheckpointError
from ace_gui.gui.panels.compare.compare_page import TWO_MODELS
from ace_gui.gui.panels.health_panel import HealthPanel
from ace_gui.gui.panels.layer.covariances_panel import CovariancesPanel
from ace_gui.gui.panels.layer_views import LearningView
from ace_gui.gui.panels.scores.examples_tab import ExamplesTab
from ace_gui.gui.panels.scores.scores_tab import ScoresTab
from ace_gui.gui.panels.scores.tasks_tab import TasksTab
from ace_gui.gui.panels.scores.try_tab import TryTab
from ace_gui.gui.panels.scores.tune_tab import TuneTab
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.shell.layout.cards import INSPECTOR, LAYERS, VIEWS
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.chosen.layer_rules import overridden
from ace_gui.gui.widgets.files.file_dialogs import offers
from ace_gui.gui.widgets.layout.arrangement import Folding
from ace_gui.gui.widgets.layout.lazy_tabs import LazyTabs
from ace_gui.paths import Sample
from ace_gui.recipe import Override
from ace_gui.recipe.tasks import TaskKind
from ace_gui.recipe.values import After, Cap

State_ = str | tuple[str, QWidget]
LONG: Final = "vit-small-patch16-224-in21k-finetuned-on-handwritten-digits-of-many-alphabets-epoch"
NORMS: Final = Override(role="norm", blocks="0-1", disposition="base")
RULE: Final = Override(blocks="0-1", disposition="base")
COMPARED: Final = ("ace", "linear", "task_arithmetic", "ties", "tsv_m", "slerp")
OTHER: Final = "task_arithmetic"  # what the recipe's own method is compared with
EXAMPLES_USED: Final = 40  # of each task: the window shows as much with them as with all
SMALL_RIDGE: Final = 1e-9  # moves the sample far more than its experts did
STEPS: Final = 12  # of learning: enough for curves, not for a good merge
NOTHING: Final = "nothing is called so"


def newest_dialog() -> QDialog | None:
    """The dialog that was opened last and is still open."""
    shown = [w for w in QApplication.topLevelWidgets() if isinstance(w, QDialog) and w.isVisible()]
    return shown[-1] if shown else None


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


def opened(name: str, open_it: Callable[[], object]) -> Iterator[State_]:
    """A dialog, opened and closed again."""
    open_it()
    dialog = newest_dialog()
    assert dialog is not None, name
    yield name, dialog
    dialog.close()


def turn_to(tabs: LazyTabs, kind: type[QWidget]) -> QWidget:
    """Show the tab with a panel of this kind."""
    panels = ((index, tabs.content(index)) for index in range(tabs.count()))
    index, panel = next(each for each in panels if isinstance(each[1], kind))
    tabs.setCurrentIndex(index)
    return panel


class States:
    """``during`` is called with a state in the middle of a merge, which waits for nobody."""

    def __init__(self, studio: Studio, recipe: Path, during: Callable[[State_], None]) -> None:
        self.studio, self.recipe, self.during = studio, recipe, during
        self.window, self.session = studio.window, studio.window.session
        self.draft, self.workspace = self.session.draft, self.window.workspace
        self.tabs = self.workspace.inspector.tabs
        self.views = self.workspace.heterogeneity.tabs

    def all(self, *, brief: bool) -> Iterator[State_]:
        """``brief``: without what has to be computed first, one merge apart."""
        yield from self.welcome()
        self.studio.open(self.recipe)
        merged = (self.panels, self.all_tabs)
        later = (self.covariances, self.choices, self.scores, self.comparison, self.runs)
        whole = (self.before_merging, self.checks, self.first_merge, *merged, *later, self.menus)
        whole += (self.dialogs, self.learning, self.routing)
        for part in (self.only_merge, *merged, self.dialogs) if brief else whole:
            yield from part()

    # What several need

    def until_idle(self, condition: Callable[[], bool] = lambda: True) -> None:
        engine = self.window.engine
        self.studio.wait(lambda: condition() and not engine.is_busy, engine.idle)

    def change(self, inputs: Inputs) -> None:
        """Other inputs, planned and analysed."""
        self.window.conductor.change(inputs)
        self.until_ready(lambda: self.draft.inputs == inputs)

    def until_ready(self, condition: Callable[[], bool]) -> None:
        """Until this holds, the draft can be merged and nothing is computed."""
        session = self.session
        self.until_idle(lambda: condition() and session.can_merge and session.layers.is_analysed)

    def use_few_examples(self) -> None:
        few = (replace(task, limit=EXAMPLES_USED) for task in self.draft.inputs.tasks)
        self.draft.set_tasks(tuple(few))

    def until_done(self, work: object) -> None:
        self.studio.wait(lambda: not work.is_running, work.changed)

    @contextmanager
    def left_column(self, *, folded: bool) -> Iterator[None]:
        left = self.workspace.left
        before = left.is_folded
        left.fold(folded)
        yield
        left.fold(before)

    def each_tab(
        self, where: str, tabs: LazyTabs, *, tables: bool = True, choices: bool = True
    ) -> Iterator[State_]:
        """Every tab that is shown, with every choice in it, and its plots as tables."""
        for index in filter(tabs.isTabVisible, range(tabs.count())):
            tabs.setCurrentIndex(index)
            panel = tabs.content(index)
            title = f"{where}: {tabs.tabText(index).partition(' (')[0]}"
            yield title
            if tables and choices:
                self.until_idle()
                yield from self.each_choice(title, panel)
            if tables:
                yield from self.as_tables(
                    f"{title} as a table", [panel, *panel.findChildren(QWidget)]
                )
        tabs.setCurrentIndex(0)

    def each_choice(self, name: str, panel: QWidget) -> Iterator[State_]:
        """Every choice of what a panel shows."""
        for choice in panel.findChildren(Choice):
            before = choice.current
            for value in choice.options if choice.isVisible() and choice.isEnabled() else ():
                choice.choose(value)
                self.until_idle()
                yield f"{name}, {choice.currentText()}"
            choice.choose(before)

    def as_tables(self, name: str, widgets: list[QWidget]) -> Iterator[State_]:
        if plots := [each for each in widgets if isinstance(each, PlotWithTable)]:
            for plot in plots:
                plot.show_table(True)
            yield name
            for plot in plots:
                plot.show_table(False)

    # Before anything is merged

    def welcome(self) -> Iterator[State_]:
        yield "welcome"
        self.window.opener.scan_folders([self.recipe.parent], None)
        self.until_idle()
        yield "a scan", (scan := self.window.opener.scanned)
        scan.close()

    def before_merging(self) -> Iterator[State_]:
        yield "opened"
        yield from self.each_tab("nothing chosen", self.tabs, tables=False)
        yield from self.each_tab("nothing merged", self.views, tables=False)
        yield from self.each_tab("nothing scored", self.workspace.show_scores().tabs, tables=False)
        self.workspace.show_methods()
        yield "methods to compare"
        self.workspace.show_space(0)
        before = self.draft.inputs
        with tempfile.TemporaryDirectory() as name:  # names longer than any room for them
            copies = [Path(name) / f"{LONG}-{number}" for number in range(len(before.experts), 8)]
            for copy in copies:
                shutil.copytree(before.experts[0].path, copy)
            self.change(replace(before.with_experts(copies), overrides=(NORMS,)))
            for folded in (False, True):
                with self.left_column(folded=folded):
                    yield "eight experts" + ", folded" * folded
            self.change(before)

    def checks(self) -> Iterator[State_]:
        """Warnings about an expert that does not fit, then errors as well."""
        window, session, last = self.window, self.session, len(self.draft.inputs.experts)
        with tempfile.TemporaryDirectory() as name:
            odd = Path(name) / "digits-again"
            shutil.copytree(self.draft.inputs.experts[0].path, odd)
            config = json.loads((odd / "config.json").read_text(encoding="utf-8"))
            config["layer_norm_eps"] = 0.5
            (odd / "config.json").write_text(json.dumps(config), encoding="utf-8")
            window.conductor.add_experts([odd])
            self.until_ready(lambda: bool(session.checks.worries))
            window.actions_.merge.trigger()
            yield "warnings before merging"
            session.limit_memory(1_000_000)
            window.actions_.merge.trigger()
            yield "errors before merging"
            window.notice.details_button.setChecked(True)
            yield "errors in detail"
            session.limit_memory(None)
            window.conductor.change(self.draft.inputs.without_experts([last]))
            self.until_ready(lambda: not session.checks.worries)
        sentence = "“interrupted-download” holds no tensors; download it again or remove it."
        window.show_error(CheckpointError(sentence))
        yield "an error"
        window.notice.hide()

    # The first merge

    def first_merge(self) -> Iterator[State_]:
        """Led by the tutorial where the recipe is its sample."""
        if self.recipe != Sample.IMAGES.recipe:
            yield from self.only_merge()
            return
        self.window.conductor.close()
        yield "recent projects"
        choose_space = self.window.header.workspaces.chosen.emit
        asked = {
            1: lambda: self.studio.open(self.recipe),
            2: self.studio.select_most_heterogeneous,
            4: self.merge,
            6: lambda: (self.workspace.show_space(1), choose_space(1)),
            7: lambda: (self.window.scoring.evaluate(), self.until_done(self.window.scoring)),
        }
        tour = self.window.help.begin_tutorial()
        while tour.is_running:
            number = tour.step_index + 1
            yield f"tutorial, step {number}"
            asked.get(number, lambda: None)()
            if tour.is_running and tour.step_index + 1 == number:  # a step to read
                tour.mark.next.click()
        self.workspace.show_space(0)
        yield "merged"

    def only_merge(self) -> Iterator[State_]:
        self.merge()
        self.studio.select_most_heterogeneous()
        yield "merged"

    def merge(self) -> None:
        """Merge, and call ``during`` once when half of the tensors are done."""
        activity, left = self.session.activity, [self.during]

        def watch() -> None:
            progress = activity.progress
            merging = progress is not None and progress.state is State.MERGING
            if left and merging and 2 * progress.done >= progress.total:
                left.pop()("merging")

        activity.progressed.connect(watch)
        self.studio.merge()
        activity.progressed.disconnect(watch)

    # With a finished merge

    def panels(self) -> Iterator[State_]:
        """A panel alone, the table without a row, the left column."""
        cards, layers, left = self.workspace.cards, self.workspace.layers, self.workspace.left
        cards.bring(LAYERS)
        cards.toggle_maximised()
        yield "a panel alone"
        cards.toggle_maximised()
        layers.text.setText(NOTHING)
        yield "no row is found"
        layers.text.setText("")
        layers.show_only(1)
        yield "all tensors"
        layers.show_only(0)
        with self.left_column(folded=False):
            for folding in self.workspace.method.findChildren(Folding):
                folding.unfold()
            yield "more options"
            for bar in [area.verticalScrollBar() for area in left.findChildren(QScrollArea)]:
                for share in (0.5, 1.0):
                    bar.setValue(round(share * bar.maximum()))
                    yield f"the left column, scrolled to {share:.0%}"
        with self.left_column(folded=not left.is_folded):
            yield "the left column, the other way"

    def all_tabs(self) -> Iterator[State_]:
        """Every tab of both panels, and values tried under What if."""
        self.workspace.cards.bring(INSPECTOR)
        yield from self.each_tab("inspector", self.tabs)
        self.workspace.cards.bring(VIEWS)
        what_if = self.window.what_if
        what_if.try_parameter("epsilon", 1e-3)
        what_if.try_parameter("k_frac", 0.1)
        known = self.session.results.findings
        self.studio.wait(lambda: what_if.new is not None, known.changed)
        yield from self.each_tab("all layers", self.views)
        what_if.back()

    def covariances(self) -> Iterator[State_]:
        """ACE's covariances and those of the inputs: without data, while measuring, measured."""
        inputs, activity = self.draft.inputs, self.session.activity
        if inputs.base is None or inputs.recipe().without_calibration:
            return
        turn_to(self.tabs, CovariancesPanel)
        self.draft.set_tasks(())
        yield "covariances: no data"
        self.draft.set_tasks(inputs.tasks)
        measuring = self.window.scoring.covariances
        measuring.start()
        self.studio.wait(lambda: activity.progress is not None, activity.progressed)
        yield "covariances: measuring"
        self.until_done(measuring)
        yield "covariances"
        self.tabs.setCurrentIndex(0)

    def choices(self) -> Iterator[State_]:
        """Each kind of choice; at the end the settings of the merge are back."""
        before = self.draft.inputs
        published = before.with_method("ace")
        yield from self.overrides()
        self.change(replace(before, after=After(cap=Cap())))
        yield "a cap"
        self.change(published.with_parameter("epsilon", SMALL_RIDGE))
        yield "settings changed"
        self.studio.merge()
        self.workspace.cards.bring(VIEWS)
        turn_to(self.views, HealthPanel)
        yield "health warns"
        self.change(published.with_parameter("variant", "automatic"))
        yield "the automatic variant"
        self.views.setCurrentIndex(0)
        self.change(before)

    def overrides(self) -> Iterator[State_]:
        values = {row.name for row in self.session.layers.merged if row.role == "value"}
        by_ties = Override(merge_method="ties", disposition="merge")
        rules = (*overridden(self.session, values, by_ties), NORMS)
        before = self.draft.inputs
        self.window.conductor.change(replace(before, overrides=rules))
        self.until_ready(lambda: self.draft.plan and self.draft.plan.recipe.overrides == rules)
        for area in self.workspace.left.findChildren(QScrollArea):
            area.ensureWidgetVisible(self.workspace.method.overrides)
        layers = self.workspace.layers
        if values:
            layers.table.scrollTo(layers.model.index_of(min(values)))
        yield "overrides"
        yield from opened("an override", lambda: self.window.dialogs.edit_override(0))
        self.change(before)

    # Scores, comparisons, runs

    def scores(self) -> Iterator[State_]:
        """Tasks, scores, examples, trying and tuning, where the recipe has tasks."""
        before, known, scoring = self.draft.inputs, self.session.results.scores, self.window.scoring
        if not before.tasks:
            return
        self.use_few_examples()
        page = self.workspace.show_scores()
        tab = page.show_tab(TasksTab)
        self.studio.wait(lambda: all(map(known.described, known.tasks)), known.changed)
        yield "scores: tasks"
        task = known.tasks[0]
        language = replace(known.described(task), kind=TaskKind.CAUSAL_LM)
        tab.editor.show_task(task, language, None, before.names)
        yield "scores: a language model's task"
        tab.recolour()
        scoring.evaluate()
        self.until_done(scoring)
        page.show_tab(ScoresTab)
        yield "scores: scores"
        examples = page.show_tab(ExamplesTab)
        examples.compare_button.click()
        self.until_done(scoring)
        yield "scores: examples"
        examples.detail.try_button.click()
        page.show_tab(TryTab)
        self.until_done(scoring.trying)
        yield "scores: tried"
        tune = page.show_tab(TuneTab)
        tune.merges.setValue(3)
        tune.limit.setValue(EXAMPLES_USED)
        tune.button.click()
        yield "scores: tuning"
        self.until_done(scoring.tuning)
        yield "scores: tuned"
        self.draft.set_tasks(before.tasks)
        yield from self.each_tab("scores", page.tabs, choices=False)
        self.workspace.show_space(0)

    def comparison(self) -> Iterator[State_]:
        """Methods beside each other, two merges, two models, and the report's page."""
        self.workspace.show_methods()
        methods = self.workspace.comparison.methods
        for (method, _variant), box in methods.choices.boxes.items():
            box.setChecked(method in COMPARED)
        methods.start.click()
        yield "methods are compared"
        self.until_done(self.window.comparison)
        titles = [methods.model.headerData(i, Qt.Orientation.Horizontal) for i in range(20)]
        methods.table.sortByColumn(titles.index("Mean ↑"), Qt.SortOrder.DescendingOrder)
        methods.table.selectRow(0)
        yield "methods compared"
        own, found = self.draft.inputs.method, self.session.results.comparison
        self.change(self.draft.inputs.with_method(OTHER))
        self.studio.merge()
        yield "merged by another method"
        self.workspace.show_comparison()
        name = self.session.selection
        self.studio.wait(lambda: name in found.spectra, found.changed)
        yield "two merges"
        panel = self.workspace.comparison.panel
        yield from self.as_tables("two merges as tables", panel.findChildren(QWidget))
        self.workspace.comparison.show_look(TWO_MODELS)
        models = self.workspace.comparison.models
        for index, path in enumerate(self.draft.inputs.recipe().paths[:2]):
            models.choose(index, path)
        models.run.click()
        self.until_done(self.window.two_models)
        yield "two models"
        yield from self.as_tables("two models as a table", models.findChildren(QWidget))
        self.workspace.show_space(0)
        self.change(self.draft.inputs.with_method(own))
        yield from opened("report", self.window.actions_.report.trigger)
        self.session.select(self.session.layers.most_heterogeneous)

    def runs(self) -> Iterator[State_]:
        """Several runs, one of them with a name of its own, and the questions about them."""
        window, panel, runs = self.window, self.workspace.runs, self.session.results.runs.all
        window.runs.rename(runs[-1], "less refined")
        panel.list.setCurrentIndex(panel.model.index(1, 0))
        with self.left_column(folded=False):
            yield "runs"
        yield from opened("delete runs", lambda: window.dialogs.delete_runs(list(runs[:2])))
        yield from opened("clean up", window.dialogs.clean_up_runs)
        yield from opened("save changes", lambda: window.project.before_leaving(lambda: None))

    # Menus, dialogs, messages

    def menus(self) -> Iterator[State_]:
        """Every menu of the menu bar, with those in it, and the one of the layers."""
        for entry in self.window.menuBar().actions():
            yield from self.menu(entry.menu())
        yield from self.menu(self.workspace.layers.menu())

    def menu(self, menu: QMenu) -> Iterator[State_]:
        title = menu.title().replace("&", "") or menu.accessibleName() or "of the layers"
        menu.popup(self.window.mapToGlobal(self.window.rect().topLeft()))
        yield f"menu {title}", menu
        inner = [action.menu() for action in menu.actions() if action.menu()]
        menu.close()
        for each in inner:  # some menus are filled anew whenever they are shown
            if isValid(each) and each.actions():
                yield from self.menu(each)

    def dialogs(self) -> Iterator[State_]:
        """One after the other, then messages."""
        window = self.window
        for name, open_it in openers(window):
            yield from opened(name, open_it)
        yield from self.palette()
        yield from self.export()
        window.help.copy_diagnostics()
        yield "news"
        report = Path("sample-merge.html")
        window.notice.offer(f"The report is in {report}.", offers(report))
        yield "a file written"
        window.help.crash = "Fatal Python error: Segmentation fault\n\nCurrent thread …"
        window.recent_projects.show_crash(window.help.crash)
        yield "after a crash"
        window.help.crash = ""
        window.notice.hide()

    def palette(self) -> Iterator[State_]:
        self.window.help.show_palette()
        palette = newest_dialog()
        palette.setWindowFlags(Qt.WindowType.Dialog)  # some displays close popups by themselves
        palette.show()
        for found, text in (("", ""), (": some found", "glossary"), (": none found", NOTHING)):
            palette.field.setText(text)
            yield f"commands{found}", palette
        palette.close()

    def export(self) -> Iterator[State_]:
        self.window.dialogs.open_export()
        dialog = self.window.dialogs.export
        with tempfile.TemporaryDirectory() as name:
            dialog.folder.setText(name)
            yield "export: a folder that is there", dialog
            dialog.folder.setText(str(Path(name) / "merged-model"))
            yield "export", dialog
            dialog.export_button.click()
            self.until_idle()
            yield "exported", dialog
            dialog.reject()

    # Other methods

    def learning(self) -> Iterator[State_]:
        """While AdaMerging learns, and afterwards: the loss, and the coefficients."""
        if self.draft.inputs.recipe().without_calibration:
            return
        own, learnt, activity = (
            self.draft.inputs,
            self.session.results.learning,
            self.session.activity,
        )
        self.change(own.with_method("adamerging").with_parameter("steps", STEPS))
        self.window.merge.start()
        steps = lambda: max(map(len, learnt.figures.values()), default=0)  # noqa: E731
        self.studio.wait(lambda: steps() >= STEPS // 2, learnt.changed)
        view = turn_to(self.views, LearningView)
        yield "learning"
        self.studio.wait(lambda: not activity.is_running(State.MERGING), activity.changed)
        yield from self.each_choice("learnt", view)
        self.views.setCurrentIndex(0)
        self.change(own)

    def routing(self) -> Iterator[State_]:
        """Which experts a merge with a router takes."""
        if not self.draft.inputs.tasks:
            return
        self.use_few_examples()
        self.change(self.draft.inputs.with_method("smile"))
        self.studio.merge()
        scoring = self.window.scoring
        scoring.evaluate()
        self.until_done(scoring)
        table = self.workspace.show_scores().show_tab(ScoresTab).routes
        yield "routing: nothing computed"
        table.button.click()
        self.until_done(scoring.routing)
        yield "routing"
        self.workspace.show_space(0)
