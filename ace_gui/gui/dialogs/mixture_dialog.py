"""A mixture of experts: what its file says, and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLineEdit, QWidget

from ace_gui.engine.contract.events import Exported, JobProgress, MixturePlanned
from ace_gui.engine.contract.jobs import MixtureJob
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.engine_client import EngineClient, Operation
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.dialogs.gguf_panel import GgufPanel
from ace_gui.gui.dialogs.output_dialogs import free_folder
from ace_gui.gui.panels.job_page import RunButton, problem_label, show_problem
from ace_gui.gui.state.output_size import check_folder
from ace_gui.gui.text import file_name, plain
from ace_gui.gui.theme import Face, change_kind
from ace_gui.gui.widgets.controls import named, push_button
from ace_gui.gui.widgets.file_dialogs import ask_folders, folder_of
from ace_gui.gui.widgets.form import Form
from ace_gui.gui.widgets.labels import heading, muted_label, plain_label, secondary_label
from ace_gui.gui.widgets.layout import WrappedColumn, across, down, pane, scroll_area

_PURPOSE: Final = "exports"


class MixtureDialog(Dialog):
    """Builds a mixture whose file was opened. ``operation``: builds it."""

    def __init__(
        self, engine: EngineClient, mixture: MixturePlanned, parent: QWidget | None = None
    ) -> None:
        super().__init__("Mixture of experts", parent)
        self.mixture = mixture
        self.operation = Operation(engine)
        self._session = engine.session
        self._stopped: Path | None = None
        """The folder of what was stopped here, which can go on."""
        self.folder = named(QLineEdit(), "Folder for the mixture")
        self.verdict = secondary_label()
        self.run = RunButton("Build", self._begin, self._stop, name="Build the mixture")
        self.problem = problem_label()
        self.outcome = muted_label()
        self.gguf = GgufPanel(engine)
        self.area = scroll_area("What the file says", self._content())
        self.fit(60, 36, lines=True)
        self.fill(
            (self.area, 1),
            self._place(),
            self.problem,
            across((self.outcome, 1), self.run),
        )
        self.folder.textChanged.connect(self.refresh)
        self.operation.changed.connect(self.refresh)
        self.finished.connect(self.operation.stop)
        self.finished.connect(self.gguf.operation.stop)
        start = folder_of(_PURPOSE) or Path.home()
        self.folder.setText(str(free_folder(start, file_name(mixture.file.stem))))
        self.refresh()

    def _content(self) -> QWidget:
        """All but the folder and the button. It scrolls, because prompts are shown whole."""
        mixture = self.mixture
        notes = muted_label(" ".join(mixture.notes))
        notes.setVisible(bool(mixture.notes))
        experts = []
        for name, prompts in mixture.experts:
            sentence = secondary_label(prompts)
            sentence.setAccessibleName(f"Prompts of {name}")
            experts.append(pane(down(plain_label(name), sentence, gap=0)))
        column = WrappedColumn()
        title = plain_label(mixture.file.name, role=Face.TITLE)
        parts = title, self._facts(), heading("Experts"), *experts, notes, self.gguf, None
        column.setLayout(down(*parts, margins=(0, 0, 8, 0)))
        return column

    def _facts(self) -> QWidget:
        mixture = self.mixture
        form = Form()
        size = human_bytes(mixture.bytes)
        form.add_row("Makes", plain_label(f"{mixture.model_class}, about {size}"))
        form.add_row("Attention", plain_label(mixture.attention))
        form.add_row("Routers", plain_label(mixture.routers))
        return form

    def _place(self) -> QWidget:
        browse = push_button("Browse…", self._browse, name="Browse for the target folder")
        form = Form()
        line = across((self.folder, 1), browse)
        form.add_row("Folder", pane(down(line, self.verdict, gap=4)))
        return form

    def refresh(self) -> None:
        """Check the folder, and show the progress and the result."""
        operation = self.operation
        running = operation.is_running
        progress = operation.progress(JobProgress)
        built = operation.last(Exported)
        mixture = self.mixture
        verdict = check_folder(self.folder.text(), mixture.bytes, mixture.models)
        if built is None or self._path != built.folder:
            self.verdict.setText(verdict.sentence)
            change_kind(self.verdict, "caption" if verdict.good else "bad")
        else:
            self.verdict.setText("")
        if progress is None:
            share = None
        else:
            share = progress.done / max(progress.total, 1)
        self.run.action = "Continue" if self._goes_on else "Build"
        self.run.show_job(running, "" if verdict.good else verdict.sentence, share=share)
        self.folder.setEnabled(not running)
        show_problem(self.problem, operation.error)
        self._show_outcome(progress, built)

    def _show_outcome(self, progress: JobProgress | None, built: Exported | None) -> None:
        if progress is not None:
            self.outcome.setText(plain(progress.title))
        elif built is not None:
            notes = " ".join(built.notes)
            sentence = f"{human_bytes(built.bytes)} in {built.folder}. {notes}"
            self.outcome.setText(plain(sentence.strip()))
            if self.gguf.folder != built.folder:
                self.gguf.offer(built.folder)
                QTimer.singleShot(0, self.gguf, self._show_gguf)
        elif self._goes_on:
            self.outcome.setText("Stopped; what is finished is kept.")
        else:
            self.outcome.setText("")

    def _show_gguf(self) -> None:
        """Scroll to what can be made of the mixture, which is laid out by now."""
        self.area.ensureWidgetVisible(self.gguf)

    @property
    def _path(self) -> Path:
        return Path(self.folder.text().strip()).expanduser()

    @property
    def _goes_on(self) -> bool:
        """Whether an unfinished mixture for this folder was stopped here."""
        return self._stopped is not None and self._stopped == self._path

    def _begin(self) -> None:
        job = MixtureJob(
            file=self.mixture.file,
            folder=self._path,
            device=self._session.device,
            resume=self._goes_on,
        )
        self._stopped = None
        self.operation.run(job)

    def _stop(self) -> None:
        self._stopped = self._path
        self.operation.stop()

    def _browse(self) -> None:
        """Ask for a folder; a mixture gets a new one in it."""

        def take(chosen: list[Path]) -> None:
            name = file_name(self.mixture.file.stem)
            self.folder.setText(str(free_folder(chosen[0], name)))

        ask_folders(self, "Folder for the mixture", _PURPOSE, take)
