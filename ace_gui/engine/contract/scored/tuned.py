"""Parameter values found by search: plain values, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ace_gui.engine.contract.scored.scores import TaskScore
from ace_gui.formatting import value_text
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue


@dataclass(frozen=True, kw_only=True)
class ParameterRange:
    """A parameter of the recipe's method, searched from ``low`` to ``high``."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class TunePoint:
    """One merge of the search, at ``index`` (from 0) ``of`` its number of merges.

    ``score``: the objective, on the half of the data used for the search: the mean share of the
    experts' scores, or the mean score; None if this merge failed, with the reason in ``error``.
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
    """``best``: one of ``points``. ``scores``: of that merge on the other half of the data.

    ``before``: of the original recipe on the same half. ``seconds``: of everything. ``recipe``:
    with the chosen values, and with those that followed from the base model.
    """

    points: tuple[TunePoint, ...]
    best: TunePoint
    scores: tuple[TaskScore, ...]
    before: tuple[TaskScore, ...]
    seconds: float
    recipe: Recipe

    @property
    def compared(self) -> tuple[TaskScore, ...]:
        """``before`` and ``scores``, as the models "as it was" and "chosen"."""
        before = (replace(each, model="as it was") for each in self.before)
        return (*before, *(replace(each, model="chosen") for each in self.scores))


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
