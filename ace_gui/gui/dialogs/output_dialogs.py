"""Dialogs for a finished merge: the export, with the size of an adapter, and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QGridLayout,
    QLineEdit,
    QProgressBar,
    QStackedWidget,
    QWidget,
)

from ace_gui.engine.contract.events import EnergyByRank, Exported, JobProgress
from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.contract.jobs import EnergyByRankJob, ExportJob
from ace_gui.engine.contract.libraries import commands_of, lines_to_ask, lines_to_load
from ace_gui.engine.contract.plan import Disposition, models_on_disk
from ace_gui.errors import WorkbenchError
from ace_gui.field_info import Option
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.control.engine_client import Operation
from ace_gui.gui.control.merge_operation import OutputOperations
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.dialogs.gguf_panel import (
    GgufPanel,
    commands_box,
    copied_box,
    show_commands,
)
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.plots.gamma_plot import heterogeneous_text, treated_alike
from ace_gui.gui.plots.merge_plots import KeptEnergyPlot
from ace_gui.gui.state.activity import ActivityState, Level, MergeRun
from ace_gui.gui.state.output_size import OutputSize, check_folder, output_size
from ace_gui.gui.state.results import mean_score
from ace_gui.gui.state.run_names import title_parts
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import file_name, plain, short_score_text, tooltip
from ace_gui.gui.theme import Face, change_kind
from ace_gui.gui.widgets.controls import Choice, named, push_button
from ace_gui.gui.widgets.file_dialogs import ask_folders, folder_of, show
from ace_gui.gui.widgets.form import Form, OptionForm
from ace_gui.gui.widgets.labels import heading, muted_label, plain_label, secondary_label
from ace_gui.gui.widgets.layout import WrappedColumn, across, down, pane
from ace_gui.recipe.output_forms import AdapterExport, ModelExport, Output
from ace_gui.recipe.values import model_name

_EXPORTS: Final = "exports"
_TITLE: Final = 10
"""Characters of a form's title that are always visible, as in other fields."""

_FORM_TIP: Final = (
    "An adapter is a small file with the change; it is loaded onto the base. Models of single "
    "experts are made from a merge that keeps modules for each."
)
_CHANGED: Final = "Settings have changed since this merge. The exported model has the old settings."


class ExportDialog(Dialog):
    """Asks for a folder and how to write the merge; exports; shows the result.

    ``expert_wanted`` carries the folder of a model to add as an expert: what was exported, on
    request, or at once if ``adds``.
    """

    expert_wanted = Signal(object)

    def __init__(
        self, session: Session, output: OutputOperations, parent: QWidget, *, adds: bool = False
    ) -> None:
        super().__init__("Export the merged model", parent, cancels=True)
        self._session = session
        self._output = output
        self._adds = adds
        self._exported_to = Path()
        self.chosen = {form: form.traits.export() for form in Output}
        per_expert = Disposition.PER_EXPERT
        self._has_heads = any(row.disposition is per_expert for row in session.layers.rows)
        self.setMinimumWidth(580)
        self.notice = Notice()
        self.folder = named(QLineEdit(placeholderText="a new or empty folder"), "Target folder")
        self.verdict = muted_label()
        self.contents = muted_label()
        self.form_choice = Choice("Write as", {form: form.traits.title for form in Output})
        policy = Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self.form_choice.setSizeAdjustPolicy(policy)
        self.form_choice.setMinimumContentsLength(_TITLE)
        self.form = OptionForm()
        self.plot = KeptEnergyPlot()
        self.curve = Operation(output.engine)
        self.plot.setFixedHeight(280)
        self.button = RunButton("Compute the curve", self._find_curve, self.curve.stop)
        self.progress = named(QProgressBar(), "Export progress")
        self._page = self._make_page()
        self._pages = QStackedWidget()
        self._pages.addWidget(self._page)
        self._pages.addWidget(self._make_result())
        text = "Export and add as an expert" if adds else "Export"
        self.export_button = self.add_button(text, self._export)
        self.fill(self.notice, self._pages, self.progress)
        self.finished.connect(self.curve.stop)
        self.finished.connect(self.gguf.operation.stop)
        self.form_choice.chosen.connect(self._change_form)
        self.form.changed.connect(self._change)
        for changed in (self.folder.textChanged, session.activity.changed, self.curve.changed):
            changed.connect(self.refresh)
        session.activity.progressed.connect(self._show_progress)
        session.problem.connect(self._show_problem)
        output.exported.connect(self._show_result)
        start = Settings().export_folder or folder_of(_EXPORTS) or Path.home()
        self.folder.setText(str(free_folder(start, self._name())))
        self.refresh()

    def refresh(self) -> None:
        """Check the form, and show what will be written."""
        plan = self._session.draft.plan
        if plan is not None:
            folders = plan.input_folders
        else:
            folders = ()
        verdict = check_folder(self.folder.text(), self.bytes_needed(), folders)
        exporting = self._session.activity.is_running(ActivityState.EXPORTING)
        defaults = self.form_now.traits.export()
        self.form.show_record(self._options(), self.chosen[self.form_now], defaults)
        self._show_curve()
        self.verdict.setText(verdict.sentence)
        change_kind(self.verdict, "caption" if verdict.good else "bad")
        self.export_button.setEnabled(verdict.good and self._session.can_export)
        self._page.setEnabled(not exporting)
        self.progress.setVisible(exporting and not self.gguf.operation.is_running)
        self.contents.setText(self._contents())

    def reject(self) -> None:
        """Close; cancel a running export first."""
        if self.gguf.operation.is_running:
            self.gguf.operation.stop()
            return
        if self._session.activity.is_running(ActivityState.EXPORTING):
            self._output.engine.cancel(ExportJob)
            return
        super().reject()

    @property
    def form_now(self) -> Output:
        """The chosen form."""
        return Output(self.form_choice.current)

    @property
    def _size_of_adapter(self) -> AdapterExport | None:
        """The chosen size of an adapter; None for other forms."""
        chosen = self.chosen[self.form_now]
        if isinstance(chosen, AdapterExport):
            return chosen
        return None

    def _options(self) -> list[Option]:
        """The options of the chosen form that matter for this merge."""
        idle = () if self._has_heads else ("complete_heads",)
        return [option for option in self.form_now.options if option.name not in idle]

    def _change(self, chosen: Any) -> None:
        self.chosen[self.form_now] = chosen
        self.refresh()

    def _change_form(self) -> None:
        """Show the options of another form, and compute the curve only for an adapter."""
        self.refresh()
        if self._size_of_adapter is not None:
            self._find_curve()
        else:
            self.curve.stop()
        self.adjustSize()

    def _find_curve(self) -> None:
        run = self._session.results.merge
        if run is not None and self.curve.last(EnergyByRank) is None and not self.curve.is_running:
            self.curve.run(EnergyByRankJob(store=run.store))

    def _show_curve(self) -> None:
        """Show the share that each rank keeps, as far as it is known."""
        shares = self.curve.last(EnergyByRank)
        progress = self.curve.progress(JobProgress)
        adapter = self._size_of_adapter
        for widget in (self.plot, self.button):
            widget.setVisible(adapter is not None)
        if adapter is None:
            return
        if shares is not None:
            self.button.hide()
        if progress is None:
            share = None
        else:
            share = progress.done / max(progress.total, 1)
        self.button.show_job(self.curve.is_running, "", share=share)
        if shares is not None and shares.shares:
            if adapter.by_energy:
                rank = None
            else:
                rank = adapter.rank
            if adapter.by_energy:
                energy = adapter.energy
            else:
                energy = None
            self.plot.show_shares(shares, rank, energy)
        elif shares is not None:
            self.plot.show_message("No matrix of a linear layer changes.")
        elif self.curve.is_running:
            self.plot.show_message("Computing what each rank keeps …")
        else:
            self.plot.show_message(self.curve.error or "Computing was stopped.")

    def _make_page(self) -> QWidget:
        browse = push_button("Browse…", self._browse, name="Browse for the target folder")
        merge = down(plain_label(self._recipe_text()), gap=2)
        if not self._session.merge_is_current:
            merge.addWidget(muted_label(_CHANGED))
        above = Form()
        below = Form()
        line = across((self.folder, 1), browse)
        above.add_row("Merge", pane(merge))
        above.add_row("Folder", pane(down(line, self.verdict, gap=4)))
        above.add_row("Write as", self.form_choice, tooltip(_FORM_TIP))
        below.add_row("Contents", self.contents)
        return pane(down(above, self.form, self.plot, across(None, self.button), below))

    def _make_result(self) -> QWidget:
        self.outcome = plain_label()
        self.files = muted_label()
        self.snippet = commands_box("How to load the model in Python")
        self.commands = commands_box("How to publish, convert and run the model")
        buttons = across(
            push_button("Open folder", lambda: show(self._exported_to)),
            push_button("Show in folder", lambda: show(self._exported_to.parent)),
            push_button("Add as an expert", self._add, tip="Use it in another merge"),
            None,
        )
        parts = (heading("Exported"), self.outcome, self.files, buttons)
        self.gguf = GgufPanel(self._output.engine)
        boxes = (
            copied_box("Load it in Python", self.snippet),
            copied_box("Publish, convert and run it", self.commands),
        )
        return pane(down(*parts, *boxes, self.gguf, None))

    def _recipe_text(self) -> str:
        run = self._session.results.merge
        if run is None:
            return ""
        method, *chosen = title_parts(run, self._session.draft.methods)
        experts = counted(len(run.recipe.models), "expert", "experts")
        merged = f"{method} of {experts} into {run.recipe.base_model.name}"
        return " · ".join([merged, *chosen])

    def _size(self) -> OutputSize | None:
        plan = self._session.draft.plan
        run = self._session.results.merge
        if plan is None or run is None:
            return None
        chosen = self.chosen[self.form_now]
        dtype = getattr(chosen, "dtype", None) or run.recipe.out_dtype
        return output_size(plan, dtype, getattr(chosen, "shard_bytes", ModelExport().shard_bytes))

    def bytes_needed(self) -> int:
        """Bytes of everything to be written, except side files; 0 for an adapter: it is small."""
        plan = self._session.draft.plan
        size = self._size()
        if plan is None or size is None:
            return 0
        models = models_on_disk(plan, self.form_now, complete_heads=self._has_complete_heads)
        if models:
            return models * size.bytes + plan.bytes_for_experts
        return 0

    @property
    def _has_complete_heads(self) -> bool:
        return getattr(self.chosen[self.form_now], "complete_heads", False)

    def _contents(self) -> str:
        size = self._size()
        if size is None:
            return ""
        if self.form_now.traits.files:
            return f"{self.form_now.traits.files}."
        if size.shards == 1:
            weights = "model.safetensors"
        else:
            weights = f"{size.shards} files and their index"
        parts = [f"{weights} (about {human_bytes(size.bytes)})"]
        parts.append("the base's config and tokenizer files, README.md, merge_recipe.yaml")
        if self._has_heads:
            parts.append("the experts' heads in heads/")
        if self._has_complete_heads:
            parts.append(f"a model of {human_bytes(size.bytes)} for each of these")
        return "; ".join(parts) + "."

    def _browse(self) -> None:
        """Ask for a folder. If it is not empty, propose a new folder inside it."""

        def take(chosen: list[Path]) -> None:
            folder = chosen[0]
            full = folder.is_dir() and any(folder.iterdir())
            self.folder.setText(str(free_folder(folder, self._name()) if full else folder))

        ask_folders(self, "Folder for the merged model", _EXPORTS, take)

    def _name(self) -> str:
        run = self._session.results.merge
        if run is None:
            return "merged"
        method = run.name or run.recipe.merge_method
        return file_name(f"{model_name(run.recipe.base_model)}-{method}")

    def _export(self) -> None:
        self.notice.hide()
        self._exported_to = Path(self.folder.text().strip()).expanduser()
        self.curve.stop()
        self._output.export(self._exported_to, self.form_now, self.chosen[self.form_now])

    def _add(self) -> None:
        self.accept()
        self.expert_wanted.emit(self._exported_to)

    def _show_progress(self) -> None:
        progress = self._session.activity.counted(ActivityState.EXPORTING)
        self.progress.setRange(0, 1000 if progress is not None else 0)
        if progress is not None:
            self.progress.setValue(round(1000 * progress.done / progress.total))

    def _show_problem(self, error: WorkbenchError) -> None:
        if self.isVisible():
            self.notice.show_error(error)

    def _show_result(self, exported: Exported) -> None:
        self._exported_to = exported.folder
        Settings().remember_folder(_EXPORTS, exported.folder.parent)
        if self._adds:
            self._add()
            return
        self.outcome.setText(f"{human_bytes(exported.bytes)} in {exported.folder}")
        self.files.setText(", ".join(exported.files))
        show_commands(self.snippet, load_snippet(exported.folder))
        show_commands(self.commands, "\n".join(commands_of(exported.folder)))
        if exported.notes:
            self.notice.show_message(Level.INFO, " ".join(exported.notes))
        self.gguf.offer(exported.folder)
        self._pages.setCurrentIndex(1)
        self.export_button.hide()
        self.close_button.setText("Close")
        self.grow()


def free_folder(parent: Path, name: str) -> Path:
    """A free path in ``parent``: ``name``, or ``name-2`` and so on."""
    numbered = (f"{name}-{number}" for number in count(2))
    return next(p for n in chain([name], numbered) if not (p := parent / n).exists())


def load_snippet(folder: Path) -> str:
    """Lines of Python that load the exported model, and ask it if it writes."""
    return "\n".join([*lines_to_load(folder), *lines_to_ask(folder)])


_WIDTH: Final = 40  # in text lines
_WHAT: Final = (
    "The report is one HTML file, with plots and tables, that opens in any browser. It contains:"
)


class ReportDialog(Dialog):
    """One line for each chapter. ``write`` asks for a file and writes the report."""

    def __init__(
        self, session: Session, run: MergeRun, write: Callable[[], object], parent: QWidget | None
    ) -> None:
        super().__init__("Report", parent, cancels=True)
        self.setMinimumWidth(_WIDTH * self.fontMetrics().height())
        parts = title_parts(run, session.draft.methods)
        title = plain_label(plain(" · ".join(parts)), role=Face.TITLE)
        listed = WrappedColumn()
        chapters = QGridLayout(listed)
        chapters.setContentsMargins(0, 0, 0, 0)
        chapters.setHorizontalSpacing(24)
        chapters.setVerticalSpacing(10)
        chapters.setColumnStretch(1, 1)
        for row, (name, content) in enumerate(_chapters_of(run, session)):
            label = plain_label(name, wrap=False, role=Face.STRONG)
            chapters.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
            chapters.addWidget(secondary_label(plain(content)), row, 1)
        self.add_button("&Save report…", self.accept, kind="primary")
        self.accepted.connect(write)
        self.fill(title, secondary_label(_WHAT), listed, None, margin=16, gap=16)


def _chapters_of(run: MergeRun, session: Session) -> Iterator[tuple[str, str]]:
    """The titles and contents of the chapters of a run's report."""
    warned = sum(bool(report.warnings) for report in run.reports.values())
    names = ", ".join(run.recipe.expert_names)
    yield "Recipe", f"{names}; every parameter, and the recipe as YAML"
    yield "Scores", _scores(run, session)
    yield "Heterogeneity", _heterogeneity(run, session)
    yield "Energies", "how far each expert moved each matrix, and how much the experts agree"
    yield (
        "Spectra",
        "singular values of the experts and of the merge, for the most unusual matrices",
    )
    warnings = counted(warned, "%n matrix has a warning", "%n matrices have warnings")
    yield "Health", warnings if warned else "no matrix has a warning"
    yield "All tensors", "how each tensor was treated, and why, with its figures"
    yield "Method", "its formula and its paper"


def _scores(run: MergeRun, session: Session) -> str:
    tasks = len(session.draft.inputs.tasks)
    score = mean_score(run)
    if score is not None:
        mean = short_score_text(score)
        return f"mean {mean}; base, experts and merge, task by task"
    if not tasks:
        return "none: the recipe has no tasks"
    on = counted(tasks, "on %n task", "on %n tasks")
    return f"{on}, of base, experts and merge; computed while the report is written"


def _heterogeneity(run: MergeRun, session: Session) -> str:
    regimes = [report.regime for report in run.reports.values() if report.regime is not None]
    if regimes:
        return heterogeneous_text(regimes.count(Regime.HETEROGENEOUS), len(regimes))
    with_gamma = sum(report.gamma is not None for report in run.reports.values())
    merged = sum(row.disposition is Disposition.MERGED for row in session.layers.rows)
    return treated_alike(with_gamma or merged)
