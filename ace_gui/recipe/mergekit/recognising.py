"""Decides whether a recipe file is mergekit's or this application's."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any, Final

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.methods import METHODS
from ace_gui.recipe.mergekit.schema import Document, MergekitSlice, Model, is_template

KEYS_OF_BOTH: Final = frozenset(
    {
        "merge_method",
        "base_model",
        "models",
        "parameters",
        "slices",
        "tokenizer",
        "chat_template",
        "out_dtype",
    }
)
"""Keys that mergekit and this application's recipes have."""

_KEYS_OF_MERGEKIT_ALONE: Final = frozenset(Document.model_fields) - KEYS_OF_BOTH
"""Keys that only mergekit has."""

_OUR_KEYS_IN_SLICES: Final = ("layers", "adapter", "overrides")
"""Keys of slices and their sources that only this application's recipes have."""

_MERGEKIT_KEYS_IN_SLICES: Final = frozenset(
    {*MergekitSlice.model_fields, *Model.model_fields} - {"sources", "model"}
)
"""Keys of slices and their sources that only mergekit has."""

_PARAMETERS_OF_BOTH: Final = frozenset(
    {"density", "gamma", "epsilon", "weight", "t", "select_topk"}
)
"""Parameters of both kinds of files that say nothing about the kind."""

_PARAMETERS_USUAL_IN_MERGEKIT: Final = frozenset(
    {"normalize", "rescale", "filter_wise", "r", "alpha"}
)
"""Parameters of both kinds of files, which make a file with a method of mergekit mergekit's."""

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
    """Whether a file is mergekit's, and not a recipe of this application.

    A key that only our recipes have makes it a recipe of ours. Otherwise a sign of mergekit makes
    it mergekit's. A file with neither is mergekit's if mergekit has its method and all its keys and
    parameters. ``own_keys``: all keys of our recipes. Raises RecipeError if a file has both a key
    that only our recipes have and one that only mergekit has.
    """
    our_key = _key_of_ours(content, own_keys)
    if our_key:
        _refuse_keys_of_both(content, our_key, _key_of_mergekit(content))
        return False
    if isinstance(content.get("tokenizer"), str):  # mergekit's is a section
        return False
    if _has_sign_of_mergekit(content):
        return True
    template = content.get("chat_template")
    if isinstance(template, str) and not is_template(template):  # ours may be a model's, or a file
        return False
    if content.get("slices") and content.get("models"):  # in mergekit, they exclude each other
        return False
    if not _has_method(content) or not content.keys() <= KEYS_OF_BOTH:
        return False
    return all(settings.keys() <= _PARAMETERS_OF_BOTH for settings in _parameters(content).values())


def _refuse_keys_of_both(content: Mapping[str, Any], our_key: str, their_key: str) -> None:
    """Raise RecipeError if a file with a key of ours has one of mergekit, too.

    ``their_key``: the key of mergekit; empty if there is none. Someone may have added
    ``vocabulary`` to a file of mergekit. If that is the only key of ours, a method that has other
    defaults here counts as a key of mergekit. It does not if the file has a parameter that only
    our recipes have, because then the file is surely ours.
    """
    hint = ""
    if our_key == "vocabulary" and not their_key and _has_method(content, _OTHER_DEFAULTS):
        names = _parameters(content).get("parameters", {}).keys()
        # A parameter that only mergekit has is not among these: it would be ``their_key``.
        our_parameters = names - _PARAMETERS_OF_BOTH - _PARAMETERS_USUAL_IN_MERGEKIT
        if not our_parameters:
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
    for path, part in _parts_of_slices(content).items():
        keys += [f"{path}.{key}" for key in _OUR_KEYS_IN_SLICES if key in part]
    for key in keys:
        if key != "vocabulary":
            return key
    if keys:
        return "vocabulary"
    return ""


def _key_of_mergekit(content: Mapping[str, Any]) -> str:
    """A key, parameter, gradient or filter that only mergekit has; empty if there is none."""
    for key in sorted(_KEYS_OF_MERGEKIT_ALONE):
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
    """Whether it has keys, parameters, gradients or filters that only mergekit has.

    With a method of mergekit, more things are signs (``_is_usual_in_mergekit``).
    """
    if _KEYS_OF_MERGEKIT_ALONE & content.keys() or isinstance(content.get("tokenizer"), Mapping):
        return True
    if any(_MERGEKIT_KEYS_IN_SLICES & part.keys() for part in _parts_of_slices(content).values()):
        return True
    for settings in _parameters(content).values():
        if _PARAMETERS_OF_MERGEKIT_ALONE & settings.keys():
            return True
        if any(isinstance(value, list | dict) for value in settings.values()):
            return True
    return _has_method(content) and _is_usual_in_mergekit(content)


def _is_usual_in_mergekit(content: Mapping[str, Any]) -> bool:
    """Whether a file with a method of mergekit has what our recipes seldom or never have.

    That is: no base, the base among the models, slices without a list of models, or one of
    ``_PARAMETERS_USUAL_IN_MERGEKIT``.
    """
    base = content.get("base_model")
    models = [entry.get("model") for entry in _entries(content).values()]
    if base is None or base in models:
        return True
    if content.get("slices") and not models:
        return True
    parameters = _parameters(content).values()
    return any(_PARAMETERS_USUAL_IN_MERGEKIT & settings.keys() for settings in parameters)


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


def _parts_of_slices(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The slices and their sources, by their path in the file."""
    parts: dict[str, dict[str, Any]] = {}
    slices = content.get("slices")
    if not isinstance(slices, list):
        return parts
    for number, part in enumerate(slices):
        if not isinstance(part, dict):
            continue
        parts[f"slices[{number}]"] = part
        sources = part.get("sources")
        if not isinstance(sources, list):
            continue
        for n, source in enumerate(sources):
            if isinstance(source, dict):
                parts[f"slices[{number}].sources[{n}]"] = source
    return parts


def _parameters(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of the merge and of the models, by their path in the file."""
    by_path = {"parameters": content.get("parameters")}
    for path, entry in _entries(content).items():
        by_path[f"{path}.parameters"] = entry.get("parameters")
    return {path: settings for path, settings in by_path.items() if isinstance(settings, dict)}
