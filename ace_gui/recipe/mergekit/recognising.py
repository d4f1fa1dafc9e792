"""Decides whether a recipe file is mergekit's or this application's."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any, Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.methods import METHODS
from ace_gui.recipe.mergekit.schema import Document

_KEYS_OF_BOTH: Final = frozenset(
    {"merge_method", "base_model", "models", "parameters", "out_dtype"}
)
"""Keys that this application's recipes have, too."""

_KEYS_OF_MERGEKIT_ALONE: Final = frozenset(Document.model_fields) - _KEYS_OF_BOTH
"""Keys that only mergekit has."""

_PARAMETERS_OF_BOTH: Final = frozenset(
    {"density", "gamma", "epsilon", "weight", "t", "select_topk"}
)
"""Parameters that stand in both kinds of files under ``parameters``."""

_PARAMETERS_ELSEWHERE_IN_OURS: Final = frozenset(
    {"normalize", "rescale", "filter_wise", "r", "alpha"}
)
"""Parameters of mergekit that some method here also has, but not under ``parameters`` as there."""

_PARAMETERS_OF_MERGEKIT_ALONE: Final = frozenset(
    {
        "eps",
        "int8_mask",
        "lambda",
        "max_iter",
        "normalize_weights",
        "nuslerp_flatten",
        "nuslerp_row_wise",
        "scale",
        "tol",
    }
)
"""Parameters of mergekit that no method here has."""

_SIGNS_OF_MERGEKIT: Final = _PARAMETERS_ELSEWHERE_IN_OURS | _PARAMETERS_OF_MERGEKIT_ALONE
"""Parameters by which a file without other signs is mergekit's."""

_SUMS: Final = frozenset(name for name, counterpart in METHODS.items() if counterpart.sums)
_OTHER_DEFAULTS: Final = _SUMS | {"slerp"}
"""Methods with other defaults in this application's recipes: sums, and SLERP."""


def could_be_ours(document: Document) -> bool:
    """Whether the content is also a valid recipe of this application, but for a different merge."""
    if document.merge_method not in _OTHER_DEFAULTS:
        return False
    if _has_sign_of_mergekit(document.model_dump(exclude_unset=True)):
        return False
    return all(model.parameters.keys() <= {"weight"} for model in document.models or ())


def is_mergekit(content: Mapping[str, Any], own_keys: Collection[str]) -> bool:
    """Whether a file is mergekit's: it has a key that only mergekit has, or only shared keys.

    ``own_keys``: the keys of this application's recipes, with those also in mergekit. A file is
    such a recipe if it has ``schema`` or another key or a method that mergekit lacks, a named
    expert, or no method. Raises RecipeError if it has a key that only mergekit has, too.
    """
    our_key = _key_of_ours(content, own_keys)
    if our_key:
        _refuse_keys_of_both(content, our_key, _key_of_mergekit(content, own_keys))
        return False
    if isinstance(content.get("tokenizer"), str):  # mergekit's is a section
        return False
    if _has_sign_of_mergekit(content):
        return True
    if not _has_method(content) or not content.keys() <= _KEYS_OF_BOTH:
        return False
    return all(settings.keys() <= _PARAMETERS_OF_BOTH for settings in _parameters(content).values())


def _refuse_keys_of_both(content: Mapping[str, Any], our_key: str, their_key: str) -> None:
    """Raise RecipeError if a file with a key of ours also has a key of mergekit, if not empty.

    A file whose only key of ours is ``vocabulary`` may be mergekit's with an added key. A method
    with other defaults then counts as a key of mergekit, unless a parameter shows which is meant.
    """
    hint = ""
    if our_key == "vocabulary" and not their_key and _has_method(content, _OTHER_DEFAULTS):
        names = _parameters(content).get("parameters", {}).keys()
        if names <= _PARAMETERS_OF_BOTH | _SIGNS_OF_MERGEKIT:
            their_key = f"merge_method: {content['merge_method']}"
            hint = ", or add `schema: 1`"
    if their_key:
        raise RecipeError(
            f"{our_key!r} is a key of this application's recipes, {their_key!r} one of "
            f"mergekit's; a file is read as one of the two, so remove one of them{hint}.",
            key=our_key,
        )


def _key_of_ours(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key that only our recipes have, preferably not ``vocabulary``; empty if there is none."""
    keys = [key for key in own_keys if key in content and key not in Document.model_fields]
    keys += [f"{path}.name" for path, entry in _entries(content).items() if "name" in entry]
    for key in keys:
        if key != "vocabulary":
            return key
    if keys:
        return "vocabulary"
    return ""


def _key_of_mergekit(content: Mapping[str, Any], own_keys: Collection[str]) -> str:
    """A key, parameter, gradient or filter that only mergekit has; empty if there is none."""
    for key in sorted(_KEYS_OF_MERGEKIT_ALONE.difference(own_keys)):
        if key in content:
            return key
    for path, parameters in _parameters(content).items():
        is_of_entry = path != "parameters"
        for name, value in parameters.items():
            is_switch = name == "rescale" and isinstance(value, bool)  # here it is a word
            is_condition = isinstance(value, list | dict)
            if name in _PARAMETERS_OF_MERGEKIT_ALONE or is_switch or is_condition:
                return f"{path}.{name}"
            if is_of_entry and name != "weight":
                return f"{path}.{name}"
    return ""


def _has_sign_of_mergekit(content: Mapping[str, Any]) -> bool:
    """Whether it has mergekit's keys, parameters, gradients or filters.

    A method whose base is missing, or is also among the models, is such a sign, too.
    """
    base = content.get("base_model")
    if _KEYS_OF_MERGEKIT_ALONE & content.keys():
        return True
    if base is None and "merge_method" in content:
        return True
    if base is not None and _has_method(content):
        models = [entry.get("model") for entry in _entries(content).values()]
        if base in models:
            return True
    for settings in _parameters(content).values():
        if _SIGNS_OF_MERGEKIT & settings.keys():
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
    entries: dict[str, dict[str, Any]] = {}
    if not isinstance(models, list):
        return entries
    for n, entry in enumerate(models):
        if isinstance(entry, dict):
            entries[f"models[{n}]"] = entry
    return entries


def _parameters(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of the merge and of the models, by their path in the file."""
    by_path = {"parameters": content.get("parameters")}
    for path, entry in _entries(content).items():
        by_path[f"{path}.parameters"] = entry.get("parameters")
    return {path: settings for path, settings in by_path.items() if isinstance(settings, dict)}
