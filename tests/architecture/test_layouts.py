"""Where the matrices in a tensor lie, asked of the models themselves.

A model is run with one part of a fused matrix at zero: without values attention gives nothing,
without queries keys make no difference, and without either side a gated MLP gives nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from ace_gui.architecture.describe import describe
from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.split_rows import split_row

H = 32
HEADS = 4
COMMON = {"hidden_size": H, "num_hidden_layers": 1, "num_attention_heads": HEADS, "vocab_size": 40}
LONG = {"intermediate_size": 40, "max_position_embeddings": 32, **COMMON}
GROUPED = {"num_key_value_heads": 2}
NO_TOKENS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}

ATTENTION: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Model", {"n_embd": H, "n_head": HEADS, "n_layer": 1, "vocab_size": 40}),
    "gpt_neox": ("GPTNeoXModel", {**LONG, "rotary_pct": 0.25}),
    "gpt_neox_japanese": ("GPTNeoXJapaneseModel", LONG),
    "bloom": ("BloomModel", {"hidden_size": H, "n_head": HEADS, "n_layer": 1, "vocab_size": 40}),
    "persimmon": ("PersimmonModel", LONG),
    "falcon-7b": ("FalconModel", {**COMMON, "multi_query": True}),
    "falcon-40b": ("FalconModel", {**COMMON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon-rw": ("FalconModel", {**COMMON, "multi_query": False, "alibi": True}),
    "phi3": ("Phi3Model", {**LONG, **GROUPED}),
    "mpt": ("MptModel", {"d_model": H, "n_heads": HEADS, "n_layers": 1, "vocab_size": 40}),
    "modernbert": ("ModernBertModel", {**LONG, "layer_types": ["full_attention"]}),
    "gpt_bigcode": (
        "GPTBigCodeModel",
        {"n_embd": H, "n_head": HEADS, "n_layer": 1, "vocab_size": 40, "multi_query": True},
    ),
    "gpt_bigcode-heads": (
        "GPTBigCodeModel",
        {"n_embd": H, "n_head": HEADS, "n_layer": 1, "vocab_size": 40, "multi_query": False},
    ),
}
GATED: dict[str, tuple[str, dict[str, Any]]] = {
    "phi3": ("Phi3Model", {**LONG, **GROUPED}),
    "modernbert": ("ModernBertModel", {**LONG, "layer_types": ["full_attention"]}),
    "glm": ("GlmModel", {**LONG, **GROUPED, "head_dim": 8}),
    "mixtral": ("MixtralModel", {**LONG, **GROUPED, "num_local_experts": 3}),
    "qwen3_moe": (
        "Qwen3MoeModel",
        {
            **LONG,
            **GROUPED,
            "num_experts": 3,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 12,
            "head_dim": 8,
        },
    ),
    "gpt_oss": (
        "GptOssModel",
        {**LONG, **GROUPED, "num_local_experts": 3, "num_experts_per_tok": 2, "head_dim": 8},
    ),
    "llama4": (
        "Llama4TextModel",
        {
            **LONG,
            **GROUPED,
            "num_local_experts": 3,
            "head_dim": 8,
            "intermediate_size_mlp": 20,
            "num_experts_per_tok": 2,
            "moe_layers": [0],
        },
    ),
}


def built(model_class: str, settings: Mapping[str, Any]) -> Any:
    transformers_class = getattr(transformers, model_class)
    config = transformers_class.config_class(**settings, **NO_TOKENS, attn_implementation="eager")
    model = transformers_class(config).eval()
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 and "bias" not in name:
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)
        elif "bias" in name:
            parameter.data.zero_()
    return model


def fused_tensors(model: Any, roles: tuple[Role, ...]) -> dict[str, TensorTraits]:
    config = {**model.config.to_dict(), "architectures": [type(model).__name__]}
    shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    by_name = describe(config, shapes).traits
    return {name: traits for name, traits in by_name.items() if traits.role in roles}


def parts(name: str, tensor: Tensor, traits: TensorTraits) -> list[tuple[str, Tensor]]:
    """Role and view of every matrix in a tensor."""
    row = PlanRow(
        name=name,
        role=traits.role,
        shape=tuple(tensor.shape),
        dtype="F32",
        disposition=Disposition.MERGED,
        reason="",
    )
    views = []
    for split in split_row(row, traits, split_fused=True):
        part = split.part
        stretch = tensor.view(-1)[part.start : part.stop].view(-1, part.period)
        views.append((split.role, stretch[:, part.first : part.last]))
        assert math.prod(split.shape) == views[-1][1].numel()
    return views


def output_of(model: Any, module: nn.Module) -> Tensor:
    """What the module gives, with the model run on a few tokens."""
    seen: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, result: Any) -> None:
        seen.append(result[0] if isinstance(result, tuple) else result)

    hook = module.register_forward_hook(keep)
    tokens = torch.tensor([[3, 14, 15, 9, 26, 5]])
    with torch.no_grad():
        model(tokens)
    hook.remove()
    return seen[0].clone()


def changed(model: Any, module: nn.Module, change: Callable[[], None]) -> Tensor:
    """The module's output after a change of its weights, which is then taken back."""
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        change()
    result = output_of(model, module)
    model.load_state_dict(before)
    return result


def views_of(model: Any, roles: tuple[Role, ...]) -> tuple[nn.Module, list[tuple[str, Tensor]]]:
    ((name, traits),) = fused_tensors(model, roles).items()
    tensor = model.get_parameter(name)
    parent = name.removesuffix(".weight").rpartition(".")[0]
    return model.get_submodule(parent), parts(name, tensor.data, traits)


@pytest.mark.parametrize("family", ATTENTION)
def test_query_key_and_value_are_where_the_model_looks_for_them(family: str):
    model = built(*ATTENTION[family])
    attention, views = views_of(model, (Role.QKV,))
    if family == "bloom":  # whose attention adds the residual itself
        attention = attention.dense
    by_role = dict(views)
    assert list(by_role) == ["query", "key", "value"]
    output = output_of(model, attention)

    def without(*roles: str, noise: str = "") -> Callable[[], None]:
        def change() -> None:
            for role in roles:
                by_role[role].zero_()
            if noise:
                by_role[noise].copy_(by_role[noise].flip(0) + 1)

        return change

    assert output.abs().max() > 1e-3
    assert changed(model, attention, without("value")).abs().max() < 1e-6
    blind = changed(model, attention, without("query"))
    assert not torch.allclose(blind, output, atol=1e-4)
    assert torch.allclose(changed(model, attention, without("query", noise="key")), blind)
    assert torch.allclose(changed(model, attention, without("key", noise="query")), blind)


@pytest.mark.parametrize("family", GATED)
def test_gate_and_up_are_where_the_model_looks_for_them(family: str):
    model = built(*GATED[family])
    mlp, views = views_of(model, (Role.MLP_GATE_UP,))
    gates = [view for role, view in views if role == "MLP gate"]
    ups = [view for role, view in views if role == "MLP up"]
    assert len(gates) == len(ups) == len(views) / 2
    output = output_of(model, mlp)

    def scaled(matrices: list[Tensor], factor: float) -> Callable[[], None]:
        return lambda: [matrix.mul_(factor) for matrix in matrices] and None

    assert output.abs().max() > 1e-4
    assert changed(model, mlp, scaled(gates, 0.0)).abs().max() < 1e-6
    if family == "gpt_oss":  # (up + 1) · gate
        without_ups = changed(model, mlp, scaled(ups, 0.0))
        assert torch.allclose(
            changed(model, mlp, scaled(ups, -1.0)) + output, 2 * without_ups, atol=1e-5
        )
        return
    assert torch.allclose(changed(model, mlp, scaled(ups, -1.0)), -output, atol=1e-6)
    assert not torch.allclose(changed(model, mlp, scaled(gates, -1.0)).abs(), output.abs())


def test_plain_multi_head_attention():
    module = nn.MultiheadAttention(H, HEADS, bias=False).eval()
    shapes = {"attn.in_proj_weight": (3 * H, H)}
    traits = describe(None, shapes).traits["attn.in_proj_weight"]
    by_role = dict(parts("attn.in_proj_weight", module.in_proj_weight.data, traits))
    x = torch.linspace(-1, 1, 5 * H).reshape(5, 1, H)
    by_role["value"].zero_()
    assert module(x, x, x)[0].abs().max() == 0


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.layers.0.attention.wqkv.weight", (3 * H, H)),  # InternLM2: by groups of heads
        ("transformer.h.0.attn.qkv_proj.weight", (3 * H, H)),  # CodeGen: in four slices
        ("h.0.self_attention.query_key_value.weight", (3 * H, H)),
        ("blocks.0.attn.qkv.weight", (3 * H + 8, H)),
        ("model.layers.0.mlp.experts.gate_up_proj", (4, H, 80)),
    ],
)
def test_layouts_that_a_name_does_not_tell_are_left_whole(name: str, shape: tuple[int, ...]):
    down = {"model.layers.0.mlp.experts.down_proj": (4, 40, H)}
    assert describe(None, {name: shape, **down}).traits[name].fusion is None


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("inner", [H, 2 * H, H // 2, 10])
def test_stacks_are_oriented_by_both_sides_of_the_mlp(turned: bool, inner: int):
    stored = [(2 * inner, H), (H, inner)]
    shapes = {
        f"layers.0.mlp.experts.{side}": (4, *(shape[::-1] if turned else shape))
        for side, shape in zip(("gate_up_proj", "down_proj"), stored, strict=True)
    }
    for traits in describe(None, shapes).traits.values():
        assert (traits.matrix, traits.stack, traits.transposed) == (True, True, turned)
