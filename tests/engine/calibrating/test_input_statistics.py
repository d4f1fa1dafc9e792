"""The measured Gram matrices against hooks of their own; groups, resuming, what is refused."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml

from ace_gui.engine.calibrating import model_parameters
from ace_gui.engine.calibrating.calibrate import measure
from ace_gui.engine.calibrating.model_parameters import CENTRE
from ace_gui.engine.calibrating.statistics_folder import MANIFEST, found_statistics
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import TaskError
from ace_gui.methods.shared.measured import Need
from ace_gui.paths import statistics_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import (
    CPU,
    bert_family,
    gpt2_family,
    hooked_grams,
    measured,
    mixture_family,
    one_by_one,
)
from tests.helpers.damage import ANY_FILE, TENSORS, flip, restored

FAMILIES = {
    "bert": (bert_family, transformers.BertForSequenceClassification, ("two", "three")),
    "gpt2": (gpt2_family, transformers.GPT2LMHeadModel, ("one", "other")),
    "mixture": (mixture_family, transformers.MixtralForCausalLM, ("one", "other")),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_what_hooks_see_one_text_at_a_time(family: str, own_cache: Path):
    """Texts of different lengths, so that a padded token would show."""
    make, kind, names = FAMILIES[family]
    _, measurements = measured(make(own_cache), Need.INPUTS)
    for name, statistics in zip(names, measurements, strict=True):
        hooked = hooked_grams(*one_by_one(own_cache, name, kind))
        seen = {matrix for matrix in statistics.manifest.rows if "[" not in matrix}
        apart = {"lm_head", "classifier", "bert.pooler.dense"}  # heads, and what the base lacks
        assert seen >= {matrix for matrix in hooked if matrix.removesuffix(".weight") not in apart}
        assert all(matrix in hooked or matrix.endswith("mlp.gate.weight") for matrix in seen)
        for matrix in seen & set(hooked):
            gram, total, count = hooked[matrix]
            assert statistics.manifest.rows[matrix] == count
            error = torch.linalg.norm(statistics.read(matrix) - gram / count)
            assert error <= 1e-6 * torch.linalg.norm(gram / count)
            centre = statistics.read(matrix + CENTRE)
            assert torch.allclose(centre, (total / count).float(), atol=1e-6)


def test_each_expert_of_a_mixture_has_the_inputs_that_are_sent_to_it(own_cache: Path):
    _, measurements = measured(mixture_family(own_cache), Need.INPUTS)
    model, inputs = one_by_one(own_cache, "one", transformers.MixtralForCausalLM)
    sent: dict[str, list[torch.Tensor]] = {}

    def note(name: str) -> Any:
        def hook(_module: Any, arguments: Any) -> None:
            rows = arguments[0].reshape(-1, arguments[0].shape[-1])
            chosen = arguments[1]
            for expert in range(4):
                matrix = f"{name}.gate_up_proj[{expert}]"
                sent.setdefault(matrix, []).append(rows[(chosen == expert).any(dim=1)])

        return hook

    for layer in range(2):
        name = f"model.layers.{layer}.mlp.experts"
        model.get_submodule(name).register_forward_pre_hook(note(name))
    with torch.no_grad():
        for input_ in inputs:
            model(**input_)
    assert len(sent) == 8
    rows = measurements[0].manifest.rows
    for matrix, parts in sent.items():
        every = torch.cat(parts).double()
        assert rows[matrix] == len(every) == rows[matrix.replace("gate_up", "down")]
        if len(every):
            gram = every.T @ every / len(every)
            assert torch.allclose(measurements[0].read(matrix).double(), gram, rtol=1e-5, atol=1e-6)
    files = measurements[0].manifest.tensors
    first = "model.layers.0.block_sparse_moe.experts.2.w1.weight"
    assert files[first] == "model.layers.0.mlp.experts.gate_up_proj[2]"
    assert files[first.replace("w1", "w2")] == "model.layers.0.mlp.experts.down_proj[2]"


def test_groups_of_layers_give_what_one_pass_gives(own_cache: Path, monkeypatch):
    file = bert_family(own_cache)
    _, ungrouped = measured(file, Need.INPUTS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_cache / "another"))
    monkeypatch.setattr(model_parameters, "_LEAST_BYTES", 4 * 32**2)
    monkeypatch.setattr(model_parameters, "_SHARE", 0.0)
    _, grouped = measured(file, Need.INPUTS)
    for expected, statistics in zip(ungrouped, grouped, strict=True):
        parts = sorted((statistics_folder() / statistics.key).glob("part-*"))
        assert len(parts) > 4
        assert expected.manifest.rows == statistics.manifest.rows
        for name in expected.manifest.rows:
            assert torch.equal(expected.read(name), statistics.read(name))
        for part in parts:  # and no part takes more than it may, but for one matrix alone
            names = [n for n in grams_of(part) if not n.endswith(CENTRE)]
            assert len(names) == 1 or sum(map(bytes_of, names)) <= 4 * 32**2


def grams_of(part: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(part, "pt") as file:
        return list(file.keys())


def bytes_of(name: str) -> int:
    return 4 * (32 if name.endswith("output.dense.weight") and "attention" not in name else 16) ** 2


def test_what_was_stopped_goes_on_and_what_is_known_is_not_measured_again(
    own_cache: Path, monkeypatch
):
    file = bert_family(own_cache)
    _, uninterrupted = measured(file, Need.INPUTS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_cache / "another"))
    monkeypatch.setattr(model_parameters, "_LEAST_BYTES", 1)
    monkeypatch.setattr(model_parameters, "_SHARE", 0.0)
    steps = measure(prepare(load_recipe(file)), Need.INPUTS, CPU)
    for progress in steps:
        if progress.done > progress.total // 2:
            break
    steps.close()
    (folder,) = [path for path in statistics_folder().iterdir() if path.is_dir()]
    begun = {part: part.stat().st_mtime_ns for part in folder.glob("part-*.safetensors")}
    assert len(begun) > 3
    assert not (folder / MANIFEST).exists()
    _, resumed = measured(file, Need.INPUTS)
    assert all(part.stat().st_mtime_ns == written for part, written in begun.items())
    for expected, statistics in zip(uninterrupted, resumed, strict=True):
        assert all(
            torch.equal(expected.read(name), statistics.read(name))
            for name in expected.manifest.rows
        )
    monkeypatch.setattr(model_parameters.GramSums, "add", None)  # would fail if it were used
    _, again = measured(file, Need.INPUTS)
    assert [statistics.key for statistics in again] == [statistics.key for statistics in resumed]


def test_the_manifest_says_what_was_measured_with_what(own_cache: Path):
    file = bert_family(own_cache)
    _, measurements = measured(file, Need.INPUTS)
    reported = json.loads((statistics_folder() / measurements[0].key / MANIFEST).read_text())
    assert reported["need"] == "inputs"
    assert reported["expert"] == "two"
    assert reported["model"].endswith("two")
    (data,) = reported["inputs"]
    assert data["examples"] == 20
    assert len(data["digest"]) == 64
    (own_cache / "two-inputs.csv").write_text("text\nthe cat sat\n")
    _, remeasured = measured(file, Need.INPUTS)
    assert remeasured[0].key != measurements[0].key
    assert remeasured[1].key == measurements[1].key
    assert remeasured[0].manifest.inputs[0].digest != data["digest"]


def numbers(statistics: Any) -> dict[str, bytes]:
    names = statistics.manifest.rows
    return {name: statistics.read(name).numpy().tobytes() for name in names}


def test_nothing_damaged_is_used(own_cache: Path, caplog):
    """Every kind of damage to every file, and what is then measured is the same as before."""
    file = bert_family(own_cache)
    _, measurements = measured(file, Need.INPUTS)
    folder = measurements[0].folder
    expected = [numbers(statistics) for statistics in measurements]
    pristine = shutil.copytree(folder, own_cache / "pristine")
    cases = [
        *((entry.name, kind) for entry in pristine.iterdir() for kind in ANY_FILE),
        *((entry.name, kind) for entry in pristine.glob("part-*") for kind in TENSORS),
    ]
    assert len(cases) >= 2 * len(ANY_FILE) + len(TENSORS)
    for number, (name, kind) in enumerate(cases):
        restored(pristine, folder)
        (ANY_FILE | TENSORS)[kind](folder / name)
        caplog.clear()
        assert found_statistics(folder) is None, (name, kind)
        there = os.path.lexists(folder / MANIFEST) and (folder / MANIFEST).exists()
        assert ("computed again" in caplog.text) == there
        if number % 4 == 0 or kind == "folder":
            _, again = measured(file, Need.INPUTS)
            assert [numbers(statistics) for statistics in again] == expected


def test_another_experts_statistics_and_a_later_flip_are_found(own_cache: Path):
    _, (first, second) = measured(bert_family(own_cache), Need.INPUTS)
    part = next(first.folder.glob("part-*"))
    before = part.stat()
    time.sleep(0.02)  # a file system's clock has ticks
    flip(part, -1)
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found_statistics(first.folder) is None
    shutil.rmtree(first.folder)
    shutil.copytree(second.folder, first.folder)
    assert found_statistics(first.folder) is None
    assert found_statistics(second.folder) is not None


@pytest.mark.parametrize("need", [Need.INPUTS, Need.GRADIENTS])
def test_data_that_changed_with_their_size_and_time_kept_are_seen(need: Need, own_cache: Path):
    file = bert_family(own_cache)
    _, before = measured(file, need)
    first_numbers = numbers(before[0])
    data = own_cache / "two-inputs.csv"
    status = data.stat()
    first, second, *lines = data.read_text().splitlines()
    words = second.split()
    data.write_text("\n".join([first, " ".join(words[::-1]), *lines]) + "\n")
    os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert data.stat().st_size == status.st_size
    _, after = measured(file, need)
    assert after[0].key != before[0].key
    assert after[1].key == before[1].key
    assert numbers(after[0]) != first_numbers


@pytest.mark.parametrize("cache", ["file", "link to nowhere"])
def test_a_cache_that_cannot_be_written_costs_time_only(
    cache: str, own_cache: Path, monkeypatch, caplog
):
    file = bert_family(own_cache)
    _, expected = measured(file, Need.INPUTS)
    occupied = own_cache / "occupied"
    if cache == "file":
        occupied.touch()
    else:
        occupied.symlink_to("/proc/nothing")
    monkeypatch.setenv("XDG_CACHE_HOME", str(occupied))
    prepared, measurements = measured(file, Need.INPUTS)
    assert [numbers(statistics) for statistics in measurements] == [
        numbers(statistics) for statistics in expected
    ]
    assert str(occupied) in caplog.text
    assert "not kept" in caplog.text
    folders = [statistics.folder for statistics in measurements]
    assert all(folder.is_dir() for folder in folders)
    del prepared, measurements
    assert not any(folder.exists() for folder in folders)


def test_experts_without_inputs_are_named(own_cache: Path):
    file = bert_family(own_cache)
    document = yaml.safe_load(file.read_text())
    del document["tasks"][1]["calibration"]
    file.write_text(json.dumps(document))
    prepared = prepare(load_recipe(file))
    with pytest.raises(TaskError, match=r"RegMean needs inputs .* none are given for three; add"):
        list(measure(prepared, Need.INPUTS, CPU))
    (check,) = [c for c in prepared.plan.checks if c.title == "Calibration data"]
    assert check.verdict.value == "error"
