"""Tabs that stay visible if there is little room, with contents created on first use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QTabBar,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from ace_gui.gui.theme import current_theme
from ace_gui.gui.widgets.layout.arrangement import tab_through
from ace_gui.gui.widgets.layout.idle_queue import IdleQueue

_PADDING: Final = 1  # px: minimum margin of a tight tab's title
_MOST_MORE: Final = 12  # px added to a tight tab if there is room for all
_LINE: Final = 2  # px: line below the current tab
_SMALLER: Final = 0.85  # of the font size


class FittingTabBar(QTabBar):
    """Reduces the margins and leaves out icons so that every tab is visible with its whole title.

    ``fit`` is called with the available width. If that is still too small, the longest titles are
    elided and shorter ones stay complete.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tight = False
        self._room = 0
        self._small = QFontMetrics(self._small_font())
        self.setUsesScrollButtons(False)
        self.setExpanding(False)

    def changeEvent(self, event: QEvent) -> None:
        """Measure all titles once, because Qt asks for them repeatedly."""
        if event.type() == QEvent.Type.FontChange:
            self._small = QFontMetrics(self._small_font())
        super().changeEvent(event)

    def fit(self, room: int) -> None:
        """Fit the tabs into ``room`` pixels."""
        tight = self._width(tight=False) > room
        follows = tight and room != self._room
        anew, self._room, self._tight = follows or tight != self._tight, room, tight
        if anew:
            self.setElideMode(Qt.TextElideMode.ElideRight)  # triggers the layout of the tabs

    def tabLayoutChange(self) -> None:
        """A title or an icon has changed, or a tab was added."""
        super().tabLayoutChange()
        if self._room and (self._width(tight=False) > self._room) != self._tight:
            self.fit(self._room)

    def tabSizeHint(self, index: int) -> QSize:
        usual = super().tabSizeHint(index)
        if not self._tight:
            return usual
        width = min(self._tab_width(index, tight=True), self._widest())
        left = self._room - self._width(tight=True)
        more = min(_MOST_MORE, max(0, left) // max(1, len(self._seen())))
        return QSize(width + more, usual.height())

    def minimumTabSizeHint(self, index: int) -> QSize:
        return self.tabSizeHint(index)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._tight:
            super().paintEvent(event)
            return
        painter = QPainter(self)
        current = self.currentIndex()
        others = [index for index in self._seen() if index != current]
        for index in (*others, current) if current >= 0 else others:
            self._paint_tab(painter, index)

    def _paint_tab(self, painter: QPainter, index: int) -> None:
        rect = self.tabRect(index).adjusted(_PADDING, 0, -_PADDING, 0)
        painter.setFont(self._small_font())
        theme, chosen = current_theme(), index == self.currentIndex()
        painter.setPen(QColor(theme.text if chosen else theme.text2))
        title, elide = self.tabText(index), Qt.TextElideMode.ElideRight
        text = painter.fontMetrics().elidedText(title, elide, rect.width() + 1)
        painter.drawText(rect.adjusted(0, 0, 1, 0), Qt.AlignmentFlag.AlignCenter, text)
        if chosen:
            line = QRect(rect.left(), rect.bottom() - _LINE + 1, rect.width(), _LINE)
            painter.fillRect(line, QColor(theme.accent))
        if self.hasFocus() and chosen:
            painter.setPen(QColor(theme.accent))
            painter.drawRoundedRect(self.tabRect(index).adjusted(2, 3, -3, -3), 2, 2)

    def _small_font(self) -> QFont:
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * _SMALLER)
        return font

    def _tab_width(self, index: int, *, tight: bool) -> int:
        if not tight:
            return super().tabSizeHint(index).width()
        return self._small.horizontalAdvance(self.tabText(index)) + 2 * _PADDING

    def _widest(self) -> int:
        """The maximum tab width at which all tabs fit."""
        left, count = self._room, len(self._seen())
        for width in sorted(self._tab_width(index, tight=True) for index in self._seen()):
            if width * count > left:
                break
            left, count = left - width, count - 1
        else:
            return self._room
        return left // count

    def _width(self, *, tight: bool) -> int:
        return sum(self._tab_width(index, tight=tight) for index in self._seen())

    def _seen(self) -> list[int]:
        return [index for index in range(self.count()) if self.isTabVisible(index)]


class LazyTabs(QTabWidget):
    """``made`` carries a newly created content.

    A tab shown for the first time is empty for a moment: creating, filling and showing its content
    are separate turns of the event loop.
    """

    made = Signal(QWidget)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._makers: list[Callable[[], QWidget]] = []
        self._rooms: list[QVBoxLayout] = []
        self._new: dict[int, QWidget] = {}
        self._contents: dict[int, QWidget] = {}
        self._turns = IdleQueue(self)
        self.bar = FittingTabBar(self)
        self.setTabBar(self.bar)
        self.setAccessibleName(name)
        self.setDocumentMode(True)
        self.currentChanged.connect(lambda index: self._turns.run(self._make(index)))

    def add(self, title: str, tip: str, make: Callable[[], QWidget]) -> int:
        """Append a tab and return its index. The first tab's content is created at once."""
        position = QWidget(self)
        room = QVBoxLayout(position)
        room.setContentsMargins(0, 0, 0, 0)
        self._makers.append(make)
        self._rooms.append(room)
        index = self.addTab(position, title)
        self.setTabToolTip(index, tip)
        if index == 0:
            self.content(index)
        return index

    def content(self, index: int) -> QWidget:
        """The content of a tab, created if necessary."""
        if index not in self._contents:
            content = self._new.pop(index, None) or self._makers[index]()
            self._contents[index] = content
            self._rooms[index].addWidget(content)
            tab_through(self.bar, content)
            self.made.emit(content)
        return self._contents[index]

    @property
    def current(self) -> QWidget:
        """The current content, created if necessary."""
        return self.content(self.currentIndex())

    @property
    def shown(self) -> QWidget | None:
        """The current content; None if it is not created yet."""
        return self._contents.get(self.currentIndex())

    def contents(self) -> Iterator[QWidget]:
        """The contents created so far."""
        yield from tuple(self._contents.values())

    def set_corner(self, widget: QWidget) -> None:
        """Put a control at the right end of the tab bar."""
        self.setCornerWidget(widget, Qt.Corner.TopRightCorner)

    def resizeEvent(self, event: QResizeEvent) -> None:
        corner = self.cornerWidget(Qt.Corner.TopRightCorner)
        taken = 0 if corner is None else corner.sizeHint().width()
        self.bar.fit(event.size().width() - taken)
        super().resizeEvent(event)

    def _make(self, index: int) -> Generator[None, None, None]:
        if index < 0 or index in self._contents:
            return
        yield
        if index not in self._new | self._contents:
            self._new[index] = self._makers[index]()
            yield
        self.content(index)
