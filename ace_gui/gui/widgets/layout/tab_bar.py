"""Tabs that stay visible if there is little room."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPaintEvent
from PySide6.QtWidgets import (
    QStyle,
    QStyleOptionTabBarBase,
    QStylePainter,
    QTabBar,
    QWidget,
)

from ace_gui.gui.theme import current_theme

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
        painter = QStylePainter(self)
        self._paint_base(painter)
        current = self.currentIndex()
        others = [index for index in self._seen() if index != current]
        for index in (*others, current) if current >= 0 else others:
            self._paint_tab(painter, index)

    def _paint_tab(self, painter: QStylePainter, index: int) -> None:
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

    def _paint_base(self, painter: QStylePainter) -> None:
        option = QStyleOptionTabBarBase()
        option.initFrom(self)
        option.shape = self.shape()
        option.documentMode = self.documentMode()
        option.rect = QRect(0, self.height() - 2, self.width(), 2)
        option.tabBarRect = self.rect()
        option.selectedTabRect = self.tabRect(self.currentIndex())
        painter.drawPrimitive(QStyle.PrimitiveElement.PE_FrameTabBarBase, option)

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
