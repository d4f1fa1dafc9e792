"""Mixtures of experts that are made of dense models: names of tensors, and configs, by class.

A block of a dense model has one MLP. A block of a mixture has several, its experts, and a router,
which chooses a few of them for every token. The names are those in published files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ace_gui.errors import ArchitectureError, MismatchError
from ace_gui.formatting import listing, plain, quoted_value

MATRICES: Final = ("gate_proj", "up_proj", "down_proj")
"""The matrices of a dense MLP, as its tensors are called: ``…mlp.gate_proj.weight``."""

_OF_MLP: Final = re.compile(r"model\.layers\.\d+\.mlp\.")
_DROPPED: Final = re.compile(r"\.rotary_emb\.inv_freq$")
"""A buffer of older files, which models compute from their config."""

_USUAL: Final = (
    r"model\.embed_tokens\.weight|model\.norm\.weight|lm_head\.weight"
    r"|model\.layers\.\d+\.(input_layernorm|post_attention_layernorm)\.weight"
    r"|model\.layers\.\d+\.self_attn\.[qkvo]_proj\.weight"
)


@dataclass(frozen=True, kw_only=True)
class MixtureLayout:
    """One class of mixtures: where the tensors of dense models go."""

    model_type: str
    """In the config."""
    model_class: str
    """The class of transformers."""
    dense: tuple[str, ...]
    """The model types of dense models that it can be made of."""
    block: str
    """The name of a block's mixture, with the block's number to be filled in."""
    matrices: tuple[str, str, str]
    """What an expert calls its matrices, in the order of ``MATRICES``."""
    places: str
    """A pattern of the base's tensors that have a place, under the same name."""
    shared: bool = False
    """Whether there is one more expert, which sees every token, with a gate of its own."""
    biases: bool = False
    """Whether query, key and value have biases; zeros for a base without them."""

    def router(self, block: int) -> str:
        """The name of the router of a block; experts × hidden size."""
        return f"{self.block.format(block)}.gate.weight"

    def shared_gate(self, block: int) -> str:
        """The name of the gate of the shared expert of a block; 1 × hidden size."""
        return f"{self.block.format(block)}.shared_expert_gate.weight"

    def expert(self, block: int, number: int, matrix: str) -> str:
        """The name of a matrix of an expert; ``matrix`` is one of ``MATRICES``."""
        name = self.matrices[MATRICES.index(matrix)]
        return f"{self.block.format(block)}.experts.{number}.{name}.weight"

    def shared_expert(self, block: int, matrix: str) -> str:
        """The name of a matrix of the shared expert."""
        return f"{self.block.format(block)}.shared_expert.{matrix}.weight"


def dense_matrix(block: int, matrix: str) -> str:
    """The name of a matrix of a dense model's MLP."""
    return f"model.layers.{block}.mlp.{matrix}.weight"


MIXTRAL: Final = MixtureLayout(
    model_type="mixtral",
    model_class="MixtralForCausalLM",
    dense=("llama", "mistral"),
    block="model.layers.{}.block_sparse_moe",
    matrices=("w1", "w3", "w2"),
    places=_USUAL,
)

QWEN2: Final = MixtureLayout(
    model_type="qwen2_moe",
    model_class="Qwen2MoeForCausalLM",
    dense=("qwen2", "llama", "mistral"),
    block="model.layers.{}.mlp",
    matrices=MATRICES,
    places=rf"{_USUAL}|model\.layers\.\d+\.self_attn\.[qkv]_proj\.bias",
    shared=True,
    biases=True,
)

QWEN3: Final = MixtureLayout(
    model_type="qwen3_moe",
    model_class="Qwen3MoeForCausalLM",
    dense=("qwen3",),
    block="model.layers.{}.mlp",
    matrices=MATRICES,
    places=rf"{_USUAL}|model\.layers\.\d+\.self_attn\.([qkvo]_proj\.bias|[qk]_norm\.weight)",
)

LAYOUTS: Final[Mapping[str, MixtureLayout]] = {
    layout.model_type: layout for layout in (MIXTRAL, QWEN2, QWEN3)
}
"""By model type."""

DENSE_TYPES: Final = tuple(
    dict.fromkeys(model_type for layout in LAYOUTS.values() for model_type in layout.dense)
)
"""The model types of dense models that a mixture can be made of."""


def layout_for(dense: str, mixture_type: str | None, *, shared: bool) -> MixtureLayout:
    """The layout for dense models of this type. Raises ArchitectureError if there is none.

    ``mixture_type``: the model type of the mixture; None: the one that is ``shared``, or is not.
    """
    if dense not in DENSE_TYPES:
        raise ArchitectureError(
            f"A mixture of experts cannot be made of a model of the type {quoted_value(dense)}; "
            f"choose models of {listing(DENSE_TYPES)}."
        )
    fitting = [layout for layout in LAYOUTS.values() if dense in layout.dense]
    if mixture_type is not None:
        fitting = [layout for layout in fitting if layout.model_type == mixture_type]
        if not fitting:
            raise ArchitectureError(
                f"{quoted_value(mixture_type)} cannot be made of models of {dense}; "
                f"{_alternatives(dense)}."
            )
    matching = [layout for layout in fitting if layout.shared == shared]
    if matching:
        return matching[0]
    if shared:
        sentence = f"{fitting[0].model_class} has no shared expert; leave out `shared_experts`."
    else:
        sentence = (
            f"{fitting[0].model_class} needs exactly one shared expert; name it under "
            "`shared_experts`."
        )
    raise ArchitectureError(sentence)


def _alternatives(dense: str) -> str:
    names = [layout.model_type for layout in LAYOUTS.values() if dense in layout.dense]
    return f"possible: {listing(names)}"


def base_places(layout: MixtureLayout, names: Sequence[str], model: str) -> list[str]:
    """The base's tensors outside of MLPs, which the mixture has under the same names.

    ``model``: what the model is called in the error. Raises MismatchError for a tensor that has no
    place in the mixture.
    """
    placed = []
    for name in names:
        if _DROPPED.search(name):
            continue
        if not _OF_MLP.match(name):
            if not re.fullmatch(layout.places, name):
                raise _homeless(layout, name, model)
            placed.append(name)
        elif not name.endswith(tuple(f".{matrix}.weight" for matrix in MATRICES)):
            raise _homeless(layout, name, model)
    return placed


def require_expert_places(layout: MixtureLayout, names: Sequence[str], model: str) -> None:
    """Raise MismatchError for a tensor of an expert's MLPs that has no place in the mixture."""
    for name in names:
        plain_matrix = name.endswith(tuple(f".{matrix}.weight" for matrix in MATRICES))
        if _OF_MLP.match(name) and not plain_matrix:
            raise _homeless(layout, name, model)


def _homeless(layout: MixtureLayout, name: str, model: str) -> MismatchError:
    return MismatchError(
        f"{plain(model)} has `{plain(name)}`, for which {layout.model_class} has no place; choose "
        "models without it.",
        tensor=name,
    )


_SHARED_KEYS: Final = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act"),
    *("max_position_embeddings", "initializer_range", "rms_norm_eps", "use_cache"),
    *("attention_dropout", "bos_token_id", "eos_token_id", "pad_token_id"),
)
"""Keys of a config that mean the same in a dense model and in a mixture."""

_ROPE: Final = ("rope_theta", "rope_scaling", "rope_parameters")
_SLIDING: Final = "sliding_attention"


def mixture_config(
    layout: MixtureLayout,
    config: Mapping[str, Any],
    complete: Mapping[str, Any],
    *,
    experts: int,
    experts_per_token: int,
    head_stored: bool,
) -> dict[str, Any]:
    """The config of a mixture with the attention of a dense base.

    ``config``: the base's config.json; ``complete``: the same with the defaults of its class, which
    are not those of the mixture's class. ``head_stored``: whether the mixture has a head of its
    own. Raises ArchitectureError for a pattern of attention that the mixture does not have.
    """
    values: dict[str, Any] = {"architectures": [layout.model_class]}
    values["model_type"] = layout.model_type
    for key in _SHARED_KEYS:
        if key in config:
            values[key] = config[key]
        elif complete.get(key) is not None:
            values[key] = complete[key]
    rope = {key: config[key] for key in _ROPE if config.get(key) is not None}
    if not {"rope_theta", "rope_parameters"} & rope.keys():
        rope["rope_parameters"] = complete["rope_parameters"]
        rope.pop("rope_scaling", None)
    values |= rope
    tied = bool(config.get("tie_word_embeddings", complete.get("tie_word_embeddings")))
    values["tie_word_embeddings"] = tied and not head_stored
    values["num_experts_per_tok"] = experts_per_token
    for key in ("dtype", "torch_dtype"):
        if key in config:
            values[key] = config[key]
    return values | _by_class(layout, values, complete, experts)


def _by_class(
    layout: MixtureLayout, values: Mapping[str, Any], complete: Mapping[str, Any], experts: int
) -> dict[str, Any]:
    """The keys that only the mixture's class has."""
    window = complete.get("sliding_window")
    types = list(complete.get("layer_types") or [])
    if not types and window is not None and complete.get("model_type") == "mistral":
        types = [_SLIDING] * int(values["num_hidden_layers"])
    sliding = bool(window) and _SLIDING in types
    if layout is not QWEN2 and sliding and set(types) != {_SLIDING}:
        raise ArchitectureError(
            f"Only some blocks of the base attend to a window of {window} tokens, which "
            f"{layout.model_class} does not have; choose a base without `use_sliding_window`."
        )
    if layout is MIXTRAL:
        return {"num_local_experts": experts, "sliding_window": window if sliding else None}
    width = values["intermediate_size"]
    keys: dict[str, Any] = {
        "num_experts": experts,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": width,
        "use_sliding_window": sliding,
        "sliding_window": window if sliding else None,
    }
    if layout is QWEN3:
        return {**keys, "attention_bias": bool(complete.get("attention_bias"))}
    if sliding:
        keys["layer_types"] = types
        keys["max_window_layers"] = complete.get("max_window_layers", len(types))
    return {**keys, "qkv_bias": True, "shared_expert_intermediate_size": width}
