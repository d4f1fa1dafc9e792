"""The scores of one merge as a table: one row per task, the mean on top."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, Qt

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn, FiguresModel
from ace_gui.gui.state.found.score_figures import Figure, TaskFigures
from ace_gui.gui.text import plain, tooltip

_Index = QModelIndex | QPersistentModelIndex
FIGURES: Final = Qt.ItemDataRole.UserRole
TASK, BASE, MERGE, EXPERT, KEPT, LOST, GAINED, COUNT = range(8)
HEADERS: Final = (
    "Task",
    "Base",
    "Merged",
    "Expert",
    "Kept",
    "Lost",
    "Gained",
    "n",
)
_TIPS: Final = (
    "The task, and how it is measured.",
    "The base model's score.",
    "The merged model's score.",
    "The score of the task's own expert.",
    "Merged / expert (for perplexity, expert / merged): the share of the expert's score kept.",
    "Examples right by the expert and wrong by the merge; for a loss, those where it grew.",
    "Examples right by the merge and wrong by the expert; for a loss, those where it fell.",
    "Number of examples scored.",
)
_NONE: Final = "–"


class TaskFiguresModel(FiguresModel):
    """``FIGURES`` is the role of a row's TaskFigures."""

    gap = ""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.show_figures(())

    def show_figures(self, rows: Sequence[TaskFigures]) -> None:
        self.rows: tuple[TaskFigures, ...] = tuple(rows)
        numbers = np.full(len(rows), math.nan)  # what is shown is not sorted
        names = [plain(row.title) for row in rows]
        self.set_columns(
            [
                FigureColumn(title=title, values=numbers if index else names, tip=_TIPS[index])
                for index, title in enumerate(HEADERS)
            ]
        )

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self.rows):
            return None
        row, column = self.rows[index.row()], index.column()
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return _text(row, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(_tip(row, column))
        return row if role == FIGURES else super().data(index, role)

    def exported(self) -> tuple[FigureColumn, ...]:
        """With full precision and all standard errors, for copying and saving."""
        rows = self.rows
        found = [FigureColumn(title="task", values=[plain(row.title) for row in rows])]
        found.append(FigureColumn(title="metric", values=[row.metric for row in rows]))
        for name in ("base", "merge", "expert"):
            figures = [getattr(row, name) for row in rows]
            values = np.array([each.value for each in figures])
            errors = np.array([each.error for each in figures])
            found.append(FigureColumn(title=name, values=values))
            found.append(FigureColumn(title=f"{name}, standard error", values=errors))
        found.append(FigureColumn(title="kept", values=np.array([row.kept for row in rows])))
        for name in ("lost", "gained"):
            counts = [getattr(row, name) for row in rows]
            numbers = np.array([math.nan if each is None else each for each in counts])
            found.append(FigureColumn(title=name, values=numbers))
        found.append(FigureColumn(title="n", values=np.array([row.n for row in rows])))
        return tuple(found)


def score_text(value: float) -> str:
    """``0.807``, ``12.4``; a dash if unknown."""
    if not math.isfinite(value):
        return _NONE
    return f"{value:.3f}".replace("-", "−") if abs(value) < 10 else number_text(value, 4)


def share_text(value: float) -> str:
    """``87 %``; a dash if unknown."""
    return f"{100 * value:.0f} %" if math.isfinite(value) else _NONE


def figure_words(figure: Figure) -> str:
    """``0.807 ± 0.020``."""
    known = math.isfinite(figure.value) and math.isfinite(figure.error)
    return score_text(figure.value) + (f" ± {score_text(figure.error)}" if known else "")


def _text(row: TaskFigures, column: int) -> str:
    texts = {
        TASK: plain(row.title),
        BASE: score_text(row.base.value),
        MERGE: figure_words(row.merge),
        EXPERT: score_text(row.expert.value),
        KEPT: share_text(row.kept),
        LOST: _NONE if row.lost is None else str(row.lost),
        GAINED: _NONE if row.gained is None else str(row.gained),
        COUNT: str(row.n),
    }
    return texts[column]


def _tip(row: TaskFigures, column: int) -> str:
    whose = f"the task of {row.owner}" if row.owner else "no expert's task"
    if column == TASK:
        return "Unweighted mean of all tasks" if row.is_mean else f"{row.metric}, {whose}"
    figure = {BASE: row.base, MERGE: row.merge, EXPERT: row.expert}.get(column)
    shown = _text(row, column) if figure is None else figure_words(figure)
    return f"{row.title}: {shown}\n{_TIPS[column]}"
