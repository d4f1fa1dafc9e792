"""The dialogs of the window, each created on first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMessageBox, QWidget

from ace_gui.engine.contract.events import MixturePlanned
from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.gui.control.engine_client import RunningJob
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.state.activity import ActivityState, MergeRun
from ace_gui.gui.widgets.file_dialogs import show_once
from ace_gui.recipe import Override, recommended

if TYPE_CHECKING:
    from ace_gui.gui.dialogs.method_dialogs import ChooseMethodDialog
    from ace_gui.gui.dialogs.mixture_dialog import MixtureDialog
    from ace_gui.gui.dialogs.models_dialogs import CleanUpDialog
    from ace_gui.gui.dialogs.output_dialogs import ExportDialog


def question(parent: QWidget, text: str, details: str) -> QMessageBox:
    """A box with a question, to which the caller adds buttons."""
    box = QMessageBox(QMessageBox.Icon.Question, "ACE Workbench", text, parent=parent)
    box.setInformativeText(details)
    return box


class Dialogs:
    """Opens the window's dialogs. ``export``, ``clean_up``: the open dialogs, or None.

    ``mixture``: that of the latest mixture of experts.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._session = window.session
        self._to_export: tuple[MergeRun, bool] | None = None
        self.export: ExportDialog | None = None
        self.clean_up: CleanUpDialog | None = None
        self.mixture: MixtureDialog | None = None
        self.question: QMessageBox | None = None
        window.session.results.changed.connect(self._export_restored)

    def choose_method(self) -> ChooseMethodDialog | None:
        """Show the merge methods once the engine has listed them."""
        from ace_gui.gui.dialogs.method_dialogs import ChooseMethodDialog

        window = self._window
        draft = self._session.draft
        if self._session.engine is None:
            return None
        inputs = draft.inputs
        if inputs.is_recommended:
            method = recommended.NAME
        else:
            method = inputs.method
        merged = self._merged()
        costs = dict(merged)
        if draft.plan is not None and draft.plan.experts:
            needed = human_bytes(draft.plan.peak_bytes)
            costs.setdefault(method, f"Needs about {needed} for these models")

        def estimate(name: str, report: Callable[[float], object]) -> RunningJob | None:
            if name in merged:
                return None
            return window.merge_times.estimate(draft.inputs.with_method(name), report)

        experts = len(inputs.experts)
        dialog = ChooseMethodDialog(draft.choices, method, experts, window, costs, estimate)
        dialog.compare_wanted.connect(lambda names: window.workspace.compare_methods(names))
        dialog.chosen.connect(lambda name: window.conductor.change(draft.inputs.with_method(name)))
        show_once(dialog)
        return dialog

    def _merged(self) -> dict[str, str]:
        """The time and memory that merges of these models took, as text by method."""
        costs = {}
        for run in self._session.results.runs.all:
            if run.finished is not None and run.finished.seconds:
                name = run.recipe.merge_method
                if recommended.is_recommended(run.recipe):
                    name = recommended.NAME
                size = human_bytes(run.finished.peak_bytes)
                time = duration(run.finished.seconds)
                costs[name] = f"Took {time} and {size} for these models"
        return costs

    def open_export(self, *, adds: bool = False) -> None:
        """Show the export dialog for the current merge. ``adds``: it becomes an expert."""
        from ace_gui.gui.dialogs.output_dialogs import ExportDialog

        window = self._window
        if self._session.can_export and self.export is None:
            self.export = ExportDialog(self._session, window.output, window, adds=adds)
            self.export.expert_wanted.connect(lambda path: window.conductor.add_experts([path]))
            self.export.finished.connect(lambda _: setattr(self, "export", None))
            show_once(self.export)

    def open_mixture(self, mixture: MixturePlanned) -> None:
        """Show what a file of a mixture of experts says, and build it."""
        from ace_gui.gui.dialogs.mixture_dialog import MixtureDialog

        self.mixture = MixtureDialog(self._window.engine, mixture, self._window)
        show_once(self.mixture, modal=False)

    def show_report(self) -> None:
        """Show what the report of the merge will contain, and ask for a file."""
        from ace_gui.gui.dialogs.output_dialogs import ReportDialog

        run = self._session.results.merge
        if run is not None and self._session.can_report:
            show_once(
                ReportDialog(self._session, run, self._window.opener.save_report, self._window)
            )

    def export_run(self, run: MergeRun, adds: bool) -> None:
        """Restore a run and export it. ``adds``: the exported model becomes an expert."""
        if run is self._session.results.merge:
            self.open_export(adds=adds)
        else:
            self._to_export = run, adds
            self._window.runs.restore(run)

    def _export_restored(self) -> None:
        if self._to_export is not None and self._session.results.merge is self._to_export[0]:
            (_, adds) = self._to_export
            self._to_export = None
            self.open_export(adds=adds)

    def delete_runs(self, runs: list[MergeRun]) -> None:
        """Delete runs, after confirmation if one of them exists nowhere else."""
        lost = [run for run in runs if not run.exported]
        if not lost:
            self._window.runs.delete(runs)
            return
        ask = counted(len(runs), "Delete this run?", "Delete these %n runs?")
        warn = counted(len(lost), "It has not been exported.", "%n have not been exported.")
        delete = lambda: self._window.runs.delete(runs)  # noqa: E731
        self._ask(f"{ask} {warn}", "", "&Delete", "&Keep", delete)

    def ask_before_closing(self, close: Callable[[], object]) -> None:
        """Ask whether to stop a merge or an export, unless the question is already shown."""
        if self._session.activity.is_running(ActivityState.EXPORTING):
            text = "An export is running."
            details = ""
            keep = "&Keep exporting"
        else:
            text = "A merge is running."
            keep = "&Keep merging"
            details = "Finished tensors are kept, and the merge can be continued."
        if self.question is None:
            self._ask(text, details, "&Stop and close", keep, close)

    def _ask(
        self, text: str, details: str, agree: str, keep: str, agreed: Callable[[], object]
    ) -> None:
        """Ask a question. ``keep`` is the default answer; ``agreed`` is called after ``agree``."""
        self.question = box = question(self._window, text, details)
        yes = box.addButton(agree, QMessageBox.ButtonRole.DestructiveRole)
        no = box.addButton(keep, QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(no)
        box.setEscapeButton(no)

        def answer(_: int) -> None:
            self.question = None
            if box.clickedButton() is yes:
                agreed()

        box.finished.connect(answer)
        show_once(box)

    def edit_override(self, index: int) -> None:
        """Edit the override with this index, or a new one for -1."""
        rules = self._session.draft.inputs.overrides
        if index < 0:
            self.complete_override(None)
        else:
            self._edit(rules[index], lambda rule: (*rules[:index], rule, *rules[index + 1 :]))

    def complete_override(self, rule: Override | None) -> None:
        """Edit a new override that starts from ``rule``."""
        self._edit(rule, lambda new: (*self._session.draft.inputs.overrides, new))

    def _edit(
        self, rule: Override | None, rules: Callable[[Override], tuple[Override, ...]]
    ) -> None:
        from ace_gui.gui.dialogs.method_dialogs import OverrideDialog

        dialog = OverrideDialog(self._session, rule, self._window)
        change = self._window.conductor.change
        draft = self._session.draft
        dialog.rule_made.connect(lambda new: change(replace(draft.inputs, overrides=rules(new))))
        show_once(dialog)

    def clean_up_runs(self) -> None:
        """Show all kept runs, of any base model, and delete the chosen ones."""
        from ace_gui.gui.dialogs.models_dialogs import CleanUpDialog

        methods = self._session.draft.methods
        self.clean_up = CleanUpDialog(self._window.runs, methods, self._window)
        show_once(self.clean_up)

    def show_preferences(self) -> None:
        from ace_gui.gui.dialogs.preferences_dialog import PreferencesDialog

        show_once(PreferencesDialog(self._window.preferences, self._window), modal=False)
