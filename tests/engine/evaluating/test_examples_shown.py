"""Answers that are kept, tasks described before they are scored, and examples lost and gained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.engine.contract.events import EvaluationProgress, MergeFinished
from ace_gui.engine.contract.jobs import (
    CompareExamplesJob,
    DescribeTasksJob,
    EvaluateJob,
    KnownScoresJob,
    MergeJob,
)
from ace_gui.engine.contract.scored import AnswerVerdict, ExamplesCompared, TaskDescribed, TaskScore
from ace_gui.engine.contract.verdicts import verdicts
from ace_gui.engine.evaluating import evaluate as evaluation
from ace_gui.engine.inspecting.compare_recipes import by_method
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.kept_files import ArrayCache
from ace_gui.engine.runner import Runner
from ace_gui.paths import resource_path
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import Metric, Task, TaskKind


@pytest.fixture(scope="module")
def sample() -> Recipe:
    """The sample of images, two of its tasks, few examples of each."""
    recipe = load_recipe(resource_path("sample/sample.yaml"))
    return replace(recipe, tasks=tuple(replace(task, limit=40) for task in recipe.tasks[:2]))


@pytest.fixture(scope="module")
def merged(sample: Recipe, tmp_path_factory) -> Iterator[Path]:
    """A finished merge of it, scores kept in a folder of its own."""
    folder = tmp_path_factory.mktemp("merges")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        (linear,) = by_method(sample, ["linear"])
        job = MergeJob(recipe=linear, store=folder / "store")
        *_, last = filter(None, steps_of(job, Runner()))
        assert isinstance(last, MergeFinished)
        yield folder / "store"


def test_known_scores_are_looked_up_and_none_is_computed(
    sample: Recipe, merged: Path, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def scores(runner: Runner, job: EvaluateJob | KnownScoresJob) -> list[TaskScore]:
        return [event for event in steps_of(job, runner) if isinstance(event, TaskScore)]

    job = KnownScoresJob(recipe=sample, stores=(merged,), device="cpu")
    assert scores(Runner(), job) == []
    without = scores(Runner(), EvaluateJob(recipe=sample, device="cpu"))
    assert scores(Runner(), job) == without
    every = scores(Runner(), EvaluateJob(recipe=sample, stores=(merged,), device="cpu"))
    assert {score.model for score in every} == {"base", "digits", "shapes", str(merged)}
    monkeypatch.setattr(evaluation, "answered", lambda _: pytest.fail("a model is asked"))
    assert scores(Runner(), job) == every
    digits_recipe = replace(sample, tasks=sample.tasks[:1])
    assert {score.task for score in scores(Runner(), replace(job, recipe=digits_recipe))} == {
        "digits"
    }


@pytest.mark.parametrize("with_base", [False, True])
def test_what_a_merge_lost_and_gained_is_what_the_scores_say(
    sample: Recipe, merged: Path, with_base: bool, monkeypatch
):
    runner = Runner()
    job = EvaluateJob(recipe=sample, stores=(merged,), device="cpu")
    scores = {
        (step.model, step.task): step
        for step in steps_of(job, runner)
        if isinstance(step, TaskScore)
    }
    looking = CompareExamplesJob(recipe=sample, store=merged, with_base=with_base, device="cpu")
    events = list(filter(None, steps_of(looking, runner)))
    assert not any(isinstance(event, EvaluationProgress) for event in events)  # all is remembered
    assert [event.task for event in events] == ["digits", "shapes"]
    for event in events:
        assert isinstance(event, ExamplesCompared)
        reference = "base" if with_base else event.task
        assert event.other == reference
        mine = scores[str(merged), event.task]
        theirs = scores[reference, event.task]
        answer_verdicts = verdicts("accuracy", mine.each_N, theirs.each_N)
        assert event.counts == {
            verdict: int((answer_verdicts == verdict).sum()) for verdict in AnswerVerdict
        }
        lost = event.examples[AnswerVerdict.LOST]
        gained = event.examples[AnswerVerdict.GAINED]
        assert len(lost) == event.counts[AnswerVerdict.LOST]
        assert all(e.answer != e.example.label == e.other for e in lost)
        assert all(e.other != e.example.label == e.answer for e in gained)
        assert all("/" not in e.answer for e in (*lost, *gained))
        assert all(e.example.picture.shape == (16, 16, 3) for e in lost)
    assert sum(
        event.counts[AnswerVerdict.LOST] + event.counts[AnswerVerdict.GAINED] for event in events
    )


def test_an_entry_that_is_not_what_it_should_be_is_computed_again(sample: Recipe, merged: Path):
    runner = Runner()
    looking = CompareExamplesJob(recipe=sample, store=merged, device="cpu")
    before = [event for event in steps_of(looking, runner) if isinstance(event, ExamplesCompared)]
    folder = merged.parent / "cache" / "ace-workbench" / "scores"
    entries = sorted(folder.glob("*.safetensors"))
    assert entries
    cache = ArrayCache(folder)
    for entry in entries:
        arrays = dict(cache.get(entry.stem) or {})
        cache.put(entry.stem, {"outcome": arrays["outcome"][:-1]})
    again = list(filter(None, steps_of(looking, runner)))
    assert any(isinstance(event, EvaluationProgress) for event in again)
    assert [event for event in again if isinstance(event, ExamplesCompared)] == before


def described(recipe: Recipe, *tasks: Task) -> list[TaskDescribed]:
    job = DescribeTasksJob(recipe=replace(recipe, tasks=tasks), tasks=tasks)
    return [event for event in steps_of(job, Runner()) if isinstance(event, TaskDescribed)]


def test_a_task_is_described_with_all_that_is_guessed(sample: Recipe, tmp_path):
    (description,) = described(sample, sample.tasks[0])
    assert description.fault == ""
    assert (description.expert, description.kind, description.metric) == (
        "digits",
        "image-classification",
        "accuracy",
    )
    assert description.columns == {"image": ("digits_images",), "label": ("digits_labels",)}
    assert {"digits_images", "counts_labels"} <= set(description.table_columns)
    assert (description.roles, description.count, len(description.examples)) == (
        ("image", "label"),
        40,
        3,
    )
    assert all(example.label.isdigit() for example in description.examples)
    assert description.chance == pytest.approx(1 / 10)


def test_chance_is_known_where_an_accuracy_is_of_labels_of_a_number(sample: Recipe):
    digits = sample.tasks[0]
    fewer = tuple(f"digits/{digit}" for digit in range(10))
    by_f1 = replace(digits, metric=Metric.F1)
    (description,) = described(sample, by_f1)
    assert description.fault == ""
    assert description.chance is None
    (description,) = described(sample, replace(digits, labels=fewer))
    assert description.chance == pytest.approx(1 / len(fewer))


def test_what_is_wrong_with_a_task_is_one_sentence_and_the_rest_is_known(sample: Recipe, tmp_path):
    digits, shapes = sample.tasks
    wrong_labels = replace(digits, name="a", labels=("digits/0", "digits/1"))
    no_column = replace(digits, name="b", columns={"image": "pictures"})
    nowhere = replace(digits, name="c", data=tmp_path / "nowhere.csv")
    stranger = replace(shapes, name="d", expert="cola")
    descriptions = described(sample, wrong_labels, no_column, nowhere, stranger, shapes, shapes)
    assert [bool(description.fault) for description in descriptions] == [True] * 6
    assert "row" in descriptions[0].fault
    assert descriptions[0].kind is TaskKind.IMAGE_CLASSIFICATION
    assert "no column 'pictures'" in descriptions[1].fault
    assert "digits_images" in descriptions[1].table_columns
    assert descriptions[2].table_columns == ()
    assert "cola" in descriptions[3].fault
    assert "Two tasks are called 'shapes'" in descriptions[4].fault
    assert [description.wrong for description in descriptions[:2]] == ["labels", "image"]
    assert descriptions[0].fitting == ("digits",)
    assert descriptions[1].fitting == ()
    assert descriptions[2].wrong == ""
    assert descriptions[3].wrong == "expert"
