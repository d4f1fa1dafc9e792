"""A mixture of experts: what its file says, and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtWidgets import QLineEdit, QTreeWidgetItem, QWidget

from ace_gui.engine.contract.events import Exported, JobProgress, MixturePlanned
from ace_gui.engine.contract.jobs import MixtureJob
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.engine_client import EngineClient, Operation
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.dialogs.gguf_panel import GgufPanel
from ace_gui.gui.dialogs.output_dialogs import free_folder
from ace_gui.gui.panels.job_page import RunButton, problem_label, show_problem
from ace_gui.gui.state.output_size import check_folder
from ace_gui.gui.text import file_name, plain, tooltip
from ace_gui.gui.theme import Face, change_kind
from ace_gui.gui.widgets.controls import named, push_button
from ace_gui.gui.widgets.file_dialogs import ask_folders, folder_of
from ace_gui.gui.widgets.form import Form
from ace_gui.gui.widgets.labels import muted_label, plain_label, secondary_label
from ace_gui.gui.widgets.layout import across, down, pane
from ace_gui.gui.widgets.tables import row_tree

_PURPOSE: Final = "exports"
_ROWS: Final = 6
"""Experts that are visible without scrolling."""


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
        self.experts = row_tree("Experts", ["Expert", "Prompts"])
        self.experts.header().setStretchLastSection(True)
        for name, prompts in mixture.experts:
            item = QTreeWidgetItem(self.experts, [plain(name), plain(prompts)])
            item.setToolTip(1, tooltip(prompts))
        self.experts.setFixedHeight((_ROWS + 2) * self.fontMetrics().height() * 3 // 2)
        self.fit(60, 36, lines=True)
        title = plain_label(plain(mixture.file.name), role=Face.TITLE)
        notes = muted_label(plain(" ".join(mixture.notes)))
        notes.setVisible(bool(mixture.notes))
        self.fill(
            title,
            self._facts(),
            self.experts,
            notes,
            self._place(),
            self.problem,
            across(self.outcome, None, self.run),
            self.gguf,
            None,
        )
        self.folder.textChanged.connect(self.refresh)
        self.operation.changed.connect(self.refresh)
        self.finished.connect(self.operation.stop)
        self.finished.connect(self.gguf.operation.stop)
        start = folder_of(_PURPOSE) or Path.home()
        self.folder.setText(str(free_folder(start, file_name(mixture.file.stem))))
        self.refresh()

    def _facts(self) -> QWidget:
        mixture = self.mixture
        form = Form()
        size = human_bytes(mixture.bytes)
        form.add_row("Makes", plain_label(f"{mixture.model_class}, about {size}"))
        form.add_row("Attention", plain_label(plain(mixture.attention)))
        form.add_row("Routers", plain_label(plain(mixture.routers)))
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
        elif self._goes_on:
            self.outcome.setText("Stopped; what is finished is kept.")
        else:
            self.outcome.setText("")

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
