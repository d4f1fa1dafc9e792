"""Values are chosen on one half of the data, and reported on the other, which chose nothing."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import ace_gui
from ace_gui.cli.evaluating import _tuned_recipe, parameter_range
from ace_gui.engine.contract.scored import ParameterRange, TunePoint
from ace_gui.engine.evaluating.evaluate import evaluate
from ace_gui.engine.evaluating.examples import read_task
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.evaluating.task_data import Half
from ace_gui.engine.inspecting.compare_recipes import compare_all
from ace_gui.engine.inspecting.tune_parameters import best_point, tune
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.slices import open_recipe
from ace_gui.engine.workflow import Options, report_to_file
from ace_gui.errors import RecipeError, ResourceError, TaskError, WorkbenchError
from ace_gui.paths import merges_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import Task
from ace_gui.steps import Steps, result_of
from tests.helpers.command import ace_gui as run
from tests.helpers.scored_models import save_scored_family


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    return save_scored_family(tmp_path_factory.mktemp("tuned"), 61)


def test_halves_share_nothing_and_leave_nothing_out(recipe: Path):
    config = json.loads((recipe.parent / "one" / "config.json").read_text())

    def rows(half: Half | None, limit: int | None = None) -> list[str]:
        data = Task(data=recipe.parent / "one.csv", limit=limit)
        task = result_of(read_task(data, config, seed=0, half=half))
        return [example.row for example in task.examples]

    first = rows(Half.SEARCHED)
    second = rows(Half.REPORTED)
    assert (len(first), len(second)) == (31, 30)
    assert not set(first) & set(second)
    assert set(first) | set(second) == set(rows(None))
    assert first == rows(Half.SEARCHED)
    assert len(rows(Half.REPORTED, limit=10)) == 5
    with pytest.raises(TaskError, match="too few"):
        rows(Half.REPORTED, limit=1)


def test_a_curve_its_best_value_and_what_it_is_worth(recipe: Path, tmp_path):
    points: list[TunePoint] = []
    tuned = ace_gui.tune(recipe, {"scaling": (0.0, 1.2)}, merges=4, device="cpu",
                         progress=lambda point: points.append(point))  # fmt: skip
    assert points[:4] == list(tuned.result.points)
    values = [point.parameters["scaling"] for point in tuned.result.points]
    assert values == pytest.approx([0.0, 0.3, 0.8, 1.2])  # 0.3: the default
    scores = [point.score for point in tuned.result.points]
    assert len(set(scores)) > 1
    assert tuned.result.best.score == max(scores)
    assert tuned.recipe.parameters == tuned.result.best.parameters
    # By hand: the chosen merge, and each half.
    ace_gui.merge(tuned.recipe, tmp_path / "chosen", device="cpu")
    prepared = prepare(load_recipe(recipe))
    for half, reported in ((Half.REPORTED, tuned.result.scores), (Half.SEARCHED, None)):
        *_, last = evaluate(
            Models(prepared.models, (tmp_path / "chosen",)), prepared.plan.recipe.tasks,
            device="cpu", half=half,
        )  # fmt: skip
        chosen = [score for score in last.scores if score.model == str(tmp_path / "chosen")]
        if reported is not None:
            assert [score.score for score in reported] == [score.score for score in chosen]
        else:
            mean = np.mean([score.normalised for score in chosen])
            assert tuned.result.best.score == pytest.approx(mean)


@pytest.mark.parametrize(("score", "chosen"), [(0.50001, 0.3), (0.501, 0.9)])
def test_a_value_is_only_changed_for_a_score_that_looks_better(score: float, chosen: float):
    method = {"merge_method": "task_arithmetic", "parameters": {"scaling": 0.3}}
    recipe = Recipe(base_model=Path("base"), models=(), **method)
    ranges = [(ParameterRange(name="scaling", low=0.0, high=1.0), SimpleNamespace(default=0.3))]
    points = [
        TunePoint(parameters={"scaling": value}, index=n, of=2, score=score_, seconds=1.0)
        for n, (value, score_) in enumerate([(0.3, 0.5), (0.9, score)])
    ]
    assert best_point(points, recipe, ranges).parameters == {"scaling": chosen}


def test_the_tuned_recipe_has_the_values_that_followed_from_the_base(recipe: Path, tmp_path):
    content = {**json.loads(recipe.read_text()), "merge_method": "ace"}
    content["overrides"] = [{"tensors": ["*.0.*"], "merge_method": "ace"}]
    file = recipe.with_name("ace.yaml")
    file.write_text(json.dumps(content))
    original = load_recipe(file)
    tuned = ace_gui.tune(file, {"scaling": (0.5, 1.0)}, merges=2, limit=8, device="cpu")
    assert tuned.recipe.parameters == {"epsilon": 1e-5, **tuned.result.best.parameters}
    assert replace(tuned.recipe, parameters={}) == original
    out = tmp_path / "tuned.yaml"
    out.write_text(_tuned_recipe(tuned.result, out))
    assert load_recipe(out).parameters == tuned.recipe.parameters


def test_models_are_described_once(recipe: Path, monkeypatch):
    opened: list[Recipe] = []

    def counted(opened_recipe: Recipe) -> Steps[Any]:
        opened.append(opened_recipe)
        return open_recipe(opened_recipe)

    monkeypatch.setattr("ace_gui.engine.planning.prepare.open_recipe", counted)
    ace_gui.tune(recipe, {"scaling": (0.5, 1.0)}, merges=2, limit=8, device="cpu")
    assert len(opened) == 1


@pytest.mark.parametrize("value", [1.0, 0.3])
def test_a_range_may_be_one_value(recipe: Path, value: float):
    tuned = ace_gui.tune(recipe, {"scaling": (value, value)}, merges=2, limit=20, device="cpu")
    assert tuned.recipe.parameters["scaling"] == value


def test_several_parameters_are_proposed_and_always_the_same(recipe: Path):
    said = json.loads(recipe.read_text())
    (recipe.parent / "ties.yaml").write_text(json.dumps({**said, "merge_method": "ties"}))
    ranges = {"density": (0.1, 0.9), "scaling": (0.2, 2.0)}
    first, again = (
        ace_gui.tune(recipe.parent / "ties.yaml", ranges, merges=4, limit=20, device="cpu")
        for _ in range(2)
    )
    tried = [point.parameters for point in first.result.points]
    assert tried == [point.parameters for point in again.result.points]
    assert all(
        0.1 <= parameters["density"] <= 0.9 and 0.2 <= parameters["scaling"] <= 2
        for parameters in tried
    )
    assert len({tuple(parameters.values()) for parameters in tried}) == 4


def test_what_cannot_be_tuned(recipe: Path):
    for name, low in (("nothing", 0), ("scaling", -1e9)):
        with pytest.raises(RecipeError):
            ace_gui.tune(recipe, {name: (low, 1)}, device="cpu")
    said = json.loads(recipe.read_text())
    del said["tasks"]
    (recipe.parent / "none.yaml").write_text(json.dumps(said))
    with pytest.raises(TaskError, match="no tasks"):
        ace_gui.tune(recipe.parent / "none.yaml", {"scaling": (0, 1)}, device="cpu")
    for text in ("scaling", "scaling=1", "scaling=1..0", "scaling=a..b"):
        with pytest.raises(RecipeError, match=r"NAME=a\.\.b"):
            parameter_range(text)
    twice = [parameter_range("scaling=0..1"), parameter_range("scaling=1..2")]
    with pytest.raises(RecipeError, match="twice") as caught:
        next(tune(load_recipe(recipe), twice, device="cpu"))
    assert caught.value.key == "scaling"
    for arguments in ({"parameter": "scaling"}, {"values": [1.0]}, {"values": 1.0}):
        with pytest.raises(RecipeError, match="go together"):
            ace_gui.compare(recipe, device="cpu", **arguments)


def test_the_command_writes_a_recipe_that_says_how_it_was_made(recipe: Path):
    out = recipe.parent / "tuned.yaml"
    figures = recipe.parent / "tuned.json"
    done = run(
        "tune", recipe, "--parameter", "scaling=0..1", "--merges", "2", "--limit", "20",
        "--out", out, "--json", figures,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "chosen" in done.stdout
    reported = json.loads(figures.read_text())
    assert len(reported["points"]) == 2
    assert out.read_text().startswith("# Tuned by ACE workbench: scaling")
    assert load_recipe(out).parameters == reported["best"]
    assert load_recipe(out).tasks == load_recipe(recipe).tasks


@pytest.mark.parametrize("command", ["tune", "compare", "report"])
def test_the_disk_that_is_written_to_is_the_one_that_counts(
    command: str, recipe: Path, own_cache, monkeypatch
):
    """Merges that are only looked at are put into the temporary folder, not into the cache."""
    temporary = own_cache / "temporary"
    full = list[Path]()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def usage(path: Path) -> _Usage:
        resolved = Path(path).resolve()
        return _Usage(10**12, 0, 0 if any(resolved.is_relative_to(f) for f in full) else 10**12)

    monkeypatch.setattr(shutil, "disk_usage", usage)

    def done() -> None:
        loaded = load_recipe(recipe)
        if command == "tune":
            ace_gui.tune(recipe, {"scaling": (0.3, 0.5)}, merges=2, limit=8, device="cpu")
        elif command == "compare":
            *_, row = compare_all([loaded], "cpu")
            if row.error:
                raise ResourceError(row.error)
        else:
            list(report_to_file(loaded, own_cache / "report.html", Options(device="cpu"),
                                inputs=(), overwrite=True))  # fmt: skip

    (own_cache / "cache").mkdir()
    assert merges_folder().is_relative_to(own_cache / "cache")
    full[:] = [own_cache / "cache"]
    done()
    full[:] = [temporary]
    with pytest.raises(WorkbenchError, match=r"0 B free.*temporary"):
        done()


def test_one_method_and_one_folder_may_be_named_alone(recipe: Path):
    comparison = ace_gui.compare(recipe, methods="linear", device="cpu")
    assert [row.variant.recipe.merge_method for row in comparison.rows] == ["linear"]
    for model in (str(recipe.parent / "one"), recipe.parent / "one"):
        evaluation = ace_gui.evaluate(recipe, model, limit=10, device="cpu")
        assert str(model) in {score.model for score in evaluation.scores}
