"""Dialogs to read: help pages, keyboard shortcuts, the log, a problem report, About."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QItemSelectionModel, Qt, QTimer, QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QGuiApplication,
    QShowEvent,
    QStandardItemModel,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QTextBrowser,
    QTreeView,
    QTreeWidgetItem,
    QWidget,
)

from ace_gui.application import __version__
from ace_gui.gui.dialogs.command_palette import Command
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.models.list_models import VALUE, item_of
from ace_gui.gui.state.activity import KEPT, Level, Log, LogEntry
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.widgets.controls import Choice, named, read_only, search_field
from ace_gui.gui.widgets.labels import heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import across
from ace_gui.gui.widgets.tables import RoomyCell, row_tree
from ace_gui.paths import resource_path

PAGES = (
    *("start", "two-models", "walkthrough", "which-method", "how-long"),
    *("ace", "recipes", "slices", "mixtures"),
    *(
        "mergekit",
        "tasks",
        "data-methods",
        "modules",
        "command-line",
        "library",
        "reference",
        "cluster",
    ),
    *("adapters", "quantised", "limits", "glossary", "evidence", "sample", "privacy"),
)
"""The file names of the help pages, in reading order."""

_LIST: Final = 13  # in text lines: width of the list of pages
_MARGIN: Final = 16  # px around a page
_PROBLEM: Final = (
    "Describe in the first lines what you did and what happened. Paths and the names of the open "
    "models are left out; check the text anyway. Nothing is sent: copy it to "
    "the person who maintains the program for you."
)
_ABOUT: Final = (
    "Merges fine-tuned models in closed form, without data, and shows layer by layer what the "
    "merge does."
)


class HelpDialog(Dialog):
    """The help, in a window of its own. Links open pages of the help, or a browser."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Help", parent)
        self._term = ""
        self.fit(900, 640)
        self.pages = named(QListWidget(), "Help pages")
        self.pages.setFixedWidth(_LIST * self.fontMetrics().height())
        self.pages.setWordWrap(True)
        self.pages.setSpacing(3)
        self.pages.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.text = named(QTextBrowser(), "Help page")
        self.text.setOpenLinks(False)
        self.text.document().setDocumentMargin(_MARGIN)
        for name in PAGES:
            text = page(name)
            item = QListWidgetItem(text.partition("\n")[0].removeprefix("# "), self.pages)
            item.setData(Qt.ItemDataRole.UserRole, name)
        self.fill((across(self.pages, (self.text, 1)), 1))
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
        self._go_to_term()  # the page's width is known only now

    def changeEvent(self, event: QEvent) -> None:
        """Read the page again after a change of the scheme, whose colours the links have."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            bar = self.text.verticalScrollBar()
            scrolled = bar.value()
            self._show_page(self.pages.currentItem())
            bar.setValue(scrolled)

    def _go_to_term(self) -> None:
        term = self._term
        block = self.text.document().firstBlock()
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
        if link.isRelative() and not name:  # a link to a heading of the current page
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


class ShortcutsDialog(Dialog):
    """The window's keyboard shortcuts by menu, in a window of its own."""

    def __init__(self, commands: Sequence[Command], parent: QWidget | None = None) -> None:
        super().__init__("Keyboard shortcuts", parent)
        self.fit(520, 620)
        self.tree = row_tree("Keyboard shortcuts", ["What it does", "Key"], self)
        self.tree.setItemsExpandable(False)
        self.tree.header().setStretchLastSection(False)
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        groups: dict[str, list[Command]] = {}
        for command in commands:
            if command.shortcut:
                groups.setdefault(command.menu.partition(" ")[0], []).append(command)
        for menu, group in groups.items():
            head = QTreeWidgetItem(self.tree, [menu])
            head.setFont(0, face(Face.STRONG))
            head.setFlags(Qt.ItemFlag.ItemIsEnabled)
            for command in group:
                row = QTreeWidgetItem(head, [plain(command.title), command.shortcut])
                row.setToolTip(0, tooltip(command.tip))
        self.tree.expandAll()
        self.fill((self.tree, 1))


class ProblemDialog(Dialog):
    """A problem report to read, complete and copy. ``text``: its known part."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__("Report a problem", parent)
        self.fit(720, 560)
        self.text = named(QPlainTextEdit(plain(text)), "Report")
        self.text.setFont(face(Face.MONO_CAPTION))
        self.text.setTabChangesFocus(True)
        tip = "Copy the whole text"
        self.copy = self.add_button("&Copy", self._copy, kind="primary", tip=tip)
        self.fill(plain_label(_PROBLEM), (self.text, 1))
        self.text.setFocus()

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())
        self.copy.setText("Copied")


class AboutDialog(Dialog):
    """The application's name, version and licence."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("About ACE Workbench", parent)
        self.setMinimumWidth(420)
        picture = plain_label(wrap=False)
        picture.setPixmap(icon("app").pixmap(64, 64))
        picture.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        note = muted_label("Each method's form cites its papers. Apache-2.0.")
        title = heading(f"ACE Workbench {__version__}")
        self.fill(picture, title, plain_label(_ABOUT), note, margin=16)


_DETAIL_LINES: Final = 7
_GATHERS: Final = 100  # ms between updates, because each scrolling lays out all rows
_COLUMNS: Final = ("Time", "Level", "From", "Message")
_ICONS: Final = {Level.INFO: "info", Level.WARNING: "warning", Level.ERROR: "error"}
_SAMPLES: Final = ("00:00:00", "Warning", "Window")
_PADDING: Final = 44  # px: the level's icon and the cell's margins


class LogDialog(Dialog):
    """The log, in a window of its own that shows new entries."""

    def __init__(self, log: Log, parent: QWidget | None = None) -> None:
        super().__init__("Log", parent)
        self.fit(820, 520)
        tip = "Show messages of at least this level"
        worse = {level: "" if level is Level.ERROR else " and above" for level in Level}
        titles = {level: (level.title + worse[level], tip) for level in Level}
        self.levels = Choice("Minimum level", titles)
        self.levels.choose(Level.INFO)
        self.filter = search_field("Find in the log", "Text in the message")
        self._log = log
        self.entries_model = QStandardItemModel(0, len(_COLUMNS), self)
        self.entries_model.setHorizontalHeaderLabels(_COLUMNS)
        self.table = self._make_table()
        name = "The message and its details"
        self.details = read_only(name, _DETAIL_LINES, Face.MONO_CAPTION)
        tip = "Copy the selected messages, or all that are shown"
        self.copy = self.add_button("&Copy", self._copy, tip=tip)
        above = across(self.levels, (self.filter, 1))
        self.fill(above, (self.table, 1), self.details)
        self.levels.chosen.connect(self._look)
        self.filter.textChanged.connect(lambda _: self._look())
        self.table.selectionModel().currentChanged.connect(lambda *_: self._show())
        self._following = QTimer(self, singleShot=True, interval=_GATHERS)
        self._following.timeout.connect(self._select_last)
        log.added.connect(self._add)
        self._look()

    def _make_table(self) -> QTreeView:
        table = named(QTreeView(), "Messages")
        table.setModel(self.entries_model)
        table.setRootIsDecorated(False)
        table.setUniformRowHeights(True)
        table.setItemDelegate(RoomyCell(table))
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        metrics = table.fontMetrics()
        for column, sample in enumerate(_SAMPLES):  # measuring all rows for each new one is slow
            table.header().resizeSection(column, metrics.horizontalAdvance(sample) + _PADDING)
        table.header().setStretchLastSection(True)
        return table

    def shown_entries(self) -> list[LogEntry]:
        """The selected entries if there are several, or else all displayed entries."""
        selected = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        rows = selected if len(selected) > 1 else range(self.entries_model.rowCount())
        return [self.entries_model.index(row, 0).data(VALUE) for row in rows]

    def _look(self) -> None:
        """Show the entries of at least the chosen level that contain the text."""
        self.entries_model.setRowCount(0)
        for entry in self._log.entries:
            self._add(entry)
        self._select_last()

    def _add(self, entry: LogEntry) -> None:
        words = self.filter.text().casefold()
        if entry.level < self.levels.current or words not in entry.line.casefold():
            return
        clock = time.strftime("%H:%M:%S", time.localtime(entry.when))
        first = plain(entry.text).partition("\n")[0]
        texts = (clock, entry.level.title, entry.source, first)
        cells = [item_of(text, entry) for text in texts]
        if entry.level in _ICONS:
            cells[1].setIcon(icon(_ICONS[entry.level]))
        cells[-1].setToolTip(tooltip(f"{entry.text}\n{entry.details}".strip()))
        self.entries_model.appendRow(cells)
        if self.entries_model.rowCount() > KEPT:
            self.entries_model.removeRow(0)
        self._follow()

    def _follow(self) -> None:
        """Scroll to the end, unless the user has scrolled up."""
        at_end = self.table.currentIndex().row() >= self.entries_model.rowCount() - 2
        if at_end and not self._following.isActive():
            self._following.start()

    def _select_last(self) -> None:
        last = self.entries_model.index(self.entries_model.rowCount() - 1, 0)
        flags = QItemSelectionModel.SelectionFlag
        self.table.selectionModel().setCurrentIndex(last, flags.ClearAndSelect | flags.Rows)
        self.table.scrollTo(last)
        self._show()

    def _show(self) -> None:
        entry = self.table.currentIndex().data(VALUE)
        if isinstance(entry, LogEntry):
            text = f"{entry.text}\n{entry.details}"
        else:
            text = ""
        self.details.setPlainText(plain(text.strip()))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText("\n".join(entry.line for entry in self.shown_entries()))
