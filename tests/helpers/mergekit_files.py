"""Files in every form that mergekit documents, over tiny models: ``base``, ``a``, ``b``, ``c``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
import transformers
from torch import Tensor

BLOCKS: Final = 3


def entries(**models: dict[str, Any]) -> list[dict[str, Any]]:
    """Models with parameters of their own."""
    return [{"model": name, "parameters": values} for name, values in models.items()]


def alone(method: str, models: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A file without a base."""
    return {"merge_method": method, "models": models, **more}


def over_base(method: str, models: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A file with a base."""
    return alone(method, models, base_model="base", **more)


def layers(model: str, first: int, last: int, **parameters: Any) -> dict[str, Any]:
    """A source of a slice."""
    settings = {"parameters": parameters} if parameters else {}
    return {"model": model, "layer_range": [first, last], **settings}


def sliced(method: str, *slices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A file of slices, each of its sources."""
    return {"merge_method": method, "slices": [{"sources": slice_} for slice_ in slices], **more}


EVEN: Final = entries(a={"weight": 1.0}, b={"weight": 1.0}, c={"weight": 1.0})
UNEVEN: Final = entries(a={"weight": 0.6}, b={"weight": 0.3}, c={"weight": 0.5})
PAIR: Final = entries(a={"weight": 0.7}, b={"weight": 0.4})
THREE: Final = [{"model": name} for name in "abc"]
BASE: Final = {"base_model": "base"}
BY_PART: Final = [
    {"filter": "self_attn", "value": [0, 0.5, 0.3, 0.7, 1]},
    {"filter": "mlp", "value": [1, 0.5, 0.7, 0.3, 0]},
    {"value": 0.5},
]
SCALES: Final = [
    {"filter": "o_proj", "value": 0.0},
    {"filter": "down_proj", "value": [0.5, 0.3]},
    {"value": 1.0},
]
GRADIENTS: Final = entries(
    a={"density": [1, 0.7, 0.1], "weight": 1.0},
    b={"density": 0.5, "weight": [0, 0.3, 0.7, 1]},
    c={"density": 0.33, "weight": [{"filter": "mlp", "value": 0.5}, {"value": 0}]},
)

SAME: Final[dict[str, dict[str, Any]]] = {
    "linear": alone("linear", UNEVEN),
    "linear, the base among the models": over_base(
        "linear", [*UNEVEN, {"model": "base", "parameters": {"weight": 0.4}}]
    ),
    "linear with gradients": alone(
        "linear", entries(a={"weight": [0.1, 0.9]}, b={"weight": [1, 0.2]}, c={"weight": 0.5})
    ),
    "linear, not normalised": alone("linear", UNEVEN, parameters={"normalize": False}),
    "linear by filters": alone("linear", entries(a={"weight": BY_PART}, b={"weight": 0.5})),
    "task_arithmetic": over_base("task_arithmetic", UNEVEN),
    "task_arithmetic, lambda": over_base(
        "task_arithmetic", UNEVEN, parameters={"lambda": 0.7}, chat_template="auto"
    ),
    "task_arithmetic, normalised gradients": over_base(
        "task_arithmetic",
        entries(a={"weight": [0.2, 1]}, b={"weight": -0.1}, c={"weight": [1, 0]}),
        parameters={"normalize": True},
    ),
    "task_arithmetic in a slice": sliced(
        "task_arithmetic",
        [layers("base", 0, BLOCKS), layers("a", 0, BLOCKS, weight=[0, 1])],
        **BASE,
    ),
    "ties, nothing but weights": over_base("ties", EVEN),
    "ties, density of each, not normalised": over_base(
        "ties",
        entries(a={"density": 0.5, "weight": 0.5}, b={"density": 0.25, "weight": 0.5}),
        parameters={"normalize": False, "int8_mask": True},
    ),
    "ties, gradients and filters": over_base(
        "ties", GRADIENTS, parameters={"normalize": True, "int8_mask": True}
    ),
    "ties, an empty heading": over_base(
        "ties",
        entries(a={"density": [0.8, 0.3, 0.1], "weight": [1.0, 0.8, 0.5]}, b={"weight": 0.2}),
        parameters=None,
    ),
    "slerp by filters and gradients": sliced(
        "slerp",
        [layers("base", 0, BLOCKS), layers("a", 0, BLOCKS)],
        parameters={"t": BY_PART},
        **BASE,
    ),
    "slerp of two models": over_base(
        "slerp", [{"model": "base"}, {"model": "far"}], parameters={"t": 0.3}
    ),
    "nuslerp": over_base("nuslerp", PAIR),
    "nuslerp, rows": over_base("nuslerp", PAIR, parameters={"nuslerp_flatten": False}),
    "nuslerp, columns": over_base(
        "nuslerp", PAIR, parameters={"nuslerp_flatten": False, "nuslerp_row_wise": True}
    ),
    "nuslerp without a base": alone("nuslerp", entries(a={"weight": 0.6}, far={"weight": 0.2})),
    "multislerp": over_base("multislerp", PAIR),
    "multislerp, not normalised": over_base(
        "multislerp", PAIR, parameters={"normalize_weights": False}
    ),
    **{
        f"{method} of everything": over_base(method, UNEVEN, parameters={"density": 1.0})
        for method in ("dare_linear", "dare_ties", "della", "della_linear")
    },
    "breadcrumbs": over_base("breadcrumbs", UNEVEN, parameters={"density": 0.7, "gamma": 0.05}),
    "breadcrumbs, density of each": over_base(
        "breadcrumbs",
        entries(a={"weight": 1, "density": 0.9, "gamma": 0.2}, b={"weight": 0.5, "density": 0.3}),
        parameters={"lambda": 0.5},
    ),
    "breadcrumbs_ties": over_base("breadcrumbs_ties", UNEVEN, parameters={"density": 0.6}),
    "sce": over_base("sce", THREE),
    "sce, selected": over_base("sce", THREE, parameters={"select_topk": 0.5}),
    "ram": over_base("ram", THREE),
    "ramplus_tl": over_base("ramplus_tl", THREE),
    "nearswap": over_base("nearswap", [{"model": "a"}], parameters={"t": 0.002}),
    "passthrough": alone("passthrough", [{"model": "a"}]),
    "slices of two models": sliced("passthrough", [layers("a", 0, 2)], [layers("b", 1, 3)]),
    "a part of a model": sliced("passthrough", [layers("a", 0, 2)]),
    "a repeated range with a scale": sliced(
        "passthrough", [layers("a", 0, 3)], [layers("a", 1, 3, scale=SCALES)]
    ),
    "slices by linear": {
        "merge_method": "linear",
        "slices": [
            {
                "sources": [layers("a", 0, 2, weight=[0.2, 1]), layers("b", 1, 3)],
                "parameters": {"weight": 0.6},
            },
            {"sources": [layers("c", 1, 3), layers("a", 0, 2)]},
        ],
        "parameters": {"weight": [0.4, 0.7]},
    },
    "slices by slerp": sliced(
        "slerp",
        [layers("base", 0, 2), layers("far", 0, 2)],
        [layers("a", 1, 3), layers("base", 1, 3)],
        parameters={"t": BY_PART},
        **BASE,
    ),
    "slices by ties": sliced(
        "ties",
        [layers("base", 0, 3), layers("a", 0, 3), layers("b", 0, 3, density=0.3)],
        [layers("base", 2, 3), layers("c", 2, 3)],
        parameters={"weight": 0.5, "density": 0.6},
        **BASE,
    ),
    "modules of one part": {"merge_method": "linear", "modules": {"default": {"models": UNEVEN}}},
    "karcher": over_base("karcher", THREE),
    "karcher without a base": alone("karcher", [{"model": name} for name in ("a", "b", "far")]),
    "multislerp without a base": alone(
        "multislerp", entries(a={"weight": 0.6}, b={"weight": 0.3}, far={"weight": 0.5})
    ),
    "ties, negative weights": over_base(
        "ties",
        entries(a={"weight": 0.6}, b={"weight": -0.3}, c={"weight": 0.5}),
        parameters={"density": 0.6},
    ),
    "della of everything, negative weights": over_base(
        "della", entries(a={"weight": 0.6}, b={"weight": -0.3}), parameters={"density": 1.0}
    ),
    "ties, rescaled": over_base("ties", UNEVEN, parameters={"rescale": True, "density": 0.5}),
    "breadcrumbs, rescaled": over_base(
        "breadcrumbs", UNEVEN, parameters={"rescale": True, "density": 0.6}
    ),
}
"""Merges that must be mergekit's up to rounding."""

DEPARTS: Final[dict[str, dict[str, Any]]] = {
    "dare_ties": over_base("dare_ties", UNEVEN, parameters={"density": 0.5}),
    "della": over_base("della", UNEVEN, parameters={"density": 0.5}),
    "model_stock": over_base("model_stock", THREE),
    "model_stock, filter by filter": over_base(
        "model_stock", THREE, parameters={"filter_wise": True}
    ),
    "dare_linear, not rescaled": over_base(
        "dare_linear", UNEVEN, parameters={"density": 0.5, "rescale": False}
    ),
    "arcee_fusion": over_base("arcee_fusion", [{"model": "base"}, {"model": "a"}]),
}
"""Merges that differ, as a warning says."""

REFUSED: Final[dict[str, dict[str, Any]]] = {
    "a method of a fork": over_base("ranked_ties", EVEN),
    "modules": {
        "merge_method": "linear",
        "modules": {"text": {"models": EVEN}, "vision": {"models": EVEN}},
    },
    "slerp of three": over_base("slerp", THREE),
    "a range beyond the model": sliced("passthrough", [layers("a", 0, 40)]),
}
"""What no file of ours can say, refused by name."""

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "arcee_fusion.yml": DEPARTS["arcee_fusion"],
    "bio-merge.yml": over_base(
        "ties",
        entries(a={"density": 0.5, "weight": 0.5}, b={"density": 0.5, "weight": 0.5}),
        parameters={"normalize": False, "int8_mask": True},
        dtype="float16",
    ),
    "gradient-slerp.yml": {**SAME["slerp by filters and gradients"], "dtype": "float16"},
    "linear.yml": alone(
        "linear",
        entries(a={"weight": 1.0}, b={"weight": 0.3}, c={"weight": 0.5}),
        dtype="float16",
    ),
    "orcamini-platy-44layer.yml": {**SAME["slices of two models"], "dtype": "float16"},
    "ties.yml": {**SAME["ties, gradients and filters"], "dtype": "float16"},
}
"""mergekit's own example files, over other models."""


def make_models(folder: Path) -> None:
    """A tiny Llama, three fine-tunes and one that is far from it.

    The embedding is changed by none, the first norm by ``a`` alone.
    """
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=BLOCKS,
        hidden_size=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        vocab_size=96,
        max_position_embeddings=24,
        tie_word_embeddings=False,
    )
    model = transformers.LlamaForCausalLM(config)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.save_pretrained(folder / "base")
    for name, size in (("a", 4e-3), ("b", 2e-3), ("c", 3e-4), ("far", 5e-2)):
        model.load_state_dict({key: _tuned(key, t, name, size) for key, t in start.items()})
        model.save_pretrained(folder / name)


def _tuned(key: str, tensor: Tensor, name: str, size: float) -> Tensor:
    if "embed_tokens" in key or ("layers.0.input_layernorm" in key and name != "a"):
        return tensor
    return tensor + size * torch.randn_like(tensor)
