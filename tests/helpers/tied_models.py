"""Tiny models of every class of transformers that ties tensors, built from its default config."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

from ace_gui.architecture import transformers_library
from tests.architecture.model_classes import classes_of, few_layers, fewer_layers

LARGEST: Final = 6_000_000
"""Parameters of a model that is small enough to be merged many times."""

_Sizes = Sequence[tuple[re.Pattern[str], int]]

_VOCABULARY: Final[_Sizes] = ((re.compile(r"vocab_size$|^vocab_size"), 48),)
_LAYERS: Final[_Sizes] = (
    (re.compile(r"(^|_)(num_|n_)?(hidden_)?(layers?|blocks?|depth)$|num_hidden_layers|n_layer"), 2),
)
_HEADS: Final[_Sizes] = (
    (re.compile(r"(key_value_heads|kv_heads)$"), 2),
    (re.compile(r"(attention_heads|_heads|^n_heads?|num_heads|n_head)$"), 4),
    (re.compile(r"^(head_dim|d_kv|attention_head_size|kv_channels)$"), 8),
)
_WIDTHS: Final[_Sizes] = (
    (re.compile(r"(hidden_size|d_model|n_embd|hidden_dim|embed_dim)$"), 32),
    (re.compile(r"(embedding_size|projection_dim)$"), 32),
    (re.compile(r"(intermediate_size|ffn_dim|d_ff|n_inner|ffn_hidden_size|inner_dim)$"), 48),
)
_COUNTS: Final[_Sizes] = (
    (re.compile(r"(num_local_experts|num_experts|n_routed_experts)$"), 4),
    (re.compile(r"(max_position_embeddings|n_positions|max_(source|target)_positions)$"), 64),
)
# From all sizes to those that fit every class.
_ATTEMPTS: Final = (
    (*_VOCABULARY, *_LAYERS, *_HEADS, *_WIDTHS, *_COUNTS),
    (*_VOCABULARY, *_LAYERS, *_WIDTHS),
    (*_VOCABULARY, *_LAYERS),
    _VOCABULARY,
)
_IDS: Final = re.compile(r"_token_id$|_token_index$|_index$")


def tied_classes(family: str) -> Iterator[type[Any]]:
    """The classes in one of transformers' ``families`` that name tied tensors."""
    for model_class in classes_of(family):
        if getattr(model_class, "_tied_weights_keys", None):
            yield model_class


def tiny(model_class: type[Any]) -> Any:
    """A tied model of this class with random weights. Raises the last error, of any type."""
    failure: Exception = ValueError("its model has too many parameters")
    for sizes in _ATTEMPTS:
        try:
            config = _tied(model_class.config_class(**_smaller(_few(model_class), sizes)))
            with torch.device("meta"):
                model = _built(model_class, config)
            if sum(parameter.numel() for parameter in model.parameters()) <= LARGEST:
                torch.manual_seed(0)
                return _built(model_class, config).eval()
        except Exception as error:  # each class fails on a config in its own way
            failure = error
    raise failure


def _built(model_class: type[Any], config: Any) -> Any:
    with transformers_library.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model_class(config)


def _few(model_class: type[Any]) -> Any:
    with transformers_library.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return few_layers(model_class.config_class)


def _tied(config: Any) -> Any:
    """The config, tied where its class allows for that."""
    for part in (config, *vars(config).values()):
        if hasattr(part, "tie_word_embeddings") and hasattr(part, "model_type"):
            part.tie_word_embeddings = True
    return config


def _smaller(config: Any, sizes: _Sizes) -> dict[str, Any]:
    """The arguments for a config with these sizes, its parts included."""
    arguments = fewer_layers(config)
    for key, value in vars(config).items():
        if hasattr(value, "model_type") and hasattr(value, "to_dict"):
            arguments[key] = type(value)(**_smaller(value, sizes))
        elif type(value) is int and value > 0:
            size = _size(key, value, sizes)
            if size != value:
                arguments[key] = size
    return arguments


def _size(key: str, value: int, sizes: _Sizes) -> int:
    if _IDS.search(key):
        return min(value, 40)
    for pattern, size in sizes:
        if pattern.search(key):
            return min(value, size)
    return value
