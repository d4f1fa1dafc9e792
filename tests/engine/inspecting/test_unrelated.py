"""An expert that was tuned from another base is said before the merge, and in the card."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from ace_gui.engine.contract.model_figures import fit_checks, plan_changes
from ace_gui.engine.contract.plan import Check, CheckVerdict
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.merging import merge_manifest as manifest
from ace_gui.engine.merging import surveying
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.surveying import distance_checks
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import ResumeError
from ace_gui.output_files import staging_folder
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import dump_recipe
from tests.helpers.merges import stopped_merge

SHAPES = {f"layers.{n}.fc.weight": (24, 16) for n in range(40)}


def random(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def recipe(folder: Path, **experts: dict[str, Tensor]) -> Recipe:
    for name, tensors in {"base": random(0), **experts}.items():
        save_file(tensors, folder / f"{name}.safetensors")
    entries = tuple(ModelEntry(model=folder / f"{name}.safetensors") for name in experts)
    return Recipe(base_model=folder / "base.safetensors", models=entries)


def tuned(seed: int, size: float = 0.02) -> dict[str, Tensor]:
    return {name: base + size * random(seed)[name] for name, base in random(0).items()}


def warnings_of(prepared: Prepared) -> list[Check]:
    return [check for check in distance_checks(prepared) if check.verdict is CheckVerdict.WARNING]


def test_fine_tunes_are_no_news(tmp_path):
    [check] = distance_checks(prepare(recipe(tmp_path, a=tuned(1), b=tuned(2, 0.06))))
    assert check.verdict is CheckVerdict.OK
    assert check.sentence.startswith(
        "Estimated from a block of each of 40 of 40 matrices: ‖ΔW‖ is from 2 % to 6 % of ‖W‖"
    )
    same = {name: tensor.clone() for name, tensor in random(0).items()}
    partly_tuned = {**same, "layers.20.fc.weight": tuned(3)["layers.20.fc.weight"]}
    [check] = distance_checks(prepare(recipe(tmp_path, a=same, b=partly_tuned, c=tuned(4))))
    assert check.verdict is CheckVerdict.OK


@pytest.mark.parametrize(
    ("stranger", "sentence"),
    [
        (lambda: random(9), "1.4 times the base's norm"),
        (lambda: {name: 0.01 * tensor for name, tensor in random(9).items()}, "another base"),
        (lambda: tuned(9, 0.2), "the median expert's"),
    ],
)
def test_a_stranger_is_named(tmp_path, stranger: Callable[[], dict[str, Tensor]], sentence: str):
    experts = {"a": tuned(1), "b": tuned(2), "other": stranger()}
    [warning] = warnings_of(prepare(recipe(tmp_path, **experts)))
    assert warning.subject == "other"
    assert sentence in warning.sentence


def only(seed: int, size: float, where: Callable[[Tensor], slice]) -> dict[str, Tensor]:
    """A tune of the base that is large in a part of each tensor alone."""
    tensors = tuned(seed)
    for name, tensor in tensors.items():
        part = where(tensor)
        tensor.view(-1)[part] += size * random(seed + 50)[name].view(-1)[part]
    return tensors


def middle(tensor: Tensor) -> slice:
    count = tensor.numel()
    return slice(count // 2 - 16, count // 2 + 16)


def one_matrix(seed: int, size: float) -> dict[str, Tensor]:
    return {**tuned(seed), "layers.20.fc.weight": size * random(seed)["layers.20.fc.weight"]}


@pytest.mark.parametrize("block", [32, 1 << 14])
@pytest.mark.parametrize(
    "stranger",
    [
        lambda: tuned(9),
        lambda: tuned(9, 0.4),
        lambda: tuned(9, 0.6),
        lambda: random(9),
        lambda: only(9, 0.2, middle),
        lambda: only(9, 1.0, middle),
        lambda: only(9, 4.0, middle),
        lambda: one_matrix(9, 30.0),
    ],
)
def test_what_is_said_before_a_merge_is_what_the_window_says_of_all_tensors(
    tmp_path, monkeypatch, stranger, block
):
    monkeypatch.setattr(surveying, "BLOCK", block)
    prepared = prepare(recipe(tmp_path, a=tuned(1), b=tuned(2), other=stranger()))
    warnings = warnings_of(prepared)
    statistics = {event.statistics.name: event.statistics for event in analyse(prepared)}
    checks = fit_checks(plan_changes(prepared.plan, statistics))
    assert set(warnings) <= set(checks)
    if block > 32:  # the sample is all of these matrices
        assert set(warnings) == {check for check in checks if check.verdict is CheckVerdict.WARNING}


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_weights_change_nothing_in_the_distance(tmp_path, weight):
    unweighted = recipe(tmp_path, a=tuned(1), b=tuned(2), other=random(9))
    entries = (*unweighted.models[:2], replace(unweighted.models[2], weight=weight))
    prepared = prepare(replace(unweighted, models=entries))
    statistics = {event.statistics.name: event.statistics for event in analyse(prepared)}
    checks = fit_checks(plan_changes(prepared.plan, statistics))
    warnings = warnings_of(prepared)
    assert [check.subject for check in warnings] == ["other"] * bool(weight)
    assert set(warnings) <= set(checks)


def test_a_nan_is_left_to_the_merge(tmp_path):
    stranger = random(9)
    stranger["layers.0.fc.weight"][:] = torch.nan
    [warning] = warnings_of(prepare(recipe(tmp_path, a=tuned(1), other=stranger)))
    assert warning.subject == "other"


def test_every_command_says_it(own_cache):
    file = own_cache / "recipe.yaml"
    file.write_text(dump_recipe(recipe(own_cache, a=tuned(1), other=random(9)), own_cache))
    said = "Distance from the base, other: Its task vector has 1.4 times the base's norm"
    for command, *options in (
        ("merge", "--out", str(own_cache / "out")),
        ("report", "--out", str(own_cache / "report.html")),
        ("compare", "--methods", "linear,ace"),
    ):
        done = CliRunner().invoke(app, [command, str(file), *options])
        assert done.exit_code == 0, done.stderr
        assert done.stderr.count(said) == 1, command
    assert "1.4 times the base's norm" in (own_cache / "out" / "README.md").read_text()


@pytest.mark.parametrize("output", ["model", "adapter"])
@pytest.mark.parametrize(
    ("stranger", "said"),
    [
        (lambda: random(9), "Distance from the base, other: Its task vector has 1.4 times"),
        (lambda: one_matrix(9, 30.0), "Estimated from a block of each of 40 of 80 matrices: ‖"),
    ],
)
def test_the_card_says_what_was_found_and_from_what(own_cache, monkeypatch, output, stranger, said):
    """A sample can miss the matrix in which an expert is far away, and then it says so."""
    for number in range(40, 80):
        monkeypatch.setitem(SHAPES, f"layers.{number}.fc.weight", (24, 16))
    stranger_recipe = recipe(own_cache, a=tuned(1), other=stranger())
    file = own_cache / "recipe.yaml"
    file.write_text(dump_recipe(stranger_recipe, own_cache))
    kind = ["--as", "adapter", "--rank", "2"] if output == "adapter" else []
    options = [*kind, "--out", str(own_cache / "out"), "--json", str(own_cache / "out.json")]
    done = CliRunner().invoke(app, ["merge", str(file), *options])
    assert done.exit_code == 0, done.stderr
    assert said in (own_cache / "out" / "README.md").read_text()
    checks = json.loads((own_cache / "out.json").read_text())["checks"]
    assert [check for check in checks if check["title"] == "Distance from the base"]


def test_merge_says_which_epsilon_it_chose(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(recipe(tmp_path, a=tuned(1), b=tuned(2)), tmp_path))
    done = CliRunner().invoke(app, ["merge", str(file), "--out", str(tmp_path / "out")])
    assert "Note: epsilon = 1e-5. The paper" in done.stderr


def test_another_library_means_another_merge(tmp_path, monkeypatch):
    prepared = prepare(recipe(tmp_path, a=tuned(1), b=tuned(2)))
    folder = staging_folder(tmp_path / "out")
    stopped_merge(prepared, folder, device="cpu")
    for name in ("torch", "numpy", "safetensors", "transformers"):
        versions = {**manifest.library_versions(), name: "0.0.1"}
        monkeypatch.setattr(manifest, "library_versions", lambda versions=versions: versions)
        with pytest.raises(ResumeError, match=rf"{name} 0\.0\.1 \(was "):
            list(merge(prepared, folder, device="cpu", resume=True))
        monkeypatch.undo()
    assert list(merge(prepared, folder, device="cpu", resume=True))
    assert len(load_file(folder / "model" / "model.safetensors")) == len(SHAPES)
