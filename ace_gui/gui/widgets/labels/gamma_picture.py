"""What γ means, as one sentence and a picture of two spectra."""

from __future__ import annotations

from math import exp, log10
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import write

GAMMA: Final = (
    "γ measures how unequally the experts changed a matrix: slightly at the left, strongly "
    "at the right."
)
_POINTS: Final = 24
_CASES: Final = (
    ("small γ", (1.6, 1.0, 0.6)),
    ("large γ", (3.0, 0.12, 0.05)),
)
"""A title, and the largest singular value of each expert's change."""
_RANGE: Final = (-3.0, 0.6)  # log10 of the singular values


class GammaPicture(QWidget):
    """Singular values of three experts' changes: for a small γ at the left, a large one at the
    right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(", ".join(title for title, _ in _CASES))
        self.setMinimumHeight(self.sizeHint().height())

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        return QSize(18 * line, 6 * line)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line, half = self.fontMetrics().height(), self.width() / 2
        for index, (title, largest) in enumerate(_CASES):
            area = QRectF(index * half, 0, half - line / 2, self.height())
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.card))
            painter.drawRoundedRect(area, 6, 6)
            inside = area.adjusted(8, 4, -8, -8)
            above = QRectF(inside.left(), inside.top(), inside.width(), line)
            write(painter, above, title, face(Face.CAPTION), theme.text2)
            curves = inside.adjusted(0, line + 4, 0, 0)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            for expert, value in enumerate(largest):
                painter.setPen(QPen(QColor(theme.expert_colour(expert)), 1.8))
                painter.drawPath(_spectrum(curves, value))


def _spectrum(area: QRectF, largest: float) -> QPainterPath:
    """Falling singular values on a logarithmic axis."""
    low, high = _RANGE
    path = QPainterPath()
    for index in range(_POINTS):
        share = index / (_POINTS - 1)
        value = log10(largest * exp(-3 * share**0.7))
        height = (value - low) / (high - low)
        point = QPointF(area.left() + share * area.width(), area.bottom() - height * area.height())
        path.lineTo(point) if index else path.moveTo(point)
    return path
