"""Makes a GGUF file of an exported folder, by the person's own llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from ace_gui.engine.contract.events import GgufWritten, JobProgress
from ace_gui.engine.contract.jobs import GgufJob
from ace_gui.engine.contract.libraries import PEFT, library_of
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.engine_client import EngineClient, Operation
from ace_gui.gui.panels.job_page import RunButton, problem_label, show_problem
from ace_gui.gui.text import plain
from ace_gui.gui.theme import Face
from ace_gui.gui.widgets.controls import Choice, push_button, read_only
from ace_gui.gui.widgets.file_dialogs import ask_folders
from ace_gui.gui.widgets.labels import ElidedLabel, heading, muted_label
from ace_gui.gui.widgets.layout import across, down, pane
from ace_gui.paths import remembered_llama_cpp

_PURPOSE: Final = "llama-cpp"
_FORMATS: Final = {
    "auto": ("As the model", "16 bits, as in the folder"),
    "f16": ("f16", "16 bits, for every program"),
    "bf16": ("bf16", "16 bits, with the range of 32"),
    "q8_0": ("q8_0", "8 bits: half the size, hardly any loss"),
}
_NO_FOLDER: Final = (
    "Choose the folder of llama.cpp's source first "
    "(git clone https://github.com/ggml-org/llama.cpp)."
)


class GgufPanel(QWidget):
    """Shown for folders that llama.cpp may read. ``operation``: makes the file."""

    def __init__(self, engine: EngineClient) -> None:
        super().__init__()
        self.operation = Operation(engine)
        self.folder = Path()
        self.llama: Path | None = None
        self.choice = Choice("Format of the GGUF file", _FORMATS)
        self.place = ElidedLabel()
        self.need = muted_label(_NO_FOLDER)
        self.run = RunButton("Make the file", self._begin, self.operation.stop, name="Make GGUF")
        browse = push_button(
            "&llama.cpp…", self._browse, tip="Choose the source folder of llama.cpp"
        )
        self.problem = problem_label()
        self.outcome = muted_label()
        self.commands = commands_box("How to run the GGUF file")
        copy = QGuiApplication.clipboard().setText
        self.copy = push_button("Copy commands", lambda: copy(self.commands.toPlainText()))
        head = across(heading("GGUF"), self.choice, browse, (self.place, 1), self.run)
        below = across(self.copy, None)
        self.setLayout(down(head, self.need, self.problem, self.outcome, self.commands, below))
        self.operation.changed.connect(self.refresh)
        self.hide()

    def offer(self, folder: Path) -> None:
        """Offer a file of this folder, if it holds a language model or an adapter."""
        self.folder = folder
        self.llama = remembered_llama_cpp()
        library = library_of(folder)
        self.setVisible(library.task == "text-generation" or library == PEFT)
        self.refresh()

    def refresh(self) -> None:
        """Show the folder of llama.cpp, the progress and the result."""
        operation = self.operation
        progress = operation.progress(JobProgress)
        written = operation.last(GgufWritten)
        if progress is None:
            share = None
        else:
            share = progress.done / max(progress.total, 1)
        if self.llama is not None:
            obstacle = ""
        else:
            obstacle = _NO_FOLDER
        self.run.show_job(operation.is_running, obstacle, share=share)
        self.choice.setEnabled(not operation.is_running)
        self.place.set_full_text(str(self.llama) if self.llama is not None else "")
        self.need.setVisible(bool(obstacle))
        show_problem(self.problem, operation.error)
        for widget in (self.outcome, self.commands, self.copy):
            widget.setVisible(written is not None)
        if written is not None:
            names = plain(", ".join(file.name for file in written.files))
            self.outcome.setText(f"{human_bytes(written.bytes)}: {names}. To run it:")
            show_commands(self.commands, "\n".join(written.commands))

    def choose(self, folder: Path) -> None:
        """Use another llama.cpp; the engine remembers it."""
        self.llama = folder
        self.refresh()

    def _browse(self) -> None:
        ask_folders(self, "Folder of llama.cpp", _PURPOSE, lambda chosen: self.choose(chosen[0]))

    def _begin(self) -> None:
        kind = str(self.choice.current)
        self.operation.run(GgufJob(folder=self.folder, kind=kind, llama_cpp=self.llama))


def commands_box(name: str) -> QPlainTextEdit:
    """A box with lines to copy."""
    box = read_only(name, role=Face.MONO)
    box.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    return box


def show_commands(box: QPlainTextEdit, text: str) -> None:
    """Show lines in a box that is as high as they are."""
    box.setPlainText(text)
    box.setFixedHeight(box.fontMetrics().lineSpacing() * len(text.splitlines()) + 18)


def copied_box(title: str, box: QPlainTextEdit) -> QWidget:
    """A box with lines to copy under its heading, with a button that copies them."""
    copy = QGuiApplication.clipboard().setText
    name = f"Copy: {title}"
    button = push_button("Copy", lambda: copy(box.toPlainText()), kind="link", name=name)
    return pane(down(across((heading(title), 1), button), box, gap=4))
