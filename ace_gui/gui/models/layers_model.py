"""The layers table: one row per tensor of the plan, sorted and filtered with NumPy.

A proxy model would call Python for every comparison. Here an index array maps table rows to plan
rows, and sorting or filtering twenty thousand rows creates a new array.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
)

from ace_gui.engine.contract.checks import WORST_FIRST, Verdict
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.gui.models.layer_columns import (
    HEADER_TIPS,
    HEADERS,
    Column,
    LayerState,
    alignment,
)
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.models.layer_words import LayerFact, LayerWords
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.found.planned_layers import natural_key
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import shared_prefix

GAMMA_USUAL: Final = 2.0  # a larger γ has a full bar
REFRESH: Final = 60  # ms between repaints while statistics arrive

_Index = QModelIndex | QPersistentModelIndex
_Display = Qt.ItemDataRole.DisplayRole
ANSWERED: Final = frozenset(  # a view queries seven roles of every cell
    {
        int(_Display),
        int(Qt.ItemDataRole.DecorationRole),
        int(Qt.ItemDataRole.AccessibleTextRole),
        int(Qt.ItemDataRole.ToolTipRole),
        int(Qt.ItemDataRole.TextAlignmentRole),
        int(Qt.ItemDataRole.UserRole),
    }
)


class LayersModel(QAbstractTableModel):
    """A view of the session: the plan's rows, sorted and filtered."""

    def __init__(self, session: Session, healths: Healths, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._healths = healths
        self._rows: tuple[PlanRow, ...] = ()
        self._places: dict[str, int] = {}
        self._words = LayerWords(session, healths)
        self._gamma: NDArray[np.float64] = np.empty(0)
        self._states: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._order: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._shown_at: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._name_ranks: NDArray[np.intp] | None = None
        self._text, self._role, self._merged = "", "", False
        self._sorting: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)
        self._dirty: set[int] = set()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(REFRESH)
        self._timer.timeout.connect(self.flush)
        session.draft.changed.connect(self.reload)
        session.layers.learnt.connect(self._learn)
        session.results.changed.connect(self._refresh_states)
        session.draft.tau_changed.connect(self._refresh_regimes)
        healths.changed.connect(self._refresh_regimes)
        self.reload()

    # Content

    def reload(self) -> None:
        """Update from the session's plan; if the rows are the same, only their statistics."""
        if self._session.layers.rows is self._rows:
            self._refresh_all()
            return
        self.beginResetModel()
        self._rows = self._session.layers.rows
        self._places = {row.name: index for index, row in enumerate(self._rows)}
        blocks = [row.name for row in self._rows if row.block is not None]
        self._words.prefix = shared_prefix(blocks)
        self._name_ranks = None
        self._dirty.clear()
        self._pull()
        self._arrange()
        self.endResetModel()

    def set_filter(self, text: str, role: str, *, merged: bool = False) -> None:
        """Show only tensors with ``text`` in their names and, unless empty, this role.

        ``merged``: only tensors that a method merges or an override names, if there are any.
        """
        if (text, role, merged) == (self._text, self._role, self._merged):
            return
        self.beginResetModel()
        self._text, self._role, self._merged = text, role, merged
        self._arrange()
        self.endResetModel()

    @property
    def roles(self) -> tuple[str, ...]:
        """The existing roles, in the order of the plan."""
        return tuple(dict.fromkeys(row.role for row in self._rows))

    @property
    def total(self) -> int:
        """The number of rows without a filter."""
        return len(self._rows)

    @property
    def total_merged(self) -> int:
        """The number of rows that a method merges or an override names."""
        return sum(map(_is_merged, self._rows))

    @property
    def outcomes_differ(self) -> bool:
        """Whether any row has an outcome other than the method's own merge."""
        rows = (self._rows[index] for index in self._order)
        return any(row.override or row.disposition is not Disposition.MERGED for row in rows)

    @property
    def is_sorted(self) -> bool:
        """Whether the rows are not in model order."""
        return self._sorting[0] >= 0

    @property
    def gamma_scale(self) -> float:
        """γ at full bar width: 0.5, or the largest that is not an outlier."""
        with np.errstate(invalid="ignore"):
            usual = self._gamma[self._gamma <= GAMMA_USUAL]
        return max(float(usual.max(initial=0.0)), GAMMA_USUAL / 4)

    @property
    def tau(self) -> float:
        """The method's threshold; infinite if it has none."""
        draft = self._session.draft
        return draft.tau if draft.has_gamma else math.inf

    def row_at(self, position: int) -> PlanRow:
        """The plan's row at this position."""
        return self._rows[self._order[position]]

    def gammas_at(self, positions: range) -> NDArray[np.float64]:
        """The known γ at these positions."""
        gammas = self._gamma[self._order[positions.start : positions.stop]]
        return gammas[~np.isnan(gammas)]

    def worst_at(self, positions: range) -> Verdict | None:
        """The worst health at these positions; None if unknown."""
        found = (self._healths.of(self.row_at(position).name) for position in positions)
        verdicts = {health.verdict for health in found if health is not None}
        return next((verdict for verdict in WORST_FIRST if verdict in verdicts), None)

    def name_at(self, position: int) -> str:
        """The tensor's name at this position."""
        return self._rows[self._order[position]].name

    def position(self, name: str) -> int:
        """The position of a tensor, or -1."""
        index = self._places.get(name)
        return -1 if index is None else int(self._shown_at[index])

    # QAbstractTableModel

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._order)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(Column)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(HEADERS):
            return None
        if role == _Display:
            has_tau = section == Column.GAMMA and math.isfinite(self.tau)
            return f"γ, τ {self.tau:.3f}" if has_tau else HEADERS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return alignment(section)
        return HEADER_TIPS[section] if role == Qt.ItemDataRole.ToolTipRole else None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role not in ANSWERED or not index.isValid() or index.row() >= len(self._order):
            return None
        position, column = int(self._order[index.row()]), index.column()
        if role == _Display:
            return self._words.cell(self._fact(position), column)
        if role == Qt.ItemDataRole.DecorationRole:
            return self._words.icon(self._rows[position]) if column == Column.HEALTH else None
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._words.spoken(self._fact(position), column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._words.tip(self._fact(position), column)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return alignment(column)
        if role == Qt.ItemDataRole.UserRole:
            return self._words.figure(self._fact(position), column)
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; -1 is the model order."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        indices = [int(self._order[index.row()]) for index in before]
        self._sorting = (column, order)
        self._arrange()
        after = [
            self.index(int(self._shown_at[position]), index.column())
            for position, index in zip(indices, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    # Statistics that arrive during work

    def flush(self) -> None:
        """Send one signal for all changes since the last call."""
        self._timer.stop()
        shown = self._shown_at[np.fromiter(self._dirty, dtype=np.intp, count=len(self._dirty))]
        self._dirty.clear()
        shown = shown[shown >= 0]
        if shown.size:
            self._emit_changed(int(shown.min()), int(shown.max()))

    def _learn(self, name: str) -> None:
        if not name:
            self._refresh_all()
            return
        index = self._places.get(name)
        if index is None:
            return
        gamma = self._session.layers.gamma(name)
        self._gamma[index] = np.nan if gamma is None else gamma
        self._states[index] = self._state(name)
        self._dirty.add(index)
        if not self._timer.isActive():
            self._timer.start()

    def _refresh_states(self) -> None:
        self._pull_states()
        self._show_all()

    def _refresh_all(self) -> None:
        self._pull()
        self._show_all()

    def _show_all(self) -> None:
        if self._sorting[0] >= Column.GAMMA:
            self.sort(*self._sorting)
        elif len(self._order):
            self._emit_changed(0, len(self._order) - 1)

    def _refresh_regimes(self) -> None:
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.GAMMA, Column.GAMMA)
        if len(self._order):
            self._emit_changed(0, len(self._order) - 1)

    def _emit_changed(self, first: int, last: int) -> None:
        self.dataChanged.emit(self.index(first, Column.GAMMA), self.index(last, Column.STATE))

    def _pull(self) -> None:
        self._gamma = np.full(len(self._rows), np.nan)
        for name, known in self._session.layers.statistics.items():
            index = self._places.get(name)
            if index is not None and known.gamma is not None:
                self._gamma[index] = known.gamma
        self._pull_states()

    def _pull_states(self) -> None:
        merge, session = self._session.results.merge, self._session
        reports = merge.reports if merge is not None else {}
        done = LayerState.DONE if session.merge_is_current else LayerState.EARLIER
        rest = LayerState.WAITING if session.activity.is_running(State.MERGING) else LayerState.NONE
        self._states = np.full(len(self._rows), rest, dtype=np.int8)
        indices = self._places
        self._states[[indices[name] for name in reports if name in indices]] = done

    def _state(self, name: str) -> LayerState:
        merge = self._session.results.merge
        if merge is not None and name in merge.reports:
            return LayerState.DONE if self._session.merge_is_current else LayerState.EARLIER
        merging = self._session.activity.is_running(State.MERGING)
        return LayerState.WAITING if merging else LayerState.NONE

    def _fact(self, index: int) -> LayerFact:
        state = LayerState(self._states[index])
        return LayerFact(self._rows[index], float(self._gamma[index]), state)

    # Order

    def _arrange(self) -> None:
        kept = np.flatnonzero(self._mask())
        column, order = self._sorting
        if column >= 0 and kept.size:
            ranks = self._sort_key(Column(column))[kept]
            if order == Qt.SortOrder.DescendingOrder:
                ranks = -ranks
            kept = kept[np.argsort(ranks, kind="stable")]  # NaN comes last in both directions
        self._order = kept
        self._shown_at = np.full(len(self._rows), -1, dtype=np.intp)
        self._shown_at[kept] = np.arange(len(kept))

    def _mask(self) -> NDArray[np.bool_]:
        text, merged = self._text.lower(), self._merged and self.total_merged > 0
        if not (text or self._role or merged):
            return np.ones(len(self._rows), dtype=np.bool_)
        hits = (
            text in row.name.lower()
            and self._role in ("", row.role)
            and (not merged or _is_merged(row))
            for row in self._rows
        )
        return np.fromiter(hits, dtype=np.bool_, count=len(self._rows))

    def _sort_key(self, column: Column) -> NDArray[Any]:
        if column is Column.GAMMA:
            return self._gamma
        if column is Column.LOG_VARIANCE:
            found = (self._words.log_variance(row) for row in self._rows)
            return np.array([np.nan if value is None else value for value in found])
        if column is Column.REGIME:
            regimes = (self._gamma > self._session.draft.tau).astype(np.float64)
            return np.where(np.isnan(self._gamma), np.nan, regimes)
        if column is Column.HEALTH:
            return np.array([self._words.health_rank(row) for row in self._rows])
        if column is Column.STATE:
            return self._states.astype(np.float64)
        if column is Column.SHAPE:
            return np.array([prod(row.shape) for row in self._rows], dtype=np.float64)
        if column is Column.TENSOR:
            return self._ranked_names()
        if column is Column.ROLE:
            return np.unique([row.role for row in self._rows], return_inverse=True)[1]
        return np.unique([row.disposition for row in self._rows], return_inverse=True)[1]

    def _ranked_names(self) -> NDArray[np.intp]:
        if self._name_ranks is None:
            keys = [natural_key(row.name) for row in self._rows]
            order = sorted(range(len(keys)), key=keys.__getitem__)
            self._name_ranks = np.empty(len(keys), dtype=np.intp)
            self._name_ranks[order] = np.arange(len(keys))
        return self._name_ranks


def _is_merged(row: PlanRow) -> bool:
    """Whether a row belongs to the merge; rows that the user excluded stay visible."""
    return row.disposition is Disposition.MERGED or row.override is not None
