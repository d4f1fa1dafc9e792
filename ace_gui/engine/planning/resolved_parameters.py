"""The parameters of a method as a recipe leaves them, completed from what is known of the base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ace_gui.engine.planning.models import OpenedModel
from ace_gui.methods.method import MergeMethod
from ace_gui.recipe.values import ParameterValue


def completed(
    values: Mapping[str, ParameterValue], method: MergeMethod[Any], base: OpenedModel
) -> tuple[Mapping[str, ParameterValue], Mapping[str, str]]:
    """The values, completed by the method's for this base, and where the latter come from."""
    if method.defaults is None:
        return values, {}
    config = {**(base.checkpoint.config or {}), "model_type": base.architecture.family}
    found = method.defaults(config)
    left = {name: each for name, each in found.items() if name not in values}
    defaults = {name: value for name, (value, _) in left.items()}
    return {**defaults, **values}, {name: note for name, (_, note) in left.items()}
