"""The layers table: one row a tensor of the plan, sorted and filtered with NumPy.

A proxy model would call Python once a comparison; here an index array says which plan row stands
at which place, and sorting or filtering twenty thousand rows makes a new one.
"""

from __future__ import annotations

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
from PySide6.QtGui import QIcon

from ace_gui.engine.contract.checks import WORST_FIRST
from ace_gui.engine.contract.health import UNRELIABLE, gamma_unreliable, near_pole
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.formatting import shape_text
from ace_gui.gui.models.figures_model import GAP
from ace_gui.gui.models.layer_columns import (
    FIGURES,
    HEADER_TIPS,
    HEADERS,
    HEALTH_ICONS,
    OVERRIDDEN,
    REGIME_TEXT,
    STATE_TEXT,
    STATE_TIPS,
    Column,
    LayerState,
)
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.planned_layers import natural_key
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, shared_prefix, tooltip
from ace_gui.gui.theme import icon

REFRESH: Final = 60  # ms between repaints while figures stream in

_Index = QModelIndex | QPersistentModelIndex
_Display = Qt.ItemDataRole.DisplayRole
_ANSWERED: Final = (  # a view asks seven roles of every cell that it paints
    _Display,
    Qt.ItemDataRole.DecorationRole,
    Qt.ItemDataRole.AccessibleTextRole,
    Qt.ItemDataRole.ToolTipRole,
    Qt.ItemDataRole.TextAlignmentRole,
    Qt.ItemDataRole.UserRole,
)
_ALIGNMENTS: Final = (  # of texts, of numbers
    Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
    Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter,
)


class LayersModel(QAbstractTableModel):
    """Reads the session; shows the plan's rows in the order and selection asked for."""

    def __init__(self, session: Session, healths: Healths, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._healths = healths
        self._rows: tuple[PlanRow, ...] = ()
        self._places: dict[str, int] = {}
        self._prefix = ""
        self._gamma: NDArray[np.float64] = np.empty(0)
        self._states: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._order: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._shown_at: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._name_ranks: NDArray[np.intp] | None = None
        self._text, self._role = "", ""
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

    # What is shown

    def reload(self) -> None:
        """Take over the session's plan; where it says the same of every row, only their figures."""
        if self._session.layers.rows is self._rows:
            self._refresh_all()
            return
        self.beginResetModel()
        self._rows = self._session.layers.rows
        self._places = {row.name: place for place, row in enumerate(self._rows)}
        self._prefix = shared_prefix([row.name for row in self._rows if row.block is not None])
        self._name_ranks = None
        self._dirty.clear()
        self._pull()
        self._arrange()
        self.endResetModel()

    def set_filter(self, text: str, role: str) -> None:
        """Show only tensors with ``text`` in their names and, unless empty, this role."""
        if (text, role) == (self._text, self._role):
            return
        self.beginResetModel()
        self._text, self._role = text, role
        self._arrange()
        self.endResetModel()

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that occur, in the order of the plan."""
        return tuple(dict.fromkeys(row.role for row in self._rows))

    @property
    def total(self) -> int:
        """How many rows there are without a filter."""
        return len(self._rows)

    def name_at(self, position: int) -> str:
        """Name of the tensor shown at this position."""
        return self._rows[self._order[position]].name

    def position(self, name: str) -> int:
        """Where a tensor is shown; -1 if it is not."""
        place = self._places.get(name)
        return -1 if place is None else int(self._shown_at[place])

    # Qt's questions

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
            return HEADERS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _ALIGNMENTS[section in FIGURES]
        return HEADER_TIPS[section] if role == Qt.ItemDataRole.ToolTipRole else None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role not in _ANSWERED or not index.isValid() or index.row() >= len(self._order):
            return None
        place, column = int(self._order[index.row()]), index.column()
        if role == _Display:
            return self._cell(place, column)
        if role == Qt.ItemDataRole.DecorationRole:
            return self._icon(place) if column == Column.HEALTH else None
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(place, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._tip(place, column)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _ALIGNMENTS[column in FIGURES]
        if role == Qt.ItemDataRole.UserRole:
            return float(self._gamma[place]) if column == Column.GAMMA else None
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; -1 is the model's order."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        places = [int(self._order[index.row()]) for index in before]
        self._sorting = (column, order)
        self._arrange()
        after = [
            self.index(int(self._shown_at[place]), index.column())
            for place, index in zip(places, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    # Figures that stream in

    def flush(self) -> None:
        """Tell the view, once, of everything that changed since the last time."""
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
        place = self._places.get(name)
        if place is None:
            return
        gamma = self._session.layers.gamma(name)
        self._gamma[place] = np.nan if gamma is None else gamma
        self._states[place] = self._state(name)
        self._dirty.add(place)
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
        if len(self._order):
            self._emit_changed(0, len(self._order) - 1)

    def _emit_changed(self, first: int, last: int) -> None:
        self.dataChanged.emit(self.index(first, Column.GAMMA), self.index(last, Column.STATE))

    def _pull(self) -> None:
        self._gamma = np.full(len(self._rows), np.nan)
        for name, known in self._session.layers.statistics.items():
            place = self._places.get(name)
            if place is not None and known.gamma is not None:
                self._gamma[place] = known.gamma
        self._pull_states()

    def _pull_states(self) -> None:
        merge, session = self._session.results.merge, self._session
        reports = merge.reports if merge is not None else {}
        done = LayerState.DONE if session.merge_is_current else LayerState.EARLIER
        rest = LayerState.WAITING if session.activity.is_running(State.MERGING) else LayerState.NONE
        self._states = np.full(len(self._rows), rest, dtype=np.int8)
        places = self._places
        self._states[[places[name] for name in reports if name in places]] = done

    def _state(self, name: str) -> LayerState:
        merge = self._session.results.merge
        if merge is not None and name in merge.reports:
            return LayerState.DONE if self._session.merge_is_current else LayerState.EARLIER
        merging = self._session.activity.is_running(State.MERGING)
        return LayerState.WAITING if merging else LayerState.NONE

    # Order

    def _arrange(self) -> None:
        kept = np.flatnonzero(self._mask())
        column, order = self._sorting
        if column >= 0 and kept.size:
            ranks = self._sort_key(Column(column))[kept]
            if order == Qt.SortOrder.DescendingOrder:
                ranks = -ranks
            kept = kept[np.argsort(ranks, kind="stable")]  # NaN comes last both ways
        self._order = kept
        self._shown_at = np.full(len(self._rows), -1, dtype=np.intp)
        self._shown_at[kept] = np.arange(len(kept))

    def _mask(self) -> NDArray[np.bool_]:
        if not (self._text or self._role):
            return np.ones(len(self._rows), dtype=np.bool_)
        text = self._text.lower()
        hits = (text in row.name.lower() and self._role in ("", row.role) for row in self._rows)
        return np.fromiter(hits, dtype=np.bool_, count=len(self._rows))

    def _sort_key(self, column: Column) -> NDArray[Any]:
        if column is Column.GAMMA:
            return self._gamma
        if column is Column.LOG_VARIANCE:
            found = (self._log_variance(place) for place in range(len(self._rows)))
            return np.array([np.nan if value is None else value for value in found])
        if column is Column.REGIME:
            regimes = (self._gamma > self._session.draft.tau).astype(np.float64)
            return np.where(np.isnan(self._gamma), np.nan, regimes)
        if column is Column.HEALTH:
            return np.array([self._health_rank(row.name) for row in self._rows])
        if column is Column.STATE:
            return self._states.astype(np.float64)
        if column is Column.SHAPE:
            return np.array([prod(row.shape) for row in self._rows], dtype=np.float64)
        if column is Column.TENSOR:
            return self._ranked_names()
        texts = [row.role if column is Column.ROLE else row.disposition for row in self._rows]
        return np.unique(texts, return_inverse=True)[1]

    def _ranked_names(self) -> NDArray[np.intp]:
        if self._name_ranks is None:
            keys = [natural_key(row.name) for row in self._rows]
            order = sorted(range(len(keys)), key=keys.__getitem__)
            self._name_ranks = np.empty(len(keys), dtype=np.intp)
            self._name_ranks[order] = np.arange(len(keys))
        return self._name_ranks

    # Cells

    def _cell(self, place: int, column: int) -> str:
        row = self._rows[place]
        match column:
            case Column.TENSOR:
                return plain(self._short(row.name))
            case Column.ROLE:
                return row.role
            case Column.SHAPE:
                return shape_text(row.shape)
            case Column.OUTCOME:
                return self._outcome(row)
            case Column.GAMMA:
                return self._gamma_text(place)
            case Column.LOG_VARIANCE:
                value = self._log_variance(place)
                return f"–{GAP}" if value is None else f"{value:.3g}{GAP}"
            case Column.REGIME:
                return REGIME_TEXT[self._regime(place)]
            case Column.HEALTH:
                return self._health_text(place)
            case _:
                return STATE_TEXT[LayerState(self._states[place])]

    def _outcome(self, row: PlanRow) -> str:
        """The disposition; with a mark, and the method in its place, where it is overridden."""
        if row.override is None:
            return row.disposition.value
        titles = {method.name: method.title for method in self._session.draft.methods}
        merged = row.disposition is Disposition.MERGED
        title = titles.get(row.override.method, row.override.method).removesuffix("-Merging")
        what = title if merged else row.disposition.value.removeprefix("kept ")
        return f"{OVERRIDDEN} {what}"

    def _gamma_text(self, place: int) -> str:
        gamma = self._gamma[place]
        if np.isnan(gamma):
            return f"–{GAP}"
        unsure = " ?" if self._is_unsure(place) else ""
        return (f"{gamma:.3f}" if gamma < 100 else f"{gamma:.3g}") + unsure + GAP

    def _is_unsure(self, place: int) -> bool:
        """Whether γ is unreliable here."""
        row = self._rows[place]
        known, plan = self._session.layers.statistics.get(row.name), self._session.draft.plan
        if known is None or plan is None:
            return False
        has_tau = plan.tau_of(row) is not None
        return gamma_unreliable(known, self._session.draft.tau_of(row) if has_tau else None)

    def _log_variance(self, place: int) -> float | None:
        known = self._session.layers.statistics.get(self._rows[place].name)
        return None if known is None else known.log_variance

    def _spoken(self, place: int, column: int) -> str:
        if column == Column.TENSOR:
            return plain(self._rows[place].name)
        if column == Column.HEALTH:
            return self._health_spoken(place)
        if column == Column.GAMMA and self._is_unsure(place):
            return f"{self._gamma[place]:.4g}, {UNRELIABLE}"
        return self._regime(place) if column == Column.REGIME else self._cell(place, column)

    def _health_text(self, place: int) -> str:
        health = self._healths.of(self._rows[place].name)
        if health is None:
            return "–"
        return str(len(health.findings)) if health.findings else "✓"

    def _health_spoken(self, place: int) -> str:
        health = self._healths.of(self._rows[place].name)
        return "not known" if health is None else f"{health.verdict.value} {health.tooltip}".strip()

    def _health_rank(self, name: str) -> float:
        """Sorts the worst first, then by the number of findings; what is not known comes last."""
        health = self._healths.of(name)
        if health is None:
            return np.nan
        return WORST_FIRST.index(health.verdict) - len(health.findings) / 1000

    def _icon(self, place: int) -> QIcon | None:
        health = self._healths.of(self._rows[place].name)
        name = HEALTH_ICONS.get(health.verdict) if health is not None else None
        return icon(name) if name is not None else None

    def _short(self, name: str) -> str:
        """Without what the names of all blocks share, so that the block's number shows."""
        if self._prefix and name.startswith(self._prefix):
            return "…" + name.removeprefix(self._prefix)
        return name

    def _regime(self, place: int) -> str:
        gamma, plan = self._gamma[place], self._session.draft.plan
        if np.isnan(gamma) or plan is None or plan.tau_of(self._rows[place]) is None:
            return "–"
        if not gamma > self._session.draft.tau_of(self._rows[place]):
            return "homogeneous"
        statistics = self._session.layers.statistics.get(self._rows[place].name)
        pole = statistics is not None and near_pole(statistics, self._session.draft.tau)
        return "heterogeneous, γ near its pole" if pole else "heterogeneous"

    def _tip(self, place: int, column: int) -> str:
        row = self._rows[place]
        lines = [row.name, f"{row.disposition.value}: {row.reason}"]
        if not np.isnan(self._gamma[place]):
            lines.append(f"γ = {self._gamma[place]:.4g}: {self._regime(place)}")
            if self._is_unsure(place):
                lines.append(
                    f"{UNRELIABLE}: the mean log energy is near zero, which says more of the scale "
                    "of the weights than of the experts. Var ln E does not depend on that scale."
                )
        if column == Column.STATE:
            lines.append(STATE_TIPS[LayerState(self._states[place])])
        health = self._healths.of(row.name)
        if health is not None:
            lines += [f"• {finding.sentence}" for finding in health.findings]
        return tooltip("\n".join(lines))
