"""The sample of texts: what is in it, how its data are made, and what its models reach."""

import csv
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import ace_gui
from ace_gui.engine.contract.scored import EXPERTS, means
from ace_gui.paths import Sample, resource_path
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.command import ace_gui as command

FOLDER = Sample.TEXT.recipe.parent
TASKS = ("mood", "topic", "rating", "order", "preference")
SCRIPTS = Path(__file__).parents[2] / "packaging" / "sample"


def test_it_is_a_recipe_with_tasks_and_small() -> None:
    recipe = load_recipe(Sample.TEXT.recipe)
    assert recipe.expert_names == TASKS
    assert tuple(task.name for task in recipe.tasks) == TASKS
    assert tuple(task.expert for task in recipe.tasks) == TASKS
    assert sum(file.stat().st_size for file in FOLDER.rglob("*")) < 3_200_000


def test_one_expert_differs_much_in_size() -> None:
    base = load_file(FOLDER / "base" / "model.safetensors")
    norms = []
    for name in TASKS:
        expert = load_file(FOLDER / "experts" / name / "model.safetensors")
        shared = (expert[key].float() - base[key].float() for key in base if key in expert)
        norms.append(float(torch.cat([delta.flatten() for delta in shared]).norm()))
    assert max(norms) > 3 * min(norms) > 0


def test_its_texts_are_those_that_the_script_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writers are seeded; those of training and of choosing have other seeds."""
    monkeypatch.syspath_prepend(SCRIPTS)
    import make_text_sample

    for task in make_text_sample.TASKS:
        stored = {folder: rows_of(folder, task.name) for folder in ("heldout", "calibration")}
        held_out, development = (
            make_text_sample.rows(task, make_text_sample.held_out(task, purpose))
            for purpose in ("held-out", "development")
        )
        assert stored["heldout"] == held_out
        assert not set(stored["heldout"]) & {*development, *stored["calibration"]}
        assert stored["calibration"] == make_text_sample.rows(
            task, make_text_sample.calibration(task, "held-out")
        )


def rows_of(folder: str, task: str) -> list[tuple[str, ...]]:
    with (FOLDER / folder / f"{task}.csv").open(newline="") as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]


def test_every_model_reaches_what_the_help_says() -> None:
    """And each expert is better on its task than the base, which has its head."""
    all_scores = ace_gui.evaluate(Sample.TEXT.recipe, device="cpu").scores
    experts = {score.task: score for score in all_scores if score.own}
    base = {score.task: score for score in all_scores if score.model == "base"}
    assert experts.keys() == base.keys() == set(TASKS)
    assert all(experts[task].score > base[task].score for task in TASKS)
    assert {score.n for score in all_scores} == {400}
    lines = resource_path("help/sample.md").read_text(encoding="utf-8").split("## Texts")[1]
    for mean, scores in zip(means(all_scores), (base, experts), strict=True):
        line = next(line for line in lines.splitlines() if line.startswith(mean.model))
        written = [float(word) for word in line.split()[1:]]
        figures = [*(scores[task].score for task in TASKS), mean.score, mean.normalised]
        # Another processor rounds differently: an answer or two of 400 may change.
        assert written == pytest.approx(figures, abs=0.008)
    assert means(all_scores)[1].model == EXPERTS


def test_it_is_named_on_the_command_line() -> None:
    done = command("evaluate", "text-sample", "--limit", "5", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "preference" in done.stdout
    done = command("demo", "--sample", "sounds", "--headless")
    assert done.returncode == 2
