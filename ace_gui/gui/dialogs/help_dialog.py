"""The help pages: a list at the left, the page at the right."""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QShowEvent, QTextCursor
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QListWidget,
    QListWidgetItem,
    QTextBrowser,
    QWidget,
)

from ace_gui.gui.widgets.layout.arrangement import across, down
from ace_gui.paths import resource_path

PAGES = (
    "start",
    "walkthrough",
    "which-method",
    "ace",
    "recipes",
    "mergekit",
    "tasks",
    "data-methods",
    "modules",
    "command-line",
    "library",
    "reference",
    "cluster",
    "adapters",
    "limits",
    "glossary",
    "evidence",
    "sample",
    "results",
    "privacy",
    "decisions",
)
"""File names in the resources, in reading order."""

_LIST: Final = 13  # in text lines: width of the list of pages
_MARGIN: Final = 16  # px around a page
_OF_SCREEN: Final = 0.92


class HelpDialog(QDialog):
    """A window of its own. Links between pages open the page; others open a browser."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._term = ""
        self.setWindowTitle("Help")
        self.resize(QSize(900, 640).boundedTo(self.screen().availableSize() * _OF_SCREEN))
        self.pages = QListWidget(self)
        self.pages.setAccessibleName("Help pages")
        self.pages.setFixedWidth(_LIST * self.fontMetrics().height())
        self.pages.setWordWrap(True)
        self.pages.setSpacing(3)
        self.pages.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.text = QTextBrowser(self)
        self.text.setAccessibleName("Help page")
        self.text.setOpenLinks(False)
        self.text.document().setDocumentMargin(_MARGIN)
        for name in PAGES:
            text = page(name)
            item = QListWidgetItem(text.partition("\n")[0].removeprefix("# "), self.pages)
            item.setData(Qt.ItemDataRole.UserRole, name)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        columns = across(self.pages, (self.text, 1))
        self.setLayout(down((columns, 1), buttons, margins=(12, 12, 12, 12)))
        self.pages.currentItemChanged.connect(self._show_page)
        self.text.anchorClicked.connect(self._follow)
        self.pages.setCurrentRow(0)

    def open_page(self, name: str, term: str = "") -> None:
        """Open the page of this file name, and scroll to a heading."""
        self.pages.setCurrentRow(PAGES.index(name))
        self._term = term
        self._go_to_term()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._go_to_term()  # only now the page's width is known

    def _go_to_term(self) -> None:
        term, block = self._term, self.text.document().firstBlock()
        while term and block.isValid():
            if block.blockFormat().headingLevel() and anchor_of(block.text()) == anchor_of(term):
                self.text.setTextCursor(QTextCursor(block))
                top = self.text.document().documentLayout().blockBoundingRect(block).top()
                self.text.verticalScrollBar().setValue(round(top) - _MARGIN // 2)
            block = block.next()

    def _show_page(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            self.text.setMarkdown(page(item.data(Qt.ItemDataRole.UserRole)))

    def _follow(self, link: QUrl) -> None:
        name = link.fileName().removesuffix(".md")
        if link.isRelative() and not name:  # a heading of the current page
            name = self.pages.currentItem().data(Qt.ItemDataRole.UserRole)
        if link.isRelative() and name in PAGES:
            self.open_page(name, link.fragment(QUrl.ComponentFormattingOption.FullyDecoded))
        elif not link.isRelative():
            QDesktopServices.openUrl(link)


def anchor_of(heading: str) -> str:
    """The anchor of a heading in links: ``glossary.md#task-vector``."""
    return "-".join(re.findall(r"\w+", heading.casefold()))


def page(name: str) -> str:
    """The Markdown text of a help page."""
    return resource_path(f"help/{name}.md").read_text(encoding="utf-8")
