"""Folders with modules as they are looked at: routes, remembered scores, the report."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import ace_gui
from ace_gui.checkpoints.pickle_conversion import convert_pickle
from ace_gui.engine.contract.events import EvaluationProgress, MergeFinished, Reported
from ace_gui.engine.contract.jobs import MergeJob, ReportJob
from ace_gui.engine.evaluating import loaded_models
from ace_gui.engine.evaluating.subjects import loading_of
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.runner import Runner
from ace_gui.errors import MismatchError, PickleConsentError
from ace_gui.paths import conversions_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import gpt2_family
from tests.helpers.command import ace_gui as run
from tests.helpers.pages import Page


@pytest.fixture
def gpt2(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return gpt2_family(tmp_path / "models")


def recipe_by(file: Path, method: str, **changes: Any) -> Path:
    """The recipe with another method, beside it."""
    recipe_file = file.with_name(f"{method}-{'-'.join(changes)}.yaml")
    document = {**json.loads(file.read_text()), "merge_method": method, **changes}
    recipe_file.write_text(json.dumps(document))
    return recipe_file


def merged(file: Path, out: Path, method: str) -> Path:
    return ace_gui.merge(recipe_by(file, method), out, device="cpu").folder


def test_routes_convert_a_pickle_only_by_consent(gpt2: Path, tmp_path):
    folder = merged(gpt2, tmp_path / "smile", "smile")
    expected = ace_gui.routes(gpt2, [folder], limit=3)
    expert = gpt2.parent / "one"
    torch.save(load_file(expert / "model.safetensors"), expert / "pytorch_model.bin")
    (expert / "model.safetensors").unlink()
    with pytest.raises(PickleConsentError):
        ace_gui.routes(gpt2, [folder], limit=3)
    command = ("evaluate", gpt2, folder, "--routing", "--limit", "3")
    refused = run(*command)
    assert refused.returncode == 1
    assert "Add --convert" in refused.stderr
    routes = ace_gui.routes(gpt2, [folder], limit=3, convert=True)
    assert [route.share_LT for route in routes] == [route.share_LT for route in expected]


def test_a_converted_expert_is_scored_as_before(gpt2: Path):
    expected = ace_gui.evaluate(gpt2, limit=3, device="cpu").scores
    expert = gpt2.parent / "one"
    torch.save(load_file(expert / "model.safetensors"), expert / "pytorch_model.bin")
    (expert / "model.safetensors").unlink()
    scores = ace_gui.evaluate(gpt2, limit=3, device="cpu", convert=True).scores
    assert [score.score for score in scores] == [score.score for score in expected]


def test_weights_beside_a_pickle_that_was_converted_are_scored(gpt2: Path):
    """The files that are read, not the conversion of those that are not."""
    expert = gpt2.parent / "one"
    weights = expert / "model.safetensors"
    tensors = load_file(weights)
    torch.save(tensors, expert / "pytorch_model.bin")
    weights.unlink()
    converted = convert_pickle(expert, conversions_folder())
    assert loading_of(expert, None).folder == converted
    save_file(tensors, weights, {"format": "pt"})
    assert loading_of(expert, None).folder == expert


def test_routes_load_each_model_once_for_all_tasks(gpt2: Path, tmp_path, monkeypatch):
    folder = merged(gpt2, tmp_path / "smile", "smile")
    apart = [ace_gui.routes(gpt2, [folder], [task], limit=4)[0] for task in load_recipe(gpt2).tasks]
    loads = Counter[bool]()
    load = loaded_models.load

    def counting(loading: Any, device: Any) -> Any:
        loads[loading.modules is not None] += 1
        return load(loading, device)

    monkeypatch.setattr(loaded_models, "load", counting)
    received: list[EvaluationProgress] = []
    note = lambda e: received.append(e) if isinstance(e, EvaluationProgress) else None  # noqa: E731
    together = ace_gui.routes(gpt2, [folder], limit=4, progress=note)
    assert loads == {False: 1, True: 1}
    assert [route.share_LT for route in together] == [route.share_LT for route in apart]
    done = [event.done for event in received]
    assert done == sorted(done)
    assert done[-1] == received[-1].total == 2 * 2 * 4  # without modules and with them


@pytest.mark.parametrize("reported", [True, False], ids=["recipe's base", "own recipe's base"])
def test_another_base_is_not_mistaken_for_the_one_before(gpt2: Path, tmp_path, reported: bool):
    """What EMR leaves stands beside the base; scores that are remembered do, too."""
    folder = merged(gpt2, tmp_path / "emr", "emr")
    tasks = load_recipe(gpt2).tasks

    def scores() -> list[float]:
        evaluation = ace_gui.evaluate(
            gpt2 if reported else None, [folder], tasks, limit=4, device="cpu"
        )
        return [score.score for score in evaluation.scores if score.model == str(folder)]

    first = scores()
    assert first == scores()
    file = gpt2.parent / "base/model.safetensors"
    weights = load_file(file)
    changed = {name: tensor * 1.3 for name, tensor in weights.items()}
    save_file(changed, file, {"format": "pt"})
    with pytest.raises(MismatchError, match="its weights are others"):
        scores()
    save_file(weights, file, {"format": "pt"})
    assert first == scores()


@pytest.mark.parametrize("method", ["byom", "smile"])
def test_the_report_has_the_scores_of_a_merge_with_its_modules(gpt2: Path, tmp_path, method: str):
    recipe = recipe_by(gpt2, method)
    runner = Runner()
    store = tmp_path / "store"
    job = MergeJob(recipe=load_recipe(recipe), store=store, device="cpu")
    assert any(isinstance(event, MergeFinished) for event in steps_of(job, runner))
    file = tmp_path / "report.html"
    events = list(steps_of(ReportJob(store=store, file=file, device="cpu"), runner))
    assert isinstance(events[-1], Reported)
    table = Page(file.read_text(encoding="utf-8")).table("Scores with standard errors")
    cells = {row[0]: row[1:3] for row in table.rows}
    folder = merged(gpt2, tmp_path / "out", method)
    scores = ace_gui.evaluate(gpt2, [folder], device="cpu").scores
    merged_scores = [score for score in scores if score.model == str(folder)]
    assert [cell.partition(" ")[0] for cell in cells["merged"]] == [
        f"{score.score:.4g}" for score in merged_scores
    ]
    (folder / "modules.json").unlink()
    (folder / "modules.safetensors").unlink()
    bare = ace_gui.evaluate(gpt2, [folder], device="cpu").scores
    plain = [score for score in bare if score.model == str(folder)]
    # They do count.
    assert [score.score for score in plain] != [score.score for score in merged_scores]
