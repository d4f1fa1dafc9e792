"""Dialogs for a finished merge: the export, with the size of an adapter, and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QGridLayout,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QStackedWidget,
    QWidget,
)

from ace_gui.engine.contract.events import EnergyByRank, Exported, JobProgress
from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.contract.jobs import EnergyByRankJob, ExportJob
from ace_gui.engine.contract.libraries import commands_of, library_of
from ace_gui.engine.contract.plan import Disposition
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.control.engine_client import Operation
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
from ace_gui.gui.widgets.controls import named, push_button, read_only
from ace_gui.gui.widgets.file_dialogs import ask_folders, folder_of, show
from ace_gui.gui.widgets.form import Form, Option, OptionForm
from ace_gui.gui.widgets.labels import heading, muted_label, plain_label, secondary_label
from ace_gui.gui.widgets.layout import Column, across, down, pane
from ace_gui.recipe.values import model_name


@dataclass(frozen=True, kw_only=True)
class Written:
    """How a merge is written. An adapter has a rank, or it keeps a share of the energy."""

    adapter: bool = False
    by_energy: bool = False
    rank: int = 32
    energy: float = 0.95
    dtype: str | None = None
    gigabytes: float = 5.0
    heads: bool = False


_KIND: Final = Option(
    name="adapter",
    label="Write as",
    help="An adapter is a small file with the change; it is loaded onto the base",
    values={"the full model": False, "an adapter (PEFT)": True},
)
_BY: Final = Option(
    name="by_energy",
    label="Size by",
    help="One rank for all matrices, or for each matrix the smallest rank that keeps this share "
    "of its change's squared norm",
    values={"rank": False, "share of energy": True},
)
_RANK: Final = Option(
    name="rank",
    label="Rank",
    kind="int",
    default=Written.rank,
    low=1,
    high=65536,
)
_ENERGY: Final = Option(
    name="energy",
    label="Share of energy",
    kind="float",
    default=Written.energy,
    low=0.01,
    high=1,
)
_DTYPE: Final = Option(
    name="dtype",
    label="Number format",
    help="Format of the weights; 16-bit formats are rounded once, from full precision",
    values={"as in the recipe": None} | {n: n for n in ("float32", "bfloat16", "float16")},
)
_SHARD: Final = Option(
    name="gigabytes",
    label="Largest file, GB",
    help="Larger models are split into several files with an index",
    kind="float",
    logarithmic=True,
    default=Written.gigabytes,
    low=0.1,
    high=100,
)
_HEADS: Final = Option(
    name="heads",
    label="Heads",
    help="A whole model loads without the others, and is as large as the merged model",
    values={"in separate files": False, "a whole model for each": True},
)
_GIGABYTE: Final = 1_000_000_000
_EXPORTS: Final = "exports"
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
        self._session, self._output, self._adds = session, output, adds
        self._exported_to, self.written = Path(), Written()
        own = Disposition.PER_EXPERT
        self._has_heads = any(row.disposition is own for row in session.layers.rows)
        self.setMinimumWidth(580)
        self.notice = Notice()
        self.folder = named(QLineEdit(placeholderText="a new or empty folder"), "Target folder")
        self.verdict, self.contents = muted_label(), muted_label()
        self.form, self.plot, self.curve = OptionForm(), KeptEnergyPlot(), Operation(output.engine)
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
        self.form.changed.connect(self._change)
        for changed in (self.folder.textChanged, session.activity.changed, self.curve.changed):
            changed.connect(self.refresh)
        session.activity.progressed.connect(self._show_progress)
        session.problem.connect(self._show_problem)
        output.exported.connect(self._show_result)
        start = Settings().export_folder or folder_of(_EXPORTS) or Path.home()
        self.folder.setText(str(_free_folder(start, self._name())))
        self.refresh()

    def refresh(self) -> None:
        """Check the form, and show what will be written."""
        plan = self._session.draft.plan
        folders = plan.input_folders if plan is not None else ()
        verdict = check_folder(self.folder.text(), self.bytes_needed(), folders)
        exporting = self._session.activity.is_running(State.EXPORTING)
        self.form.show_record(self._options(), self.written, Written())
        self._show_curve()
        self.verdict.setText(verdict.sentence)
        change_kind(self.verdict, "caption" if verdict.good else "bad")
        self.export_button.setEnabled(verdict.good and self._session.can_export)
        self._page.setEnabled(not exporting)
        self.progress.setVisible(exporting)
        self.contents.setText(self._contents())

    def reject(self) -> None:
        """Close; cancel a running export first."""
        if self._session.activity.is_running(State.EXPORTING):
            self._output.engine.cancel(ExportJob)
            return
        super().reject()

    def _options(self) -> Iterator[Option]:
        """The options for this kind of output."""
        yield _KIND
        if self.written.adapter:
            yield from (_BY, _ENERGY if self.written.by_energy else _RANK)
        yield _DTYPE
        if not self.written.adapter:
            yield from (_SHARD, _HEADS) if self._has_heads else (_SHARD,)

    def _change(self, written: Written) -> None:
        """Take another choice, and compute the curve only for an adapter."""
        old, self.written = self.written, written
        self.refresh()
        if written.adapter and not old.adapter:
            self._find_curve()
        elif not written.adapter:
            self.curve.stop()
        if written.adapter != old.adapter:
            self.adjustSize()

    def _find_curve(self) -> None:
        run = self._session.results.merge
        if run is not None and self.curve.last(EnergyByRank) is None and not self.curve.is_running:
            self.curve.run(EnergyByRankJob(store=run.store))

    def _show_curve(self) -> None:
        """Show the share that each rank keeps, as far as it is known."""
        found, progress = self.curve.last(EnergyByRank), self.curve.progress(JobProgress)
        for widget in (self.plot, self.button):
            widget.setVisible(self.written.adapter)
        if found is not None:
            self.button.hide()
        share = None if progress is None else progress.done / max(progress.total, 1)
        self.button.show_job(self.curve.is_running, "", share=share)
        if found is not None and found.shares:
            written = self.written
            rank, energy = (None, written.energy) if written.by_energy else (written.rank, None)
            self.plot.show_shares(found, rank, energy)
        elif found is not None:
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
        above, below = Form(), Form()
        line = across((self.folder, 1), browse)
        above.add_row("Merge", pane(merge))
        above.add_row("Folder", pane(down(line, self.verdict, gap=4)))
        below.add_row("Contents", self.contents)
        return pane(down(above, self.form, self.plot, across(None, self.button), below))

    def _make_result(self) -> QWidget:
        self.outcome, self.files = plain_label(), muted_label()
        self.snippet = _code("How to load the model in Python")
        self.commands = _code("How to publish, convert and run the model")
        copy = QGuiApplication.clipboard().setText
        buttons = across(
            push_button("Open folder", lambda: show(self._exported_to)),
            push_button("Show in folder", lambda: show(self._exported_to.parent)),
            push_button("Copy code", lambda: copy(self.snippet.toPlainText())),
            push_button("Add as an expert", self._add, tip="Use it in another merge"),
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
        dtype = self.written.dtype or run.recipe.out_dtype
        return output_size(plan, dtype, round(self.written.gigabytes * _GIGABYTE))

    def bytes_needed(self) -> int:
        """Bytes of everything to be written, except side files; 0 for an adapter: it is small."""
        plan, size = self._session.draft.plan, self._size()
        if plan is None or size is None or self.written.adapter:
            return 0
        rows = self._session.layers.rows if self.written.heads else ()
        owners = [row.experts for row in rows if row.disposition is Disposition.PER_EXPERT]
        models = 1 + len(set().union(*owners))
        return models * size.bytes + plan.bytes_for_experts

    def _contents(self) -> str:
        size = self._size()
        if size is None:
            return ""
        if self.written.adapter:
            return "adapter_model.safetensors, adapter_config.json, README.md, merge_recipe.yaml."
        weights = (
            "model.safetensors" if size.shards == 1 else f"{size.shards} files and their index"
        )
        parts = [f"{weights} (about {human_bytes(size.bytes)})"]
        parts.append("the base's config and tokenizer files, README.md, merge_recipe.yaml")
        if self._has_heads:
            parts.append("the experts' heads in heads/")
        if self.written.heads:
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
        export = partial(self._output.export, self._exported_to, self.written.dtype)
        if self.written.adapter:
            self.curve.stop()
            by_energy, energy, rank = self.written.by_energy, self.written.energy, self.written.rank
            export(rank=None if by_energy else rank, energy=energy if by_energy else None)
        else:
            shard_bytes = round(self.written.gigabytes * _GIGABYTE)
            export(shard_bytes, complete_heads=self.written.heads)

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
    """A box with lines to copy."""
    box = read_only(name, role=Face.MONO)
    box.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    return box


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
    tasks, score = len(session.draft.inputs.tasks), mean_score(run)
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
    known = sum(report.gamma is not None for report in run.reports.values())
    merged = sum(row.disposition is Disposition.MERGED for row in session.layers.rows)
    return treated_alike(known or merged)
