"""Widgets and tabs that work only while they are visible, and a queue for pieces of work."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

from PySide6.QtCore import QObject, QSize, Qt, QTimer, SignalInstance
from PySide6.QtGui import QFont, QFontMetrics, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QTabBar, QTabWidget, QVBoxLayout, QWidget

from ace_gui.gui.theme import change_kind
from ace_gui.gui.theme.style import tab_space
from ace_gui.gui.widgets.layout import down, pane


class Following(QWidget):
    """Calls ``refresh`` when it is shown and, while it is visible, after the signals it follows.

    ``delay``: at most one refresh in so many ms; 0: at once.
    """

    delay = 0

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stale = True
        self._timer = QTimer(self, singleShot=True, interval=self.delay)
        self._timer.timeout.connect(self._update)

    def follow(self, *signals: SignalInstance) -> None:
        """Refresh after each of these signals."""
        for signal in signals:
            signal.connect(self.plan_refresh)

    def plan_refresh(self, *_: object) -> None:
        """Refresh now or after the delay, or when the widget is shown."""
        self._stale = True
        if not self.isVisible():
            return
        if not self.delay:
            self._update()
        elif not self._timer.isActive():
            self._timer.start()

    def refresh(self) -> None:
        raise NotImplementedError

    def _update(self) -> None:
        self._stale = False
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale:
            self._update()


class IdleQueue(QObject):
    """Runs pieces of work one after another, each in its own turn of the event loop.

    ``QTimer.singleShot(0, …)`` does not work: it posts an event, and posted events are handled in
    the same turn, together with layout and repaint. A timer of 0 ms does not work either: it is
    always the first of the due timers, so the others wait for two pieces.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pieces: Generator[None, None, None] | None = None
        self._timer = QTimer(self, interval=1)
        self._timer.timeout.connect(self._go_on)

    def run(self, pieces: Generator[None, None, None]) -> None:
        """Run up to the first ``yield`` now and the rest one piece per turn; drop other work."""
        self.stop()
        self._pieces = pieces
        self._timer.start()
        self._go_on()

    def stop(self) -> None:
        """Drop the remaining work."""
        self._timer.stop()
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None

    def _go_on(self) -> None:
        assert self._pieces is not None
        try:
            next(self._pieces)
        except StopIteration:
            self.stop()
        except BaseException:
            self.stop()
            raise


_SMALLER: Final = 0.85  # of the font size
_NO_LIMIT: Final = 16_777_215  # Qt's maximum size


class _FittingTabBar(QTabBar):
    """If not all titles fit, it uses smaller gaps, then a smaller font, then elides the titles."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._parent = parent
        self._room = 0
        self.setUsesScrollButtons(False)
        self.setExpanding(False)
        self.setElideMode(Qt.TextElideMode.ElideRight)

    def fit(self, room: int) -> None:
        """Fit the tabs into ``room`` pixels."""
        self._room = room
        font = QFont(self._parent.font())
        if self._needed(QFontMetrics(font), "") > room:
            tight = "tight"
        else:
            tight = ""
        if tight and self._needed(QFontMetrics(font), tight) > room:
            font.setPointSizeF(font.pointSizeF() * _SMALLER)
        change_kind(self, tight)
        self.setFont(font)

    def tabLayoutChange(self) -> None:
        """A title or an icon has changed, or a tab was added."""
        super().tabLayoutChange()
        if self._room:
            self.fit(self._room)

    def minimumTabSizeHint(self, index: int) -> QSize:
        return QSize(0, super().minimumTabSizeHint(index).height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def _needed(self, metrics: QFontMetrics, kind: str) -> int:
        """The width of all tabs with the gaps of this kind of bar."""
        visible = [index for index in range(self.count()) if self.isTabVisible(index)]
        icons = sum(self.iconSize().width() + 4 for i in visible if not self.tabIcon(i).isNull())
        words = sum(metrics.horizontalAdvance(self.tabText(index)) for index in visible)
        return icons + words + len(visible) * tab_space(kind)


class LazyTabs(QTabWidget):
    """Tabs whose content is created when they are first shown.

    A tab shown for the first time is empty for a moment: creating, filling and showing its content
    are separate turns of the event loop.
    """

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._makers: list[Callable[[], QWidget]] = []
        self._rooms: list[QVBoxLayout] = []
        self._new: dict[int, QWidget] = {}
        self._contents: dict[int, QWidget] = {}
        self._turns = IdleQueue(self)
        self.bar = _FittingTabBar(self)
        self.setTabBar(self.bar)
        self.setAccessibleName(name)
        self.setDocumentMode(True)
        self.currentChanged.connect(lambda index: self._turns.run(self._make(index)))

    def add(self, title: str, tip: str, make: Callable[[], QWidget]) -> int:
        """Append a tab and return its index. The first tab's content is created at once."""
        room = down()
        self._makers.append(make)
        self._rooms.append(room)
        index = self.addTab(pane(room), title)
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
            content.show()  # in this turn of the event loop
        return self._contents[index]

    @property
    def current(self) -> QWidget:
        """The current content, created if necessary."""
        return self.content(self.currentIndex())

    def contents(self) -> Iterator[QWidget]:
        """The contents created so far."""
        yield from tuple(self._contents.values())

    def fold(self, folded: bool) -> None:
        """Show the titles alone, or with the current content."""
        pages = self.findChild(QStackedWidget)
        assert pages is not None
        pages.setVisible(not folded)
        self.setMaximumHeight(self.bar.sizeHint().height() if folded else _NO_LIMIT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        corner = self.cornerWidget(Qt.Corner.TopRightCorner)
        reserved = 0 if corner is None else corner.sizeHint().width()
        self.bar.fit(event.size().width() - reserved)
        super().resizeEvent(event)

    def _make(self, index: int) -> Generator[None, None, None]:
        if index < 0 or index in self._contents:
            return
        yield
        if index not in self._new | self._contents:
            self._new[index] = self._makers[index]()
            yield
        self.content(index)
