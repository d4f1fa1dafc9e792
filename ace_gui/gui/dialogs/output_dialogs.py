"""What a merge becomes: export of the model, with the size of an adapter, and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QStackedWidget,
    QWidget,
)

from ace_gui.engine.contract.events import (
    EnergyByRank,
    Event,
    Exported,
    Job,
    JobCancelled,
    JobFailed,
    JobProgress,
)
from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.contract.jobs import EnergyByRankJob, ExportJob
from ace_gui.engine.contract.libraries import commands_of, library_of
from ace_gui.engine.contract.plan import Disposition
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.control.engine_client import End, RunningJob
from ace_gui.gui.control.merge_operation import OutputOperations
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.plots.gamma_plot import heterogeneous_text, treated_alike
from ace_gui.gui.plots.merge_plots import KeptEnergyPlot
from ace_gui.gui.state.activity import Level, MergeRun, State
from ace_gui.gui.state.output_size import OutputSize, check_folder, output_size
from ace_gui.gui.state.results import mean_score, title_parts
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import file_name, plain, short_score_text
from ace_gui.gui.theme import Face, change_kind
from ace_gui.gui.widgets.controls import (
    Choice,
    amount_field,
    count_field,
    named,
    push_button,
    read_only,
)
from ace_gui.gui.widgets.file_dialogs import ask_folders, folder_of, show
from ace_gui.gui.widgets.form import Form
from ace_gui.gui.widgets.labels import heading, muted_label, plain_label, secondary_label
from ace_gui.gui.widgets.layout import Column, across, down, pane
from ace_gui.recipe.values import model_name

Run = Callable[[Job, Callable[[Event], object], Callable[[End], object]], RunningJob]
_STOPPED = "The curve was stopped."
_SIZES: Final = {
    False: ("rank", "One rank for all matrices"),
    True: (
        "share of energy",
        "For each matrix, the smallest rank that keeps this share of its change's squared norm",
    ),
}


class AdapterChoice(QWidget):
    """``begin`` starts the curve and ``stop`` ends it."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._job: RunningJob | None = None
        self._found: EnergyByRank | None = None
        self._store = Path()
        self.kind = Choice("Size of the adapter by", _SIZES)
        self._rank = count_field("Rank", 65536, least=1, value=32)
        self._energy = amount_field("Share of energy", 1.0, 100.0, 95.0, suffix=" %")
        self.plot = KeptEnergyPlot()
        self.plot.setFixedHeight(280)
        self.button = RunButton("Compute the curve", self._begin, self.stop)
        parts = (across(self.kind, self._rank, self._energy, None), self.plot)
        self.setLayout(down(*parts, across(None, self.button)))
        for changed in (self.kind.chosen, self._rank.valueChanged, self._energy.valueChanged):
            changed.connect(self._show)
        self._show()

    @property
    def rank(self) -> int | None:
        """The chosen rank; None if a share of energy is chosen."""
        return None if self.kind.current else self._rank.value()

    @property
    def energy(self) -> float | None:
        """The chosen share of energy; None if a rank is chosen."""
        return self._energy.value() / 100 if self.kind.current else None

    def begin(self, store: Path) -> None:
        """Find the curve of this finished merge, unless it is known or on its way."""
        self._store = store
        if self._found is None and self._job is None:
            self._begin()

    def _begin(self) -> None:
        self.plot.show_message("Computing what each rank keeps …")
        self._job = self._run(EnergyByRankJob(store=self._store), self._receive, self._end)
        self._show_running()

    def stop(self) -> None:
        if self._job is not None:
            self._job.drop()
            self._job = None
            self.plot.show_message(_STOPPED)
            self._show_running()

    def _receive(self, event: Event) -> None:
        if isinstance(event, EnergyByRank):
            self._found = event
        elif isinstance(event, JobProgress):
            self._show_running(event.done / max(event.total, 1))

    def _end(self, end: End) -> None:
        self._job = None
        if isinstance(end, JobFailed):
            self.plot.show_message(end.error.sentence)
        elif isinstance(end, JobCancelled):
            self.plot.show_message(_STOPPED)
        self._show_running()
        self._show()

    def _show_running(self, share: float | None = None) -> None:
        self.button.setVisible(self._found is None)
        self.button.show_job(self._job is not None, "", share=share)

    def _show(self) -> None:
        self._rank.setVisible(not self.kind.current)
        self._energy.setVisible(bool(self.kind.current))
        if self._found is not None and self._found.shares:
            self.plot.show_shares(self._found, self.rank, self.energy)
        elif self._found is not None:
            self.plot.show_message("No matrix of a linear layer changes.")


_DTYPES: Final = {None: "as in the recipe"} | {n: n for n in ("float32", "bfloat16", "float16")}
_KINDS: Final = {False: "the full model", True: "an adapter (PEFT)"}
_GIGABYTE: Final = 1_000_000_000
_EXPORTS: Final = "exports"
_CHANGED: Final = "Settings changed after this merge. The export is the merge as it was made."


class ExportDialog(Dialog):
    """Asks for a folder, a number format and a shard size; exports; shows the result.

    ``expert_wanted`` carries the folder of a model to add as an expert: what was exported, on
    request, or at once if ``adds``.
    """

    expert_wanted = Signal(object)

    def __init__(
        self, session: Session, output: OutputOperations, parent: QWidget, *, adds: bool = False
    ) -> None:
        super().__init__("Export the merged model", parent, cancels=True)
        self._session, self._output, self._adds = session, output, adds
        self._exported_to = Path()
        own = Disposition.PER_EXPERT
        self._has_heads = any(row.disposition is own for row in session.layers.rows)
        self.setMinimumWidth(580)
        self.notice = Notice()
        self.folder = named(QLineEdit(placeholderText="a new or empty folder"), "Target folder")
        self.verdict, self.contents = muted_label(), muted_label()
        self.output_kind = Choice("Write as", _KINDS)
        self.adapter = AdapterChoice(partial(output.engine.run, quiet=True))
        self.dtype = Choice("Number format", _DTYPES)
        self.shard = amount_field("Largest file", 0.1, 100.0, 5.0, suffix=" GB")
        self.complete_heads = QCheckBox("A whole model for each expert's head")
        self.progress = named(QProgressBar(), "Export progress")
        self._form = self._make_form()
        self._pages = QStackedWidget()
        self._pages.addWidget(self._form)
        self._pages.addWidget(self._make_result())
        text = "Export and add as an expert" if adds else "Export"
        self.export_button = self.add_button(text, self._export)
        self.fill(self.notice, self._pages, self.progress)
        self._connect()
        self._change_kind()
        start = Settings().export_folder or folder_of(_EXPORTS) or Path.home()
        self.folder.setText(str(_free_folder(start, self._name())))
        self.refresh()

    def _connect(self) -> None:
        session = self._session
        self.finished.connect(self.adapter.stop)
        self.output_kind.chosen.connect(self._change_kind)
        for changed in (
            self.folder.textChanged,
            self.dtype.chosen,
            self.shard.valueChanged,
            self.complete_heads.toggled,
            session.activity.changed,
        ):
            changed.connect(self.refresh)
        session.activity.progressed.connect(self._show_progress)
        session.problem.connect(self._show_problem)
        self._output.exported.connect(self._show_result)

    @property
    def as_adapter(self) -> bool:
        """Whether an adapter is written instead of the full model."""
        return bool(self.output_kind.current)

    def refresh(self) -> None:
        """Check the form, and show what will be written."""
        plan = self._session.draft.plan
        folders = plan.input_folders if plan is not None else ()
        verdict = check_folder(self.folder.text(), self.bytes_needed(), folders)
        exporting = self._session.activity.is_running(State.EXPORTING)
        self.verdict.setText(verdict.sentence)
        change_kind(self.verdict, "caption" if verdict.good else "bad")
        self.export_button.setEnabled(verdict.good and self._session.can_export)
        self._form.setEnabled(not exporting)
        self.progress.setVisible(exporting)
        self.contents.setText(self._contents())

    def reject(self) -> None:
        """Close; cancel a running export first."""
        if self._session.activity.is_running(State.EXPORTING):
            self._output.engine.cancel(ExportJob)
            return
        super().reject()

    def _change_kind(self) -> None:
        """Show what belongs to the chosen output; the curve is computed only for an adapter."""
        adapter, run = self.as_adapter, self._session.results.merge
        self._form.show_row(self.shard, not adapter)
        self._form.show_row(self.complete_heads, self._has_heads and not adapter)
        self._form.show_row(self.adapter, adapter)
        if adapter and run is not None:
            self.adapter.begin(run.store)
        else:
            self.adapter.stop()
        self.refresh()
        self.adjustSize()

    def _make_form(self) -> Form:
        form = Form()
        browse = push_button("Browse…", self._browse, name="Browse for the target folder")
        merge = down(plain_label(self._recipe_text()), gap=2)
        if not self._session.merge_is_current:
            merge.addWidget(muted_label(_CHANGED))
        line = across((self.folder, 1), browse)
        form.add_row("Merge", pane(merge))
        form.add_row("Folder", pane(down(line, self.verdict, gap=4)))
        tip = "An adapter is a small file with the change, to be loaded over the base"
        form.add_row("Write as", self.output_kind, tip)
        form.add_row("Keep", self.adapter)
        tip = "Format of the weights; 16-bit formats are rounded once, from full precision"
        form.add_row("Number format", self.dtype, tip)
        tip = "Larger models are split into several files with an index"
        form.add_row("Largest file", self.shard, tip)
        tip = "Each loads separately, and is as large as the merged model"
        form.add_row("Heads", self.complete_heads, tip)
        form.add_row("Contents", self.contents)
        return form

    def _make_result(self) -> QWidget:
        self.outcome, self.files = plain_label(), muted_label()
        self.snippet = _code("How to load the model in Python")
        self.commands = _code("How to publish, convert and run the model")
        copy = QGuiApplication.clipboard().setText
        buttons = across(
            push_button("Open folder", lambda: show(self._exported_to)),
            push_button("Show in folder", lambda: show(self._exported_to.parent)),
            push_button("Copy code", lambda: copy(self.snippet.toPlainText())),
            push_button("Add as an expert", self._add, tip="Merge it again, with other models"),
            None,
        )
        parts = (heading("Exported"), self.outcome, self.files, self.snippet, buttons)
        return pane(down(*parts, self.commands, None))

    def _recipe_text(self) -> str:
        run = self._session.results.merge
        if run is None:
            return ""
        method, *chosen = title_parts(run, self._session.draft.methods)
        experts = counted(len(run.recipe.models), "expert", "experts")
        merged = f"{method} of {experts} into {run.recipe.base_model.name}"
        return " · ".join([merged, *chosen])

    def _size(self) -> OutputSize | None:
        plan, run = self._session.draft.plan, self._session.results.merge
        if plan is None or run is None:
            return None
        dtype = self.dtype.current or run.recipe.out_dtype
        return output_size(plan, dtype, round(self.shard.value() * _GIGABYTE))

    def bytes_needed(self) -> int:
        """Bytes of everything to be written, except side files; 0 for an adapter: it is small."""
        plan, size = self._session.draft.plan, self._size()
        if plan is None or size is None or self.as_adapter:
            return 0
        rows = self._session.layers.rows if self.complete_heads.isChecked() else ()
        own = [row.experts for row in rows if row.disposition is Disposition.PER_EXPERT]
        models = 1 + len(set().union(*own))
        return models * size.bytes + plan.bytes_for_experts

    def _contents(self) -> str:
        size = self._size()
        if size is None:
            return ""
        if self.as_adapter:
            return "adapter_model.safetensors, adapter_config.json, README.md, merge_recipe.yaml."
        weights = (
            "model.safetensors" if size.shards == 1 else f"{size.shards} files and their index"
        )
        parts = [f"{weights} (about {human_bytes(size.bytes)})"]
        parts.append("the base's config and tokenizer files, README.md, merge_recipe.yaml")
        if self._has_heads:
            parts.append("the experts' own heads in heads/")
        if self.complete_heads.isChecked():
            parts.append(f"a model of {human_bytes(size.bytes)} for each of these")
        return "; ".join(parts) + "."

    def _browse(self) -> None:
        """Ask for a folder. If it is not empty, propose a new folder inside it."""

        def take(chosen: list[Path]) -> None:
            folder = chosen[0]
            full = folder.is_dir() and any(folder.iterdir())
            self.folder.setText(str(_free_folder(folder, self._name()) if full else folder))

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
        export = partial(self._output.export, self._exported_to, self.dtype.current)
        if self.as_adapter:
            self.adapter.stop()
            export(rank=self.adapter.rank, energy=self.adapter.energy)
        else:
            shard_bytes = round(self.shard.value() * _GIGABYTE)
            export(shard_bytes, complete_heads=self.complete_heads.isChecked())

    def _add(self) -> None:
        self.accept()
        self.expert_wanted.emit(self._exported_to)

    def _show_progress(self) -> None:
        progress = self._session.activity.counted(State.EXPORTING)
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
        _show_code(self.snippet, load_snippet(exported.folder))
        _show_code(self.commands, "\n".join(commands_of(exported.folder)))
        if exported.notes:
            self.notice.show_message(Level.INFO, " ".join(exported.notes))
        self._pages.setCurrentIndex(1)
        self.export_button.hide()
        self.close_button.setText("Close")


def _code(name: str) -> QPlainTextEdit:
    """A box for lines to copy."""
    made = read_only(name, role=Face.MONO)
    made.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    return made


def _show_code(box: QPlainTextEdit, text: str) -> None:
    box.setPlainText(text)
    box.setFixedHeight(box.fontMetrics().lineSpacing() * len(text.splitlines()) + 18)


def _free_folder(parent: Path, name: str) -> Path:
    """A free path in ``parent``: ``name``, or ``name-2`` and so on."""
    numbered = (f"{name}-{number}" for number in count(2))
    return next(p for n in chain([name], numbered) if not (p := parent / n).exists())


def load_snippet(folder: Path) -> str:
    """Two lines of Python that load the exported model."""
    return "\n".join(library_of(folder).lines(repr(str(folder))))


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
        listed = Column()
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
    """The title of each chapter of a run's report, and its content."""
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
    yield "All tensors", "how each was treated, and why, in figures"
    yield "Method", "its formula and its paper"


def _scores(run: MergeRun, session: Session) -> str:
    tasks, score = len(session.draft.inputs.tasks), mean_score(run)
    if score is not None:
        mean = short_score_text(score)
        return f"a mean of {mean}, compared with base and experts, task by task"
    if not tasks:
        return "none: the recipe names no tasks"
    on = counted(tasks, "on %n task", "on %n tasks")
    return f"{on}, compared with base and experts; measured while the report is written"


def _heterogeneity(run: MergeRun, session: Session) -> str:
    regimes = [report.regime for report in run.reports.values() if report.regime is not None]
    if regimes:
        return heterogeneous_text(regimes.count(Regime.HETEROGENEOUS), len(regimes))
    known = sum(report.gamma is not None for report in run.reports.values())
    merged = sum(row.disposition is Disposition.MERGED for row in session.layers.rows)
    return treated_alike(known or merged)
