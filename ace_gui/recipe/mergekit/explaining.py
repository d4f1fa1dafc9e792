"""What becomes of each key of a mergekit file: kept, changed or left out, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ace_gui.formatting import plain, quoted_value
from ace_gui.recipe.mergekit.key_fates import Fate, KeyFate
from ace_gui.recipe.values import Recipe

_LEFT_OUT: Final = ("left out", "no effect")
"""A note with one of these phrases says that a key is left out."""

_CHANGES: Final = {
    "dtype": "the number format of the output; the merge computes in float32",
    "out_dtype": "the number format of the output; the merge computes in float32",
    "chat_template": "the well-known formats are templates of this program, with the same effect",
    "tokenizer_source": "the row of a new token of several experts is their weighted mean",
    "pad_to_multiple_of": "padded rows are the mean of the base's rows",
}
"""What is done differently with keys, by their last part."""

_WITHOUT_EFFECT: Final = {"int8_mask": "it saves mergekit memory, and changes no weight"}
"""Why keys have no effect, by their last part."""

_GRADIENT: Final = "a gradient: a value for each block"
_FILTERED: Final = "conditions: values for tensors with these names"


def explained(content: Mapping[str, Any], recipe: Recipe) -> tuple[KeyFate, ...]:
    """The keys of a document of mergekit's, in their order; ``recipe``: what it was read as."""
    fates: dict[str, KeyFate] = {}
    for key, value in _leaves(content):
        if key not in fates:
            fates[key] = _fate(key, value, recipe)
    return tuple(fates.values())


_CHANGES_IN_MIXTURES: Final = {
    "dtype": "the number format of the output; routers are computed in float32",
    "gate_mode": "routers are computed in float32; mergekit computes them in bfloat16",
}
"""What is done differently with keys of mergekit-moe, by their last part."""

_WITHOUT_EFFECT_IN_MIXTURES: Final = ("noise_scale", "residual_scale")
"""Keys of mergekit-moe without an effect, by their last part."""


def explained_mixture(content: Mapping[str, Any]) -> tuple[KeyFate, ...]:
    """The keys of a file of mergekit-moe's that was read as a mixture of experts."""
    fates: dict[str, KeyFate] = {}
    for key, value in _leaves(content):
        last = key.rpartition(".")[2]
        fate = Fate.KEPT
        why = ""
        if last in _CHANGES_IN_MIXTURES:
            fate = Fate.CHANGED
            why = _CHANGES_IN_MIXTURES[last]
        elif last in _WITHOUT_EFFECT_IN_MIXTURES:
            fate = Fate.LEFT_OUT
            why = "it has no effect"
        fates.setdefault(key, KeyFate(key=key, value=_value_text(value), fate=fate, why=why))
    return tuple(fates.values())


def _leaves(part: Any, path_of_part: str = "") -> Iterator[tuple[str, Any]]:
    """The paths of a document and the values at their ends.

    Gradients and conditions of settings are values, in one piece.
    """
    for key, value in part.items():
        path = str(key)
        if path_of_part:
            path = f"{path_of_part}.{key}"
        if value and _is_section(value):
            yield from _leaves(value, path)
        elif isinstance(value, list) and value and all(_is_section(item) for item in value):
            for item in value:
                yield from _leaves(item, f"{path}[]")
        else:
            yield path, value


def _is_section(value: Any) -> bool:
    """Whether a value has keys of its own, as a model or a slice has, and is no condition."""
    return isinstance(value, Mapping) and "value" not in value


def _value_text(value: Any) -> str:
    """A value as it is written."""
    return plain(quoted_value(value).strip("'"))  # a table needs no quotes


def _fate(key: str, value: Any, recipe: Recipe) -> KeyFate:
    """What becomes of a key, by the recipe's notes and what is done with any such key.

    A note is on the keys that it has in quotes. One without such a key is on the method.
    """
    last = key.rpartition(".")[2]
    if key == "merge_method":
        notes = [note for note in recipe.notes if "mergekit" in note and "'" not in note]
    else:
        notes = [note for note in recipe.notes if f"'{last}'" in note]
    written = _value_text(value)
    all_notes = " ".join(notes)
    if any(phrase in all_notes for phrase in _LEFT_OUT):
        return KeyFate(key=key, value=written, fate=Fate.LEFT_OUT, why=all_notes)
    if last in _WITHOUT_EFFECT:
        return KeyFate(key=key, value=written, fate=Fate.LEFT_OUT, why=_WITHOUT_EFFECT[last])
    if notes:
        return KeyFate(key=key, value=written, fate=Fate.CHANGED, why=all_notes)
    if last in _CHANGES:
        return KeyFate(key=key, value=written, fate=Fate.CHANGED, why=_CHANGES[last])
    return KeyFate(key=key, value=written, fate=Fate.KEPT, why=_form_of(last, value))


def _form_of(last: str, value: Any) -> str:
    """What is to be said about the form of a setting; empty for a plain value."""
    if last == "layer_range" or not isinstance(value, list | Mapping):
        return ""
    if isinstance(value, Mapping) or any(isinstance(item, Mapping) for item in value):
        return _FILTERED
    return _GRADIENT
