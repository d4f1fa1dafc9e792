"""Several merges or models at a time, one a worker: the numbers are those of one process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ace_gui.engine import job_steps
from ace_gui.engine.calibrating import calibrate
from ace_gui.engine.calibrating.calibrate import calibrated
from ace_gui.engine.cluster.ray_workers import RayWorkers
from ace_gui.engine.contract.events import MethodCompared, PassProgress, Variant
from ace_gui.engine.contract.jobs import CompareJob
from ace_gui.engine.contract.scored import ParameterRange
from ace_gui.engine.evaluating.evaluate import evaluate
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.inspecting import tune_parameters
from ace_gui.engine.inspecting.compare_recipes import by_method, compare_all
from ace_gui.engine.inspecting.tune_parameters import tune
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.merging.store import checksums
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.runner import Runner
from ace_gui.errors import ClusterError, TaskError
from ace_gui.paths import statistics_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import bert_family
from tests.helpers.ray_stand_in import RayStandIn
from tests.helpers.scored_models import save_scored_family


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Recipe:
    return load_recipe(save_scored_family(tmp_path_factory.mktemp("scored"), 31))


@pytest.fixture
def fresh(tmp_path, monkeypatch) -> Callable[[], None]:
    """Forgets all scores that are known."""
    indices = itertools.count()
    return lambda: monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{next(indices)}"))


class LosingRay(RayStandIn):
    """Counts what its workers were asked, and loses the first that is asked to run something."""

    def __init__(self) -> None:
        self.ran = 0
        super().__init__(self._lost)

    def _lost(self, call: str, number: int) -> bool:
        self.ran += call == "run"
        return call == "run" and self.ran == 1


def test_evaluate(recipe: Recipe, fresh):
    models = Models(prepare(recipe).models, (recipe.base_model,))
    tasks = recipe.tasks
    fresh()
    *_, expected = evaluate(models, tasks, device="cpu")
    fresh()
    ray = LosingRay()
    events = [
        event for event in evaluate(models, tasks, device="cpu", workers=ray.workers()) if event
    ]
    assert reported(events[-1].scores) == reported(expected.scores)
    assert ray.ran == 5  # base, two experts, a folder, and one once more
    again = LosingRay()
    *_, last = evaluate(models, tasks, device="cpu", workers=again.workers())
    assert reported(last.scores) == reported(expected.scores)
    assert again.started == 0  # all is remembered


def reported(scores: tuple) -> list:
    return [replace(score, each_N=None).record() | {"each": list(score.each_N)} for score in scores]


def test_compare(recipe: Recipe, fresh):
    recipes = by_method(recipe, ["linear", "ties", "regmean", "task_arithmetic"])

    def rows(events: Iterator[object]) -> list[dict[str, object]]:
        compared = [row for row in events if isinstance(row, MethodCompared)]
        assert [row.index for row in compared] == list(range(len(recipes)))
        return [
            vars(replace(row, seconds=0, peak_bytes=0, variant=None, scores=()))
            | {"scores": reported(row.scores)}
            for row in compared
        ]

    fresh()
    expected = rows(compare_all(recipes, "cpu"))
    fresh()
    ray = LosingRay()
    assert rows(compare_all(recipes, "cpu", ray.workers())) == expected
    assert expected[2]["error"]  # that data are missing is said in its row
    assert expected[0]["scores"]


def test_the_window_compares_by_workers(recipe: Recipe, fresh, tmp_path, monkeypatch):
    """Each merge by all of them, one after another: its store is kept, as the window wants it."""
    ray = RayStandIn()
    monkeypatch.setattr(
        job_steps, "workers_at", lambda to, *_: nullcontext(ray.workers() if to else None)
    )

    def rows(cluster: str) -> list[MethodCompared]:
        fresh()
        recipes = by_method(recipe, ["linear", "ties"])
        stores = (tmp_path / f"{cluster}-{index}" for index in itertools.count())
        variants = tuple(
            Variant(recipe=variant_recipe, store=next(stores)) for variant_recipe in recipes
        )
        job = CompareJob(variants=variants, device="cpu", cluster=cluster)
        events = list(steps_of(job, Runner()))
        assert (None in events) or not cluster
        return [row for row in events if isinstance(row, MethodCompared)]

    expected = rows("")
    compared = rows("local:2")
    assert ray.started
    assert len(compared) == 2
    for exact, row in zip(expected, compared, strict=True):
        assert not row.error
        assert reported(exact.scores) == reported(row.scores)
        assert exact.reports == row.reports
        assert checksums(exact.variant.store) == checksums(row.variant.store)


@pytest.mark.parametrize("names", [("scaling",), ("scaling", "density")])
def test_tune(recipe: Recipe, fresh, monkeypatch, names: tuple[str, ...]):
    if "density" in names:
        pytest.importorskip("optuna")
    monkeypatch.setattr(tune_parameters, "STARTUP", 3)  # side by side, then one by one
    recipe = replace(recipe, merge_method="ties")
    ranges = [ParameterRange(name=name, low=0.2, high=1.0) for name in names]

    def tuned(**how: object) -> tuple:
        *_, last = tune(recipe, ranges, merges=3 if len(names) == 1 else 5, device="cpu", **how)
        points = [replace(point, seconds=0.0) for point in last.points]
        return points, replace(last.best, seconds=0.0), reported(last.scores), reported(last.before)

    fresh()
    expected = tuned()
    fresh()
    ray = LosingRay()
    assert tuned(workers=ray.workers()) == expected
    assert ray.ran > len(expected[0])


@pytest.mark.parametrize("count", [1, 3])
def test_calibration(tmp_path, monkeypatch, count: int):
    """What is measured of the experts, each by one worker: the very same files."""
    file = bert_family(tmp_path / "family")

    def measured(cache: Path, members: RayWorkers | None) -> dict[str, bytes]:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        prepared = prepare(load_recipe(file))
        assert prepared.needs
        events = list(calibrated(prepared, torch.device("cpu"), members))
        assert any(isinstance(event, PassProgress) for event in events)
        assert prepared.groundwork.statistics.keys() == prepared.needs.keys()
        files = (path for path in statistics_folder().rglob("*") if path.is_file())
        return {str(path.relative_to(cache)): path.read_bytes() for path in files}

    expected = measured(tmp_path / "here", None)
    ray = LosingRay()
    assert measured(tmp_path / "there", ray.workers(count)) == expected
    assert any(name.endswith(".safetensors") for name in expected)
    assert ray.ran == 3  # an expert each, and one once more
    again = LosingRay()
    list(calibrated(prepare(load_recipe(file)), torch.device("cpu"), again.workers()))
    assert again.started == 0  # all is known


def test_statistics_must_be_seen_from_here(own_cache, monkeypatch):
    prepared = prepare(load_recipe(bert_family(own_cache / "family")))
    monkeypatch.setattr(calibrate, "_measured_alone", nothing)
    with pytest.raises(ClusterError, match="one cache folder"):
        list(calibrated(prepared, torch.device("cpu"), RayStandIn().workers()))


def nothing(*_: object) -> None:
    """As if it had been written on another machine."""


def test_what_is_wrong_with_data_is_said_as_it_is(recipe: Recipe, fresh, tmp_path):
    (tmp_path / "one.csv").write_text("text,label\nhere,7\n")
    tasks = (replace(recipe.tasks[0], data=tmp_path / "one.csv", name="one"),)
    fresh()
    models = Models(prepare(recipe).models)
    with pytest.raises(TaskError):
        list(evaluate(models, tasks, device="cpu", workers=RayStandIn().workers()))
