"""mergekit's settings, gradients and filters, as a value for all tensors and rules for some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import Condition, Scalar, Setting
from ace_gui.recipe.overrides import Override

Where = tuple[str | None, str | None]
"""Pattern and blocks of a rule."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A value for tensors whose name has the ``pattern``, in these ``blocks``; None: for all.

    ``blocks``: the first and the last one.
    """

    value: Scalar
    pattern: str | None = None
    blocks: tuple[int, int] | None = None

    def where(self, offset: int) -> Where:
        """Pattern and blocks of a rule, if the first block has the number ``offset``."""
        if self.blocks is None:
            return self.pattern or "*", None
        first, last = (offset + block for block in self.blocks)
        return self.pattern, str(first) if first == last else f"{first}-{last}"


Chain = tuple[Choice, ...]
"""Choices of which the last that holds counts; the first holds for all tensors."""


def chain_of(
    name: str, scopes: Iterable[Mapping[str, Setting]], default: Scalar, blocks: int | None
) -> Chain:
    """What a parameter is, for every tensor. ``scopes``: its settings, the nearest first.

    ``blocks``: how many there are, for gradients. Raises RecipeError if that is needed and not
    known, or a gradient is not one of numbers.
    """
    nearest_first: list[Chain] = []
    for condition in _conditions(name, scopes):
        everywhere = condition.filter in (None, "", "*")
        escaped = (
            f"[{letter}]" if letter in "*?[" else letter for letter in condition.filter or ""
        )
        pattern = None if everywhere else f"*{''.join(escaped)}*"
        nearest_first.append(_along(name, condition.value, pattern, blocks))
        if everywhere:
            break
    else:
        nearest_first.append((Choice(value=default),))
    chain = [choice for part in reversed(nearest_first) for choice in part]
    last = {(choice.pattern, choice.blocks): index for index, choice in enumerate(chain)}
    return tuple(chain[index] for index in sorted(last.values()))


def numbers(chain: Chain, name: str) -> Chain:
    """The chain with finite numbers. Raises RecipeError if one of its values is none."""
    return tuple(replace(choice, value=_number(choice.value, name)) for choice in chain)


def _number(value: Scalar, name: str) -> float:
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, OverflowError):
        found = math.nan
    if math.isfinite(found):
        return found
    shown = str(value) if isinstance(value, str | float | bool) else "a huge number"
    raise RecipeError(f"{name!r} must be a finite number, not {shown[:60]}.", key=name)


def constant(chain: Chain) -> Scalar | None:
    """The value, if it is the same for all tensors."""
    return chain[0].value if len(chain) == 1 else None


def rules_of(
    parameters: Mapping[str, Chain],
    weights: Mapping[str, Chain],
    own: Mapping[str, Mapping[str, Chain]],
    offset: int = 0,
) -> tuple[Override, ...]:
    """Overrides for tensors with their own values in the chains.

    ``weights``: by expert's name. ``own``: by expert's name, the expert's own parameters.
    ``offset``: number of the first block in the output. A value joins an earlier rule for the same
    tensors where its chain allows that.
    """
    chains: dict[tuple[str, ...], Chain] = {
        **{("parameters", name): chain[1:] for name, chain in parameters.items()},
        **{("weights", name): chain[1:] for name, chain in weights.items()},
        **{("experts", e, name): chain for e, some in own.items() for name, chain in some.items()},
    }
    rules: list[tuple[Where, dict[str, Any]]] = []
    for (*headings, last), chain in chains.items():
        index = -1
        for choice in chain:
            where = choice.where(offset)
            later = (n for n in range(index + 1, len(rules)) if rules[n][0] == where)
            index = next(later, len(rules))
            if index == len(rules):
                rules.append((where, {}))
            settings = rules[index][1]
            for heading in headings:
                settings = settings.setdefault(heading, {})
            settings[last] = choice.value
    return tuple(Override(pattern=p, blocks=b, **settings) for (p, b), settings in rules)


def _conditions(name: str, scopes: Iterable[Mapping[str, Setting]]) -> Iterable[Condition]:
    """All values of a parameter, in order of precedence."""
    for scope in scopes:
        setting = scope.get(name)
        if isinstance(setting, Condition):
            yield setting
        elif isinstance(setting, list) and setting and isinstance(setting[0], Condition):
            yield from (item for item in setting if isinstance(item, Condition))
        elif setting is not None:
            yield Condition(value=setting)  # type: ignore[arg-type]


def _along(
    name: str, value: Scalar | list[Scalar], pattern: str | None, blocks: int | None
) -> Chain:
    """A gradient's values block by block; outside of blocks its first counts."""
    if not isinstance(value, list):
        return (Choice(value=value, pattern=pattern),)
    if not value:
        raise RecipeError(
            f"The gradient of {name!r} is empty; write numbers or one value.", key=name
        )
    if any(isinstance(v, bool) for v in value):
        raise RecipeError(
            f"{name!r} is a gradient of true and false, between which there is nothing; write one "
            "value, or numbers.",
            key=name,
        )
    points = [_number(v, name) for v in value]
    if len(set(points)) == 1:
        return (Choice(value=points[0], pattern=pattern),)
    if blocks is None:
        raise RecipeError(
            f"{name!r} is a gradient over the blocks, but the base model's config.json does not "
            "have the number of blocks; write one value.",
            key=name,
        )
    own = [interpolated(points, k / (blocks - 1) if blocks > 1 else 1.0) for k in range(blocks)]
    starts = [k for k in range(blocks) if k == 0 or own[k] != own[k - 1]]
    return (
        Choice(value=points[0], pattern=pattern),
        *(
            Choice(value=own[first], pattern=pattern, blocks=(first, after - 1))
            for first, after in pairwise([*starts, blocks])
            if own[first] != points[0]
        ),
    )


def interpolated(values: Sequence[float], t: float) -> float:
    """The value at ``t`` from 0 to 1 along equally distant ``values``."""
    index = t * (len(values) - 1)
    low = int(index)
    high = min(len(values) - 1, low + 1)
    return (1 - (index - low)) * values[low] + (index - low) * values[high]
