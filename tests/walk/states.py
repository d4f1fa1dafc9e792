"""Every state of the window in turn, with the sample or with models of one's own.

A method of ``States`` brings the window somewhere, and yields the name of what is then to be looked
at; with it the dialog or menu, where that is not the window. Pages, tabs, choices, plots with
tables, buttons that run a job, menus and dialogs are found in the window: what is added to it is
walked, too.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QWidget,
)
from shiboken6 import isValid

from ace_gui.engine.contract.events import MixturePlanned
from ace_gui.errors import EngineError
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.picture import PATIENCE, Studio
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.shell.help_desk import commands_of_menus, commands_of_panels
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_layout import LAYERS
from ace_gui.gui.state.activity import ActivityState, Progress
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.layout import Folding
from ace_gui.paths import Sample
from ace_gui.recipe import Override
from ace_gui.recipe.distillation import Distillation
from ace_gui.recipe.values import After, Cap, TaskKind

State_ = str | tuple[str, QWidget]
LONG: Final = "vit-small-patch16-224-in21k-finetuned-on-handwritten-digits-of-many-alphabets-epoch"
NORMS: Final = Override(role="norm", blocks="0-1", disposition="base")
COMPARED: Final = ("ace", "linear", "task_arithmetic", "ties", "tsv_m", "slerp")
OTHER: Final = "task_arithmetic"  # what the recipe's own method is compared with
FEW: Final = 40  # examples of each task: the window shows as much with them as with all
SMALL_RIDGE: Final = 1e-9  # moves the sample far more than its experts did
STEPS: Final = 12  # of learning: enough for curves, not for a good merge
NOTHING: Final = "nothing is called so"
MIXTURE: Final = MixturePlanned(
    file=Path("/models/two-experts.yaml"),
    model_class="MixtralForCausalLM",
    attention="of SmolLM2-135M-Instruct and the experts, merged by ties",
    routers="hidden; 2 of 3 experts a token",
    experts=(
        ("coder", "Write a function that · Why does this loop never end?; not: Write a poem"),
        (LONG, "A short story about the sea"),
        ("clerk", "Dear Sir or Madam"),
    ),
    bytes=10**9,
    models=(),
    notes=("3 experts are not a power of two; llama.cpp and others may refuse that.",),
)
PAGES: Final = ("One layer", "All layers", "Scores", "Compare", "Workspace")
FILES: Final = (
    "Open base model…",
    "Add experts…",
    "Open recipe…",
    "Scan a folder…",
    "Save as file…",
)
"""Commands that ask for a file, in a dialog of Qt or of the system."""
BEGUN: Final = ("Compare methods…", "Try the sample", "Tutorial", "Copy diagnostics")
"""Commands that are named as if they opened a dialog, or are among those that do."""


def newest_dialog() -> QDialog | None:
    """The dialog that was opened last and is still open."""
    dialogs = [
        w for w in QApplication.topLevelWidgets() if isinstance(w, QDialog) and w.isVisible()
    ]
    return dialogs[-1] if dialogs else None


def openers(window: MainWindow) -> dict[str, Callable[[], object]]:
    """What opens each dialog that needs nothing more, by its name."""

    def run(title: str) -> None:  # some menus are filled anew, and their actions with them
        next(
            command for command in commands_of_menus(window.menuBar()) if command.title == title
        ).run()

    commands = {}
    for command in commands_of_menus(window.menuBar()):
        opens = command.title.endswith("…") or command.menu == "Help"
        if opens and not command.why and command.title not in FILES + BEGUN:
            commands[command.title.rstrip("…").casefold()] = partial(run, command.title)
    commands["a new override"] = lambda: window.dialogs.complete_override(NORMS)
    commands["closing"] = lambda: window.dialogs.ask_before_closing(window.close_unasked)
    return commands


def opened(name: str, open_it: Callable[[], object]) -> Iterator[State_]:
    """A dialog, also where a search in it finds little or nothing, and closed again."""
    open_it()
    dialog = newest_dialog()
    assert dialog is not None, name
    if dialog.windowType() is Qt.WindowType.Popup:  # some displays close it by themselves
        dialog.setWindowFlags(Qt.WindowType.Dialog)
        dialog.show()
    yield name, dialog
    for field in dialog.findChildren(QLineEdit):
        for text in ("la", NOTHING) if field.isVisible() and field.placeholderText() else ():
            field.setText(text)
            yield f"{name}, {text}", dialog
    dialog.close()


class States:
    """With models of a recipe, in a studio's window."""

    def __init__(self, studio: Studio, recipe: Path) -> None:
        self.studio = studio
        self.recipe = recipe
        self.window = studio.window
        self.session = studio.window.session
        self.draft = self.session.draft
        self.workspace = self.window.workspace

    def all(self, *, brief: bool) -> Iterator[State_]:
        """``brief``: without what has to be computed first, one merge apart."""
        yield from self.welcome()
        yield from () if brief else self.tutorial()
        self.studio.open(self.recipe)
        merged = (self.merge, self.panels, self.layers)
        parts = (self.before_merging, *merged, self.changes, self.other_methods, self.menus)
        for part in (*merged, self.dialogs) if brief else (*parts, self.questions, self.dialogs):
            yield from part()

    # What several need

    def until(self, condition: Callable[[], bool] = lambda: True) -> None:
        """Until this holds and nothing is computed."""
        for _ in range(PATIENCE // 10):
            if condition() and not self.window.engine.is_busy:
                return
            QTest.qWait(10)
        raise TimeoutError("the window did not finish its work")

    def change(self, inputs: Inputs) -> None:
        """Other inputs, planned and analysed."""
        self.window.conductor.change(inputs)
        layers = self.session.layers
        self.until(
            lambda: self.draft.inputs == inputs and self.session.can_merge and layers.is_analysed
        )

    def pages(self, *menus: str) -> Iterator[tuple[str, QWidget]]:
        """The pages and tabs that the window offers, of these menus, each when it is shown."""
        tabs = {**self.workspace.panels_with_tabs(), "Scores": self.workspace.show_scores().tabs}
        for command in commands_of_panels(lambda: self.workspace, ""):
            if command.menu in menus:
                command.run()
                spaces = self.workspace._spaces
                bar = tabs.get(command.menu)
                title = command.title.removeprefix("Show ").partition(" (")[0]
                page = spaces.currentWidget() if bar is None else bar.current
                yield f"{command.menu}: {title}", page
        self.workspace.show_space(0)

    def show(self, name: str) -> tuple[str, QWidget]:
        """The page of this name."""
        return next(page for page in self.pages(*PAGES) if page[0] == name)

    def all_of(self, name: str, page: QWidget) -> Iterator[State_]:
        """A page: as it is, while its jobs run, and with what they found; with each choice in
        it, and its plots as tables."""
        yield name
        self.until()
        for button in page.findChildren(RunButton):
            if button.isVisible() and button.isEnabled():
                button.click()
                yield f"{name}, running"
                self.until()
                yield f"{name}, done"
        for folding in page.findChildren(Folding):
            folding.unfold()
        views = [v for v in (page, *page.findChildren(QWidget)) if isinstance(v, PlotWithTable)]
        parts = [page] if name.startswith(PAGES[:2]) else views  # other choices change the inputs
        for choice in [choice for part in parts for choice in part.findChildren(Choice)]:
            before = choice.current
            for value in choice.options if choice.isVisible() and choice.isEnabled() else ():
                choice.choose(value)
                self.until()
                yield f"{name}, {choice.currentText()}"
            choice.choose(before)
        for as_table in (True, False) if views else ():
            for view in views:
                view.show_table(as_table)
            if as_table:
                yield f"{name} as a table"

    # Before anything is merged

    def welcome(self) -> Iterator[State_]:
        yield "welcome"
        self.window.opener.scan_folders([self.recipe.parent], None)
        self.until()
        yield from opened("a scan", lambda: None)

    def before_merging(self) -> Iterator[State_]:
        """What there is without a merge; then too many experts, warnings and errors."""
        yield "opened"
        for name, _ in self.pages(*PAGES):
            yield f"nothing yet, {name}"
        before = self.draft.inputs
        notice = self.window.notice
        with tempfile.TemporaryDirectory() as name:  # names longer than any room for them
            copies = [Path(name) / f"{LONG}-{number}" for number in range(len(before.experts), 8)]
            for copy in copies:
                shutil.copytree(before.experts[0].path, copy)
            self.change(replace(before.with_experts(copies), overrides=(NORMS,)))
            for folded in (True, False):
                self.workspace.left.fold(folded)
                yield "eight experts" + ", folded" * folded
            for memory, what in ((None, "warnings"), (1_000_000, "errors")):
                self.session.limit_memory(memory)
                self.window.actions_.merge.trigger()
                yield f"{what} before merging"
            notice.details_button.setChecked(True)
            yield "errors in detail"
            self.session.limit_memory(None)
            self.change(before)
        self.window.show_error(EngineError("“models” holds no tensors; download it again."))
        yield "an error"
        notice.hide()
        self.window.conductor.close()
        yield "recent projects"
        self.studio.open(self.recipe)

    # The first merge

    def tutorial(self) -> Iterator[State_]:
        """It leads through a merge of its own sample, whatever the recipe is."""
        window = self.window
        actions = {
            1: lambda: self.studio.open(Sample.IMAGES.recipe),
            2: self.studio.select_most_heterogeneous,
            4: window.merge.start,
            6: window.header.workspaces.findChildren(QPushButton)[2].click,
            7: window.scoring.evaluate,
        }
        tour = window.help.begin_tutorial()
        while tour.is_running:
            number = tour.step_index + 1
            yield f"tutorial, step {number}"
            actions.get(number, tour.mark.next.click)()
            self.until(lambda at=number: not tour.is_running or tour.step_index >= at)
        window.conductor.close()

    def merge(self) -> Iterator[State_]:
        """Before, in the middle, and with all found about it."""
        activity = self.session.activity

        def half(p: Progress | None) -> bool:
            return p is not None and p.state is ActivityState.MERGING and 2 * p.done >= p.total

        self.window.merge.start()
        self.studio.wait(lambda: half(activity.progress), activity.progressed)
        yield "merging"
        self.until()
        self.studio.select_most_heterogeneous()
        yield "merged"

    # With a finished merge

    def panels(self) -> Iterator[State_]:
        """A panel alone, the table without a row, the left column."""
        cards = self.workspace.cards
        layers = self.workspace.layers
        column = self.workspace.left
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
        folded = column.is_folded
        column.fold(not folded)
        yield "the left column, the other way"
        column.fold(False)
        for folding in column.findChildren(Folding):
            folding.unfold()
        for share in (0, 0.5, 1):
            for bar in [area.verticalScrollBar() for area in column.findChildren(QScrollArea)]:
                bar.setValue(round(share * bar.maximum()))
            yield f"all options, scrolled to {share:.0%}"
        column.fold(folded)

    def layers(self) -> Iterator[State_]:
        """Every tab about the layers, and values tried under What if."""
        what_if = self.window.what_if
        what_if.try_parameter("epsilon", 1e-3)
        what_if.try_parameter("k_frac", 0.1)
        self.until()
        for name, page in self.pages(*PAGES[:2]):
            yield from self.all_of(name, page)
        what_if.back()

    def changes(self) -> Iterator[State_]:
        """Each kind of choice; at the end the settings of the merge are back."""
        before = self.draft.inputs
        published = before.with_method("ace")
        self.show("One layer: Inputs")
        by_ties = Override(role="value", merge_method="ties", disposition="merge")
        for name, inputs in {
            "no data": replace(before, tasks=()),
            "a cap": replace(before, after=After(cap=Cap())),
            "the automatic variant": published.with_parameter("variant", "automatic"),
            "overrides": replace(before, overrides=(by_ties, NORMS)),
            "settings changed": published.with_parameter("epsilon", SMALL_RIDGE),
        }.items():
            self.change(inputs)
            yield name
            if name == "overrides":
                yield from opened("an override", lambda: self.window.dialogs.edit_override(0))
        self.studio.merge()
        self.workspace.show_health()
        yield "health warns"
        self.change(before)

    # Other methods, scores, comparisons

    def other_methods(self) -> Iterator[State_]:
        """Merges by other methods, and what every page finds out about them."""
        inputs = self.draft.inputs
        learnt = self.session.results.learning
        few = tuple(replace(task, limit=FEW) for task in inputs.tasks)
        if not inputs.recipe().without_calibration:
            self.change(inputs.with_method("adamerging").with_parameter("steps", STEPS))
            self.window.merge.start()
            steps = lambda: max(map(len, learnt.figures.values()), default=0)  # noqa: E731
            self.studio.wait(lambda: steps() >= STEPS // 2, learnt.changed)
            name, page = self.show("All layers: Learning")
            yield f"{name}, running"
            yield from self.all_of(name, page)
            distil = Distillation(inputs=FEW, steps=STEPS)
            self.change(replace(inputs, distil=distil))
            self.studio.merge()
            yield "aligned with the experts"
        for method in (OTHER, "smile") if few else (OTHER,):
            self.change(replace(inputs, tasks=few).with_method(method))
            self.studio.merge()
            yield f"merged by {method}"
        for name, page in self.pages(*PAGES[2:]):
            if name.endswith("Tune"):
                page.merges.setValue(3)
                page.limit.setValue(FEW)
            elif name.endswith("Methods"):
                for (method, _variant), box in page.methods.choices.boxes.items():
                    box.setChecked(method in COMPARED)
            elif name.endswith("Two models"):
                for index, path in enumerate(inputs.recipe().paths[:2]):
                    page.models.choose(index, path)
            yield from self.all_of(name, page)
            if name.endswith("Examples"):
                page.detail.try_button.click()
            elif name.endswith("Tasks") and few:
                description = self.session.results.scores.described(few[0])
                language = replace(description, kind=TaskKind.CAUSAL_LM)
                page.editor.show_task(few[0], language, None, inputs.names)
                yield f"{name}, a language model's"
        self.change(inputs)

    # Menus, dialogs, messages

    def menus(self) -> Iterator[State_]:
        """Every menu in the window, and those in it."""
        in_bar = [entry.menu() for entry in self.window.menuBar().actions()]
        menus = [*in_bar, self.workspace.layers.menu(), *self.window.findChildren(QMenu)]
        for menu in dict.fromkeys(menus):
            if isValid(menu) and menu.actions():  # some are filled anew whenever they are shown
                menu.popup(self.window.mapToGlobal(QPoint()))
                yield f"menu {menu.title().replace('&', '') or 'of the layers'}", menu
                menu.close()

    def questions(self) -> Iterator[State_]:
        """Several runs, one of them with a name of its own, and the questions about them."""
        window = self.window
        panel = self.workspace.runs
        runs = self.session.results.runs.all
        window.runs.rename(runs[-1], "less refined")
        panel.list.setCurrentIndex(panel.model.index(1, 0))
        self.workspace.left.fold(False)
        yield "runs"
        yield from opened("delete runs", lambda: window.dialogs.delete_runs(list(runs[:2])))
        window.project.file = self.recipe.with_name("own.yaml")
        yield from opened("save changes", lambda: window.project.before_leaving(lambda: None))
        window.project.file = self.recipe

    def dialogs(self) -> Iterator[State_]:
        """One after the other, then messages."""
        window = self.window
        for name, open_it in openers(window).items():
            yield from opened(name, open_it)
        window.dialogs.open_export()
        dialog = window.dialogs.export
        with tempfile.TemporaryDirectory() as there:
            for name, folder in (("a folder that is there", there), ("export", f"{there}/new")):
                dialog.folder.setText(folder)
                yield name, dialog
            dialog.export_button.click()
            self.until()
            yield "exported", dialog
            dialog.reject()
        window.conductor.mixture_opened.emit(MIXTURE)
        yield "a mixture of experts", window.dialogs.mixture
        window.dialogs.mixture.reject()
        window.help.copy_diagnostics()
        yield "news"
        self.session.written.emit("The report is in sample-merge.html.", Path("sample-merge.html"))
        yield "a file written"
        window.recent_projects.show_crash("Fatal Python error: Segmentation fault")
        yield "after a crash"
        window.notice.hide()
