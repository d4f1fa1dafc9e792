"""Export of the merged model: folder, format, and the result."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QStackedWidget,
    QWidget,
)

from ace_gui.engine.contract.events import Exported
from ace_gui.engine.contract.libraries import commands_of, library_of
from ace_gui.engine.contract.plan import Disposition
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.control.operations.output_operations import OutputOperations
from ace_gui.gui.dialogs.adapter_choice import AdapterChoice
from ace_gui.gui.panels.notice import Notice, Severity
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.found.runs import title_parts
from ace_gui.gui.state.output_size import OutputSize, check_folder, output_size
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import file_name
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.files.file_dialogs import ask_folders, folder_of
from ace_gui.gui.widgets.files.written_files import show
from ace_gui.gui.widgets.labels.plain_label import heading, muted_label, plain_label
from ace_gui.gui.widgets.layout.arrangement import across, down
from ace_gui.recipe.values import model_name

DTYPES = (
    (None, "as in the recipe"),
    ("float32", "float32"),
    ("bfloat16", "bfloat16"),
    ("float16", "float16"),
)
GIGABYTE = 1_000_000_000

EXPORTS = "exports"


class ExportDialog(QDialog):
    """Asks for a folder, a number format and a shard size; exports; shows the result."""

    def __init__(
        self, session: Session, output: OutputOperations, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._output = output
        self._exported_to = Path()
        self.setWindowTitle("Export the merged model")
        self.setMinimumWidth(580)
        self.notice = Notice(self)
        self.folder = QLineEdit(self)
        self.folder.setAccessibleName("Target folder")
        self.folder.setPlaceholderText("a new or empty folder")
        self.verdict = muted_label("", self)
        self.output_kind = self._make_output_kind()
        self.adapter = AdapterChoice(output.run_quietly, self)
        self.dtype = self._make_dtype()
        self.shard = self._make_shard()
        self.complete_heads = self._make_complete_heads()
        self.contents = muted_label("", self)
        self.progress = QProgressBar(self)
        self.progress.setAccessibleName("Export progress")
        self.progress.hide()
        self._pages = QStackedWidget(self)
        self._form = self._make_form()
        self._pages.addWidget(self._form)
        self._pages.addWidget(self._make_result())
        self._buttons = self._make_buttons()
        parts = (self.notice, self._pages, self.progress, self._buttons)
        self.setLayout(down(*parts, margins=(12, 12, 12, 12)))
        self.finished.connect(self.adapter.stop)
        self.output_kind.currentIndexChanged.connect(self._change_kind)
        self.folder.textChanged.connect(self.refresh)
        self.dtype.currentIndexChanged.connect(self.refresh)
        self.shard.valueChanged.connect(self.refresh)
        self.complete_heads.toggled.connect(self.refresh)
        session.activity.changed.connect(self.refresh)
        session.activity.progressed.connect(self._show_progress)
        session.problem.connect(self._show_problem)
        output.exported.connect(self._show_result)
        self._change_kind()
        start = Settings().export_folder or folder_of(EXPORTS) or Path.home()
        self.folder.setText(str(free_folder(start, self._name())))
        self.refresh()

    @property
    def as_adapter(self) -> bool:
        """Whether an adapter is written instead of the full model."""
        return self.output_kind.currentIndex() == 1

    def refresh(self) -> None:
        """Check the form, and show what will be written."""
        plan = self._session.draft.plan
        folders = plan.input_folders if plan is not None else ()
        verdict = check_folder(self.folder.text(), self.bytes_needed(), folders)
        exporting = self._session.activity.is_running(State.EXPORTING)
        self.verdict.setText(verdict.sentence)
        self.export_button.setEnabled(verdict.good and self._session.can_export)
        self._form.setEnabled(not exporting)
        self.progress.setVisible(exporting)
        self.contents.setText(self._contents())

    def reject(self) -> None:
        """Close; cancel a running export first."""
        if self._session.activity.is_running(State.EXPORTING):
            self._output.cancel_export()
            return
        super().reject()

    def _change_kind(self) -> None:
        """Show what belongs to the chosen output; the curve is computed only for an adapter."""
        adapter, run = self.as_adapter, self._session.results.merge
        self._rows.setRowVisible(self.shard, not adapter)
        if self._has_heads():
            self._rows.setRowVisible(self.complete_heads, not adapter)
        self._rows.setRowVisible(self.adapter, adapter)
        if adapter and run is not None:
            self.adapter.begin(run.store)
        else:
            self.adapter.stop()
        self.refresh()
        self.adjustSize()

    def _make_output_kind(self) -> QComboBox:
        box = QComboBox(self)
        box.setAccessibleName("Write as")
        box.addItems(["the full model", "an adapter (PEFT)"])
        box.setToolTip("An adapter is a small file with the change, to be loaded over the base")
        return box

    def _make_dtype(self) -> QComboBox:
        box = QComboBox(self)
        box.setAccessibleName("Number format")
        box.setToolTip("Number format of the weights; halves are rounded once, from full precision")
        for value, text in DTYPES:
            box.addItem(text, value)
        return box

    def _make_shard(self) -> QDoubleSpinBox:
        box = QDoubleSpinBox(self)
        box.setRange(0.1, 100.0)
        box.setDecimals(1)
        box.setValue(5.0)
        box.setSuffix(" GB")
        box.setAccessibleName("Largest file")
        box.setToolTip("Larger models are split into several files with an index")
        return box

    def _make_complete_heads(self) -> QCheckBox:
        box = QCheckBox("A whole model for each expert's head", self)
        box.setToolTip("Each loads separately, and is as large as the merged model")
        box.setVisible(self._has_heads())
        return box

    def _has_heads(self) -> bool:
        return any(row.disposition is Disposition.PER_EXPERT for row in self._session.layers.rows)

    def _make_form(self) -> QWidget:
        page = QWidget(self)
        browse = QPushButton("Browse…", page)
        browse.setAccessibleName("Browse for the target folder")
        browse.clicked.connect(self._browse)
        line = across((self.folder, 1), browse)
        form = self._rows = QFormLayout(page)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Merge", plain_label(self._recipe_text()))
        if not self._session.merge_is_current:
            form.addRow(
                "",
                muted_label(
                    "The form was changed after this merge; what is exported "
                    "is the merge as it was made."
                ),
            )
        form.addRow("Folder", line)
        form.addRow("", self.verdict)
        form.addRow("Write as", self.output_kind)
        form.addRow("Keep", self.adapter)
        form.addRow("Number format", self.dtype)
        form.addRow("Largest file", self.shard)
        if self._has_heads():
            form.addRow("Heads", self.complete_heads)
        form.addRow("Contents", self.contents)
        return page

    def _make_result(self) -> QWidget:
        page = QWidget(self)
        self.outcome = plain_label("", page)
        self.files = muted_label("", page)
        self.snippet = _code("How to load the model in Python", page)
        self.commands = _code("How to publish, convert and run the model", page)
        open_folder = QPushButton("Open folder", page)
        open_folder.clicked.connect(lambda _=False: show(self._exported_to))
        show_folder = QPushButton("Show in folder", page)
        show_folder.clicked.connect(lambda _=False: show(self._exported_to.parent))
        copy = QPushButton("Copy code", page)
        copy.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self.snippet.toPlainText())
        )
        buttons = across(open_folder, show_folder, copy, None)
        parts = (heading("Exported", page), self.outcome, self.files, self.snippet, buttons)
        page.setLayout(down(*parts, self.commands, None))
        return page

    def _make_buttons(self) -> QDialogButtonBox:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.export_button = buttons.addButton("Export", QDialogButtonBox.ButtonRole.AcceptRole)
        self.export_button.setAccessibleName("Export")
        buttons.accepted.connect(self._export)
        buttons.rejected.connect(self.reject)
        return buttons

    def _recipe_text(self) -> str:
        run = self._session.results.merge
        if run is None:
            return ""
        method, *chosen = title_parts(run, self._session.draft.methods)
        merged = counted(
            len(run.recipe.models),
            "{method} of %n expert into {base}",
            "{method} of %n experts into {base}",
            method=method,
            base=run.recipe.base_model.name,
        )
        return " · ".join([merged, *chosen])

    def _size(self) -> OutputSize | None:
        """Size of the merged model's weights."""
        plan, run = self._session.draft.plan, self._session.results.merge
        if plan is None or run is None:
            return None
        dtype = self.dtype.currentData() or run.recipe.out_dtype
        return output_size(plan, dtype, round(self.shard.value() * GIGABYTE))

    def bytes_needed(self) -> int:
        """Bytes of everything to be written, except side files; 0 for an adapter: it is small."""
        plan, size = self._session.draft.plan, self._size()
        if plan is None or size is None or self.as_adapter:
            return 0
        rows = self._session.layers.rows if self.complete_heads.isChecked() else ()
        own = [row.experts for row in rows if row.disposition is Disposition.PER_EXPERT]
        models = 1 + len(set().union(*own))
        return models * size.bytes + plan.bytes_beside

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
        if self._has_heads():
            parts.append("the experts' own heads in heads/")
        if self.complete_heads.isChecked():
            parts.append(f"a model of {human_bytes(size.bytes)} for each of these")
        return "; ".join(parts) + "."

    def _browse(self) -> None:
        """Ask for a folder. If it is not empty, propose a new folder inside it."""

        def take(chosen: list[Path]) -> None:
            folder = chosen[0]
            full = folder.is_dir() and any(folder.iterdir())
            self.folder.setText(str(free_folder(folder, self._name()) if full else folder))

        ask_folders(self, "Folder for the merged model", EXPORTS, take)

    def _name(self) -> str:
        """The proposed name of the merged model."""
        run = self._session.results.merge
        if run is None:
            return "merged"
        return file_name(
            f"{model_name(run.recipe.base_model)}-{run.name or run.recipe.merge_method}"
        )

    def _export(self) -> None:
        self.notice.hide()
        self._exported_to = Path(self.folder.text().strip()).expanduser()
        if self.as_adapter:
            size = self.adapter
            self.adapter.stop()
            self._output.export_adapter(
                self._exported_to, self.dtype.currentData(), rank=size.rank, energy=size.energy
            )
            return
        shard_bytes = round(self.shard.value() * GIGABYTE)
        self._output.export(
            self._exported_to,
            self.dtype.currentData(),
            shard_bytes,
            heads=self.complete_heads.isChecked(),
        )

    def _show_progress(self) -> None:
        progress = self._session.activity.progress
        if progress is None or progress.state is not State.EXPORTING or progress.total <= 0:
            self.progress.setRange(0, 0)
            return
        self.progress.setRange(0, 1000)
        self.progress.setValue(round(1000 * progress.done / progress.total))

    def _show_problem(self, error: WorkbenchError) -> None:
        if self.isVisible():
            self.notice.show_error(error)

    def _show_result(self, exported: Exported) -> None:
        self._exported_to = exported.folder
        Settings().remember_folder(EXPORTS, exported.folder.parent)
        self.outcome.setText(f"{human_bytes(exported.bytes)} in {exported.folder}")
        self.files.setText(", ".join(exported.files))
        _show_code(self.snippet, load_snippet(exported.folder))
        _show_code(self.commands, "\n".join(commands_of(exported.folder)))
        if exported.notes:
            self.notice.show_message(Severity.INFO, " ".join(exported.notes))
        self._pages.setCurrentIndex(1)
        self.export_button.hide()
        self._buttons.button(QDialogButtonBox.StandardButton.Cancel).setText("Close")


def _code(name: str, page: QWidget) -> QPlainTextEdit:
    """A box for lines to copy."""
    box = QPlainTextEdit(page)
    box.setReadOnly(True)
    box.setAccessibleName(name)
    box.setFont(face(Face.MONO))
    box.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    return box


def _show_code(box: QPlainTextEdit, text: str) -> None:
    box.setPlainText(text)
    box.setFixedHeight(box.fontMetrics().lineSpacing() * len(text.splitlines()) + 18)


def free_folder(parent: Path, name: str) -> Path:
    """A free path in ``parent``: ``name``, or ``name-2`` and so on."""
    numbered = (f"{name}-{number}" for number in count(2))
    return next(p for n in chain([name], numbered) if not (p := parent / n).exists())


def load_snippet(folder: Path) -> str:
    """Two lines of Python that load the exported model."""
    return "\n".join(library_of(folder).lines(repr(str(folder))))
