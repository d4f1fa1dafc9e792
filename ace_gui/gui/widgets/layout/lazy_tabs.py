"""Tabs whose contents are made when they are first looked at, so that a window opens at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from ace_gui.gui.widgets.layout.arrangement import tab_through
from ace_gui.gui.widgets.layout.idle_queue import IdleQueue
from ace_gui.gui.widgets.layout.tab_bar import FittingTabBar


class LazyTabs(QTabWidget):
    """``made`` carries a content that has just been made and put in its place.

    A tab that is turned to for the first time is empty for a moment: making its content, and
    filling and showing it, are turns of the event loop of their own.
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

    def add(self, title: str, tip: str, make: Callable[[], QWidget], *, short: str = "") -> int:
        """One more tab, the first of them made at once; its index.

        ``short``: its title where there is little room.
        """
        position = QWidget(self)
        room = QVBoxLayout(position)
        room.setContentsMargins(0, 0, 0, 0)
        self._makers.append(make)
        self._rooms.append(room)
        index = self.addTab(position, title)
        self.setTabToolTip(index, tip)
        if short:
            self.bar.set_short_title(index, short)
        if index == 0:
            self.content(index)
        return index

    def content(self, index: int) -> QWidget:
        """The content of a tab, made now if it never was."""
        if index not in self._contents:
            content = self._new.pop(index, None) or self._makers[index]()
            self._contents[index] = content
            self._rooms[index].addWidget(content)
            tab_through(self.bar, content)
            self.made.emit(content)
        return self._contents[index]

    @property
    def current(self) -> QWidget:
        """The content that is shown, made now if it never was."""
        return self.content(self.currentIndex())

    @property
    def shown(self) -> QWidget | None:
        """The content that is shown; None where it is still to be made."""
        return self._contents.get(self.currentIndex())

    def contents(self) -> Iterator[QWidget]:
        """The contents that have been made."""
        yield from tuple(self._contents.values())

    def set_corner(self, widget: QWidget) -> None:
        """Put a control at the right end of the tabs' row."""
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
