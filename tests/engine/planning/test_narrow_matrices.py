"""Matrices with one output or one input: gates, and layers that read or write one number."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods import METHODS
from ace_gui.methods.method import Kind
from ace_gui.recipe import Override
from tests.helpers.merges import merged_tensors
from tests.helpers.method_cases import in_weights
from tests.helpers.recipes import recipe_over

SHAPES = {
    "model.layers.0.mlp.shared_expert_gate.weight": (1, 12),
    "model.layers.0.value_embed.proj.weight": (12, 1),
    "contact_head.regression.weight": (1, 1),
    "model.layers.0.mlp.up_proj.weight": (12, 12),
    "model.layers.0.mlp.experts.up_proj": (2, 1, 12),
    "model.layers.0.mlp.experts.gate_up_proj": (2, 2, 12),
    "h.0.attn.c_proj.weight": (12, 1),
    "h.0.mlp.c_fc.weight": (12, 48),
}
NARROW = {
    "model.layers.0.mlp.shared_expert_gate.weight": "1 output",
    "model.layers.0.value_embed.proj.weight": "1 input",
    "contact_head.regression.weight": "1 output",
    "model.layers.0.mlp.experts.up_proj[0]": "1 output",
    "model.layers.0.mlp.experts.gate_up_proj[1][gate]": "1 output",
    "h.0.attn.c_proj.weight": "1 output",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[Path]:
    """A base, and two experts that moved mostly in the same direction."""
    folder = tmp_path_factory.mktemp("narrow")
    generator = torch.Generator().manual_seed(0)
    base = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    common = {name: torch.rand(shape, generator=generator) for name, shape in SHAPES.items()}
    for index in range(3):
        scale = 0.1 if index else 0.0
        tensors = {
            name: weight
            + scale * (common[name] + 0.1 * torch.randn(common[name].shape, generator=generator))
            for name, weight in base.items()
        }
        save_file(tensors, folder / f"{index}.safetensors")
    return [folder / f"{index}.safetensors" for index in range(3)]


def prepared_of(models: list[Path], **keys: object) -> Prepared:
    return prepare(recipe_over(models[0], models[1:], **keys))


def rows_of(prepared: Prepared) -> Mapping[str, PlanRow]:
    return {row.name: row for row in prepared.plan.rows}


def test_ace_averages_them_and_says_so(models: list[Path], tmp_path):
    prepared = prepared_of(models, split_fused=True)
    rows = rows_of(prepared)
    for name, side in NARROW.items():
        assert rows[name].disposition is Disposition.AVERAGED, name
        assert f"with {side} ACE-Merging would lose its change: averaged" in rows[name].reason
    assert rows["model.layers.0.mlp.up_proj.weight"].disposition is Disposition.MERGED
    tensors = merged_tensors(prepared, tmp_path / "store")
    experts = [load_file(path) for path in models[1:]]
    for name in {rows[row].tensor for row in NARROW}:
        assert torch.allclose(tensors[name], (experts[0][name] + experts[1][name]) / 2, atol=1e-6)


@pytest.mark.parametrize("scope", ["authors-gpt2", "authors-llama", "authors-vit"])
def test_as_the_authors_store_them(models: list[Path], scope: str):
    rows = rows_of(prepared_of(models, scope=scope))
    assert "1 input" in rows["h.0.attn.c_proj.weight"].reason  # here its rows are the outputs
    for name in ("h.0.attn.c_proj.weight", "model.layers.0.mlp.shared_expert_gate.weight"):
        assert rows[name].disposition is Disposition.AVERAGED


def test_no_rule_makes_ace_merge_them(models: list[Path]):
    everything = Override(pattern="*", disposition="merge")
    rows = rows_of(prepared_of(models, overrides=(everything,)))
    assert {rows[name].disposition for name in NARROW if name in rows} == {Disposition.AVERAGED}
    rule = Override(pattern="*gate.weight", merge_method="ace", disposition="merge")
    rows = rows_of(prepared_of(models, merge_method="wudi", overrides=(rule,)))
    gate = rows["model.layers.0.mlp.shared_expert_gate.weight"]
    assert gate.disposition is Disposition.AVERAGED


@pytest.mark.parametrize(
    "method", [m.name for m in METHODS.values() if m.kind is Kind.MATRIX and in_weights(m)]
)
def test_no_method_loses_what_the_experts_share(models: list[Path], method: str, tmp_path):
    """The experts moved nearly alike; every method of matrices keeps some of it in each."""
    tensors = merged_tensors(prepared_of(models, merge_method=method), tmp_path / "store")
    base = load_file(models[0])
    experts = [load_file(path) for path in models[1:]]
    for name, weight in base.items():
        mean = (experts[0][name] + experts[1][name]) / 2 - weight
        share = float(((tensors[name] - weight) * mean).sum() / mean.square().sum())
        assert share > 0.1, name
