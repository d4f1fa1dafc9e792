"""The welcome page: how to start, recent projects, and the sample for new users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QWidget

from ace_gui.formatting import duration
from ace_gui.gui.panels.welcome.recent_column import RecentColumn
from ace_gui.gui.panels.welcome.sample_card import SampleCard
from ace_gui.gui.panels.welcome.start_column import Start, StartColumn
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.labels.plain_label import plain_label, secondary_label
from ace_gui.gui.widgets.layout.arrangement import across, down

_WIDEST: Final = 1408  # px
# minimum width in text lines for this number of columns
_COLUMNS: Final = ((67, 3), (46, 2), (0, 1))
_WHAT: Final = "Merge fine-tuned models into one, and see the result layer by layer."
_OPENING: Final = "Reading the headers of the files … File, Stop opening ends it."


class WelcomePanel(QWidget):
    """``starts``, ``recent`` and ``sample``, next to each other."""

    def __init__(
        self,
        starts: Sequence[Start],
        sample: QAction,
        tutorial: QAction,
        clean_up: QAction,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._columns = QGridLayout()
        self._columns.setHorizontalSpacing(32)
        self._columns.setVerticalSpacing(32)
        self.starts = StartColumn(starts)
        self.recent = RecentColumn(clean_up)
        self.sample = SampleCard(sample, tutorial)
        self._seconds = 0
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self._count)
        self._lay_out()
        self._shown = 0
        self._arrange(3)

    def _lay_out(self) -> None:
        """Place the content slightly above the centre; it scrolls if there is little room."""
        page = QWidget()
        inner = QWidget(page)
        inner.setMaximumWidth(_WIDEST)
        title = plain_label("ACE Workbench", inner, wrap=False)
        title.setFont(face(Face.DISPLAY))
        self.subtitle = secondary_label(_WHAT, inner)
        parts = (title, self.subtitle, 32, self._columns)
        inner.setLayout(down(*parts, margins=(32, 0, 32, 32), gap=0))
        page.setLayout(down(None, None, across(None, (inner, 100), None), None, None, None))
        area = QScrollArea(self)
        area.setAccessibleName("Welcome")
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidgetResizable(True)
        area.setWidget(page)
        self.setLayout(down(area))

    def show_opening(self, opening: bool) -> None:
        """Show that something is being opened, and for how long."""
        if opening == self._clock.isActive():
            return
        self._seconds = 0
        self.subtitle.setText(_OPENING if opening else _WHAT)
        self.subtitle.setFont(face(Face.STRONG if opening else Face.BODY))
        (self._clock.start if opening else self._clock.stop)()

    def _count(self) -> None:
        self._seconds += 1
        self.subtitle.setText(f"{_OPENING} {duration(self._seconds)}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        lines = event.size().width() / self.fontMetrics().height()
        self._arrange(next(columns for least, columns in _COLUMNS if lines >= least))

    def _arrange(self, columns: int) -> None:
        """Columns that do not fit are placed below, at full width."""
        if columns == self._shown:
            return
        self._shown = columns
        parts: tuple[QWidget, ...] = (self.starts, self.recent, self.sample)
        for part in parts:
            self._columns.removeWidget(part)
        for index, part in enumerate(parts):
            if index < columns:
                self._columns.addWidget(part, 0, index)
            else:
                self._columns.addWidget(part, index - columns + 1, 0, 1, columns)
        for index, stretch in enumerate((5, 9, 8)):
            self._columns.setColumnStretch(index, stretch if index < columns else 0)
