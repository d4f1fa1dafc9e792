"""The messages of the engine and the window, kept while the window is open."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from PySide6.QtCore import QObject, Signal

KEPT: Final = 2000
"""Maximum number of entries."""


class Level(IntEnum):
    """Severity of an entry."""

    DETAIL = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def title(self) -> str:
        return _TITLES[self]


_TITLES: Final = ("Detail", "Info", "Warning", "Error")


class Source(StrEnum):
    """The origin of an entry."""

    ENGINE = "Engine"
    WINDOW = "Window"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """``when``: seconds since 1970."""

    when: float
    level: Level
    source: Source
    text: str
    details: str = ""

    @property
    def line(self) -> str:
        """``18:20:05 Error Window: The file is gone.``, with the details below it."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.when))
        line = f"{clock} {self.level.title} {self.source}: {self.text}"
        return f"{line}\n{self.details}" if self.details else line


class Log(QObject):
    """``added`` carries each new Entry."""

    added = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: deque[Entry] = deque(maxlen=KEPT)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, oldest first."""
        return tuple(self._entries)

    def add(self, level: Level, source: Source, text: str, details: str = "") -> None:
        """Add a message, unless it repeats the previous one."""
        last = self._entries[-1] if self._entries else None
        if last is not None and (last.level, last.text) == (level, text):
            return
        entry = Entry(when=time.time(), level=level, source=source, text=text, details=details)
        self._entries.append(entry)
        self.added.emit(entry)
