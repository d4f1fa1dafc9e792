"""What is said of scores that are those of answers at random."""

import math

import pytest

from ace_gui.engine.contract.noise import chance_notes, is_at_chance, why_nothing_chosen
from ace_gui.engine.contract.scored import TaskScore, Tuned, TunePoint, score_from
from ace_gui.recipe import ModelEntry, Recipe


def score(value: float, *, chance: float | None, error: float = 0.01, task: str = "one"):
    fields = {"metric": "accuracy", "n": 100, "standard_error": error, "chance": chance}
    return TaskScore(model="base", task=task, score=value, **fields)


@pytest.mark.parametrize(
    ("value", "chance", "error", "guessing"),
    [
        (0.12, 0.1, 0.01, True),
        (0.081, 0.1, 0.01, True),
        (0.121, 0.1, 0.01, False),
        (0.12, None, 0.01, False),
        (0.12, 0.1, math.nan, False),
    ],
)
def test_a_score_is_at_chance_within_two_standard_errors(value, chance, error, guessing):
    task_score = score(value, chance=chance, error=error)
    assert is_at_chance(task_score) is guessing
    assert list(chance_notes([task_score])) == ["On one, at chance (0.1): base."] * guessing


def test_the_record_has_the_level_of_chance_where_it_is_known():
    task_score = score(0.5, chance=0.25)
    assert task_score.record()["chance"] == 0.25
    assert score_from(task_score.record()).chance == 0.25
    assert "chance" not in score(0.5, chance=None).record()
    assert score_from(score(0.5, chance=None).record()).chance is None


def tuned(tmp_path, *scores: TaskScore, spread: float) -> Tuned:
    def point(index: int, value: float) -> TunePoint:
        return TunePoint(parameters={}, index=index, of=2, score=value, seconds=1.0)

    points = point(0, 0.1), point(1, 0.1 + spread)
    recipe = Recipe(base_model=tmp_path, models=(ModelEntry(model=tmp_path),))
    fields = {"scores": scores, "before": scores, "seconds": 2.0, "recipe": recipe}
    return Tuned(points=points, best=points[0], **fields)


def test_a_search_among_guesses_says_so(tmp_path):
    guesses = score(0.11, chance=0.1), score(0.26, chance=0.25, task="two")
    said = why_nothing_chosen(tuned(tmp_path, *guesses, spread=0.001))
    start = "By these scores nothing can be chosen"
    assert said == f"{start}: they are those of answers at random (0.1, 0.25)."
    better = score(0.7, chance=0.1)
    said = why_nothing_chosen(tuned(tmp_path, better, spread=0.001))
    assert said == f"{start}: they differ no more than chance makes them."
    assert why_nothing_chosen(tuned(tmp_path, *guesses, spread=0.5)) == ""
