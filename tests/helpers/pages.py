"""Reading a page of HTML as a program does: its elements and its tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class ReadTable:
    """A table's headings and cells as text."""

    caption: str = ""
    headings: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    def column(self, heading: str) -> dict[str, str]:
        """The cells under a heading by the first cell of their row."""
        index = self.headings.index(heading)
        return {row[0]: row[index] for row in self.rows}


class Page(HTMLParser):
    """Every start tag with its attributes, the tables, and all the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.tables: list[ReadTable] = []
        self.text = ""
        self._open: list[str] = []
        self._head = False
        self.feed(text)
        self.close()

    def table(self, caption: str) -> ReadTable:
        """The first table whose caption begins so."""
        return next(table for table in self.tables if table.caption.startswith(caption))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag == "table":
            self.tables.append(ReadTable())
        elif tag == "thead":
            self._head = True
        elif tag == "tr" and not self._head:
            self.tables[-1].rows.append([])
        elif tag in {"td", "th"}:
            (self.tables[-1].headings if self._head else self.tables[-1].rows[-1]).append("")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:  # void elements have no end
            while self._open.pop() != tag:
                pass
        if tag == "thead":
            self._head = False

    def handle_data(self, data: str) -> None:
        self.text += data
        inside = self._open[-1] if self._open else ""
        if inside == "caption":
            self.tables[-1].caption += data
        elif inside in {"td", "th"}:
            cells = self.tables[-1].headings if self._head else self.tables[-1].rows[-1]
            cells[-1] += data
