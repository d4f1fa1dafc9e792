"""The tables of compared merges and of one merge's scores by task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from PySide6.QtCore import QObject

from ace_gui.engine.contract.events import MethodCompared
from ace_gui.engine.contract.scored import TaskScore, finite_or_none
from ace_gui.formatting import human_bytes, number_text
from ace_gui.gui.models.figures_model import NONE, FigureColumn, FiguresModel, column_of
from ace_gui.gui.state.known_scores import ScoreFigure, TaskFigures
from ace_gui.gui.text import plain, value_text


@dataclass(frozen=True)
class MergeFigure:
    """A column of numbers. ``better``: +1 if more is better, -1 if less is, 0 for neither."""

    heading: str
    tip: str
    value: Callable[[MethodCompared], float | None]
    format: str = "{:.2f}"
    better: int = 0

    @property
    def title(self) -> str:
        """The heading with an arrow that says whether more or less is better."""
        return self.heading + ("", " ↑", " ↓")[self.better]

    def value_of(self, row: MethodCompared) -> float | None:
        """The value of a row; None if it is not known or the merge failed."""
        if row.error:
            return None
        return finite_or_none(self.value(row))

    def column(self, rows: Sequence[MethodCompared], tips: Sequence[str]) -> FigureColumn:
        """The column of all rows, with the best of several values in bold."""
        figures = [self.value_of(row) for row in rows]
        numbers = [value for value in figures if value is not None]
        best = max(numbers, key=lambda value: self.better * value, default=None)
        rated = self.better and len(numbers) > 1
        if self.format == "bytes":
            text = human_bytes
        else:
            text = self.format.format
        return FigureColumn(
            self.title,
            np.array([math.nan if value is None else value for value in figures]),
            self.tip,
            texts=[NONE if value is None else text(value) for value in figures],  # type: ignore[arg-type]
            tips=tips,
            strong=frozenset(n for n, value in enumerate(figures) if rated and value == best),
        )


def _mean_cosine(row: MethodCompared) -> float | None:
    finite = [value for value in row.cosines.values() if math.isfinite(value)]
    if finite:
        return sum(finite) / len(finite)
    return None


_METHOD_TIP = "The method, and parameters other than its defaults."
_FIGURES = (
    MergeFigure(
        "Norm",
        "Norm of the merged change of all tensors, relative to the experts' mean norm.",
        lambda row: row.relative_norm,
    ),
    MergeFigure(
        "Energy",
        "Square of the norm: energy of the merged change, relative to an expert with mean norm.",
        lambda row: row.relative_norm**2,
    ),
    MergeFigure(
        "Distance",
        "Mean distance of the merged model from the experts, relative to the expert's distance "
        "from the base. 0: equal to the expert; 1: as far as the base.",
        lambda row: row.mean_distance,
        better=-1,
    ),
    MergeFigure(
        "Cosine",
        "Mean cosine between the merged change and each expert's change.",
        _mean_cosine,
        better=1,
    ),
    MergeFigure(
        "Warnings",
        "Number of tensors with a warning about the result.",
        lambda row: row.warned,
        "{}",
        better=-1,
    ),
    MergeFigure(
        "Time", "Seconds for planning and merging.", lambda row: row.seconds, "{:.1f} s", better=-1
    ),
    MergeFigure(
        "Memory",
        "Peak memory of the engine during the merge, including the engine itself.",
        lambda row: row.peak_bytes,
        "bytes",
        better=-1,
    ),
)


class ComparedModel(FiguresModel):
    """The compared merges in their own order. It has columns of scores if any row has scores."""

    gap = ""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[MethodCompared, ...] = ()
        self._figures: list[MergeFigure] = []
        self._titles: Mapping[str, str] = {}
        self.show_rows(())

    def show_rows(
        self, rows: tuple[MethodCompared, ...], titles: Mapping[str, str] | None = None
    ) -> None:
        """Show these merges. ``titles``: those of the session's runs, by their stores."""
        scores = next((row.scores for row in rows if row.scores), ())
        self._rows = rows
        self._titles = titles or {}
        self._figures = [*_score_figures(scores), *_FIGURES]
        names = [self.title_of(row) for row in rows]
        tips = [row.error or _details(row) for row in rows]
        method = FigureColumn("Merge", names, _METHOD_TIP, tips=tips)
        self.set_columns([method, *(figure.column(rows, tips) for figure in self._figures)])

    def title_of(self, row: MethodCompared) -> str:
        """The name of a merge, as on the other pages."""
        return plain(self._titles.get(str(row.variant.store), row.title))

    def row_at(self, position: int) -> MethodCompared:
        return self._rows[self.source_row(position)]

    def position_of(self, row: MethodCompared) -> int:
        """The row of a merge, or -1."""
        if row in self._rows:
            return self.position(self._rows.index(row))
        return -1

    @property
    def rows(self) -> tuple[MethodCompared, ...]:
        """The merges in displayed order."""
        return tuple(map(self.row_at, range(len(self._rows))))

    @property
    def main_figure(self) -> MergeFigure:
        """The mean score, or else the distance from the experts, or what is known at once."""
        by_heading = {figure.heading: figure for figure in self._figures}
        for heading in ("Mean", "Distance", "Norm"):
            figure = by_heading.get(heading)
            if figure is not None and any(figure.value_of(row) is not None for row in self._rows):
                return figure
        return by_heading["Distance"]

    @property
    def sorted_figure(self) -> MergeFigure:
        """The figure that the rows are sorted by, or else the main one."""
        index = self.sorting[0] - 1
        if 0 <= index < len(self._figures):
            return self._figures[index]
        return self.main_figure

    def exported(self) -> tuple[FigureColumn, ...]:
        """The table in its displayed order, with full precision and the errors of failed merges."""
        method, *figures = self.columns_of(range(self.rowCount()))
        titled = (replace(c, title=f.heading) for c, f in zip(figures, self._figures, strict=True))
        return (method, *titled, FigureColumn("Error", [r.error for r in self.rows]))


def _score_figures(scores: tuple[TaskScore, ...]) -> list[MergeFigure]:
    def figure(
        heading: str, tip: str, value: Callable[[MethodCompared], float | None]
    ) -> MergeFigure:
        return MergeFigure(heading, tip, value, "{:.3f}", better=1)

    if not scores:
        return []
    relative = "Mean over the tasks of the score relative to the task's own expert."
    return [
        *(
            figure(
                score.task,
                f"{score.metric} on {score.task}, {score.n} examples.",
                lambda row, task=score.task: row.by_task.get(task),  # type: ignore[misc]
            )
            for score in scores
        ),
        figure("Mean", "Mean score over the tasks.", lambda row: row.mean.score),
        figure("Of experts", relative, lambda row: row.mean.normalised),
    ]


def _details(row: MethodCompared) -> str:
    """The parameters of a merge and its distance from each expert."""
    parameters = (f"{name} {value_text(value)}" for name, value in row.parameters.items())
    lines = [row.title, ", ".join(parameters)]
    lines += [f"distance from {name}: {value:.2f}" for name, value in row.distances.items()]
    return "\n".join(line for line in lines if line)


TASK, BASE, MERGE, EXPERT, KEPT, LOST, GAINED, COUNT = range(8)


def score_text(value: float) -> str:
    """``0.807``, ``12.4``; a dash if unknown."""
    if not math.isfinite(value):
        return NONE
    if abs(value) < 10:
        return f"{value:.3f}".replace("-", "−")
    return number_text(value, 4)


def figure_words(figure: ScoreFigure) -> str:
    """``0.807 ± 0.020``."""
    is_finite = math.isfinite(figure.value) and math.isfinite(figure.error)
    return score_text(figure.value) + (f" ± {score_text(figure.error)}" if is_finite else "")


def _count(value: int | None) -> str:
    if value is None:
        return NONE
    return str(value)


_COLUMNS: Final[tuple[tuple[str, str, Callable[[TaskFigures], str]], ...]] = (
    # title, tip and text
    ("Task", "The task, and how it is measured.", lambda row: plain(row.title)),
    ("Base", "The base model's score.", lambda row: score_text(row.base.value)),
    ("Merged", "The merged model's score.", lambda row: figure_words(row.merge)),
    ("Expert", "The score of the task's own expert.", lambda row: score_text(row.expert.value)),
    (
        "Kept",
        "Merged / expert (for perplexity, expert / merged): the share of the expert's score kept.",
        lambda row: f"{100 * row.kept:.0f} %" if math.isfinite(row.kept) else NONE,
    ),
    (
        "Lost",
        "Examples that the expert gets right and the merge wrong; for a loss, examples "
        "whose loss grew.",
        lambda row: _count(row.lost),
    ),
    (
        "Gained",
        "Examples that the merge gets right and the expert wrong; for a loss, examples "
        "whose loss fell.",
        lambda row: _count(row.gained),
    ),
    ("n", "Number of examples scored.", lambda row: str(row.n)),
)
_EXPORTED: Final[tuple[tuple[str, Callable[[TaskFigures], object]], ...]] = (
    ("task", lambda row: plain(row.title)),
    ("metric", lambda row: row.metric),
    ("base", lambda row: row.base.value),
    ("base, standard error", lambda row: row.base.error),
    ("merge", lambda row: row.merge.value),
    ("merge, standard error", lambda row: row.merge.error),
    ("expert", lambda row: row.expert.value),
    ("expert, standard error", lambda row: row.expert.error),
    ("kept", lambda row: row.kept),
    ("lost", lambda row: row.lost),
    ("gained", lambda row: row.gained),
    ("n", lambda row: row.n),
    ("chance", lambda row: row.chance),
)


class TaskFiguresModel(FiguresModel):
    """One merge's scores by task. ``rows``: the displayed figures."""

    gap = ""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.show_figures(())

    def show_figures(self, rows: Sequence[TaskFigures]) -> None:
        self.rows: tuple[TaskFigures, ...] = tuple(rows)
        numbers = np.full(len(rows), math.nan)  # the texts are shown, and nothing is sorted
        self.set_columns(
            [
                FigureColumn(
                    title,
                    numbers if column else [plain(row.title) for row in rows],
                    tip,
                    texts=[text(row) for row in rows],
                    tips=[_tip(row, column) for row in rows],
                )
                for column, (title, tip, text) in enumerate(_COLUMNS)
            ]
        )

    def exported(self) -> tuple[FigureColumn, ...]:
        """The table with full precision and all standard errors, to be copied or saved."""
        return tuple(column_of(title, map(value, self.rows)) for title, value in _EXPORTED)


def _tip(row: TaskFigures, column: int) -> str:
    if row.owner:
        whose = f"the task of {row.owner}"
    else:
        whose = "a task without an expert"
    if column == TASK:
        if row.is_mean:
            return "Unweighted mean of all tasks"
        return f"{row.metric}, {whose}"
    _, tip, text = _COLUMNS[column]
    figure = {BASE: row.base, MERGE: row.merge, EXPERT: row.expert}.get(column)
    if figure is None:
        figure_text = text(row)
    else:
        figure_text = figure_words(figure)
    return f"{row.title}: {figure_text}\n{tip}"
