"""Base, merges and experts on a line, by their mean score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from ace_gui.gui.models.task_figures_model import score_text
from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.labels.written import write

_MIDDLE: Final = Qt.AlignmentFlag.AlignCenter
_WIDEST: Final = 150.0  # px of a name
_GAP: Final = 12.0  # px between two names
_RADIUS: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A model and its mean score. ``is_chosen``: the model is selected."""

    title: str
    value: float
    is_chosen: bool = False


class ScoreLine(QWidget):
    """The value above each mark, the name below; labels are moved apart if they would overlap."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._marks: tuple[Mark, ...] = ()
        self.setAccessibleName("Mean scores")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_marks(self, marks: Sequence[Mark]) -> None:
        """Replace the marks."""
        self._marks = tuple(sorted(marks, key=lambda mark: mark.value))
        marks_text = ", ".join(f"{mark.title} {score_text(mark.value)}" for mark in self._marks)
        self.setAccessibleDescription(marks_text)
        self.setToolTip(tooltip(marks_text))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(400, round(2.3 * self._line + 26))

    @property
    def _line(self) -> float:
        return QFontMetricsF(face(Face.BODY)).height()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        if not self._marks:
            return
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = 1.1 * self._line + 11
        indices = self._positions()
        painter.setPen(QPen(QColor(theme.edge), 1.5))
        painter.drawLine(QPointF(8, middle), QPointF(self.width() - 8, middle))
        chosen = next((n for n, mark in enumerate(self._marks) if mark.is_chosen), None)
        if chosen is not None:
            painter.setPen(QPen(QColor(theme.text), 1.8))
            painter.drawLine(QPointF(indices[0], middle), QPointF(indices[chosen], middle))
        labels, widths = self._labels(indices)
        for mark, at, label, width in zip(self._marks, indices, labels, widths, strict=True):
            radius = _RADIUS + 2 * mark.is_chosen
            painter.setPen(QPen(QColor(theme.text if mark.is_chosen else theme.text2), 1.6))
            painter.setBrush(QColor(theme.text if mark.is_chosen else theme.card))
            painter.drawEllipse(QPointF(at, middle), radius, radius)
            ink = theme.text if mark.is_chosen else theme.text2
            above = QRectF(label - width / 2, 0, width, 1.1 * self._line)
            below = QRectF(label - width / 2, middle + 11, width, 1.1 * self._line)
            value_face = Face.STRONG if mark.is_chosen else Face.BODY
            name_face = Face.CAPTION_STRONG if mark.is_chosen else Face.CAPTION
            write(painter, above, score_text(mark.value), face(value_face), ink, align=_MIDDLE)
            write(painter, below, mark.title, face(name_face), ink, align=_MIDDLE)

    def _positions(self) -> list[float]:
        values = [mark.value for mark in self._marks]
        low, high = min(values), max(values)
        span, room = (high - low) or 1.0, self.width() - 2 * 80.0
        if high == low:
            return [self.width() / 2] * len(values)
        return [80.0 + room * (value - low) / span for value in values]

    def _labels(self, indices: Sequence[float]) -> tuple[list[float], list[float]]:
        """The centre and the maximum width of each label."""
        metrics = QFontMetricsF(face(Face.CAPTION_STRONG))
        widest = min(_WIDEST, self.width() / len(indices) - _GAP)
        widths = [
            min(max(metrics.horizontalAdvance(mark.title) + 4, 3.5 * self._line), widest)
            for mark in self._marks
        ]
        found = list(indices)
        for n in range(1, len(found)):  # moved right as far as needed
            least = found[n - 1] + (widths[n - 1] + widths[n]) / 2 + _GAP
            found[n] = max(found[n], least)
        limit = float(self.width())
        for n in reversed(range(len(found))):  # and back from the edge
            found[n] = min(found[n], limit - widths[n] / 2)
            limit = found[n] - widths[n] / 2 - _GAP
        return found, widths
