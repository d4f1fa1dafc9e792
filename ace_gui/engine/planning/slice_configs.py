"""The config of a model made of blocks of several models."""

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
"""Keys that are superfluous beside a list with one entry per block."""


def full_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config with the lists of one entry per block that its class derives from other keys."""
    try:
        with transformers_library.quiet():
            complete = transformers_library.model_and_config(config)[1].to_dict()
    except (ArchitectureError, ValueError, TypeError, AttributeError):
        return config
    return _with_lists(config, complete)


def _with_lists(config: Mapping[str, Any], complete: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(config)
    count = _blocks_in(config)
    for key, value in complete.items():
        if isinstance(config.get(key), dict) and isinstance(value, dict):
            result[key] = _with_lists(config[key], value)
        elif key not in config and count is not None and _is_by_block(key, value, count):
            result[key] = value
    return result


def joined_config(blocks: Sequence[Block], *, untied: bool) -> dict[str, object]:
    """The first config for these blocks in this order.

    It adapts counts, lists with one entry per block, lists of block numbers, and the number of
    first blocks that differ. Raises RecipeError for a pattern that these blocks no longer have, and
    for a config without a number of blocks.
    """
    joined = _joined(blocks)
    if joined is None:
        raise RecipeError(
            "config.json does not have the number of blocks, which slices change; merge whole "
            "models.",
            key="slices",
        )
    if untied:
        return _untied(joined)
    return joined


def _joined(blocks: Sequence[Block]) -> dict[str, Any] | None:
    """One level of the config; None if neither it nor one in it has a number of blocks."""
    first = blocks[0][0]
    joined = dict(first)
    counted = _blocks_in(first) is not None
    for key, value in first.items():
        if isinstance(value, Mapping):
            inner = [(_at(config, key, dict), count, block) for config, count, block in blocks]
            nested = _joined(inner)
            counted = counted or nested is not None
            joined[key] = value if nested is None else nested
        elif _blocks_in(first) is not None:
            joined[key] = _joined_value(key, blocks)
    if counted:
        return joined
    return None


def _blocks_in(config: Mapping[str, Any]) -> int | None:
    counts = (config[key] for key in _COUNTS if isinstance(config.get(key), int))
    return next(counts, None)


def _at(config: Mapping[str, Any], key: str, kind: type) -> Any:
    value = config.get(key)
    if not isinstance(value, kind):
        raise RecipeError(
            f"{key!r} is in the config of one model of the slices, but not in that of another; "
            "choose models of one architecture.",
            key="slices",
        )
    return value


def _joined_value(key: str, blocks: Sequence[Block]) -> Any:
    config, count, _ = blocks[0]
    value = config[key]
    order = [block for _, _, block in blocks]
    if key in _COUNTS:
        return len(blocks)
    if isinstance(value, list) and _INDICES.search(key) and all(type(v) is int for v in value):
        return [new for new, (number, _, old) in enumerate(blocks) if old in _at(number, key, list)]
    if _is_by_block(key, value, count):
        entries = [_at(number, key, type(value))[block] for number, _, block in blocks]
        if isinstance(value, str):
            return "".join(entries)
        return entries
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
    nested = {key: _untied(value) for key, value in inner.items() if _blocks_in(value) is not None}
    return {**config, **nested, "tie_word_embeddings": False}
