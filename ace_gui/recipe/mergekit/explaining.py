"""What becomes of each key of a mergekit file: kept, changed or left out, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace_gui.formatting import plain, quoted_value
from ace_gui.recipe.mergekit.key_fates import Fate, KeyFate
from ace_gui.recipe.values import Recipe

_LEFT_OUT: Final = ("left out", "no effect")
_CHANGES: Final = {
    "dtype": "the number format of the output; the merge computes in float32",
    "out_dtype": "the number format of the output; the merge computes in float32",
    "chat_template": "the well-known formats are templates of this program, with the same effect",
    "tokenizer_source": "the row of a new token of several experts is their weighted mean",
    "pad_to_multiple_of": "padded rows are the mean of the base's rows",
}
"""What is done differently with keys, by their last part."""

_WITHOUT_EFFECT: Final = {"int8_mask": "it saves mergekit memory, and changes no weight"}

_GRADIENT: Final = "a gradient: a value for each block"
_FILTERED: Final = "conditions: values for tensors with these names"


def explained(content: Mapping[str, Any], recipe: Recipe) -> tuple[KeyFate, ...]:
    """The keys of a document of mergekit's, in their order; ``recipe``: what it was read as."""
    fates: dict[str, KeyFate] = {}
    for key, value in _leaves(content):
        if key not in fates:
            fates[key] = _fate(key, value, recipe)
    return tuple(fates.values())


_ROUTERS: Final = {
    "dtype": "the number format of the output; routers are computed in float32",
    "gate_mode": "routers are computed in float32; mergekit computes them in bfloat16",
}
_WITHOUT_NOISE: Final = ("noise_scale", "residual_scale")


def explained_mixture(content: Mapping[str, Any]) -> tuple[KeyFate, ...]:
    """The keys of a file of mergekit-moe's that was read as a mixture of experts."""
    fates: dict[str, KeyFate] = {}
    for key, value in _leaves(content):
        last = key.rpartition(".")[2]
        fate = Fate.KEPT
        if last in _ROUTERS:
            fate = Fate.CHANGED
        elif last in _WITHOUT_NOISE:
            fate = Fate.LEFT_OUT
        why = _ROUTERS.get(last, "it has no effect" if fate is Fate.LEFT_OUT else "")
        fates.setdefault(key, KeyFate(key=key, value=_written(value), fate=fate, why=why))
    return tuple(fates.values())


def _leaves(part: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The paths of a document and the values at their ends; settings stay in one piece."""
    for key, value in part.items():
        if at:
            path = f"{at}.{key}"
        else:
            path = str(key)
        if isinstance(value, Mapping) and value and "value" not in value:
            yield from _leaves(value, path)
        elif isinstance(value, list) and value and all(_is_entry(item) for item in value):
            for item in value:
                yield from _leaves(item, f"{path}[]")
        else:
            yield path, value


def _is_entry(item: Any) -> bool:
    """Whether an item of a list is a model or a slice, and no condition of a setting."""
    return isinstance(item, Mapping) and "value" not in item


def _written(value: Any) -> str:
    """A value as it is written."""
    return plain(quoted_value(value).strip("'"))


def _fate(key: str, value: Any, recipe: Recipe) -> KeyFate:
    last = key.rpartition(".")[2]
    notes = [note for note in recipe.notes if f"'{last}'" in note]
    if key == "merge_method":
        notes = [note for note in recipe.notes if "mergekit" in note and "'" not in note]
    written = _written(value)
    if any(words in note for note in notes for words in _LEFT_OUT):
        return KeyFate(key=key, value=written, fate=Fate.LEFT_OUT, why=" ".join(notes))
    if last in _WITHOUT_EFFECT:
        return KeyFate(key=key, value=written, fate=Fate.LEFT_OUT, why=_WITHOUT_EFFECT[last])
    if notes:
        return KeyFate(key=key, value=written, fate=Fate.CHANGED, why=" ".join(notes))
    if last in _CHANGES:
        return KeyFate(key=key, value=written, fate=Fate.CHANGED, why=_CHANGES[last])
    return KeyFate(key=key, value=written, fate=Fate.KEPT, why=_kept(last, value))


def _kept(last: str, value: Any) -> str:
    """What is to be said about a key that is read as mergekit reads it."""
    if last == "layer_range" or not isinstance(value, list | Mapping):
        return ""
    items: Sequence[Any] = value if isinstance(value, list) else [value]
    if any(isinstance(item, Mapping) for item in items):
        return _FILTERED
    return _GRADIENT
