"""Recipes made from a base and experts, without a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ace_gui.errors import RecipeError
from ace_gui.formatting import quoted_value
from ace_gui.method_names import method_id
from ace_gui.recipe import recommended
from ace_gui.recipe.file_schema import SCHEMA, in_file, known_keys
from ace_gui.recipe.recipe_file import parsed_value, recipe_from
from ace_gui.recipe.values import Heads, Output, Recipe

_EXTRACTED: Final = 32
"""Rank of an extracted adapter, as in mergekit."""

_OF_MODELS: Final = frozenset(("base_model", "models", "merge_method", "schema"))


def recommended_keys() -> dict[str, Any]:
    """The keys of a recipe that make the recommended merge."""
    choices = {name: in_file(value, None) for name, value in recommended.CHOICES.items()}
    parameters = dict(recommended.PARAMETERS)
    return {"merge_method": recommended.METHOD, "parameters": parameters, **choices}


def recipe_keys(
    base: str, experts: Sequence[str], method: str | None = None, settings: Sequence[str] = ()
) -> dict[str, Any]:
    """The content of a recipe file for these models.

    Models are written as in a recipe. ``method``: ``METHOD`` or ``METHOD:VARIANT`` with its
    defaults; None: the recommended merge. ``settings``: each ``key=value``, where the key is a
    parameter of the method, or a key of a recipe (``heads``, ``after.spectrum``). Raises
    RecipeError for an invalid setting.
    """
    keys: dict[str, Any] = {"schema": SCHEMA}
    if method is None:
        keys |= recommended_keys()
    else:
        name, colon, variant = method.partition(":")
        keys |= {"merge_method": method_id(name)} | (
            {"parameters": {"variant": variant}} if colon else {}
        )
    keys |= {"base_model": base, "models": [{"model": expert} for expert in experts]}
    for setting in settings:
        _set(keys, setting)
    return keys


def recipe_for(base: str, experts: Sequence[str], method: str | None = None) -> Recipe:
    """The recipe of ``recipe_keys``; relative paths are taken from the working directory.

    Raises RecipeError.
    """
    return recipe_from(recipe_keys(base, experts, method))


def _set(keys: dict[str, Any], setting: str) -> None:
    name, equals, text = setting.partition("=")
    names = name.strip().split(".")
    if not equals or not text.strip() or not all(names):
        raise RecipeError(f"{quoted_value(setting)} is not a setting; write KEY=VALUE.", key="set")
    if names[0] in _OF_MODELS:
        raise RecipeError(
            f"{names[0]} cannot be set here; name models and method as arguments.", key="set"
        )
    if names[0] not in known_keys[()]:
        names = ["parameters", *names]
    *outer, last = names
    for key in outer:
        inner = keys.setdefault(key, {})
        if not isinstance(inner, dict):
            raise RecipeError(f"{quoted_value(name)} cannot be set: {key} has a value.", key="set")
        keys = inner
    keys[last] = parsed_value(name, text)


def recipe_for_extraction(
    base: Path | str, model: Path | str, rank: int | None = None, energy: float | None = None
) -> Recipe:
    """The recipe for the change from ``base`` to ``model`` as an adapter, by default of rank 32.

    Models are written as in a recipe. Raises RecipeError.
    """
    return replace(
        recipe_for(str(base), [str(model)], "task_arithmetic"),
        parameters={"scaling": 1.0},
        heads=Heads.MERGE,
        output=Output.ADAPTER,
        rank=_EXTRACTED if rank is None and energy is None else rank,
        energy=energy,
    )
