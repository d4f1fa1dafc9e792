"""Values that are looked for by trying them: plain values, nothing of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ace_gui.engine.contract.scores import TaskScore
from ace_gui.recipe.values import ParameterValue


@dataclass(frozen=True, kw_only=True)
class ParameterRange:
    """A parameter of the recipe's method, tried from ``low`` to ``high``."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class TunePoint:
    """One merge that was tried, the one at ``place`` (from 0) ``of`` so many.

    ``score``: what is made large, on the half of the data that is searched with: the mean share of
    the experts' scores, or the mean score; None where this merge failed, for the reason ``error``.
    ``seconds``: of merging and scoring.
    """

    parameters: Mapping[str, ParameterValue]
    place: int
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
