"""The compared merges, as a sortable table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PySide6.QtCore import QObject

from ace_gui.engine.contract.events import MethodCompared
from ace_gui.engine.contract.scored.scores import TaskScore
from ace_gui.formatting import human_bytes
from ace_gui.gui.models.figures_model import NONE, FigureColumn, FiguresModel
from ace_gui.gui.numbers import value_text


@dataclass(frozen=True)
class Figure:
    """A column of numbers: title, tooltip, value and format.

    ``better``: +1 if more is better, -1 if less is, 0 for neither.
    """

    heading: str
    tip: str
    value: Callable[[MethodCompared], float | None]
    format: str = "{:.2f}"
    better: int = 0

    @property
    def title(self) -> str:
        """The title with an arrow towards the better side."""
        return self.heading + ("", " ↑", " ↓")[self.better]

    def known(self, row: MethodCompared) -> float | None:
        """The figure; None if it is not known or the merge failed."""
        value = None if row.error else self.value(row)
        return value if value is not None and math.isfinite(value) else None

    def column(self, rows: Sequence[MethodCompared], tips: Sequence[str]) -> FigureColumn:
        """The figures of all rows, the best of several in bold."""
        found = [self.known(row) for row in rows]
        known = [value for value in found if value is not None]
        best = max(known, key=lambda value: self.better * value, default=None)
        rated = self.better and len(known) > 1
        text = human_bytes if self.format == "bytes" else self.format.format
        return FigureColumn(
            title=self.title,
            values=np.array([math.nan if value is None else value for value in found]),
            tip=self.tip,
            texts=[NONE if value is None else text(value) for value in found],  # type: ignore[arg-type]
            tips=tips,
            strong=frozenset(n for n, value in enumerate(found) if rated and value == best),
        )


def _mean_cosine(row: MethodCompared) -> float | None:
    known = [value for value in row.cosines.values() if math.isfinite(value)]
    return sum(known) / len(known) if known else None


_METHOD_TIP = "The method, and parameters other than its defaults."
_FIGURES = (
    Figure(
        "Norm",
        "Norm of the merged change of all tensors, relative to the experts' mean norm.",
        lambda row: row.relative_norm,
    ),
    Figure(
        "Energy",
        "Square of the norm: energy of the merged change, relative to an expert of mean norm.",
        lambda row: row.relative_norm**2,
    ),
    Figure(
        "Distance",
        "Mean distance of the merged model from the experts, relative to the expert's distance "
        "from the base: 0 is the expert, 1 as far as the base.",
        lambda row: row.mean_distance,
        better=-1,
    ),
    Figure(
        "Cosine",
        "Mean cosine of the merged change and the experts' changes.",
        _mean_cosine,
        better=1,
    ),
    Figure(
        "Warnings",
        "Tensors with a warning about the result.",
        lambda row: row.warned,
        "{}",
        better=-1,
    ),
    Figure(
        "Time",
        "Seconds for planning and merging.",
        lambda row: row.seconds,
        "{:.1f} s",
        better=-1,
    ),
    Figure(
        "Memory",
        "Peak memory of the engine during the merge, including the engine itself.",
        lambda row: row.peak_bytes,
        "bytes",
        better=-1,
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
    def figure(heading: str, tip: str, value: Callable[[MethodCompared], float | None]) -> Figure:
        return Figure(heading, tip, value, "{:.3f}", better=1)

    if not scores:
        return []
    relative = "Mean over the tasks of the score relative to the task's own expert."
    return [
        *(
            figure(
                each.task,
                f"{each.metric} on {each.task}, {each.n} examples.",
                lambda row, task=each.task: row.by_task.get(task),  # type: ignore[misc]
            )
            for each in scores
        ),
        figure("Mean", "Mean score over the tasks.", lambda row: row.mean.score),
        figure("Of experts", relative, lambda row: row.mean.normalised),
    ]


def _details(row: MethodCompared) -> str:
    """Parameters, and the distance from each expert."""
    parameters = (f"{name} {value_text(value)}" for name, value in row.parameters.items())
    lines = [row.title, ", ".join(parameters)]
    lines += [f"distance from {name}: {value:.2f}" for name, value in row.distances.items()]
    return "\n".join(line for line in lines if line)
