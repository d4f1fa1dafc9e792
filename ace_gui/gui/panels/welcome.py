"""The first page: how to begin, what was open lately, and the sample for who is new."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from PySide6.QtCore import QDate, QDateTime, QLocale, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ace_gui.gui.numbers import human_bytes
from ace_gui.gui.text import plain, short_name, tooltip
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.widgets.fields.buttons import action_button
from ace_gui.gui.widgets.labels.plain_label import (
    ElidedLabel,
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout.arrangement import FlowLayout, clear_layout
from ace_gui.gui.words import later, tr

RECENT_SHOWN: Final = 5
_WIDEST: Final = 1344  # px
_NARROW: Final = 1080  # px: below it the sample stands under the recent projects
_PADDING: Final = 16
_WHAT: Final = later("Merge fine-tuned models into one, and see layer by layer what came of it.")
_SAMPLE: Final = later(
    "A vision transformer of 72 tensors and five models fine-tuned from it. Merges in a few "
    "seconds; nothing is downloaded."
)


class Start(NamedTuple):
    """A way to begin: the action, its icon, and a line of what it takes."""

    action: QAction
    picture: str
    line: str


class WelcomePanel(QWidget):
    """``recent_chosen`` carries a path."""

    recent_chosen = Signal(object)

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
        self._start = _start_column(starts)
        self._recent_title = heading(tr("Recent projects"))
        self._recent = QVBoxLayout()
        self._recent.setSpacing(0)
        self._kept = muted_label("", self)
        self._clean_up = action_button(clean_up, tr("Clean up…"), self, kind="link")
        self._recent_column = self._make_recent()
        self.show_kept(0)
        self._sample = _sample_card(sample, tutorial)
        self._lay_out()
        self._wide: bool | None = None
        self._arrange(wide=True)

    def _lay_out(self) -> None:
        """In the middle, above the middle, and scrolled where there is little room."""
        page = QWidget()
        inner = QWidget(page)
        inner.setMaximumWidth(_WIDEST)
        column = QVBoxLayout(inner)
        column.setContentsMargins(32, 0, 32, 32)
        title = plain_label("ACE workbench", inner, wrap=False)
        title.setFont(face(Face.DISPLAY))
        column.addWidget(title)
        column.addWidget(secondary_label(tr(_WHAT), inner))
        column.addSpacing(32)
        column.addLayout(self._columns)
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(inner, 100)
        across.addStretch(1)
        whole = QVBoxLayout(page)
        whole.addStretch(2)
        whole.addLayout(across)
        whole.addStretch(3)
        area = QScrollArea(self)
        area.setAccessibleName(tr("Welcome"))
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidgetResizable(True)
        area.setWidget(page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(area)

    def set_recent(self, paths: Sequence[Path]) -> None:
        """Offer what was opened lately."""
        clear_layout(self._recent)
        for place, path in enumerate(paths[:RECENT_SHOWN]):
            row = RecentRow(path, first=place == 0)
            row.clicked.connect(lambda _=False, path=path: self.recent_chosen.emit(path))
            self._recent.addWidget(row)
        if not paths:
            self._recent.addWidget(secondary_label(tr("What you open appears here."), self))

    def show_kept(self, size: int) -> None:
        """How many bytes finished merges take, with the way to remove some."""
        self._kept.setText(tr("Kept runs use {size} on this disk", size=human_bytes(size)))
        for widget in (self._kept, self._clean_up):
            widget.setVisible(size > 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange(wide=event.size().width() >= _NARROW)

    def _make_recent(self) -> QWidget:
        column = QWidget()
        card = QFrame(column)
        card.setProperty("kind", "card")
        card.setLayout(self._recent)
        self._recent.setContentsMargins(_PADDING, 4, _PADDING, 4)
        layout = QVBoxLayout(column)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        layout.addWidget(self._recent_title)
        layout.addWidget(card)
        below = QHBoxLayout()
        below.setContentsMargins(_PADDING, 0, _PADDING, 0)
        below.addWidget(self._kept, 1)
        below.addWidget(self._clean_up)
        layout.addLayout(below)
        layout.addStretch(1)
        return column

    def _arrange(self, *, wide: bool) -> None:
        """Three columns, or the sample under the first two."""
        if wide == self._wide:
            return
        self._wide = wide
        for part in (self._start, self._recent_column, self._sample):
            self._columns.removeWidget(part)
        self._columns.addWidget(self._start, 0, 0)
        self._columns.addWidget(self._recent_column, 0, 1)
        if wide:
            self._columns.addWidget(self._sample, 0, 2)
        else:
            self._columns.addWidget(self._sample, 1, 0, 1, 2)
        for place, stretch in enumerate((5, 9, 7 if wide else 0)):
            self._columns.setColumnStretch(place, stretch)


class StartButton(QPushButton):
    """A way to begin, in two lines beside an icon; the first of them is filled."""

    def __init__(self, start: Start, *, first: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._token = "on_accent" if first else "text"
        self.setProperty("kind", "primary" if first else "start")
        self.setAutoDefault(first)
        title = start.action.text().replace("&", "")
        self.setAccessibleName(title.removesuffix("…"))
        self.setAccessibleDescription(start.line)
        self._title, self._line = title, start.line
        self._picture = icon(start.picture, self._token)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setEnabled(start.action.isEnabled())
        start.action.enabledChanged.connect(self.setEnabled)
        self.clicked.connect(start.action.trigger)

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        wide = self.fontMetrics().horizontalAdvance(self._line)
        return QSize(wide + 64, round(2.4 * line) + 18)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        theme, painter = current_theme(), QPainter(self)
        mark = self.rect().adjusted(16, 0, 0, 0)
        mark.setWidth(18)
        self._picture.paint(painter, mark)
        room = QRectF(self.rect()).adjusted(48, 9, -10, -9)
        half = room.height() / 2
        ink = QColor(getattr(theme, self._token) if self.isEnabled() else theme.text3)
        painter.setPen(ink)
        painter.setFont(face(Face.STRONG))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(room.left(), room.top(), room.width(), half), middle, self._title)
        painter.setFont(face(Face.CAPTION))
        quiet = QColor(theme.text2 if self.isEnabled() else theme.text3)
        painter.setPen(ink if self._token == "on_accent" else quiet)
        below = QRectF(room.left(), room.top() + half, room.width(), half)
        painter.drawText(below, middle, self._line)


class DropZone(QLabel):
    """Says that things may be dropped; they may be anywhere in the window."""

    def __init__(self) -> None:
        super().__init__(tr("Drop folders, models or a recipe\nanywhere in this window"))
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


class RecentRow(QToolButton):
    """A project: its name, its folder, and when it was written last."""

    def __init__(self, path: Path, *, first: bool) -> None:
        super().__init__()
        self.setProperty("kind", "row" if first else "next-row")
        self.setAccessibleName(tr("Open {path}", path=plain(str(path))))
        self.setToolTip(tooltip(tr("Open {path}", path=path)))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        name = plain_label(short_name(path), self, wrap=False)
        name.setFont(face(Face.STRONG))
        folder = ElidedLabel(self)
        folder.setProperty("kind", "caption")
        folder.setFont(face(Face.CAPTION))
        folder.set_full_text(str(path.parent))
        when = secondary_label(_last_written(path), self)
        when.setWordWrap(False)
        names = QVBoxLayout()
        names.setSpacing(2)
        names.addWidget(name)
        names.addWidget(folder)
        row = QHBoxLayout(self)
        row.setContentsMargins(4, 10, 4, 10)
        row.addLayout(names, 1)
        row.addWidget(when)
        for label in (name, folder, when):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def sizeHint(self) -> QSize:
        layout = self.layout()
        return layout.sizeHint() if layout is not None else super().sizeHint()


def _last_written(path: Path) -> str:
    """``today 03:10``, ``18 November``; where it is gone, that."""
    try:
        when = QDateTime.fromSecsSinceEpoch(int(path.stat().st_mtime))
    except OSError:
        return tr("not found")
    locale = QLocale()
    if when.date() == QDate.currentDate():
        return tr(
            "today {time}",
            time=locale.toString(when.time(), QLocale.FormatType.ShortFormat),
        )
    return locale.toString(when.date(), tr("d MMMM yyyy"))


def _start_column(starts: Sequence[Start]) -> QWidget:
    column = QWidget()
    layout = QVBoxLayout(column)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(8)
    layout.addWidget(heading(tr("Start"), column))
    layout.addSpacing(4)
    for place, start in enumerate(starts):
        layout.addWidget(StartButton(start, first=place == 0))
    layout.addSpacing(8)
    layout.addWidget(DropZone())
    layout.addStretch(1)
    return column


def _sample_card(sample: QAction, tutorial: QAction) -> QWidget:
    column = QWidget()
    card = QFrame(column)
    card.setProperty("kind", "card")
    inside = QVBoxLayout(card)
    inside.setContentsMargins(_PADDING, _PADDING, _PADDING, _PADDING)
    inside.setSpacing(8)
    title = plain_label(tr("The sample: five experts, one small model"), card)
    title.setFont(face(Face.HEADING))
    inside.addWidget(title)
    inside.addWidget(secondary_label(tr(_SAMPLE), card))
    inside.addSpacing(4)
    begin = action_button(sample, tr("Open the sample"), card, kind="tinted")
    begin.setIcon(icon("play", "accent_on_tint"))
    learn = action_button(tutorial, tr("Take the tutorial"), card, kind="ghost")
    below = FlowLayout(spacing=4)
    below.addWidget(begin)
    below.addWidget(learn)
    inside.addLayout(below)
    layout = QVBoxLayout(column)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(12)
    layout.addWidget(heading(tr("New here?"), column))
    layout.addWidget(card)
    layout.addWidget(muted_label("", column), 1)
    return column
