"""Config settings that change what a model computes from equal tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_MEANINGFUL: Final = {
    "position encoding": (
        *("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"),
        *("position_embedding_type", "rope_local_base_freq", "rotary_pct", "rotary_dim"),
        *("relative_attention_num_buckets", "relative_attention_max_distance", "alibi"),
    ),
    "norm epsilon": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"),
    "norm placement": (
        *("do_layer_norm_before", "normalize_before", "parallel_attn", "use_parallel_residual"),
        *("new_decoder_architecture", "apply_residual_connection_post_layernorm"),
    ),
    "activation": (
        *("hidden_act", "hidden_activation", "activation_function", "activation"),
        *("feed_forward_proj", "dense_act_fn", "is_gated_act"),
    ),
    "attention": (
        *("sliding_window", "use_sliding_window", "max_window_layers", "layer_types"),
        *("attention_window", "scale_attn_weights", "scale_attn_by_inverse_layer_idx"),
        *("query_pre_attn_scalar", "attention_multiplier", "attn_logit_softcapping", "is_causal"),
        *("is_decoder", "use_qk_norm", "attention_bias"),
    ),
    "scale": (
        *("final_logit_softcapping", "logit_scale", "embedding_multiplier", "residual_multiplier"),
        *("logits_scaling", "scale_embedding"),
    ),
    "image geometry": ("patch_size", "image_size"),
    "mixture of experts": ("num_experts_per_tok", "norm_topk_prob", "routed_scaling_factor"),
}
_HEAD_COUNTS: Final = (
    *("num_attention_heads", "num_key_value_heads", "n_head", "num_heads", "head_dim"),
    *("encoder_attention_heads", "decoder_attention_heads"),
)
_KINDS: Final = {
    **{key: kind for kind, keys in _MEANINGFUL.items() for key in keys},
    **dict.fromkeys(_HEAD_COUNTS, "attention heads"),
}
_NONE_IS_A_VALUE: Final = frozenset({"rope_scaling", "sliding_window"})
_PARTS: Final = ("text_config", "vision_config", "audio_config", "encoder", "decoder")


def config_differences(
    base: Mapping[str, object], expert: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """The differences: kind ("norm epsilon") and "`rms_norm_eps` is 1e-06, in the base 1e-05".

    A key that only one config has is ignored, as its default depends on the model class. A missing
    RoPE scaling however means that there is none.
    """
    ours, theirs = _with_plain_rope(expert), _with_plain_rope(base)
    for key, kind in _KINDS.items():
        both = key in ours and key in theirs
        either = key in _NONE_IS_A_VALUE and (key in ours or key in theirs)
        if (both or either) and ours.get(key) != theirs.get(key):
            yield kind, f"`{prefix}{key}` is {ours.get(key)!r}, in the base {theirs.get(key)!r}"
    for part in _PARTS:
        first, second = base.get(part), expert.get(part)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from config_differences(first, second, f"{prefix}{part}.")


def same_part(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The configs, or that which is nested in one of them and has the type of the other.

    For example, that of a tower in the config of the whole model.
    """

    def part_of(whole: Mapping[str, Any], wanted: object) -> Mapping[str, Any]:
        parts = (value for value in whole.values() if isinstance(value, Mapping))
        if wanted is None or whole.get("model_type") == wanted:
            return whole
        return next((each for each in parts if each.get("model_type") == wanted), whole)

    return part_of(one, other.get("model_type")), part_of(other, one.get("model_type"))


def _with_plain_rope(config: Mapping[str, object]) -> dict[str, object]:
    """The config with its RoPE parameters under the keys of older configs."""
    plain = dict(config)
    rope = plain.pop("rope_parameters", None)
    if not isinstance(rope, Mapping):
        return plain
    if any(isinstance(value, Mapping) for value in rope.values()):  # one set per kind of layer
        return {**plain, "rope_parameters": rope}
    if "rope_theta" in rope:
        plain["rope_theta"] = rope["rope_theta"]
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    if scaling.get("rope_type", "default") != "default":
        plain["rope_scaling"] = scaling
    return plain
