"""The parameters of a method: the recipe's values, completed from the base model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.methods import get_method, parameter_fields
from ace_gui.methods.method import MergeMethod
from ace_gui.recipe import Override, Recipe
from ace_gui.recipe.values import ParameterValue


def completed(
    values: Mapping[str, ParameterValue], method: MergeMethod[Any], base: OpenedModel
) -> tuple[Mapping[str, ParameterValue], Mapping[str, str]]:
    """The values with the method's defaults for this base, and where the defaults come from."""
    if method.defaults is None:
        return values, {}
    config = {**(base.checkpoint.config or {}), "model_type": base.architecture.family}
    found = method.defaults(config)
    names = _left_open(method, values)
    left = {name: each for name, each in found.items() if name in names}
    defaults = {name: value for name, (value, _) in left.items()}
    return {**defaults, **values}, {name: note for name, (_, note) in left.items()}


def spelled_out(
    recipe: Recipe, parameters: Mapping[str, ParameterValue], rows: Sequence[PlanRow]
) -> Recipe:
    """The recipe with the values that would otherwise follow from its base model.

    ``parameters``: the method's, all resolved; ``rows``: of the plan made from the recipe.
    """
    names = _left_open(get_method(recipe.merge_method), recipe.parameters)
    return replace(
        recipe,
        parameters={**{name: parameters[name] for name in names}, **recipe.parameters},
        overrides=tuple(
            _spelled_out(rule, index, recipe, rows) for index, rule in enumerate(recipe.overrides)
        ),
    )


def _spelled_out(rule: Override, index: int, recipe: Recipe, rows: Sequence[PlanRow]) -> Override:
    """A rule with a method of its own, with the values this method took from the base."""
    if rule.merge_method in (None, recipe.merge_method):
        return rule
    names = _left_open(get_method(rule.merge_method), rule.parameters)
    overrides = [row.override for row in rows if row.override is not None]
    used = [each.parameters for each in overrides if each.rules[-1] == index]
    found = {name: used[0][name] for name in names if used}
    return replace(rule, parameters={**found, **rule.parameters})


def _left_open(method: MergeMethod[Any], values: Mapping[str, ParameterValue]) -> list[str]:
    """The parameters in force that have no value and follow from the base."""
    if method.defaults is None:
        return []
    fields = {field.name: field for field in parameter_fields(method)}
    names = []
    for name in method.defaults({}):
        other, *choices = fields[name].applies_when or (name,)
        value = values.get(other, fields[other].default)
        if name not in values and (not choices or value in choices):
            names.append(name)
    return names
