"""The settings of a rule in a mergekit file: conditions for names, gradients over blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import interpolated
from ace_gui.recipe.overrides import ParameterValue


@dataclass(frozen=True, kw_only=True)
class RuleInMergekit:
    """A rule in mergekit's terms."""

    key: str
    """Its path in the recipe, for errors."""
    text: str
    """What the names of its tensors contain; "*" for all tensors."""
    is_in_blocks: tuple[bool, ...] | None
    """For each block of the model, whether the rule is for it; None: it is for all tensors."""
    of_all: Mapping[str, ParameterValue]
    """The settings for all models."""
    of_models: Mapping[str, Mapping[str, ParameterValue]]
    """The settings by model."""

    @property
    def is_for_all_names(self) -> bool:
        """Whether the rule is for tensors of any name."""
        return self.text == "*"

    def put(self, settings: dict[str, Any], name: str, value: ParameterValue, default: Any) -> None:
        """Put a value in front of those that the setting ``name`` has in ``settings``.

        Of the values of a setting, mergekit uses the first one that holds. A value for some blocks
        becomes a gradient over all blocks, which has the earlier values elsewhere. ``default``: the
        value where there are none; None if the setting has no such value. Raises RecipeError if a
        gradient cannot express it.
        """
        before = settings.get(name)
        if before is None:
            conditions = []
        elif isinstance(before, list):
            conditions = before
        else:
            conditions = [{"value": before}]
        if self.is_in_blocks is not None:
            settings[name] = self._with_gradient(conditions, name, value, default)
        elif self.is_for_all_names:
            settings[name] = value
        else:
            settings[name] = [{"filter": self.text, "value": value}, *conditions]

    def _with_gradient(
        self, conditions: list[dict[str, Any]], name: str, value: ParameterValue, default: Any
    ) -> Any:
        """The setting with a gradient, which has the value of ``conditions`` in other blocks."""
        holds_for_all = bool(conditions) and "filter" not in conditions[-1]
        if not holds_for_all:
            conditions = [*conditions, {"value": default}]
        first_filter = conditions[0].get("filter")
        has_no_default = conditions[-1]["value"] is None
        # Outside of the rule's blocks, a gradient has one value, which is that of the first earlier
        # condition. It is wrong for some tensors if that condition is for another text. An example
        # is a rule for "mlp" after one for "gate": outside of the blocks, "mlp.gate" must keep the
        # value of "gate", but "mlp.up" never had it.
        is_before_another_text = not self.is_for_all_names and first_filter not in (None, self.text)
        if has_no_default or is_before_another_text:
            sentence = f"{self.key}: mergekit cannot express {name} for these blocks; remove it."
            raise RecipeError(sentence, key=self.key)
        gradient = self._gradient(conditions[0]["value"], value)
        if not self.is_for_all_names:
            if first_filter == self.text:  # the gradient has its value in other blocks
                return [{"filter": self.text, "value": gradient}, *conditions[1:]]
            return [{"filter": self.text, "value": gradient}, *conditions]
        if first_filter is None:  # the first condition is for all tensors
            return gradient
        gradients = []
        for condition in conditions:
            gradients.append({**condition, "value": self._gradient(condition["value"], value)})
        return gradients

    def _gradient(self, before: Any, value: ParameterValue) -> Gradient:
        """The value in the rule's blocks, and in others what was there before."""
        is_in_blocks = self.is_in_blocks or ()
        if isinstance(before, Gradient):
            outside, *by_block = before.values
        else:
            outside = before
            by_block = [before] * len(is_in_blocks)
        for block, is_in in enumerate(is_in_blocks):
            if is_in:
                by_block[block] = value
        return Gradient(values=(outside, *by_block), key=self.key)


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """Values of a setting along the model."""

    values: tuple[ParameterValue, ...]
    """The value outside of blocks, then that of each block."""
    key: str
    """The rule's path in the recipe, for errors."""

    def written(self) -> ParameterValue | list[float]:
        """One value, or the shortest list that mergekit interpolates to these. Raises RecipeError.

        mergekit interpolates at k/(n − 1) in block k of n, at 1 if it is the only one, and gives
        tensors outside of blocks the first value.
        """
        if len(set(self.values)) == 1:
            return self.values[0]
        numbers = [value for value in self.values if _is_number(value)]
        if len(numbers) < len(self.values):
            raise self._refusal()
        outside, *by_block = numbers
        if len(by_block) == 1:  # a list of two says both: the value outside, and that of the block
            return numbers
        if outside != by_block[0]:
            raise self._refusal()
        last = len(by_block) - 1
        for step in range(last, 1, -1):  # the largest step, and so the shortest list, comes first
            points = by_block[::step]
            if last % step == 0 and _gives(points, by_block):
                return points
        return by_block

    def _refusal(self) -> RecipeError:
        """The error about values that no gradient has."""
        return RecipeError(
            f"{self.key}: a gradient of mergekit's has numbers, and tensors outside of blocks "
            "have that of the first block; give the first block the value of all tensors.",
            key=self.key,
        )


def _is_number(value: ParameterValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _gives(points: Sequence[float], values: Sequence[float]) -> bool:
    """Whether the values are those interpolated between the points."""
    last = len(values) - 1
    for block, value in enumerate(values):
        if not math.isclose(interpolated(points, block / last), value, abs_tol=1e-12):
            return False
    return True


def with_gradient_lists(value: Any) -> Any:
    """A part of the document with its gradients as lists."""
    if isinstance(value, dict):
        return {key: with_gradient_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_gradient_lists(item) for item in value]
    if isinstance(value, Gradient):
        return value.written()
    return value
