"""Scores that say nothing: those of answers at random, and differences that chance makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import fsum, isfinite, sqrt

from ace_gui.engine.contract.scored import MeanScore, TaskScore, Tuned, means

_ERRORS = 2
"""Standard errors within which a difference is not told from chance."""


def chance_notes(scores: Sequence[TaskScore]) -> Iterator[str]:
    """Which models score at chance, one sentence for each task."""
    for task in dict.fromkeys(score.task for score in scores):
        guessing = [score for score in scores if score.task == task and is_at_chance(score)]
        if guessing:
            models = ", ".join(dict.fromkeys(score.model for score in guessing))
            yield f"On {task}, at chance ({guessing[0].chance:.3g}): {models}."


def is_at_chance(score: TaskScore) -> bool:
    """Whether answers at random would reach the score within two standard errors."""
    if score.chance is None or not isfinite(score.standard_error):
        return False
    return abs(score.score - score.chance) <= _ERRORS * score.standard_error


def why_nothing_chosen(tuned: Tuned) -> str:
    """Why a search's best values are no better than others, as a sentence; empty if they are."""
    if not _differ_by_noise(tuned):
        return ""
    why = "they differ no more than chance makes them"
    if all(map(is_at_chance, tuned.before)):
        levels = dict.fromkeys(f"{score.chance:.3g}" for score in tuned.before)
        why = f"they are those of answers at random ({', '.join(levels)})"
    return f"By these scores nothing can be chosen: {why}."


def _differ_by_noise(tuned: Tuned) -> bool:
    """Whether the search's merges differ by less than twice the standard error of their mean."""
    scores = [point.score for point in tuned.points if point.score is not None]
    errors = [score.standard_error for score in tuned.before]
    mean = mean_score(tuned.before)
    if len(scores) < 2 or not mean.score or not all(map(isfinite, errors)):
        return False
    error = sqrt(fsum(error**2 for error in errors)) / len(errors)
    if mean.normalised is not None:
        error = error * mean.normalised / mean.score
    return max(scores) - min(scores) <= _ERRORS * error


def mean_score(scores: tuple[TaskScore, ...]) -> MeanScore:
    """The mean of one model's scores."""
    return means([replace(score, own=False) for score in scores])[0]
