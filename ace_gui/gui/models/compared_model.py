"""The compared merges, as a sortable table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, Qt

from ace_gui.engine.contract.events import MethodCompared
from ace_gui.engine.contract.scored.scores import TaskScore
from ace_gui.formatting import csv_text, human_bytes
from ace_gui.gui.models.figures_model import FigureColumn, FiguresModel
from ace_gui.gui.numbers import value_text
from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import Face, face

_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A column of numbers: title, tooltip, value and format.

    ``better``: +1 if more is better, -1 if less is, 0 for neither.
    """

    heading: str
    tip: str
    value: Callable[[MethodCompared], float | None]
    text: Callable[[Any], str] = str
    better: int = 0

    @property
    def title(self) -> str:
        """The title with an arrow towards the better side."""
        return self.heading + {1: " ↑", -1: " ↓", 0: ""}[self.better]

    def known(self, row: MethodCompared) -> float | None:
        """The figure; None if it is not known or the merge failed."""
        value = None if row.error else self.value(row)
        return None if value is not None and not math.isfinite(value) else value

    def column(self, rows: Sequence[MethodCompared]) -> FigureColumn:
        """The figures of all rows, for sorting."""
        values = [math.nan if (v := self.known(row)) is None else v for row in rows]
        return FigureColumn(title=self.title, values=np.array(values), tip=self.tip)


def _two(value: float) -> str:
    return f"{value:.2f}"


def _three(value: float) -> str:
    return f"{value:.3f}"


def _mean_cosine(row: MethodCompared) -> float | None:
    known = [value for value in row.cosines.values() if math.isfinite(value)]
    return sum(known) / len(known) if known else None


_METHOD_TIP = "The method, and parameters other than its defaults."
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


class ComparedModel(FiguresModel):
    """Rows as given. There are score columns if any row has scores."""

    gap = ""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[MethodCompared, ...] = ()
        self._figures: list[Figure] = []
        self.show_rows(())

    def show_rows(self, rows: tuple[MethodCompared, ...]) -> None:
        scores = next((row.scores for row in rows if row.scores), ())
        self._rows, self._figures = rows, [*_scores(scores), *_FIGURES]
        method = FigureColumn(title="Method", values=[row.title for row in rows], tip=_METHOD_TIP)
        self.set_columns([method, *(each.column(rows) for each in self._figures)])

    def row_at(self, position: int) -> MethodCompared:
        return self._rows[self.source_row(position)]

    def position_of(self, row: MethodCompared) -> int:
        """The row of a merge, or -1."""
        return self.position(self._rows.index(row)) if row in self._rows else -1

    @property
    def rows(self) -> tuple[MethodCompared, ...]:
        """The merges in displayed order."""
        return tuple(map(self.row_at, range(len(self._rows))))

    @property
    def main_figure(self) -> Figure:
        """The mean score if there is one, else the distance from the experts."""
        by_heading = {figure.heading: figure for figure in self._figures}
        return by_heading.get("Mean") or by_heading["Distance"]

    @property
    def sorted_figure(self) -> Figure:
        """The figure that the rows are sorted by, or else the main one."""
        index = self.sorting[0] - 1
        return self._figures[index] if 0 <= index < len(self._figures) else self.main_figure

    def as_csv(self) -> str:
        """The table as CSV with full precision."""
        rows: list[list[object]] = [["Method", *(f.heading for f in self._figures), "Error"]]
        for row in self.rows:
            values = (figure.known(row) for figure in self._figures)
            rows.append([row.title, *("" if v is None else v for v in values), row.error])
        return csv_text(rows)

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        row = self.row_at(index.row())
        if role == _Role.ToolTipRole:
            return tooltip(row.error or _details(row))
        if index.column() == 0 or role == _Role.TextAlignmentRole:
            return super().data(index, role)
        figure = self._figures[index.column() - 1]
        if role in (_Role.DisplayRole, _Role.AccessibleTextRole):
            value = figure.known(row)
            return "–" if value is None else figure.text(value)
        return face(Face.STRONG) if role == _Role.FontRole and self._is_best(row, figure) else None

    def _is_best(self, row: MethodCompared, figure: Figure) -> bool:
        """Whether no other row is better in this figure."""
        values = [v for each in self._rows if (v := figure.known(each)) is not None]
        own = figure.known(row) if figure.better else None
        if own is None or len(values) < 2:
            return False
        return own == (max(values) if figure.better > 0 else min(values))


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
