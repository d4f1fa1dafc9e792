"""Tabs whose contents are made when they are first looked at, so that a window opens at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget


class LazyTabs(QTabWidget):
    """``made`` carries a content that has just been made, before it is shown."""

    made = Signal(QWidget)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._makers: list[Callable[[], QWidget]] = []
        self._rooms: list[QVBoxLayout] = []
        self._contents: dict[int, QWidget] = {}
        self.setAccessibleName(name)
        self.setDocumentMode(True)
        self.currentChanged.connect(lambda index: self.content(index) if index >= 0 else None)

    def add(self, title: str, tip: str, make: Callable[[], QWidget]) -> int:
        """One more tab; the first is made at once. Its index."""
        place = QWidget(self)
        room = QVBoxLayout(place)
        room.setContentsMargins(0, 0, 0, 0)
        self._makers.append(make)
        self._rooms.append(room)
        index = self.addTab(place, title)
        self.setTabToolTip(index, tip)
        return index

    def content(self, index: int) -> QWidget:
        """The content of a tab, made now if it never was."""
        if index not in self._contents:
            content = self._contents[index] = self._makers[index]()
            self._rooms[index].addWidget(content)
            self.made.emit(content)
        return self._contents[index]

    @property
    def current(self) -> QWidget:
        """The content that is shown."""
        return self.content(self.currentIndex())

    def contents(self) -> Iterator[QWidget]:
        """The contents that have been made."""
        yield from tuple(self._contents.values())
