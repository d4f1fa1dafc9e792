"""The layers by block: a tree over the rows of ``LayersModel``.

Rows sorted by a column are one list, because that order cuts across the blocks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import counted
from ace_gui.gui.models.layer_columns import FINE, HEALTH_ICONS, Column
from ace_gui.gui.models.layers_model import ANSWERED, LayersModel
from ace_gui.gui.theme import icon

COUNT: Final = Qt.ItemDataRole.UserRole + 10
"""Role of a group's first cell: its number of rows as text. None: not a group."""
RANGE: Final = Qt.ItemDataRole.UserRole + 11
"""Role of a group's γ cell: the smallest and largest γ in it, or None."""

_ASKED: Final = ANSWERED | {COUNT, RANGE}
_FEW: Final = 16  # maximum number of groups that are signalled one by one

_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class Group:
    """A block's rows: ``count`` of them from position ``first`` on."""

    title: str
    first: int
    count: int


class LayerTree(QAbstractItemModel):
    """Groups at the top with their tensors below, or only the tensors if sorted.

    ``much_changed`` replaces ``dataChanged`` if many groups changed at once, for example while τ is
    dragged. Views then repaint completely.
    """

    much_changed = Signal()

    def __init__(self, rows: LayersModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows = rows
        self._groups: tuple[Group, ...] = ()
        self._firsts: list[int] = []
        self._fill()
        rows.modelAboutToBeReset.connect(self.beginResetModel)
        rows.modelReset.connect(self._renew)
        rows.layoutAboutToBeChanged.connect(lambda *_: self.beginResetModel())
        rows.layoutChanged.connect(lambda *_: self._renew())
        rows.dataChanged.connect(self._pass_on)
        rows.headerDataChanged.connect(self.headerDataChanged)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups from top to bottom; empty for a flat list."""
        return self._groups

    def index_of(self, name: str, column: int = 0) -> QModelIndex:
        """The index of a tensor; invalid if it is not shown."""
        position = self.rows.position(name)
        if position < 0:
            return QModelIndex()
        if not self._groups:
            return self.createIndex(position, column, 0)
        index = self._group_at(position)
        return self.createIndex(position - self._groups[index].first, column, index + 1)

    def position(self, index: _Index) -> int:
        """The row position of an index; -1 for a group."""
        if not index.isValid():
            return -1
        group = int(index.internalId())
        if group:
            return self._groups[group - 1].first + index.row()
        return -1 if self._groups else index.row()

    # QAbstractItemModel

    def index(self, row: int, column: int, parent: _Index = QModelIndex()) -> QModelIndex:  # noqa: B008
        if not (0 <= row < self.rowCount(parent) and 0 <= column < len(Column)):
            return QModelIndex()
        return self.createIndex(row, column, parent.row() + 1 if parent.isValid() else 0)

    def parent(self, index: _Index) -> QModelIndex:  # type: ignore[override]
        group = int(index.internalId()) if index.isValid() else 0
        return self.createIndex(group - 1, 0, 0) if group else QModelIndex()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        if not parent.isValid():
            return len(self._groups) or self.rows.rowCount()
        is_group = self._groups and parent.internalId() == 0 and parent.column() == 0
        return self._groups[parent.row()].count if is_group else 0

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: ARG002, B008
        return len(Column)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        return self.rows.headerData(section, orientation, role)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        enabled = Qt.ItemFlag.ItemIsEnabled
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        return enabled if self.position(index) < 0 else enabled | Qt.ItemFlag.ItemIsSelectable

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role not in _ASKED or not index.isValid():
            return None
        position = self.position(index)
        if position >= 0:
            return self.rows.data(self.rows.index(position, index.column()), role)
        return self._of_group(self._groups[index.row()], index.column(), role)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.rows.sort(column, order)

    # Groups

    def _of_group(self, group: Group, column: int, role: int) -> Any:
        indices = range(group.first, group.first + group.count)
        if column == Column.TENSOR:
            return self._said_of(group, indices, role)
        if column == Column.GAMMA and role == RANGE:
            known = self.rows.gammas_at(indices)
            return (float(known.min()), float(known.max())) if known.size else None
        return self._health_of(indices, role) if column == Column.HEALTH else None

    def _health_of(self, indices: range, role: int) -> Any:
        verdict = self.rows.worst_at(indices)
        if role == Qt.ItemDataRole.DecorationRole and verdict in HEALTH_ICONS:
            return icon(HEALTH_ICONS[verdict])
        if role == Qt.ItemDataRole.DisplayRole and verdict is not None:
            return "" if verdict in HEALTH_ICONS else FINE
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return "not known" if verdict is None else verdict.value
        return None

    def _said_of(self, group: Group, indices: range, role: int) -> str | None:
        if role == Qt.ItemDataRole.DisplayRole:
            return group.title
        if role == COUNT:
            return self._count(indices)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{group.title}, {self._count(indices)}"
        return None

    def _count(self, indices: range) -> str:
        """``6 matrices``, ``6 merged, 10 averaged``."""
        found = Counter(self.rows.row_at(index).disposition for index in indices)
        if set(found) == {Disposition.MERGED}:
            return counted(len(indices), "matrix", "matrices")
        return ", ".join(f"{found[kind]} {kind.value}" for kind in Disposition if found[kind])

    def _fill(self) -> None:
        self._groups = (
            ()
            if self.rows.is_sorted
            else _groups(
                [self.rows.row_at(position).block for position in range(self.rows.rowCount())]
            )
        )
        self._firsts = [group.first for group in self._groups]

    def _renew(self) -> None:
        self._fill()
        self.endResetModel()

    def _pass_on(self, first: QModelIndex, last: QModelIndex) -> None:
        low, high, left, right = first.row(), last.row(), first.column(), last.column()
        if not self._groups:
            self.dataChanged.emit(self.index(low, left), self.index(high, right))
            return
        touched = range(self._group_at(low), self._group_at(high) + 1)
        if len(touched) > _FEW:
            self.much_changed.emit()
            return
        for index in touched:
            group, above = self._groups[index], self.createIndex(index, 0, 0)
            start, end = max(low, group.first), min(high, group.first + group.count - 1)
            self.dataChanged.emit(
                self.index(start - group.first, left, above),
                self.index(end - group.first, right, above),
            )
            self.dataChanged.emit(self.index(index, left), self.index(index, right))

    def _group_at(self, position: int) -> int:
        return bisect_right(self._firsts, position) - 1


def _groups(blocks: list[int | None]) -> tuple[Group, ...]:
    """A group for each run of rows with the same block, in model order."""
    ends = np.flatnonzero([a != b for a, b in pairwise(blocks)]) + 1
    edges = [0, *(int(end) for end in ends), len(blocks)] if blocks else [0]
    groups = []
    for first, end in pairwise(edges):
        block = blocks[first]
        outside = "Before the blocks" if first == 0 else "After the blocks"
        outside = outside if any(b is not None for b in blocks) else "All tensors"
        groups.append(Group(outside if block is None else f"Block {block}", first, end - first))
    return tuple(groups)
