"""How sure a model is of each label, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.labels.written import write
from ace_gui.gui.words import local, tr

MOST: Final = 6
"""Labels that are shown."""
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_BAR: Final = 6.0  # px high
_NAME: Final = 0.36  # of the width


class ShareBars(QWidget):
    """The likeliest labels, the first of them in strong."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shares: tuple[tuple[str, float], ...] = ()
        self._colour = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_shares(self, shares: Sequence[tuple[str, float]], colour: str) -> None:
        """Show these, largest first, in one colour."""
        self._shares, self._colour = tuple(shares[:MOST]), colour
        told = ", ".join(f"{label} {_percent(share)}" for label, share in self._shares)
        self.setAccessibleName(told or tr("no answer yet"))
        self.setToolTip(told)
        self.updateGeometry()
        self.update()

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """What is shown."""
        return self._shares

    def sizeHint(self) -> QSize:
        return QSize(180, round(self._line * max(len(self._shares), 1)))

    @property
    def _line(self) -> float:
        return 1.6 * QFontMetricsF(face(Face.BODY)).height()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        number = QFontMetricsF(face(Face.STRONG)).horizontalAdvance("100.0 %") + 6
        for place, (label, share) in enumerate(self._shares):
            row = QRectF(0, place * self._line, self.width(), self._line)
            name = QRectF(row.left(), row.top(), _NAME * row.width(), row.height())
            font, ink = (Face.STRONG, theme.text) if place == 0 else (Face.BODY, theme.text2)
            write(painter, name, label, face(font), ink)
            track = QRectF(name.right() + 8, 0, row.right() - number - name.right() - 12, _BAR)
            track.moveTop(row.center().y() - _BAR / 2)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.sunk))
            painter.drawRoundedRect(track, 3, 3)
            painter.setBrush(QColor(self._colour or theme.merged))
            done = QRectF(track.left(), track.top(), track.width() * share, _BAR)
            painter.drawRoundedRect(done, 3, 3)
            rest = QRectF(row.right() - number, row.top(), number, row.height())
            write(painter, rest, _percent(share), face(font), ink, align=_RIGHT)


def _percent(share: float) -> str:
    return local(f"{100 * share:.1f} %")
