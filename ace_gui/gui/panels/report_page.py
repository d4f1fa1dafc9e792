"""The Report page: the contents of the report, and a button that writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QShowEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QStackedLayout, QVBoxLayout, QWidget

from ace_gui.engine.contract.figures.findings import Regime
from ace_gui.formatting import counted
from ace_gui.gui.numbers import short_score_text
from ace_gui.gui.plots.along_model.gamma_plot import heterogeneous_text, treated_alike
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.found.runs import mean_score, title_parts
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.fields.buttons import action_button
from ace_gui.gui.widgets.labels.empty_state import EmptyState
from ace_gui.gui.widgets.labels.plain_label import plain_label, secondary_label
from ace_gui.gui.widgets.layout.arrangement import Column, scroll_area
from ace_gui.gui.widgets.layout.card import card
from ace_gui.gui.widgets.layout.font_metrics import on_font_change

_WHAT = (
    "The report says what went in, what the merge did layer by layer, and what came of it, with "
    "plots and tables, as one HTML file that opens anywhere."
)
_WIDTH: Final = 44  # in text lines: maximum width
_MARGIN: Final = 24  # px


class ReportPage(QWidget):
    """The report's chapters with a preview of each; a sentence before there is a merge."""

    def __init__(self, session: Session, write: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        text = "Save report…"
        self.nothing = EmptyState(_WHAT, action_button(write, text))
        self.chapters = _Chapters(write, text)
        area = scroll_area("Contents of the report")
        area.setWidget(self.chapters)
        grounds = QWidget()
        self._shown = QStackedLayout(grounds)
        self._shown.addWidget(self.nothing)
        self._shown.addWidget(area)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(card(grounds))
        for changed in (session.results.changed, session.results.scores.changed):
            changed.connect(self.refresh)
        session.results.runs.changed.connect(self.refresh)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def refresh(self) -> None:
        """Preview the report on the finished merge, if the page is visible."""
        if not self.isVisible():
            return
        run, merged = self._session.results.merge, self._session.results.is_merged
        if run is not None and merged:
            parts = title_parts(run, self._session.draft.methods)
            self.chapters.fill(" · ".join(parts), chapters(run, self._session))
        self._shown.setCurrentIndex(int(merged))


class _Chapters(Column):
    """One chapter per row: title and content."""

    def __init__(self, write: QAction, text: str) -> None:
        super().__init__()
        self.title = plain_label("")
        self.title.setFont(face(Face.TITLE))
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(_MARGIN)
        self._grid.setVerticalSpacing(10)
        self._grid.setColumnStretch(1, 1)
        self._lines: list[tuple[QLabel, QLabel]] = []
        layout = QVBoxLayout(self)
        layout.setContentsMargins(_MARGIN, 20, _MARGIN, 20)
        layout.setSpacing(16)
        layout.addWidget(self.title)
        layout.addWidget(secondary_label(_WHAT))
        layout.addLayout(self._grid)
        button = action_button(write, text)
        layout.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)
        on_font_change(self, lambda metrics: self.setMaximumWidth(_WIDTH * metrics.height()))

    def fill(self, title: str, rows: Iterator[tuple[str, str]]) -> None:
        """Replace the rows; their number is constant."""
        self.title.setText(plain(title))
        for index, (name, said) in enumerate(rows):
            if index == len(self._lines):
                self._add_line(index)
            label, text = self._lines[index]
            label.setText(name)
            text.setText(plain(said))

    def _add_line(self, index: int) -> None:
        label, text = plain_label("", wrap=False), secondary_label("")
        label.setFont(face(Face.STRONG))
        self._grid.addWidget(label, index, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(text, index, 1)
        self._lines.append((label, text))


def chapters(run: MergeRun, session: Session) -> Iterator[tuple[str, str]]:
    """The title of each chapter of a run's report, and its content."""
    reports = run.reports.values()
    warned = sum(bool(report.warnings) for report in reports)
    names = ", ".join(run.recipe.expert_names)
    yield "Recipe", f"{names}; every parameter, and the recipe as YAML"
    yield "Scores", _scores(run, session)
    yield "Heterogeneity", _heterogeneity(run)
    yield (
        "Energies",
        "how far each expert moved each matrix, and how much the experts agree",
    )
    yield (
        "Spectra",
        "singular values before and after refinement, of the most unusual matrices",
    )
    yield (
        "Health",
        counted(warned, "%n matrix has a warning", "%n matrices have warnings")
        if warned
        else "no matrix has a warning",
    )
    yield "All tensors", "how each was treated, and why, in figures"
    yield "Method", "its formula and its paper"


def _scores(run: MergeRun, session: Session) -> str:
    tasks = len(session.draft.inputs.tasks)
    score = mean_score(run)
    if score is not None:
        mean = short_score_text(score)
        return f"a mean of {mean}, compared with base and experts, task by task"
    if tasks:
        return counted(
            tasks,
            "on %n task, compared with base and experts; measured while the report is written",
            "on %n tasks, compared with base and experts; measured while the report is written",
        )
    return "none: the recipe names no tasks"


def _heterogeneity(run: MergeRun) -> str:
    reports = run.reports.values()
    parted = [report for report in reports if report.regime is not None]
    if not parted:
        known = sum(report.gamma is not None for report in reports)
        return treated_alike(known or len(run.reports))
    above = sum(report.regime == Regime.HETEROGENEOUS for report in parted)
    return heterogeneous_text(above, len(parted))
