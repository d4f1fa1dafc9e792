"""The settings of a rule in a mergekit file: conditions for names, gradients over blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import interpolated
from ace_gui.recipe.overrides import ParameterValue


@dataclass(frozen=True, kw_only=True)
class Changes:
    """A rule in mergekit's terms."""

    key: str
    """Its path in the recipe, for errors."""
    text: str
    """What the names of its tensors contain; "*" for all tensors."""
    within: tuple[bool, ...] | None
    """For each block whether the rule is for it; None: for all tensors."""
    of_all: Mapping[str, ParameterValue]
    """The settings for all models."""
    of_models: Mapping[str, Mapping[str, ParameterValue]]
    """The settings by model."""

    def put(self, settings: dict[str, Any], name: str, value: ParameterValue, default: Any) -> None:
        """Set a value before those in ``settings``, of which mergekit uses the first that holds.

        A value for some blocks becomes a gradient over all blocks, which has the earlier values
        elsewhere, or ``default`` if there are none. Raises RecipeError if that is impossible.
        """
        before = settings.get(name)
        if isinstance(before, list):
            conditions = before
        elif before is None:
            conditions = []
        else:
            conditions = [{"value": before}]
        every = self.text == "*"
        if self.within is None:
            if every:
                settings[name] = value
            else:
                settings[name] = [{"filter": self.text, "value": value}, *conditions]
            return
        holds_for_all = bool(conditions) and "filter" not in conditions[-1]
        if not holds_for_all:
            conditions = [*conditions, {"value": default}]
        first = conditions[0].get("filter")
        has_no_default = conditions[-1]["value"] is None
        is_after_another = not every and first not in (None, self.text)
        if has_no_default or is_after_another:
            sentence = f"{self.key}: mergekit cannot express {name} for these blocks; remove it."
            raise RecipeError(sentence, key=self.key)
        if every:
            gradients = []
            for condition in conditions:
                gradients.append({**condition, "value": self._along(condition["value"], value)})
            if first:
                settings[name] = gradients
            else:
                settings[name] = gradients[0]["value"]
            return
        if first:  # for the same text: the gradient has its value elsewhere
            following = conditions[1:]
        else:
            following = conditions
        gradient = self._along(conditions[0]["value"], value)
        settings[name] = [{"filter": self.text, "value": gradient}, *following]

    def _along(self, before: Any, value: ParameterValue) -> Gradient:
        within = self.within or ()
        if isinstance(before, Gradient):
            values = before.values
        else:
            values = (before,) * (1 + len(within))
        inside = list(values[1:])
        for block, is_within in enumerate(within):
            if is_within:
                inside[block] = value
        return Gradient((values[0], *inside), self.key)


@dataclass(frozen=True)
class Gradient:
    """Values of a setting, outside of blocks and in each block. ``key``: the rule's, for errors."""

    values: tuple[ParameterValue, ...]
    key: str

    def written(self) -> ParameterValue | list[float]:
        """One value, or the shortest list that mergekit interpolates to these. Raises RecipeError.

        mergekit interpolates at k/(n − 1) in block k of n, at 1 if it is the only one, and gives
        tensors outside of blocks the first value.
        """
        if len(set(self.values)) == 1:
            return self.values[0]
        numbers = [v for v in self.values if isinstance(v, int | float) and not isinstance(v, bool)]
        are_numbers = len(numbers) == len(self.values)
        inside = numbers[1:]
        if not are_numbers or (len(inside) > 1 and numbers[0] != inside[0]):
            raise RecipeError(
                f"{self.key}: a gradient of mergekit's has numbers, and tensors outside of blocks "
                "have that of the first block; give the first block the value of all tensors.",
                key=self.key,
            )
        if len(inside) == 1:
            return numbers
        last = len(inside) - 1
        for step in range(last, 1, -1):  # the shortest list comes first
            points = inside[::step]
            if last % step == 0 and _near(points, inside):
                return points
        return inside


def _near(points: Sequence[float], values: Sequence[float]) -> bool:
    last = len(values) - 1
    between = [interpolated(points, k / last) for k in range(len(values))]
    return all(math.isclose(a, b, abs_tol=1e-12) for a, b in zip(between, values, strict=True))


def finished(value: Any) -> Any:
    """A part of the document with its gradients as lists."""
    if isinstance(value, dict):
        return {key: finished(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finished(item) for item in value]
    if isinstance(value, Gradient):
        return value.written()
    return value
