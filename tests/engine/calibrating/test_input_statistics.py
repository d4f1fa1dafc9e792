"""The measured Gram matrices against hooks of their own; groups, resuming, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml

from ace_gui.engine.calibrating import grams
from ace_gui.engine.calibrating.calibrate import measure
from ace_gui.engine.calibrating.grams import CENTRE
from ace_gui.engine.calibrating.statistics_folder import MANIFEST
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

FAMILIES = {
    "bert": (bert_family, transformers.BertForSequenceClassification, ("two", "three")),
    "gpt2": (gpt2_family, transformers.GPT2LMHeadModel, ("one", "other")),
    "mixture": (mixture_family, transformers.MixtralForCausalLM, ("one", "other")),
}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_what_hooks_see_one_text_at_a_time(family: str, own_cache: Path) -> None:
    """Texts of different lengths, so that a padded token would show."""
    make, kind, names = FAMILIES[family]
    _, found = measured(make(own_cache), Need.INPUTS)
    for name, statistics in zip(names, found, strict=True):
        hooked = hooked_grams(*one_by_one(own_cache, name, kind))
        seen = {own for own in statistics.manifest.rows if "[" not in own}
        apart = {"lm_head", "classifier", "bert.pooler.dense"}  # heads, and what the base lacks
        assert seen >= {own for own in hooked if own.removesuffix(".weight") not in apart}
        assert all(own in hooked or own.endswith("mlp.gate.weight") for own in seen)
        for own in seen & set(hooked):
            gram, total, count = hooked[own]
            assert statistics.manifest.rows[own] == count
            error = torch.linalg.norm(statistics.read(own) - gram / count)
            assert error <= 1e-6 * torch.linalg.norm(gram / count)
            centre = statistics.read(own + CENTRE)
            assert torch.allclose(centre, (total / count).float(), atol=1e-6)


def test_each_expert_of_a_mixture_has_the_inputs_that_are_sent_to_it(own_cache: Path) -> None:
    _, found = measured(mixture_family(own_cache), Need.INPUTS)
    model, inputs = one_by_one(own_cache, "one", transformers.MixtralForCausalLM)
    sent: dict[str, list[torch.Tensor]] = {}

    def note(name: str) -> Any:
        def hook(_module: Any, given: Any) -> None:
            rows, chosen = given[0].reshape(-1, given[0].shape[-1]), given[1]
            for expert in range(4):
                own = f"{name}.gate_up_proj[{expert}]"
                sent.setdefault(own, []).append(rows[(chosen == expert).any(dim=1)])

        return hook

    for layer in range(2):
        name = f"model.layers.{layer}.mlp.experts"
        model.get_submodule(name).register_forward_pre_hook(note(name))
    with torch.no_grad():
        for each in inputs:
            model(**each)
    assert len(sent) == 8
    rows = found[0].manifest.rows
    for own, parts in sent.items():
        every = torch.cat(parts).double()
        assert rows[own] == len(every) == rows[own.replace("gate_up", "down")]
        if len(every):
            gram = every.T @ every / len(every)
            assert torch.allclose(found[0].read(own).double(), gram, rtol=1e-5, atol=1e-6)
    files = found[0].manifest.tensors
    first = "model.layers.0.block_sparse_moe.experts.2.w1.weight"
    assert files[first] == "model.layers.0.mlp.experts.gate_up_proj[2]"
    assert files[first.replace("w1", "w2")] == "model.layers.0.mlp.experts.down_proj[2]"


def test_groups_of_layers_give_what_one_pass_gives(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bert_family(own_cache)
    _, whole = measured(file, Need.INPUTS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_cache / "another"))
    monkeypatch.setattr(grams, "_LEAST_BYTES", 4 * 32**2)
    monkeypatch.setattr(grams, "_SHARE", 0.0)
    _, grouped = measured(file, Need.INPUTS)
    for one, other in zip(whole, grouped, strict=True):
        parts = sorted((statistics_folder() / other.key).glob("part-*"))
        assert len(parts) > 4
        assert one.manifest.rows == other.manifest.rows
        for own in one.manifest.rows:
            assert torch.equal(one.read(own), other.read(own))
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
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bert_family(own_cache)
    _, whole = measured(file, Need.INPUTS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_cache / "another"))
    monkeypatch.setattr(grams, "_LEAST_BYTES", 1)
    monkeypatch.setattr(grams, "_SHARE", 0.0)
    steps = measure(prepare(load_recipe(file)), Need.INPUTS, CPU)
    for progress in steps:
        if progress.done > progress.total // 2:
            break
    steps.close()
    (folder,) = [each for each in statistics_folder().iterdir() if each.is_dir()]
    begun = {part: part.stat().st_mtime_ns for part in folder.glob("part-*.safetensors")}
    assert len(begun) > 3
    assert not (folder / MANIFEST).exists()
    _, found = measured(file, Need.INPUTS)
    assert all(part.stat().st_mtime_ns == written for part, written in begun.items())
    for one, other in zip(whole, found, strict=True):
        assert all(torch.equal(one.read(own), other.read(own)) for own in one.manifest.rows)
    monkeypatch.setattr(grams.GramSums, "add", None)  # would fail if it were used
    _, again = measured(file, Need.INPUTS)
    assert [each.key for each in again] == [each.key for each in found]


def test_the_manifest_says_what_was_measured_with_what(own_cache: Path) -> None:
    file = bert_family(own_cache)
    _, found = measured(file, Need.INPUTS)
    told = json.loads((statistics_folder() / found[0].key / MANIFEST).read_text())
    assert told["need"] == "inputs"
    assert told["expert"] == "two"
    assert told["model"].endswith("two")
    (data,) = told["inputs"]
    assert data["examples"] == 20
    assert len(data["digest"]) == 64
    (own_cache / "two-inputs.csv").write_text("text\nthe cat sat\n")
    _, other = measured(file, Need.INPUTS)
    assert other[0].key != found[0].key
    assert other[1].key == found[1].key
    assert other[0].manifest.inputs[0].digest != data["digest"]


def test_experts_without_inputs_are_named(own_cache: Path) -> None:
    file = bert_family(own_cache)
    document = yaml.safe_load(file.read_text())
    del document["tasks"][1]["calibration"]
    file.write_text(json.dumps(document))
    prepared = prepare(load_recipe(file))
    with pytest.raises(TaskError, match=r"RegMean needs inputs .* none are given for three; add"):
        list(measure(prepared, Need.INPUTS, CPU))
    (check,) = [c for c in prepared.plan.checks if c.title == "Calibration data"]
    assert check.verdict.value == "error"
