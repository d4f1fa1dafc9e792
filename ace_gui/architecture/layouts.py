"""The layouts of tensors that hold several matrices.

E experts of a Mixture of Experts, H inputs of the MLP, F its inner size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ace_gui.architecture import names
from ace_gui.architecture.traits import Fusion, Role, TensorTraits

Shape = tuple[int, ...]

_QKV: Final = (Role.QUERY, Role.KEY, Role.VALUE)

# Query, key and value one after the other, in all models that use the name; `wqkv` is not the same.
_THIRDS: Final = frozenset(("c_attn", "qkv", "Wqkv", "to_qkv", "in_proj"))
# Families that store query, key and value head by head.
_BY_HEAD: Final = frozenset(
    (
        ("query_key_value", "gpt_neox"),
        ("query_key_value", "gpt_neox_japanese"),
        ("query_key_value", "bloom"),
        ("query_key_value", "persimmon"),
        ("qkv_proj", "minimax"),
    )
)
# Families with fewer heads for keys and values, all queries first.
_GROUPED: Final = frozenset(
    (("qkv_proj", "phi3"), ("qkv_proj", "phi4_multimodal"), ("Wqkv", "dbrx"))
)


def with_layouts(
    traits: Mapping[str, TensorTraits], shapes: Mapping[str, Shape], config: Any | None
) -> dict[str, TensorTraits]:
    """The traits, with the orientation of stacks and the fusion of matrices.

    ``config`` is the model's config object. Without it, only layouts that follow from a name are
    recognised.
    """
    return {
        name: _with_layout(name, trait, shapes, config) if trait.matrix else trait
        for name, trait in traits.items()
    }


def _with_layout(
    name: str, traits: TensorTraits, shapes: Mapping[str, Shape], config: Any | None
) -> TensorTraits:
    if traits.stack:
        stored = _stored_inputs_first(name, shapes)
        traits = traits if stored is None else replace(traits, transposed=stored)
    shape = shapes[name][-2:]
    outputs, inputs = reversed(shape) if traits.transposed else shape
    if traits.role is Role.QKV:
        return replace(traits, fusion=_attention(name, outputs, inputs, config))
    if traits.role is Role.MLP_GATE_UP:
        return replace(traits, fusion=_gate_up(traits, outputs, config))
    return traits


def _stored_inputs_first(name: str, shapes: Mapping[str, Shape]) -> bool | None:
    """Whether a stack is E × inputs × outputs, from the shapes of the two sides of the MLP.

    Gate and up together are 2F × H where down is H × F, and H × 2F where it is F × H: no two sizes
    fit both. None where the other side is not there.
    """
    module, _, leaf = name.rpartition(".")
    if leaf not in ("gate_up_proj", "down_proj"):
        return None
    both = [shapes.get(f"{module}.{side}", ()) for side in ("gate_up_proj", "down_proj")]
    if [len(shape) for shape in both] != [3, 3]:
        return None
    (_, *gate_up), (_, *down) = both
    if gate_up == [2 * down[1], down[0]]:
        return False
    return True if gate_up == [down[1], 2 * down[0]] else None


def _attention(name: str, outputs: int, inputs: int, config: Any | None) -> Fusion | None:
    """The row ranges of query, key and value; None if they are unknown."""
    leaf = names.module_of(name).rpartition(".")[2]
    text: Any = None if config is None else config.get_text_config()
    family = None if text is None else text.model_type
    if (leaf, family) in _BY_HEAD:
        return _by_head(text, outputs)
    if (leaf, family) in _GROUPED:
        return _in_order(_heads(text), _key_heads(text), _head_size(text), outputs)
    if (leaf, family) == ("query_key_value", "falcon"):
        return _falcon(text, outputs)
    if (leaf, family) == ("c_attn", "gpt_bigcode"):
        if not text.multi_query:
            return _by_head(text, outputs)
        return _in_order(_heads(text), 1, _head_size(text), outputs)
    if leaf in _THIRDS and outputs == 3 * inputs:
        return Fusion(shares=tuple((role, inputs) for role in _QKV))
    if leaf == "c_attn" and outputs == 2 * inputs:  # cross-attention of a decoder
        return Fusion(shares=((Role.KEY, inputs), (Role.VALUE, inputs)))
    return None


def _falcon(config: Any, outputs: int) -> Fusion | None:
    """Three generations: groups of queries with their key and value, head by head, one key."""
    heads, size = _heads(config), _head_size(config)
    if config.new_decoder_architecture:
        queries = heads // config.num_kv_heads
        shares = ((Role.QUERY, queries * size), (Role.KEY, size), (Role.VALUE, size))
        return _checked(Fusion(shares=shares), config.num_kv_heads, outputs)
    if config.multi_query:
        return _in_order(heads, 1, size, outputs)
    return _by_head(config, outputs)


def _by_head(config: Any, outputs: int) -> Fusion | None:
    size = _head_size(config)
    return _checked(Fusion(shares=tuple((role, size) for role in _QKV)), _heads(config), outputs)


def _in_order(heads: int, key_heads: int, size: int, outputs: int) -> Fusion | None:
    counts = (heads, key_heads, key_heads)
    shares = tuple((role, count * size) for role, count in zip(_QKV, counts, strict=True))
    return _checked(Fusion(shares=shares), 1, outputs)


def _checked(fusion: Fusion, times: int, outputs: int) -> Fusion | None:
    """None if the tensor has other sizes than in its config."""
    return fusion if fusion.period * times == outputs else None


def _heads(config: Any) -> int:
    return int(config.num_attention_heads)


def _key_heads(config: Any) -> int:
    return int(config.num_key_value_heads)


def _head_size(config: Any) -> int:
    size = getattr(config, "head_dim", None)
    return int(size) if size else config.hidden_size // _heads(config)


def _gate_up(traits: TensorTraits, outputs: int, config: Any | None) -> Fusion | None:
    """Gate and up, half and half; output by output in gpt-oss."""
    if config is not None and config.get_text_config().model_type == "gpt_oss":
        return Fusion(shares=((Role.MLP_GATE, 1), (Role.MLP_UP, 1)))
    if outputs % 2 or (config is None and traits.transposed):
        return None
    return Fusion(shares=((Role.MLP_GATE, outputs // 2), (Role.MLP_UP, outputs // 2)))
