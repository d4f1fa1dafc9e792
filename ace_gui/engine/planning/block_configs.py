"""The config of a model whose blocks come from other models or in another order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ace_gui.architecture import transformers_library
from ace_gui.errors import ArchitectureError, RecipeError

Block = tuple[Mapping[str, Any], int, int]
"""The config of a model, its number of blocks, and one of them."""

_COUNTS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_INDICES: Final = re.compile(
    r"(_idxs?|_indices|_indexes)$|^(mlp_only|cross_attention|attn)_layers$"
)
_PERIODS: Final = re.compile(r"(_interval|_pattern|_period|_freq|_step|_every_n_layers)$")
_FIRST: Final = re.compile(r"^(first_k_dense_replace|max_window_layers|num_dense_layers)$")
_LAST: Final = re.compile(r"^num_kv_shared_layers$")
_OTHER_LISTS: Final = re.compile(r"^architectures$|_token_ids?$|suppress_tokens$|_labels?$")
_EXPLICIT: Final = {
    "sliding_window_pattern": "layer_types",
    "full_attention_interval": "layer_types",
    "max_window_layers": "layer_types",
    "no_rope_layer_interval": "no_rope_layers",
}
"""Keys that a list with one entry a block makes superfluous."""


def full_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config with lists of one entry a block that its class works out from other keys."""
    try:
        with transformers_library.quiet():
            made = transformers_library.model_and_config(config)[1].to_dict()
    except (ArchitectureError, ValueError, TypeError, AttributeError):
        return config
    return _with_lists(config, made)


def _with_lists(config: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(config)
    count = _count(config)
    for key, value in made.items():
        if isinstance(config.get(key), dict) and isinstance(value, dict):
            found[key] = _with_lists(config[key], value)
        elif key not in config and count is not None and _is_by_block(key, value, count):
            found[key] = value
    return found


def joined_config(blocks: Sequence[Block], *, untied: bool) -> dict[str, object]:
    """The first config for these blocks in this order.

    Counts, lists with one entry a block, lists of block numbers, and the number of first blocks
    with something of their own follow. Raises RecipeError for a pattern that these blocks no longer
    have, and for a config without a number of blocks.
    """
    found = _joined(blocks)
    if found is None:
        raise RecipeError(
            "config.json does not have the number of blocks, which slices change; merge whole "
            "models.",
            key="slices",
        )
    return _untied(found) if untied else found


def _joined(blocks: Sequence[Block]) -> dict[str, Any] | None:
    """One level of the config; None if neither it nor one in it has a number of blocks."""
    first = blocks[0][0]
    made = dict(first)
    counted = _count(first) is not None
    for key, value in first.items():
        if isinstance(value, Mapping):
            inner = [(_at(config, key, dict), count, block) for config, count, block in blocks]
            nested = _joined(inner)
            counted = counted or nested is not None
            made[key] = value if nested is None else nested
        elif _count(first) is not None:
            made[key] = _value(key, blocks)
    return made if counted else None


def _count(config: Mapping[str, Any]) -> int | None:
    found = (config[key] for key in _COUNTS if isinstance(config.get(key), int))
    return next(found, None)


def _at(config: Mapping[str, Any], key: str, kind: type) -> Any:
    value = config.get(key)
    if not isinstance(value, kind):
        raise RecipeError(
            f"{key!r} is in the config of one model of the slices, but not in that of another; "
            "choose models of one architecture.",
            key="slices",
        )
    return value


def _value(key: str, blocks: Sequence[Block]) -> Any:
    config, count, _ = blocks[0]
    value = config[key]
    order = [block for _, _, block in blocks]
    if key in _COUNTS:
        return len(blocks)
    if isinstance(value, list) and _INDICES.search(key) and all(type(v) is int for v in value):
        return [new for new, (own, _, old) in enumerate(blocks) if old in _at(own, key, list)]
    if _is_by_block(key, value, count):
        entries = [_at(own, key, type(value))[block] for own, _, block in blocks]
        return "".join(entries) if isinstance(value, str) else entries
    unchanged = order == list(range(count))
    if type(value) is not int or unchanged or _EXPLICIT.get(key.strip("_")) in config:
        return value
    if _FIRST.search(key):
        flags = [block < value for block in order]
        if flags != sorted(flags, reverse=True):
            raise _inexpressible(key)
        return sum(flags)
    is_period = value > 1 and _PERIODS.search(key)
    moved = is_period and any((block - new) % value for new, block in enumerate(order))
    if moved or (value > 0 and _LAST.search(key)):
        raise _inexpressible(key)
    return value


def _is_by_block(key: str, value: object, count: int) -> bool:
    """Whether a value has one entry for each block; a text has one letter."""
    if isinstance(value, str):
        return len(value) == count and "pattern" in key
    return isinstance(value, list) and len(value) == count and not _OTHER_LISTS.search(key)


def _inexpressible(key: str) -> RecipeError:
    return RecipeError(
        f"{key!r} in config.json sets which blocks differ from the others. It cannot express these "
        "slices; choose ranges that keep the pattern.",
        key="slices",
    )


def _untied(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a model whose head is not its embedding."""
    inner = {key: value for key, value in config.items() if isinstance(value, dict)}
    nested = {key: _untied(value) for key, value in inner.items() if _count(value) is not None}
    return {**config, **nested, "tie_word_embeddings": False}
