"""The ways to start: one button each, and a drop zone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from ace_gui.gui.text import plain
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.drawn_marks import scale
from ace_gui.gui.widgets.labels.plain_label import heading
from ace_gui.gui.widgets.labels.written import write
from ace_gui.gui.widgets.layout.arrangement import down

_SIGN: Final = 18  # px, at normal font size


class Start(NamedTuple):
    """A way to start: the action, its icon, and a line that describes it."""

    action: QAction
    picture: str
    line: str


class StartColumn(QWidget):
    """``starts``: the first is the main one."""

    def __init__(self, starts: Sequence[Start], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._buttons = {
            start.action: StartButton(start, first=index == 0) for index, start in enumerate(starts)
        }
        buttons = self._buttons.values()
        self.setLayout(down(heading("Start", self), 4, *buttons, 8, DropZone(), None))

    def say(self, action: QAction, line: str) -> None:
        """Replace the line below an action."""
        self._buttons[action].say(line)


class StartButton(QPushButton):
    """A way to start, in two lines with an icon; the first button is filled."""

    def __init__(self, start: Start, *, first: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._token = "on_accent" if first else "text"
        self.setProperty("kind", "primary" if first else "start")
        self.setAutoDefault(first)
        self._title, self.line = start.action.text().replace("&", ""), ""
        self.setAccessibleName(self._title.removesuffix("…"))
        self._picture = icon(start.picture, self._token)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setEnabled(start.action.isEnabled())
        start.action.enabledChanged.connect(self.setEnabled)
        self.clicked.connect(start.action.trigger)
        self._usual = self.fontMetrics().horizontalAdvance(start.line)
        self.say(start.line)

    def say(self, line: str) -> None:
        """Show this text below the title; it is elided in the middle if too long."""
        self.line = plain(line)
        self.setAccessibleDescription(self.line)
        self.update()

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        return QSize(self._usual + 46 + _sign(), round(2.4 * line) + 18)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        theme, painter = current_theme(), QPainter(self)
        mark = self.rect().adjusted(16, 0, 0, 0)
        mark.setWidth(_sign())
        self._picture.paint(painter, mark)
        room = QRectF(self.rect()).adjusted(30 + _sign(), 9, -10, -9)
        half = room.height() / 2
        ink = getattr(theme, self._token) if self.isEnabled() else theme.text3
        above = QRectF(room.left(), room.top(), room.width(), half)
        write(painter, above, self._title, face(Face.STRONG), ink)
        quiet = theme.text2 if self.isEnabled() else theme.text3
        below = above.translated(0, half)
        filled = self._token == "on_accent"
        write(painter, below, self.line, face(Face.CAPTION), ink if filled else quiet)


def _sign() -> int:
    """Size in px of a button's icon."""
    return round(_SIGN * scale())


class DropZone(QLabel):
    """Shows that files can be dropped; they can be dropped anywhere in the window."""

    def __init__(self) -> None:
        super().__init__("Drop folders, models or a recipe\nanywhere in this window")
        self.setProperty("kind", "secondary")
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setMinimumHeight(112)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        pen = QPen(QColor(current_theme().control), 1.0, Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        painter.end()
        super().paintEvent(event)
