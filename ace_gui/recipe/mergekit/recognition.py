"""Whose a recipe file is: mergekit's or this application's own."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
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
    return (
        document.merge_method in _OTHER_DEFAULTS
        and not _says_what_only_mergekit_says(document.model_dump(exclude_unset=True))
        and all(model.parameters.keys() <= {"weight"} for model in document.models or ())
    )


def is_mergekit(content: Mapping[str, Any], own_keys: Collection[str]) -> bool:
    """Whether a file is mergekit's: it has a key that only mergekit has, or only shared keys.

    ``own_keys``: the keys of this application's recipes, including mergekit's. A file is one of
    these if it has ``schema`` or another key of its own, a named expert, a method that mergekit
    lacks, or no method. Raises RecipeError for a file with a key of each of the two.
    """
    ours = _only_ours(content, own_keys)
    if ours:
        _refuse_mixture(content, ours, _only_theirs(content, own_keys))
        return False
    parameters = _parameters(content)
    return not isinstance(content.get("tokenizer"), str) and (
        _says_what_only_mergekit_says(content)
        or (
            _has_method(content)
            and content.keys() <= _SHARED
            and all(own.keys() <= _SHARED_PARAMETERS for own in parameters.values())
        )
    )


def _refuse_mixture(content: Mapping[str, Any], ours: str, theirs: str) -> None:
    """Raise RecipeError for ``theirs``, a key of mergekit's beside ``ours``.

    A file whose only key of ours is ``vocabulary`` may be mergekit's, with a key added to it; then
    a method whose defaults differ is such a key, too, unless a parameter decides which is meant.
    """
    hint = ""
    if ours == "vocabulary" and not theirs and _has_method(content, _OTHER_DEFAULTS):
        own = _parameters(content).get("parameters", {}).keys()
        if own <= _SHARED_PARAMETERS | _PARAMETERS:
            theirs, hint = f"merge_method: {content['merge_method']}", ", or add `schema: 1`"
    if theirs:
        raise RecipeError(
            f"{ours!r} is a key of this application's recipes, {theirs!r} one of mergekit's; a "
            f"file is read as one of the two, so remove one of them{hint}.",
            key=ours,
        )


def _only_ours(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key that only an own recipe has, ``schema`` before others; empty where there is none."""
    own = [key for key in own_keys if key in content and key not in Document.model_fields]
    own += [f"{at}.name" for at, entry in _entries(content).items() if "name" in entry]
    return next((key for key in own if key != "vocabulary"), "vocabulary" if own else "")


def _only_theirs(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key, parameter, gradient or filter that only mergekit has; empty where there is none."""
    found = sorted(_KEYS.difference(own_keys) & content.keys())
    for at, parameters in _parameters(content).items():
        for name, value in parameters.items():
            of_entry = at != "parameters" and name != "weight"
            foreign = name in _FOREIGN or (name == "rescale" and isinstance(value, bool))
            if of_entry or foreign or isinstance(value, list | dict):
                found.append(f"{at}.{name}")
    return next(iter(found), "")


def _says_what_only_mergekit_says(content: Mapping[str, Any]) -> bool:
    """A key or parameter, a gradient or filter, no base model, or the base among the models."""
    parameters = _parameters(content).values()
    base = content.get("base_model")
    listed = base is not None and any(e.get("model") == base for e in _entries(content).values())
    return (
        bool(_KEYS & content.keys())
        or (base is None and "merge_method" in content)
        or (listed and _has_method(content))
        or any(_PARAMETERS & own.keys() for own in parameters)
        or any(isinstance(value, list | dict) for own in parameters for value in own.values())
    )


def _has_method(content: Mapping[str, Any], methods: Container[str] = METHODS) -> bool:
    """Whether the method is one of these; else one of all of mergekit's."""
    method = content.get("merge_method")
    return isinstance(method, str) and method in methods


def _entries(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of the models, by their place in the file."""
    models = content.get("models")
    listed = enumerate(models if isinstance(models, list) else [])
    return {f"models[{n}]": entry for n, entry in listed if isinstance(entry, dict)}


def _parameters(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of the merge and of the models, by their place in the file."""
    found = {"parameters": content.get("parameters")}
    found |= {f"{at}.parameters": own.get("parameters") for at, own in _entries(content).items()}
    return {at: parameters for at, parameters in found.items() if isinstance(parameters, dict)}
