"""Decides whether a recipe file is mergekit's or this application's."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any, Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.methods import METHODS
from ace_gui.recipe.mergekit.schema import Document

_SHARED: Final = frozenset({"merge_method", "base_model", "models", "parameters", "out_dtype"})
"""Keys that this application's recipes have, too."""

_KEYS: Final = frozenset(Document.model_fields) - _SHARED

_SHARED_PARAMETERS: Final = frozenset({"density", "gamma", "epsilon", "weight", "t", "select_topk"})

_PARAMETERS: Final = frozenset(
    [
        *("normalize", "rescale", "lambda", "int8_mask", "filter_wise", "normalize_weights"),
        *("nuslerp_flatten", "nuslerp_row_wise", "eps", "max_iter", "tol", "r", "alpha", "scale"),
    ]
)
"""Parameters that only mergekit has."""

_FOREIGN: Final = _PARAMETERS - {"normalize", "r", "alpha", "rescale", "filter_wise"}
"""Parameters that no method has in this application, where ``rescale`` is a word."""

_OTHER_DEFAULTS: Final = {
    name for name, counterpart in METHODS.items() if counterpart.sums or name == "slerp"
}
"""Methods with other defaults in this application's recipes."""


def could_be_ours(document: Document) -> bool:
    """Whether the same content is also a valid recipe of this application with another merge."""
    return (
        document.merge_method in _OTHER_DEFAULTS
        and not _says_what_only_mergekit_says(document.model_dump(exclude_unset=True))
        and all(model.parameters.keys() <= {"weight"} for model in document.models or ())
    )


def is_mergekit(content: Mapping[str, Any], own_keys: Collection[str]) -> bool:
    """Whether a file is mergekit's: it has a key that only mergekit has, or only shared keys.

    ``own_keys``: the keys of this application's recipes, with those also in mergekit. A file is
    such a recipe if it has ``schema`` or another key or a method that mergekit lacks, a named
    expert, or no method. Raises RecipeError if it has a key that only mergekit has, too.
    """
    ours = _only_ours(content, own_keys)
    if ours:
        _refuse_mixture(content, ours, _only_theirs(content, own_keys))
        return False
    if isinstance(content.get("tokenizer"), str):
        return False
    if _says_what_only_mergekit_says(content):
        return True
    parameters = _parameters(content).values()
    only_shared = all(settings.keys() <= _SHARED_PARAMETERS for settings in parameters)
    return _has_method(content) and content.keys() <= _SHARED and only_shared


def _refuse_mixture(content: Mapping[str, Any], ours: str, theirs: str) -> None:
    """Raise RecipeError if a file with the key ``ours`` has ``theirs``, a key of mergekit.

    A file whose only key of ours is ``vocabulary`` may be mergekit's with an added key. A method
    with other defaults then counts as a key of mergekit, unless a parameter shows which is meant.
    """
    hint = ""
    if ours == "vocabulary" and not theirs and _has_method(content, _OTHER_DEFAULTS):
        names = _parameters(content).get("parameters", {}).keys()
        if names <= _SHARED_PARAMETERS | _PARAMETERS:
            theirs = f"merge_method: {content['merge_method']}"
            hint = ", or add `schema: 1`"
    if theirs:
        raise RecipeError(
            f"{ours!r} is a key of this application's recipes, {theirs!r} one of mergekit's; a "
            f"file is read as one of the two, so remove one of them{hint}.",
            key=ours,
        )


def _only_ours(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key that only our recipes have, preferably ``schema``; empty if there is none."""
    keys = [key for key in own_keys if key in content and key not in Document.model_fields]
    keys += [f"{at}.name" for at, entry in _entries(content).items() if "name" in entry]
    for key in keys:
        if key != "vocabulary":
            return key
    if keys:
        return "vocabulary"
    return ""


def _only_theirs(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key, parameter, gradient or filter that only mergekit has; empty if there is none."""
    keys = sorted(_KEYS.difference(own_keys) & content.keys())
    for at, parameters in _parameters(content).items():
        for name, value in parameters.items():
            of_entry = at != "parameters" and name != "weight"
            foreign = name in _FOREIGN or (name == "rescale" and isinstance(value, bool))
            if of_entry or foreign or isinstance(value, list | dict):
                keys.append(f"{at}.{name}")
    return next(iter(keys), "")


def _says_what_only_mergekit_says(content: Mapping[str, Any]) -> bool:
    """Whether it has mergekit's keys, parameters, gradients or filters.

    So do files with a method whose base is missing, or is also among the models.
    """
    parameters = _parameters(content).values()
    base = content.get("base_model")
    listed = base is not None and any(e.get("model") == base for e in _entries(content).values())
    if _KEYS & content.keys() or (base is None and "merge_method" in content):
        return True
    if listed and _has_method(content):
        return True
    for settings in parameters:
        if _PARAMETERS & settings.keys():
            return True
        if any(isinstance(value, list | dict) for value in settings.values()):
            return True
    return False


def _has_method(content: Mapping[str, Any], methods: Container[str] = METHODS) -> bool:
    """Whether the method is one of these, by default all of mergekit's."""
    method = content.get("merge_method")
    return isinstance(method, str) and method in methods


def _entries(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of the models, by their path in the file."""
    models = content.get("models")
    listed = enumerate(models if isinstance(models, list) else [])
    return {f"models[{n}]": entry for n, entry in listed if isinstance(entry, dict)}


def _parameters(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of the merge and of the models, by their path in the file."""
    by_path = {"parameters": content.get("parameters")}
    by_path |= {f"{at}.parameters": e.get("parameters") for at, e in _entries(content).items()}
    return {at: parameters for at, parameters in by_path.items() if isinstance(parameters, dict)}
