"""Which inputs are doubted before a merge is aligned; tasks that lost are named."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.engine.calibrating.calibrate import calibration
from ace_gui.engine.contract.distilled import Distilled, TaskDivergence
from ace_gui.engine.contract.plan import ALIGNMENT, CheckVerdict
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.merging.alignment_inputs import doubts
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.aligned_merges import INPUTS, merged, recipe_with
from tests.helpers.calibrated_models import bert_family

FAST = {"inputs": INPUTS, "steps": 6}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_family(tmp_path_factory.mktemp("bert"))


def distinctions_of(matching: float, shared: float, tasks: str) -> dict[tuple[str, str], float]:
    """How well experts tell inputs apart: their own, and those of other tasks."""
    pairs = itertools.product(tasks, repeat=2)
    return {(expert, inputs): matching if expert == inputs else shared for expert, inputs in pairs}


def tasks_named(bert: Path, names: str) -> list[TaskData]:
    """Tasks with different inputs."""
    prepared = prepare(load_recipe(recipe_with(bert, distil=FAST)))
    ((data, _),) = calibration(prepared, 0).tasks
    task_data = []
    for index, name in enumerate(names):
        task = replace(data.task, name=name)
        task_data.append(
            replace(data, task=task, examples=data.examples[2 * index : 2 * index + 2])
        )
    return task_data


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_right_inputs_are_not_doubted(bert: Path, names: str) -> None:
    tasks = tasks_named(bert, names)
    assert doubts(tasks, distinctions_of(0.4, 0.1, names)) == ()
    assert doubts(tasks, {}) == ()


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_exchanged_inputs_are_said(bert: Path, names: str) -> None:
    tasks = tasks_named(bert, names)
    right = distinctions_of(0.4, 0.1, names)
    exchanged = {"a": "b", "b": "a"}
    wrong = {
        (expert, inputs): right[expert, exchanged.get(inputs, inputs)] for expert, inputs in right
    }
    (sentence,) = doubts(tasks, wrong)
    assert "of a and b seem to be exchanged" in sentence


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_inputs_of_one_task_given_for_two_are_said(bert: Path, names: str) -> None:
    tasks = tasks_named(bert, names)
    right = distinctions_of(0.4, 0.1, names)
    wrong = {
        (expert, inputs): right[expert, "b" if inputs == "a" else inputs]
        for expert, inputs in right
    }
    (sentence,) = doubts(tasks, wrong)
    assert "of a and b look alike" in sentence


@pytest.mark.parametrize("names", ["abc", "abcd"])
def test_inputs_of_no_task_are_said(bert: Path, names: str) -> None:
    tasks = tasks_named(bert, names)
    wrong = {**distinctions_of(0.4, 0.1, names), ("a", "a"): 0.1}
    (sentence,) = doubts(tasks, wrong)
    assert "The expert of a tells the inputs of its task apart no better" in sentence


def test_the_same_inputs_for_two_tasks_are_said(bert: Path) -> None:
    first, second = tasks_named(bert, "ab")
    again = replace(second, examples=first.examples)
    (sentence,) = doubts([first, again], distinctions_of(0.4, 0.1, "ab"))
    assert "2 inputs of a are also inputs of b" in sentence


def test_a_task_without_inputs_is_named_in_the_plan_and_in_the_end(
    bert: Path, tmp_path: Path
) -> None:
    recipe = json.loads(bert.read_text())
    more = {"data": "two.csv", "name": "forgotten", "expert": "two"}
    tasks = [{"name": "two", "expert": "two", **recipe["tasks"][0]}, *recipe["tasks"][1:], more]
    file = recipe_with(bert, distil=FAST, tasks=tasks)
    (check,) = [c for c in prepare(load_recipe(file)).plan.checks if c.title == ALIGNMENT]
    assert check.verdict is CheckVerdict.WARNING
    assert "worse on `forgotten`" in check.sentence
    _, result = merged(bert, tmp_path / "out", distil=FAST, tasks=tasks)
    assert result is not None
    assert any("worse on `forgotten`" in line for line in result.warnings)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_no_task_is_lost_without_its_name(count: int) -> None:
    tasks = []
    for number in range(count + 2):
        task = TaskDivergence(
            task=f"task {number}",
            expert="one",
            inputs=4,
            kept_back=1,
            before=0.2,
            after=0.3 if number < count else 0.1,
        )
        tasks.append(task)
    result = Distilled(
        what="biases",
        tensors=1,
        numbers=1,
        learning_rate=0.1,
        steps=1,
        best_step=1,
        tasks=tuple(tasks),
        curve={},
    )
    (warning,) = result.warnings
    assert "farther from the expert of" in warning
    named = [task.task for task in tasks if f"`{task.task}`" in warning]
    assert named == [task.task for task in tasks[:count]]
