"""Whose a recipe file is: mergekit's or this application's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.methods import METHODS
from ace_gui.recipe.mergekit.schema import Document

_SHARED: Final = frozenset({"merge_method", "base_model", "models", "parameters", "out_dtype"})
"""Keys that an own recipe has, too."""

_KEYS: Final = frozenset(Document.model_fields) - _SHARED

_SHARED_PARAMETERS: Final = frozenset({"density", "gamma", "epsilon", "weight", "t", "select_topk"})

_PARAMETERS: Final = frozenset(
    [
        *("normalize", "rescale", "lambda", "int8_mask", "filter_wise", "normalize_weights"),
        *("nuslerp_flatten", "nuslerp_row_wise", "eps", "max_iter", "tol", "r", "alpha", "scale"),
    ]
)
"""Those that only mergekit has."""

_FOREIGN: Final = _PARAMETERS - {"normalize", "r", "alpha", "rescale", "filter_wise"}
"""Parameters that no method has in an own recipe. There, ``rescale`` is a word."""

_OTHER_DEFAULTS: Final = {name for name, made in METHODS.items() if made.sums or name == "slerp"}
"""Methods that do something else in an own recipe which leaves their parameters open."""


def could_be_ours(document: Document) -> bool:
    """Whether the same content is also a valid recipe of this application with another merge."""
    content = document.model_dump(exclude_unset=True)
    return (
        document.merge_method in _OTHER_DEFAULTS
        and not _says_what_only_mergekit_says(content, _entries(content))
        and all(model.parameters.keys() <= {"weight"} for model in document.models or ())
    )


def refuse_mixture(content: Mapping[str, Any], own_keys: Collection[str], path: Path) -> None:
    """Raise RecipeError for a file with a key of an own recipe and one of mergekit's.

    A file whose only key of ours is ``vocabulary`` may be mergekit's, with a key added to it; then
    a method whose defaults differ is such a key, too. Any other key makes the file ours.
    """
    ours = _only_ours(content, own_keys)
    theirs = _only_theirs(content, own_keys) if ours else ""
    method = content.get("merge_method")
    if ours == "vocabulary" and not theirs and _means_two_things(content):
        theirs = f"merge_method: {method}"
    if theirs:
        raise RecipeError(
            f"{path}: {ours!r} is a key of this application's recipes, {theirs!r} one of "
            "mergekit's; a file is read as one of the two, so remove one of them"
            f"{', or add `schema: 1`' if theirs.startswith('merge_method') else ''}.",
            path=path,
            key=ours,
        )


def _means_two_things(content: Mapping[str, Any]) -> bool:
    """Whether the method differs in this application's recipes and no parameter decides which is
    meant.
    """
    own = content.get("parameters")
    named = own.keys() - _SHARED_PARAMETERS - _PARAMETERS if isinstance(own, dict) else ()
    return content.get("merge_method") in _OTHER_DEFAULTS and not named


def _only_ours(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key that only an own recipe has, ``schema`` before others; empty where there is none."""
    own = [key for key in own_keys if key in content and key not in Document.model_fields]
    named = (f"models[{n}].name" for n, entry in enumerate(_entries(content)) if "name" in entry)
    found = [*own, *named]
    return next((key for key in found if key != "vocabulary"), "vocabulary" if found else "")


def _only_theirs(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key, parameter, gradient or filter that only mergekit has; empty where there is none."""
    found = sorted(_KEYS.difference(own_keys) & content.keys())
    entries = _entries(content)
    for index, parameters in (
        ("parameters", content.get("parameters")),
        *((f"models[{n}].parameters", each.get("parameters")) for n, each in enumerate(entries)),
    ):
        for name, value in parameters.items() if isinstance(parameters, dict) else ():
            of_entry = index != "parameters" and name != "weight"
            foreign = name in _FOREIGN or (name == "rescale" and isinstance(value, bool))
            if of_entry or foreign or isinstance(value, list | dict):
                found.append(f"{index}.{name}")
    return next(iter(found), "")


def is_mergekit(content: Mapping[str, Any], own_keys: Collection[str]) -> bool:
    """Whether a file is mergekit's: it has a key that only mergekit has, or only shared keys.

    ``own_keys``: the keys of this application's recipes, including mergekit's. A file is one of
    these if it has ``schema`` or another key of its own, a named expert, a method that mergekit
    lacks, or no method.
    """
    entries = _entries(content)
    if isinstance(content.get("tokenizer"), str):
        return False
    if (set(own_keys) - Document.model_fields.keys()) & content.keys() or any(
        "name" in entry for entry in entries
    ):
        return False
    return _says_what_only_mergekit_says(content, entries) or _says_nothing_else(content, entries)


def _says_what_only_mergekit_says(
    content: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> bool:
    """A key or parameter, a gradient or filter, no base model, or the base among the models."""
    everything = _parameters(content, entries)
    base = content.get("base_model")
    return (
        bool(_KEYS & content.keys())
        or (base is None and "merge_method" in content)
        or (
            _names_a_method(content)
            and base is not None
            and any(entry.get("model") == base for entry in entries)
        )
        or any(_PARAMETERS & parameters.keys() for parameters in everything)
        or any(isinstance(v, list | dict) for p in everything for v in p.values())
    )


def _says_nothing_else(content: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> bool:
    return (
        _names_a_method(content)
        and content.keys() <= _SHARED
        and all(p.keys() <= _SHARED_PARAMETERS for p in _parameters(content, entries))
    )


def _names_a_method(content: Mapping[str, Any]) -> bool:
    """Whether mergekit has the method."""
    method = content.get("merge_method")
    return isinstance(method, str) and method in METHODS


def _entries(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    models = content.get("models")
    return [m for m in models if isinstance(m, dict)] if isinstance(models, list) else []


def _parameters(
    content: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    found = [each.get("parameters") for each in (content, *entries)]
    return [parameters for parameters in found if isinstance(parameters, dict)]
