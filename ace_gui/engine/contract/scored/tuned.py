"""Values that are looked for by trying them: plain values, nothing of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ace_gui.engine.contract.scored.scores import TaskScore
from ace_gui.formatting import value_text
from ace_gui.recipe.values import ParameterValue


@dataclass(frozen=True, kw_only=True)
class ParameterRange:
    """A parameter of the recipe's method, tried from ``low`` to ``high``."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class TunePoint:
    """One merge that was tried, the one at ``index`` (from 0) ``of`` so many.

    ``score``: what is made large, on the half of the data that is searched with: the mean share of
    the experts' scores, or the mean score; None where this merge failed, for the reason ``error``.
    ``seconds``: of merging and scoring.
    """

    parameters: Mapping[str, ParameterValue]
    index: int
    of: int
    score: float | None
    seconds: float
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """``best``: of ``points``. ``scores``: of that merge on the half of the data not searched
    with; ``before``: of the recipe as it was, on the same. ``seconds``: of everything."""

    points: tuple[TunePoint, ...]
    best: TunePoint
    scores: tuple[TaskScore, ...]
    before: tuple[TaskScore, ...]
    seconds: float


def values_of(point: TunePoint) -> str:
    """``scaling 0.8, tau 0.3``."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in point.parameters.items())


def how_chosen(found: Tuned) -> str:
    """A note for the recipe: how its values were chosen, and what that means for its scores."""
    tasks = ", ".join(each.task for each in found.scores)
    return (
        f"{values_of(found.best)}, the best of {len(found.points)} merges on half of the data of "
        f"{tasks}; scores of these data are no longer of unseen ones"
    )
