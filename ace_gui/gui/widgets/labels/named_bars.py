"""A few figures as bars, each with its name at the left and its number at the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import paint_share, write

_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_BAR: Final = 6.0  # px: height
_NAME: Final = 0.5  # maximum part of the width


class Bar(NamedTuple):
    """``share``: of the track, 0 to 1. ``strong``: highlighted."""

    title: str
    share: float
    text: str
    strong: bool = False


class NamedBars(QWidget):
    """Bars of one colour; without one, in grey and the strong one in the merge's colour."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bars: tuple[Bar, ...] = ()
        self._colour = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_bars(self, bars: Sequence[Bar], colour: str = "") -> None:
        """Show these bars from top to bottom."""
        self._bars, self._colour = tuple(bars), colour
        bars_text = ", ".join(f"{bar.title} {bar.text}" for bar in self._bars)
        self.setAccessibleName(bars_text)
        self.setToolTip(bars_text)
        self.updateGeometry()
        self.update()

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The bars shown."""
        return self._bars

    def sizeHint(self) -> QSize:
        return QSize(180, round(self._line * max(len(self._bars), 1)))

    @property
    def _line(self) -> float:
        return 1.6 * QFontMetricsF(face(Face.BODY)).height()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        strong = QFontMetricsF(face(Face.STRONG))
        names = max((strong.horizontalAdvance(bar.title) for bar in self._bars), default=0.0) + 8
        names = min(names, _NAME * self.width())
        number = max((strong.horizontalAdvance(bar.text) for bar in self._bars), default=0.0) + 6
        # closer if the height is small
        line = min(self._line, self.height() / max(len(self._bars), 1))
        for index, bar in enumerate(self._bars):
            row = QRectF(0, index * line, self.width(), line)
            name = QRectF(row.left(), row.top(), names, row.height())
            font = face(Face.STRONG if bar.strong else Face.BODY)
            ink = theme.text if bar.strong else theme.text2
            write(painter, name, bar.title, font, ink)
            track = QRectF(name.right() + 8, 0, row.right() - number - name.right() - 12, _BAR)
            track.moveTop(row.center().y() - _BAR / 2)
            own = self._colour or (theme.merged if bar.strong else theme.base)
            paint_share(painter, track, bar.share, own, theme.sunk)
            rest = QRectF(row.right() - number, row.top(), number, row.height())
            write(painter, rest, bar.text, font, ink, align=_RIGHT)
