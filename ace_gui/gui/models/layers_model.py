"""The layers table: the plan's tensors by block, or one list once sorted by a column.

A proxy model would call Python for every comparison. Here an index array maps table rows to plan
rows, and sorting or filtering twenty thousand rows creates a new array.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
    Signal,
)

from ace_gui.engine.contract.plan import WORST_FIRST, CheckVerdict, Disposition
from ace_gui.formatting import counted
from ace_gui.gui.models.layer_columns import (
    ALARMING,
    COLUMNS,
    FINE,
    GAMMA,
    HEALTH,
    TENSOR,
    LayerRow,
)
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.state.activity import start_once
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import gamma_text, shared_prefix
from ace_gui.gui.theme import icon

_GAMMA_USUAL: Final = 2.0  # a larger γ has a full bar
REFRESH: Final = 60  # ms between repaints while statistics arrive

_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole
LAYER: Final = _Role.UserRole
"""Role of a tensor's cells: its ``LayerRow``."""
COUNT: Final = _Role.UserRole + 1
"""Role of a group's first cell: its number of rows as text. Other cells have None."""
RANGE: Final = _Role.UserRole + 2
"""Role of a group's γ cell: its smallest and largest γ, and whether the largest is unreliable; None
without γ."""
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class LayerGroup:
    """A block's rows: ``count`` of them from position ``first`` on."""

    title: str
    first: int
    count: int


class LayersModel(QAbstractItemModel):
    """A position counts the shown tensors from top to bottom, whatever group they are in.

    ``figures_changed``: cells have changed; it comes at most every ``REFRESH`` ms. A view repaints
    the few visible cells. ``dataChanged`` would need a signal for every group.
    """

    figures_changed = Signal()

    def __init__(self, session: Session, healths: Healths, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._healths = healths
        self._rows: object = ()
        self._layers: tuple[LayerRow, ...] = ()
        self._indices: dict[str, int] = {}
        self._gamma: NDArray[np.float64] = np.empty(0)
        self._unchanged: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._arranged: NDArray[np.bool_] = self._unchanged
        """``_unchanged`` when the rows were last arranged."""
        self._order: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._positions: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._filter = ("", "", False)
        self._sorting: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self.figures_changed)
        self.groups: tuple[LayerGroup, ...] = ()
        """From top to bottom; empty for a flat list."""
        self.useful: frozenset[int] = frozenset()
        """The columns that have something to say about the shown tensors."""
        session.draft.changed.connect(self.reload)
        session.layers.learnt.connect(self._learn)
        session.results.changed.connect(self._show_all)
        session.draft.tau_changed.connect(self._refresh)
        healths.changed.connect(self._refresh)
        self.reload()

    # Content

    def reload(self) -> None:
        """Read the session's plan again; if its rows are the same, only their figures."""
        session = self._session
        if session.layers.rows is not self._rows:
            self.beginResetModel()
            self._rows = session.layers.rows
            rows = session.layers.rows
            prefix = shared_prefix([row.name for row in rows if row.block is not None])
            self._layers = tuple(LayerRow(row, session, self._healths, prefix) for row in rows)
            self._indices = {row.name: index for index, row in enumerate(rows)}
            self._read_figures()
            self._arrange()
            self.endResetModel()
        else:
            self._read_figures()
            self._find_useful()
            self._show_all()

    def set_filter(self, text: str, role: str, *, merged: bool = False) -> None:
        """Show only tensors with ``text`` in their names and with this role, "" for all.

        ``merged``: only tensors that an expert changes and a method merges, and those that an
        override names, if there are any.
        """
        if (text.lower(), role, merged) != self._filter:
            self._filter = (text.lower(), role, merged)
            self._reset()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; -1 is the model order, by block."""
        self._sorting = (column, order)
        self._reset()

    @property
    def roles(self) -> tuple[str, ...]:
        """The existing roles, in the order of the plan."""
        return tuple(dict.fromkeys(layer.row.role for layer in self._layers))

    @property
    def total(self) -> int:
        """The number of tensors without a filter."""
        return len(self._layers)

    @property
    def total_merged(self) -> int:
        """The number of tensors that ``set_filter`` shows as merged."""
        return int(self._merged().sum())

    @property
    def shown(self) -> list[LayerRow]:
        """The tensors from top to bottom."""
        return [self._layers[index] for index in self._order]

    @property
    def is_narrowed(self) -> bool:
        """Whether a filter for a name or a role hides tensors."""
        return any(self._filter[:2])

    @property
    def gamma_scale(self) -> float:
        """The γ that fills a bar: 0.5, or the largest that is not an outlier."""
        with np.errstate(invalid="ignore"):
            ordinary = self._gamma[self._gamma <= _GAMMA_USUAL]
        return max(float(ordinary.max(initial=0.0)), _GAMMA_USUAL / 4)

    @property
    def tau(self) -> float:
        """The method's threshold; infinite if it has none."""
        draft = self._session.draft
        if draft.has_gamma:
            return draft.tau
        return math.inf

    def name_at(self, position: int) -> str:
        return self._layers[self._order[position]].row.name

    def position(self, name: str | None) -> int:
        """The position of a tensor, or -1."""
        if name is not None:
            index = self._indices.get(name)
        else:
            index = None
        if index is None:
            return -1
        return int(self._positions[index])

    def index_of(self, name: str, column: int = 0) -> QModelIndex:
        """The index of a tensor; invalid if it is not shown."""
        position = self.position(name)
        if position < 0:
            return QModelIndex()
        return self._at(position, column)

    def position_of(self, index: _Index) -> int:
        """The position of an index; -1 for a group."""
        if not index.isValid():
            return -1
        group = int(index.internalId())
        if group:
            return self.groups[group - 1].first + index.row()
        if self.groups:
            return -1
        return index.row()

    # QAbstractItemModel

    def index(self, row: int, column: int, parent: _Index = QModelIndex()) -> QModelIndex:  # noqa: B008
        if not (0 <= row < self.rowCount(parent) and 0 <= column < len(COLUMNS)):
            return QModelIndex()
        return self.createIndex(row, column, parent.row() + 1 if parent.isValid() else 0)

    def parent(self, index: _Index) -> QModelIndex:  # type: ignore[override]
        if index.isValid():
            group = int(index.internalId())
        else:
            group = 0
        if group:
            return self.createIndex(group - 1, 0, 0)
        return QModelIndex()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        if not parent.isValid():
            return len(self.groups) or len(self._order)
        is_group = self.groups and parent.internalId() == 0 and parent.column() == 0
        if is_group:
            return self.groups[parent.row()].count
        return 0

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: ARG002, B008
        return len(COLUMNS)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        enabled = Qt.ItemFlag.ItemIsEnabled
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        if self.position_of(index) < 0:
            return enabled
        return enabled | Qt.ItemFlag.ItemIsSelectable

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(COLUMNS):
            return None
        column = COLUMNS[section]
        if role == _Role.DisplayRole:
            has_tau = column is GAMMA and math.isfinite(self.tau)
            if has_tau:
                return f"γ, τ {gamma_text(self.tau)}"
            return column.title
        if role == _Role.InitialSortOrderRole:
            order = Qt.SortOrder
            return (order.DescendingOrder if column.largest_first else order.AscendingOrder).value
        if role == _Role.TextAlignmentRole:
            if column.is_number:
                return _RIGHT
            return _LEFT
        if role == _Role.ToolTipRole:
            return column.tip
        return None

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        if not index.isValid():
            return None
        position = self.position_of(index)
        column = COLUMNS[index.column()]
        if role == _Role.TextAlignmentRole:
            if column.is_number:
                return _RIGHT
            return _LEFT
        if position < 0:
            return self._of_group(self.groups[index.row()], index.column(), role)
        layer = self._layers[self._order[position]]
        match role:
            case _Role.DisplayRole:
                return column.text(layer)
            case _Role.AccessibleTextRole:
                return column.spoken(layer)
            case _Role.ToolTipRole:
                return layer.tip
            case _Role.UserRole:
                return layer
            case _Role.DecorationRole if column is HEALTH and layer.health is not None:
                name = ALARMING.get(layer.health.verdict)
                if name is not None:
                    return icon(name)
                return None
        return None

    # Groups

    def _of_group(self, group: LayerGroup, column: int, role: int) -> Any:
        indices = self._order[group.first : group.first + group.count]
        if column == TENSOR.index:
            count = self._count(indices)
            words = f"{group.title}, {count}"
            spoken = dict.fromkeys(map(int, (_Role.AccessibleTextRole, _Role.ToolTipRole)), words)
            return {COUNT: count, 0: group.title, **spoken}.get(int(role))
        if column == GAMMA.index and role == RANGE:
            with_gamma = indices[~np.isnan(self._gamma[indices])]
            if not with_gamma.size:
                return None
            low = with_gamma[self._gamma[with_gamma].argmin()]
            high = with_gamma[self._gamma[with_gamma].argmax()]
            unsure = self._layers[high].gamma_unsure
            return float(self._gamma[low]), float(self._gamma[high]), unsure
        if column == HEALTH.index:
            return self._health_of(indices, role)
        return None

    def _health_of(self, indices: NDArray[np.intp], role: int) -> Any:
        healths = (self._layers[index].health for index in indices)
        verdicts: set[CheckVerdict] = {health.verdict for health in healths if health is not None}
        worst = next((verdict for verdict in WORST_FIRST if verdict in verdicts), None)
        if role == _Role.DecorationRole and worst in ALARMING:
            return icon(ALARMING[worst])
        if role == _Role.DisplayRole and worst is not None:
            if worst in ALARMING:
                return ""
            return FINE
        if role == _Role.AccessibleTextRole:
            if worst is None:
                return "not known"
            return worst.value
        return None

    def _count(self, indices: NDArray[np.intp]) -> str:
        """``6 matrices``, ``16 tensors``, ``6 merged, 10 averaged``, ``4 merged, 2 unchanged``."""
        layers = [self._layers[index] for index in indices]
        unchanged = sum(layer.row.is_merged and _is_unchanged(layer) for layer in layers)
        counts = Counter(layer.row.disposition for layer in layers)
        if set(counts) == {Disposition.MERGED} and not unchanged:
            if all(len(self._layers[index].row.shape) == 2 for index in indices):
                return counted(len(indices), "matrix", "matrices")
            return counted(len(indices), "tensor", "tensors")
        counts[Disposition.MERGED] -= unchanged
        parts = [f"{counts[kind]} {kind.value}" for kind in Disposition if counts[kind]]
        if unchanged:
            parts.append(f"{unchanged} unchanged")
        return ", ".join(parts)

    def _at(self, position: int, column: int) -> QModelIndex:
        if not self.groups:
            return self.createIndex(position, column, 0)
        group = bisect_right(self.groups, position, key=lambda group: group.first)
        return self.createIndex(position - self.groups[group - 1].first, column, group)

    # Figures that arrive during work

    def _learn(self, name: str) -> None:
        if not name:
            self._read_figures()
            self._show_all()
        elif (index := self._indices.get(name)) is not None:
            self._gamma[index] = self._layers[index].gamma
            self._unchanged[index] = _is_unchanged(self._layers[index])
            start_once(self._timer)

    def _read_figures(self) -> None:
        count = len(self._layers)
        gammas = (layer.gamma for layer in self._layers)
        self._gamma = np.fromiter(gammas, dtype=np.float64, count=count)
        unchanged = map(_is_unchanged, self._layers)
        self._unchanged = np.fromiter(unchanged, dtype=np.bool_, count=count)

    def _show_all(self) -> None:
        moved = not np.array_equal(self._unchanged, self._arranged)
        if moved or self._sorting[0] >= GAMMA.index:
            self._reset()
        else:
            self._refresh()

    def _refresh(self) -> None:
        """Repaint, because τ, the layers' health or another figure has changed."""
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, GAMMA.index, GAMMA.index)
        self.figures_changed.emit()

    # Order

    def _reset(self) -> None:
        self.beginResetModel()
        self._arrange()
        self.endResetModel()

    def _arrange(self) -> None:
        self._arranged = self._unchanged.copy()
        visible = np.flatnonzero(self._mask())
        column, order = self._sorting
        if column >= 0 and visible.size:
            ranks = self._ranks(column)[visible]
            if order == Qt.SortOrder.DescendingOrder:
                ranks = -ranks
            visible = visible[np.argsort(ranks, kind="stable")]  # NaN comes last in both directions
        self._order = visible
        self._positions = np.full(len(self._layers), -1, dtype=np.intp)
        self._positions[visible] = np.arange(len(visible))
        blocks = [self._layers[index].row.block for index in visible]
        if column >= 0:
            self.groups = ()
        else:
            self.groups = _groups(blocks)
        self._find_useful()

    def _find_useful(self) -> None:
        layers = self.shown
        self.useful = frozenset(
            index
            for index, column in enumerate(COLUMNS)
            if column.useful is None or any(map(column.useful, layers))
        )

    def _mask(self) -> NDArray[np.bool_]:
        text, role, merged = self._filter
        hits = (
            text in layer.row.name.lower() and role in ("", layer.row.role)
            for layer in self._layers
        )
        mask = np.fromiter(hits, dtype=np.bool_, count=len(self._layers))
        if merged:
            merged_rows = self._merged()
            if merged_rows.any():
                mask &= merged_rows
        return mask

    def _merged(self) -> NDArray[np.bool_]:
        """Which tensors are merged, by what is known since they were last arranged."""
        rows = (layer.row for layer in self._layers)
        named = np.array([row.override is not None for row in rows], dtype=np.bool_)
        merged = np.array([layer.row.is_merged for layer in self._layers], dtype=np.bool_)
        return named | (merged & ~self._arranged)

    def _ranks(self, column: int) -> NDArray[np.float64]:
        keys = [COLUMNS[column].sort_key(layer) for layer in self._layers]
        if isinstance(keys[0], str):
            return np.unique(keys, return_inverse=True)[1].astype(np.float64)
        return np.array(keys, dtype=np.float64)


def _is_unchanged(layer: LayerRow) -> bool:
    """Whether no expert changes the tensor, as far as that is known."""
    statistics = layer.statistics
    return statistics is not None and statistics.is_unchanged


def _groups(blocks: list[int | None]) -> tuple[LayerGroup, ...]:
    """A group for each run of rows with the same block, in model order."""
    ends = np.flatnonzero([a != b for a, b in pairwise(blocks)]) + 1
    if blocks:
        edges = [0, *(int(end) for end in ends), len(blocks)]
    else:
        edges = [0]
    groups = []
    for first, end in pairwise(edges):
        block = blocks[first]
        if first == 0:
            outside = "Before the blocks"
        else:
            outside = "After the blocks"
        if not any(b is not None for b in blocks):
            outside = "All tensors"
        groups.append(
            LayerGroup(outside if block is None else f"Block {block}", first, end - first)
        )
    return tuple(groups)
