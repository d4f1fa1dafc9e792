"""Models that do not fit together are refused in one sentence, before any tensor is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from ace_gui.architecture.mixture_layouts import LAYOUTS
from ace_gui.engine.mixtures.mixture_plan import DenseModel, MixtureModels, plan_mixture
from ace_gui.errors import ArchitectureError, MismatchError, RecipeError, WorkbenchError
from tests.helpers.dense_models import dense_folder, dense_model


def _models(*models: DenseModel, shared: DenseModel | None = None) -> MixtureModels:
    base, *experts = models
    return MixtureModels(base=base, experts=tuple(experts), shared=shared)


def _refused(
    kind: type[WorkbenchError], models: MixtureModels, *parts: str, **settings: Any
) -> None:
    with pytest.raises(kind) as caught:
        plan_mixture(models, **settings)
    for part in parts:
        assert part in caught.value.sentence
    assert caught.value.sentence.endswith(".")


@pytest.fixture
def llama(tmp_path: Path) -> DenseModel:
    return dense_model(dense_folder(tmp_path / "llama", "llama"))


@pytest.mark.parametrize("where", [0, 2])
def test_a_model_of_another_architecture_is_named(
    tmp_path: Path, llama: DenseModel, where: int
) -> None:
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=9, n_positions=8)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    models = [llama, llama, llama]
    models[where] = dense_model(tmp_path / "gpt2")
    _refused(ArchitectureError, _models(*models), "gpt2", "`llama`")


@pytest.mark.parametrize(("base", "expert"), [("llama", "qwen2"), ("qwen3", "llama")])
def test_experts_of_another_class_are_named(tmp_path: Path, base: str, expert: str) -> None:
    first = dense_model(dense_folder(tmp_path / "first", base))
    second = dense_model(dense_folder(tmp_path / "second", expert))
    _refused(ArchitectureError, _models(first, first, second), "second", expert)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_hidden_layers": 2},
        {"num_hidden_layers": 4},
        {"intermediate_size": 40},
        {"hidden_size": 24},
    ],
)
def test_a_model_of_another_size_is_named(
    tmp_path: Path, llama: DenseModel, settings: dict[str, Any]
) -> None:
    misfit = dense_model(dense_folder(tmp_path / "other", "llama", **settings))
    _refused(MismatchError, _models(llama, llama, misfit), "other", "size")


def test_another_activation_is_named(tmp_path: Path, llama: DenseModel) -> None:
    misfit = dense_model(dense_folder(tmp_path / "other", "llama", hidden_act="gelu"))
    _refused(MismatchError, _models(llama, llama, misfit), "other", "'gelu'", "'silu'")


@pytest.mark.parametrize(
    ("kind", "settings", "mixture"),
    [
        ("llama", {"attention_bias": True}, "mixtral"),
        ("llama", {"attention_bias": True}, "qwen2_moe"),
        ("llama", {"mlp_bias": True}, "mixtral"),
    ],
)
def test_biases_without_a_place_are_named(
    tmp_path: Path, kind: str, settings: dict[str, Any], mixture: str
) -> None:
    base = dense_model(dense_folder(tmp_path / "base", kind, **settings))
    shared = base if LAYOUTS[mixture].shared else None
    models = _models(base, base, base, shared=shared)
    _refused(MismatchError, models, "bias", LAYOUTS[mixture].model_class, architecture=mixture)


def test_biases_of_an_experts_mlp_are_named(tmp_path: Path, llama: DenseModel) -> None:
    misfit = dense_model(dense_folder(tmp_path / "other", "llama", mlp_bias=True))
    _refused(MismatchError, _models(llama, llama, misfit), "other", "mlp.", "bias")


def test_biases_with_a_place_are_planned(tmp_path: Path) -> None:
    base = dense_model(dense_folder(tmp_path / "base", "qwen3", attention_bias=True))
    plan = plan_mixture(_models(base, base, base))
    assert plan.config["attention_bias"] is True


def test_a_missing_matrix_is_named(tmp_path: Path, llama: DenseModel) -> None:
    folder = dense_folder(tmp_path / "other", "llama")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    models = _models(llama, llama, dense_model(folder))
    _refused(MismatchError, models, "`model.layers.1.mlp.up_proj.weight`", "other")


def test_a_folder_without_config_is_named(tmp_path: Path, llama: DenseModel) -> None:
    folder = dense_folder(tmp_path / "other", "llama")
    (folder / "config.json").unlink()
    _refused(ArchitectureError, _models(llama, llama, dense_model(folder)), "other", "config.json")


@pytest.mark.parametrize(("experts", "per_token"), [(1, 1), (2, 3), (2, 0)])
def test_counts_that_cannot_be_are_refused(llama: DenseModel, experts: int, per_token: int) -> None:
    models = _models(llama, *[llama] * experts)
    _refused(RecipeError, models, "experts", experts_per_token=per_token)


def test_the_shared_expert_is_there_where_it_belongs(tmp_path: Path, llama: DenseModel) -> None:
    qwen = dense_model(dense_folder(tmp_path / "qwen", "qwen2"))
    _refused(ArchitectureError, _models(qwen, qwen, qwen), "exactly one shared expert")
    models = _models(llama, llama, llama, shared=llama)
    _refused(ArchitectureError, models, "no shared expert", architecture="mixtral")
    assert plan_mixture(models).layout.model_type == "qwen2_moe"


def test_a_window_of_some_blocks_alone_is_refused(tmp_path: Path) -> None:
    window = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    base = dense_model(dense_folder(tmp_path / "base", "qwen3", **window))
    _refused(ArchitectureError, _models(base, base, base), "window of 8 tokens")


def test_older_configs_keep_their_rotation(tmp_path: Path) -> None:
    """A key that is missing has the default of the dense class, not that of the mixture."""
    folder = dense_folder(tmp_path / "base", "llama")
    file = folder / "config.json"
    config = json.loads(file.read_text())
    del config["rope_parameters"]
    file.write_text(json.dumps(config))
    model = dense_model(folder)
    planned = plan_mixture(_models(model, model, model)).config
    assert planned["rope_parameters"]["rope_theta"] == 10_000.0
    scaling = {"type": "linear", "factor": 2.0}
    file.write_text(json.dumps({**config, "rope_theta": 5e5, "rope_scaling": scaling}))
    model = dense_model(folder)
    planned = plan_mixture(_models(model, model, model)).config
    assert planned["rope_theta"] == 5e5
    assert planned["rope_scaling"] == scaling
    assert "rope_parameters" not in planned


def test_buffers_of_older_files_are_left_out(tmp_path: Path) -> None:
    folder = dense_folder(tmp_path / "base", "llama")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    model = dense_model(folder)
    assert plan_mixture(_models(model, model, model)).blocks == 3
