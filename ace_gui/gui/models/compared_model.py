"""The compared merges, as a sortable table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ace_gui.engine.contract.events import MethodCompared
from ace_gui.engine.contract.scored.scores import TaskScore
from ace_gui.formatting import csv_text, human_bytes
from ace_gui.gui.numbers import value_text
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face

_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A column: title, tooltip, value and format.

    ``better``: +1 if more is better, -1 if less is, 0 for neither.
    """

    heading: str
    tip: str
    value: Callable[[MethodCompared], float | str | None]
    text: Callable[[Any], str] = str
    better: int = 0

    @property
    def title(self) -> str:
        """The title with an arrow towards the better side."""
        return self.heading + {1: " ↑", -1: " ↓", 0: ""}[self.better]


def _two(value: float) -> str:
    return f"{value:.2f}"


def _three(value: float) -> str:
    return f"{value:.3f}"


def _mean_cosine(row: MethodCompared) -> float | None:
    known = [value for value in row.cosines.values() if math.isfinite(value)]
    return sum(known) / len(known) if known else None


_METHOD = Figure(
    heading="Method",
    tip="The method, and parameters other than its defaults.",
    value=lambda r: r.title,
)
_FIGURES = (
    Figure(
        heading="Norm",
        tip="Norm of the merged change of all tensors, relative to the experts' mean norm.",
        value=lambda row: row.relative_norm,
        text=_two,
    ),
    Figure(
        heading="Energy",
        tip="Square of the norm: energy of the merged change, relative to an expert of mean norm.",
        value=lambda row: row.relative_norm**2,
        text=_two,
    ),
    Figure(
        heading="Distance",
        better=-1,
        tip="Mean distance of the merged model from the experts, relative to the expert's distance "
        "from the base: 0 is the expert, 1 as far as the base.",
        value=lambda row: row.mean_distance,
        text=_two,
    ),
    Figure(
        heading="Cosine",
        better=1,
        tip="Mean cosine of the merged change and the experts' changes.",
        value=_mean_cosine,
        text=_two,
    ),
    Figure(
        heading="Warnings",
        better=-1,
        tip="Tensors with a warning about the result.",
        value=lambda row: row.warned,
    ),
    Figure(
        heading="Time",
        better=-1,
        tip="Seconds for planning and merging.",
        value=lambda row: row.seconds,
        text=lambda seconds: f"{seconds:.1f} s",
    ),
    Figure(
        heading="Memory",
        better=-1,
        tip="Peak memory of the engine during the merge, including the engine itself.",
        value=lambda row: row.peak_bytes,
        text=human_bytes,
    ),
)


class ComparedModel(QAbstractTableModel):
    """Rows as given. There are score columns if any row has scores."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[MethodCompared] = []
        self._columns: list[Figure] = [_METHOD, *_FIGURES]
        self._sorting: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)

    def show_rows(self, rows: tuple[MethodCompared, ...]) -> None:
        """Replace the rows."""
        self.beginResetModel()
        scores = next((row.scores for row in rows if row.scores), ())
        self._columns = [_METHOD, *_scores(scores), *_FIGURES]
        self._rows = list(rows)
        self._arrange()
        self.endResetModel()

    def row_at(self, position: int) -> MethodCompared:
        """The merge in this row."""
        return self._rows[position]

    def position(self, row: MethodCompared) -> int:
        """The row of a merge, or -1."""
        return self._rows.index(row) if row in self._rows else -1

    @property
    def rows(self) -> tuple[MethodCompared, ...]:
        """The merges in displayed order."""
        return tuple(self._rows)

    @property
    def main_figure(self) -> Figure:
        """The mean score if there is one, else the distance from the experts."""
        wanted = "Mean" if any(c.heading == "Mean" for c in self._columns) else "Distance"
        return next(column for column in self._columns if column.heading == wanted)

    @property
    def sorted_figure(self) -> Figure:
        """The figure that the rows are sorted by, or else the main one."""
        index, _ = self._sorting
        return self._columns[index] if 0 < index < len(self._columns) else self.main_figure

    def figure_of(self, row: MethodCompared, column: Figure) -> float | None:
        """A figure as a number; None if not known."""
        value = self._value(row, column)
        return float(value) if isinstance(value, int | float) else None

    def as_csv(self) -> str:
        """The table as CSV with full precision."""
        rows: list[list[object]] = [[*(column.heading for column in self._columns), "Error"]]
        for row in self._rows:
            values = [_METHOD.value(row), *(self._value(row, c) for c in self._columns[1:])]
            rows.append([*("" if v is None else v for v in values), row.error])
        return csv_text(rows)

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self._columns):
            return None
        if role == _Role.DisplayRole:
            return self._columns[section].title
        if role == _Role.TextAlignmentRole:
            return _alignment(section)
        return tooltip(self._columns[section].tip) if role == _Role.ToolTipRole else None

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        row, column = self._rows[index.row()], self._columns[index.column()]
        if role in (_Role.DisplayRole, _Role.AccessibleTextRole):
            value = column.value(row) if column is _METHOD else self._value(row, column)
            return "–" if value is None else plain(column.text(value))
        if role == _Role.TextAlignmentRole:
            return _alignment(index.column())
        if role == _Role.FontRole and self._is_best(row, column):
            return face(Face.STRONG)
        if role == _Role.ToolTipRole:
            return tooltip(row.error or _details(row))
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; -1 is the order of merging. Missing values come last."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        kept = [self._rows[index.row()] for index in before]
        self._sorting = (column, order)
        self._arrange()
        after = [
            self.index(self._rows.index(row), index.column())
            for row, index in zip(kept, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _is_best(self, row: MethodCompared, column: Figure) -> bool:
        """Whether no other row is better in this figure."""
        values = [v for each in self._rows if (v := self.figure_of(each, column)) is not None]
        own = self.figure_of(row, column) if column.better else None
        if own is None or len(values) < 2:
            return False
        return own == (max(values) if column.better > 0 else min(values))

    def _arrange(self) -> None:
        index, order = self._sorting
        if not 0 <= index < len(self._columns):
            return
        column = self._columns[index]

        def value(row: MethodCompared) -> Any:
            return column.value(row) if column is _METHOD else self._value(row, column)

        known = [row for row in self._rows if value(row) is not None]
        known.sort(key=value, reverse=order == Qt.SortOrder.DescendingOrder)
        self._rows = known + [row for row in self._rows if value(row) is None]

    def _value(self, row: MethodCompared, column: Figure) -> float | str | None:
        """A figure; None if it is not known or the merge failed."""
        value = None if row.error else column.value(row)
        return None if isinstance(value, float) and not math.isfinite(value) else value


def _scores(scores: tuple[TaskScore, ...]) -> list[Figure]:
    found = [
        Figure(
            heading=each.task,
            tip=f"{each.metric} on {each.task}, {each.n} examples.",
            value=lambda row, task=each.task: row.by_task.get(task),  # type: ignore[misc]
            text=_three,
            better=1,
        )
        for each in scores
    ]
    mean = Figure(
        heading="Mean",
        tip="Mean score over the tasks.",
        value=lambda row: row.mean.score,
        text=_three,
        better=1,
    )
    normalised = Figure(
        heading="Of experts",
        tip="Mean over the tasks of the score relative to the task's own expert.",
        value=lambda row: row.mean.normalised,
        text=_three,
        better=1,
    )
    return [*found, mean, normalised] if found else []


def _details(row: MethodCompared) -> str:
    """Parameters, and the distance from each expert."""
    parameters = (f"{name} {value_text(value)}" for name, value in row.parameters.items())
    lines = [row.title, ", ".join(parameters)]
    lines += [f"distance from {name}: {value:.2f}" for name, value in row.distances.items()]
    return "\n".join(line for line in lines if line)


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
