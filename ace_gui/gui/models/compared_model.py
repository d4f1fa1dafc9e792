"""The compared merges, as a sortable table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PySide6.QtCore import QObject

from ace_gui.engine.contract.events import MethodCompared
from ace_gui.engine.contract.scored.scores import TaskScore
from ace_gui.formatting import human_bytes
from ace_gui.gui.models.figures_model import NONE, FigureColumn, FiguresModel
from ace_gui.gui.numbers import value_text


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

    def column(self, rows: Sequence[MethodCompared], tips: Sequence[str]) -> FigureColumn:
        """The figures of all rows, the best of several in bold."""
        found = [self.known(row) for row in rows]
        known = [value for value in found if value is not None]
        best = max(known, key=lambda value: self.better * value, default=None)
        rated = self.better and len(known) > 1
        return FigureColumn(
            title=self.title,
            values=np.array([math.nan if value is None else value for value in found]),
            tip=self.tip,
            texts=[NONE if value is None else self.text(value) for value in found],
            tips=tips,
            strong=frozenset(n for n, value in enumerate(found) if rated and value == best),
        )


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
        titles, tips = [row.title for row in rows], [row.error or _details(row) for row in rows]
        method = FigureColumn(title="Method", values=titles, tip=_METHOD_TIP, tips=tips)
        self.set_columns([method, *(each.column(rows, tips) for each in self._figures)])

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

    def exported(self) -> tuple[FigureColumn, ...]:
        """The table as it is sorted, with full precision, and why merges failed."""
        method, *figures = self.columns_of(range(self.rowCount()))
        named = (replace(c, title=f.heading) for c, f in zip(figures, self._figures, strict=True))
        return (method, *named, FigureColumn(title="Error", values=[r.error for r in self.rows]))


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
