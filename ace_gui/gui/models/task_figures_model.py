"""The scores of one merge as a table: one row per task, the mean on top."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QObject

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import NONE, FigureColumn, FiguresModel, column_of
from ace_gui.gui.state.found.known_scores import Figure, TaskFigures
from ace_gui.gui.text import plain

TASK, BASE, MERGE, EXPERT, KEPT, LOST, GAINED, COUNT = range(8)


def score_text(value: float) -> str:
    """``0.807``, ``12.4``; a dash if unknown."""
    if not math.isfinite(value):
        return NONE
    return f"{value:.3f}".replace("-", "−") if abs(value) < 10 else number_text(value, 4)


def figure_words(figure: Figure) -> str:
    """``0.807 ± 0.020``."""
    known = math.isfinite(figure.value) and math.isfinite(figure.error)
    return score_text(figure.value) + (f" ± {score_text(figure.error)}" if known else "")


def _count(value: int | None) -> str:
    return NONE if value is None else str(value)


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
)


class TaskFiguresModel(FiguresModel):
    """``rows``: the figures shown."""

    gap = ""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.show_figures(())

    def show_figures(self, rows: Sequence[TaskFigures]) -> None:
        self.rows: tuple[TaskFigures, ...] = tuple(rows)
        numbers = np.full(len(rows), math.nan)  # what is shown is not sorted
        self.set_columns(
            [
                FigureColumn(
                    title=title,
                    values=numbers if column else [plain(row.title) for row in rows],
                    tip=tip,
                    texts=[text(row) for row in rows],
                    tips=[_tip(row, column) for row in rows],
                )
                for column, (title, tip, text) in enumerate(_COLUMNS)
            ]
        )

    def exported(self) -> tuple[FigureColumn, ...]:
        """With full precision and all standard errors, for copying and saving."""
        return tuple(column_of(title, map(value, self.rows)) for title, value in _EXPORTED)


def _tip(row: TaskFigures, column: int) -> str:
    whose = f"the task of {row.owner}" if row.owner else "no expert's task"
    if column == TASK:
        return "Unweighted mean of all tasks" if row.is_mean else f"{row.metric}, {whose}"
    _, tip, text = _COLUMNS[column]
    figure = {BASE: row.base, MERGE: row.merge, EXPERT: row.expert}.get(column)
    shown = text(row) if figure is None else figure_words(figure)
    return f"{row.title}: {shown}\n{tip}"
