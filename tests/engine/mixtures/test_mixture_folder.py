"""A folder of a mixture loads in transformers, and computes what the dense models do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.architecture.mixture_layouts import DENSE_TYPES, LAYOUTS
from ace_gui.engine.mixtures.mixture_folder import MixtureOutput, write_mixture
from ace_gui.engine.mixtures.mixture_plan import MixtureModels, MixturePlan, plan_mixture
from ace_gui.engine.mixtures.routers import FixedRouters, random_routers
from ace_gui.recipe.mixtures import GateMode
from tests.helpers.dense_models import dense_folder, dense_model
from tests.helpers.models import load_folder

PAIRS = [(layout.model_type, dense) for layout in LAYOUTS.values() for dense in layout.dense]
WITHOUT_SHARED = [pair for pair in PAIRS if pair[0] != "qwen2_moe"]

TOKENS = torch.tensor([[1, 5, 9, 4, 7, 12, 6, 3]])


def _plan(folder: Path, mixture: str, dense: str, *, equal: bool, **settings: Any) -> MixturePlan:
    """A mixture of two experts, which are the base itself if ``equal``."""
    base = dense_model(dense_folder(folder / "base", dense, 0, **settings))
    experts = []
    for number in (1, 2):
        seed = 0 if equal else number
        path = dense_folder(folder / f"expert{number}", dense, seed, **settings)
        experts.append(dense_model(path))
    shared = dense_model(folder / "base") if LAYOUTS[mixture].shared else None
    models = MixtureModels(base=base, experts=tuple(experts), shared=shared)
    return plan_mixture(models, architecture=mixture)


def _routers(plan: MixturePlan) -> FixedRouters:
    count = len(plan.models.sources)
    weights = random_routers(GateMode.RANDOM, plan.blocks, count, plan.hidden, seed=3)
    return FixedRouters(weights_BEH=weights)


def _logits(folder: Path) -> Tensor:
    model, report = load_folder(folder)
    assert report.missing == report.unexpected == report.mismatched == ()
    with torch.no_grad():
        return model(TOKENS).logits


@pytest.mark.parametrize(("mixture", "dense"), PAIRS)
def test_it_loads_whole_and_generates(tmp_path: Path, mixture: str, dense: str) -> None:
    plan = _plan(tmp_path, mixture, dense, equal=False)
    for _ in write_mixture(plan, _routers(plan), tmp_path / "out"):
        pass
    model, report = load_folder(tmp_path / "out")
    assert type(model).__name__ == LAYOUTS[mixture].model_class
    assert report.missing == report.unexpected == report.mismatched == ()
    text = model.generate(TOKENS, max_new_tokens=4, do_sample=False)
    assert text.shape == (1, TOKENS.shape[1] + 4) or int(text[0, -1]) == 2


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("mixture", "dense"), WITHOUT_SHARED)
def test_equal_experts_are_the_dense_model(
    tmp_path: Path, mixture: str, dense: str, tied: bool
) -> None:
    plan = _plan(tmp_path, mixture, dense, equal=True, tie_word_embeddings=tied)
    for _ in write_mixture(plan, _routers(plan), tmp_path / "out"):
        pass
    torch.testing.assert_close(
        _logits(tmp_path / "out"), _logits(tmp_path / "base"), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    ("dense", "settings"),
    [
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 777.0}}),
        ("llama", {"rms_norm_eps": 0.1, "num_key_value_heads": 4, "head_dim": 16}),
        ("mistral", {"sliding_window": 3}),
        ("mistral", {"sliding_window": None, "hidden_act": "gelu"}),
    ],
)
def test_the_attention_is_that_of_the_base(
    tmp_path: Path, dense: str, settings: dict[str, Any]
) -> None:
    """Also where the classes of the mixture and of the base have other defaults."""
    plan = _plan(tmp_path, "mixtral", dense, equal=True, **settings)
    for _ in write_mixture(plan, _routers(plan), tmp_path / "out"):
        pass
    torch.testing.assert_close(
        _logits(tmp_path / "out"), _logits(tmp_path / "base"), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("dense", ["llama", "mistral", "qwen2"])
def test_a_shared_expert_is_added_by_its_gate(tmp_path: Path, dense: str) -> None:
    """Equal experts give their MLP once, and the shared one times its gate: here 1/2."""
    plan = _plan(tmp_path, "qwen2_moe", dense, equal=True)
    routers = FixedRouters(weights_BEH=torch.zeros(plan.blocks, 3, plan.hidden))
    for _ in write_mixture(plan, routers, tmp_path / "out"):
        pass
    model, _ = load_folder(tmp_path / "base")
    for block in model.model.layers:
        block.mlp.down_proj.weight.data *= 1.5
    with torch.no_grad():
        expected = model(TOKENS).logits
    torch.testing.assert_close(_logits(tmp_path / "out"), expected, rtol=0, atol=1e-5)


def test_each_expert_has_its_own_mlp_and_the_rest_is_the_base(tmp_path: Path) -> None:
    plan = _plan(tmp_path, "mixtral", "llama", equal=False)
    routers = _routers(plan)
    for _ in write_mixture(plan, routers, tmp_path / "out"):
        pass
    written = load_file(tmp_path / "out" / "model.safetensors")
    models = [
        load_file(tmp_path / name / "model.safetensors") for name in ("base", "expert1", "expert2")
    ]
    for block in range(3):
        start = f"model.layers.{block}"
        for number, expert in enumerate(models[1:]):
            for name, dense in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
                matrix = written.pop(f"{start}.block_sparse_moe.experts.{number}.{name}.weight")
                assert torch.equal(matrix, expert[f"{start}.mlp.{dense}.weight"])
        router = written.pop(f"{start}.block_sparse_moe.gate.weight")
        assert torch.equal(router, routers.of_block(block))
    base_tensors = {name: tensor for name, tensor in models[0].items() if ".mlp." not in name}
    assert written.keys() == base_tensors.keys()
    assert all(torch.equal(tensor, base_tensors[name]) for name, tensor in written.items())


def test_experts_are_written_in_the_format_of_the_base(tmp_path: Path) -> None:
    plan = _plan(tmp_path, "mixtral", "llama", equal=False)
    for _ in write_mixture(plan, _routers(plan), tmp_path / "out", MixtureOutput(dtype="bfloat16")):
        pass
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in written.values()} == {torch.bfloat16}
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["dtype"] == "bfloat16"


def test_several_shards_have_an_index(tmp_path: Path) -> None:
    plan = _plan(tmp_path, "qwen3_moe", "qwen3", equal=True)
    for _ in write_mixture(
        plan, _routers(plan), tmp_path / "out", MixtureOutput(shard_bytes=20_000)
    ):
        pass
    assert (tmp_path / "out" / "model.safetensors.index.json").is_file()
    _logits(tmp_path / "out")


def test_all_dense_types_are_tested() -> None:
    assert {dense for _, dense in PAIRS} == set(DENSE_TYPES)
