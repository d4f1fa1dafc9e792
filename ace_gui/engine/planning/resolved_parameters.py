"""The parameters of a method as a recipe leaves them, completed from what is known of the base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ace_gui.engine.planning.models import OpenedModel
from ace_gui.methods import family_epsilon
from ace_gui.methods.method import MergeMethod
from ace_gui.recipe.values import ParameterValue


def completed(
    values: Mapping[str, ParameterValue], method: MergeMethod[Any], base: OpenedModel
) -> tuple[Mapping[str, ParameterValue], Mapping[str, str]]:
    """The values, with ACE's epsilon by model family where it is open, and where that is from."""
    if method.name != "ace" or "epsilon" in values:
        return values, {}
    config = base.checkpoint.config or {}
    hidden = config.get("hidden_size")
    epsilon, note = family_epsilon(
        base.architecture.family, hidden if isinstance(hidden, int) else None
    )
    return {**values, "epsilon": epsilon}, {"epsilon": note}
