"""All keyboard shortcuts, from the window's actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from ace_gui.gui.models.command_search import Command
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.layout.arrangement import down
from ace_gui.gui.widgets.tables.table_tools import RoomyCell

_SIZE: Final = QSize(520, 620)
_OF_SCREEN: Final = 0.92


class ShortcutsDialog(QDialog):
    """A list by menu, in a window of its own."""

    def __init__(self, commands: Sequence[Command], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        self.resize(_SIZE.boundedTo(self.screen().availableSize() * _OF_SCREEN))
        self.tree = QTreeWidget(self)
        self.tree.setAccessibleName("Keyboard shortcuts")
        self.tree.setHeaderLabels(["What it does", "Key"])
        self.tree.setRootIsDecorated(False)
        self.tree.setItemsExpandable(False)
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.tree.header().setStretchLastSection(False)
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.tree.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self._fill(commands)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        self.setLayout(down((self.tree, 1), buttons, margins=(12, 12, 12, 12)))

    def _fill(self, commands: Sequence[Command]) -> None:
        groups: dict[str, list[Command]] = {}
        for command in commands:
            if command.shortcut:
                groups.setdefault(command.menu.partition(" ")[0], []).append(command)
        self.tree.setItemDelegate(RoomyCell(self.tree))
        for index, group in groups.items():
            head = QTreeWidgetItem(self.tree, [index])
            head.setFont(0, face(Face.STRONG))
            head.setFlags(Qt.ItemFlag.ItemIsEnabled)
            for command in group:
                row = QTreeWidgetItem(head, [plain(command.title), command.shortcut])
                row.setToolTip(0, tooltip(command.tip))
        self.tree.expandAll()
