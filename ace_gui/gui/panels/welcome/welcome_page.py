"""The welcome page: how to start, recent projects, and the sample for new users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QSizePolicy, QWidget

from ace_gui.formatting import duration
from ace_gui.gui.panels.welcome.recent_column import RecentColumn
from ace_gui.gui.panels.welcome.sample_card import SampleCard
from ace_gui.gui.text import plain
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.drawn_controls import scale
from ace_gui.gui.theme.painting import write
from ace_gui.gui.widgets.labels import heading, plain_label, secondary_label
from ace_gui.gui.widgets.layout import across, down, pane, scroll_area

_WIDEST: Final = 1408  # px
# minimum width in text lines for this number of columns
_COLUMNS: Final = ((67, 3), (46, 2), (0, 1))
_WHAT: Final = "Merge fine-tuned models into one, and see the result layer by layer."
_OPENING: Final = "Reading the headers of the files … File ▸ Stop opening cancels it."


class WelcomePanel(QWidget):
    """``starts``, ``recent`` and ``sample``, next to each other."""

    def __init__(
        self, starts: Sequence[Start], sample: QAction, tutorial: QAction, clean_up: QAction
    ) -> None:
        super().__init__()
        self._columns = QGridLayout()
        self._columns.setHorizontalSpacing(32)
        self._columns.setVerticalSpacing(32)
        self.starts = StartColumn(starts)
        self.recent = RecentColumn(clean_up)
        self.sample = SampleCard(sample, tutorial)
        self._seconds = 0
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self._count)
        title = plain_label("ACE Workbench", wrap=False)
        title.setFont(face(Face.DISPLAY))
        self.subtitle = secondary_label(_WHAT)
        parts = (title, self.subtitle, 32, self._columns)
        inner = pane(down(*parts, margins=(32, 0, 32, 32), gap=0))
        inner.setMaximumWidth(_WIDEST)
        # slightly above the centre; it scrolls if there is little room
        page = pane(down(None, None, across(None, (inner, 100), None), None, None, None))
        self.setLayout(down(scroll_area("Welcome", page, tabs=False)))
        self._shown = 0
        self._arrange(3)

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


_SIGN: Final = 18  # px, at normal font size


class Start(NamedTuple):
    """A way to start: the action, its icon, and a line that describes it."""

    action: QAction
    picture: str
    line: str


class StartColumn(QWidget):
    """``starts``: the first is the main one."""

    def __init__(self, starts: Sequence[Start]) -> None:
        super().__init__()
        self._buttons = {
            start.action: StartButton(start, first=index == 0) for index, start in enumerate(starts)
        }
        buttons = self._buttons.values()
        self.setLayout(down(heading("Start"), 4, *buttons, 8, DropZone(), None))

    def say(self, action: QAction, line: str) -> None:
        self._buttons[action].say(line)


class StartButton(QPushButton):
    """A way to start, in two lines with an icon; the first button is filled."""

    def __init__(self, start: Start, *, first: bool) -> None:
        super().__init__()
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
        above = QRectF(self.rect()).adjusted(30 + _sign(), 9, -10, -9)
        above.setHeight(above.height() / 2)
        ink = getattr(theme, self._token) if self.isEnabled() else theme.text3
        write(painter, above, self._title, face(Face.STRONG), ink)
        quiet = theme.text2 if self.isEnabled() and self._token == "text" else ink
        below = above.translated(0, above.height())
        write(painter, below, self.line, face(Face.CAPTION), quiet)


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
