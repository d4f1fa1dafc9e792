"""mergekit's settings, gradients and filters, as a value for all tensors and rules for some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ace_gui.errors import RecipeError
from ace_gui.recipe.mergekit.schema import Condition, Scalar, Setting
from ace_gui.recipe.overrides import Override, ParameterValue


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A value for tensors whose name has the ``pattern``, in these ``blocks``; None: for all."""

    value: Scalar
    pattern: str | None = None
    blocks: str | None = None

    @property
    def where(self) -> tuple[str | None, str | None]:
        """Which tensors it is for."""
        return self.pattern, self.blocks


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
        pattern = None if everywhere else f"*{_literal(condition.filter or '')}*"
        nearest_first.append(_along(name, condition.value, pattern, blocks))
        if everywhere:
            break
    else:
        nearest_first.append((Choice(value=default),))
    chain = [choice for part in reversed(nearest_first) for choice in part]
    last = {choice.where: index for index, choice in enumerate(chain)}
    return tuple(choice for index, choice in enumerate(chain) if last[choice.where] == index)


def at_offset(chain: Chain, offset: int) -> Chain:
    """The chain with the numbers of its blocks increased."""
    return tuple(replace(choice, blocks=_moved(choice.blocks, offset)) for choice in chain)


def _moved(blocks: str | None, offset: int) -> str | None:
    return blocks and "-".join(str(int(number) + offset) for number in blocks.split("-"))


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
) -> tuple[Override, ...]:
    """Overrides for tensors with their own values in the chains.

    ``weights``: by expert's name. ``own``: by expert's name, the expert's own parameters.
    """
    rules: list[Override] = []
    for name, chain in parameters.items():
        _place(rules, [_rule(c, parameters={name: c.value}) for c in chain[1:]])
    for name, chain in weights.items():
        _place(rules, [_rule(c, weights={name: float(c.value)}) for c in chain[1:]])
    for expert, chains in own.items():
        for name, chain in chains.items():
            _place(rules, [_rule(c, experts={expert: {name: c.value}}) for c in chain])
    return tuple(rules)


def _rule(
    choice: Choice,
    *,
    parameters: Mapping[str, ParameterValue] | None = None,
    weights: Mapping[str, float] | None = None,
    experts: Mapping[str, Mapping[str, ParameterValue]] | None = None,
) -> Override:
    everywhere = choice.pattern is None and choice.blocks is None
    return Override(
        pattern="*" if everywhere else choice.pattern,
        blocks=choice.blocks,
        parameters=parameters or {},
        weights=weights or {},
        experts=experts or {},
    )


def _place(rules: list[Override], wanted: Sequence[Override]) -> None:
    """Add rules in their order, each to one for the same tensors where that comes late enough."""
    after = -1
    for rule in wanted:
        where = (rule.pattern, rule.blocks)
        for index in range(after + 1, len(rules)):
            known = rules[index]
            if (known.pattern, known.blocks) == where:
                rules[index] = Override(
                    pattern=rule.pattern,
                    blocks=rule.blocks,
                    parameters={**known.parameters, **rule.parameters},
                    weights={**known.weights, **rule.weights},
                    experts=_both(known.experts, rule.experts),
                )
                after = index
                break
        else:
            rules.append(rule)
            after = len(rules) - 1


def _both(
    known: Mapping[str, Mapping[str, ParameterValue]],
    more: Mapping[str, Mapping[str, ParameterValue]],
) -> dict[str, dict[str, ParameterValue]]:
    names = dict.fromkeys([*known, *more])
    return {name: {**known.get(name, {}), **more.get(name, {})} for name in names}


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
    return (
        Choice(value=points[0], pattern=pattern),
        *(
            Choice(value=own[first], pattern=pattern, blocks=_range(first, last))
            for first, last in _runs(own)
            if own[first] != points[0]
        ),
    )


def interpolated(values: Sequence[float], t: float) -> float:
    """The value at ``t`` from 0 to 1 along equally distant ``values``."""
    index = t * (len(values) - 1)
    low = int(index)
    high = min(len(values) - 1, low + 1)
    return (1 - (index - low)) * values[low] + (index - low) * values[high]


def _runs(values: Sequence[float]) -> list[tuple[int, int]]:
    """First and last index of each run of equal values."""
    starts = [k for k in range(len(values)) if k == 0 or values[k] != values[k - 1]]
    return [(first, after - 1) for first, after in pairwise([*starts, len(values)])]


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _literal(text: str) -> str:
    """Text escaped for use within a pattern."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)
