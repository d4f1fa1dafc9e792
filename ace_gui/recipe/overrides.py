"""Rules for some tensors that differ from the rest of a recipe, and their description in words.

Also traits of a recipe's fields besides their types and defaults.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Literal

from ace_gui.errors import RecipeError
from ace_gui.field_info import ParameterValue as ParameterValue
from ace_gui.method_names import method_id

_TRAITS: Final = "recipe"


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How a field is written in a recipe file, and what it affects."""

    limits: Mapping[str, Any] = field(default_factory=dict)
    """Of its value, in pydantic's terms."""
    under: str = ""
    """Its heading in the file."""
    always: bool = False
    """Whether it is written even if it is the default."""
    tidied: Callable[[Any], Any] | None = None
    """Converts a shorthand of the file to the value."""
    checked: Callable[[Any], Any] | None = None
    """Returns the value, or raises ValueError."""
    task_vectors: bool = True
    """Whether another value changes the task vectors, or only their merge."""
    written: bool = True
    """Whether it appears in a file at all."""


def about(**traits: Any) -> Mapping[str, Traits]:
    """The metadata of a field with these traits."""
    return MappingProxyType({_TRAITS: Traits(**traits)})


def traits_of(described: Field[Any]) -> Traits:
    """The traits of a field."""
    traits: Traits = described.metadata.get(_TRAITS, Traits())
    return traits


def limits_of(part: type[Any], name: str) -> dict[str, Any]:
    """The limits of a dataclass's field, as arguments of a ``FieldInfo``."""
    (item,) = (item for item in fields(part) if item.name == name)
    limits = traits_of(item).limits
    return {
        "low": limits.get("gt", limits.get("ge")),
        "high": limits.get("le"),
        "low_open": "gt" in limits,
    }


def require_limits(part: Any, heading: str) -> None:
    """Raise RecipeError for a value of a dataclass that is out of its field's limits."""
    for item in fields(part):
        value = getattr(part, item.name)
        traits = traits_of(item)
        key = f"{heading}.{item.name}"
        if value is None:
            continue
        for limit, bound in traits.limits.items():
            if not getattr(operator, limit)(value, bound):
                raise RecipeError(f"{key} is {value}, which is out of its range.", key=key)
        if traits.checked is not None:
            try:
                traits.checked(value)
            except ValueError as error:
                raise RecipeError(f"{key} {error}.", key=key) from None


Fate = Literal["merge", "average", "base"]
"""What is done with a tensor: merge by the method, average, or keep the base's."""

LARGEST_CAP: Final = 10.0
"""Upper limit of δ: no merge moves ten times as far as the base's norm."""

LARGEST_POWER: Final = 4.0
LARGEST_FACTOR: Final = 10.0

_RANGE: Final = re.compile(r"\s{0,9}(\d{1,6})\s{0,9}(?:(-)\s{0,9}(\d{0,6}))?\s{0,9}", re.ASCII)
_FILLED: Final = about(limits={"min_length": 1})


def in_blocks(block: int, blocks: str) -> bool:
    """Whether a block's index is among "4-7", "3", "0,2,9-". Raises ValueError for other text."""
    return any(low <= block and (high is None or block <= high) for low, high in _ranges(blocks))


def check_blocks(blocks: str) -> str:
    """The text, if it is a valid range of blocks. Raises ValueError."""
    _ranges(blocks)
    return blocks


def _ranges(blocks: str) -> list[tuple[int, int | None]]:
    ranges = []
    for part in blocks.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError("must be blocks such as 4-7, 3 or 0,2,9-")
        low = int(match[1])
        if match[2]:
            high = int(match[3]) if match[3] else None
        else:
            high = low
        if high is not None and high < low:
            raise ValueError("must have its ranges from low to high")
        ranges.append((low, high))
    return ranges


def _one_block(value: object) -> object:
    """A single block may be written as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


@dataclass(frozen=True, kw_only=True)
class Cap:
    """A limit on the merged change of each matrix, for any method (``methods.shared.after``).

    ``delta``: δ, the share of the base's norm up to which T experts may add up; at 0 the change is
    at most as large as one expert's. ``one_head``: δ if all experts answer through one head, as
    language models do, so that their answers compete; None: ``delta``. Raises RecipeError if one
    is out of its range.
    """

    delta: float = field(
        default=0.12, metadata=about(limits={"ge": 0, "le": LARGEST_CAP}, always=True)
    )
    one_head: float | None = field(
        default=None, metadata=about(limits={"ge": 0, "le": LARGEST_CAP})
    )

    def __post_init__(self) -> None:
        require_limits(self, "after.cap")

    def for_heads(self, *, single: bool) -> float:
        """δ of a model with one head for all experts, or with other heads or none."""
        if single and self.one_head is not None:
            return self.one_head
        return self.delta


def _factors(factors: tuple[float, ...]) -> tuple[float, ...]:
    """The factors of a depth, if they are in range. Raises ValueError."""
    if len(factors) != 2 or not all(abs(factor) <= LARGEST_FACTOR for factor in factors):
        raise ValueError(
            "must be two factors, of the first and of the last block, from "
            f"{-LARGEST_FACTOR:g} to {LARGEST_FACTOR:g}"
        )
    return factors


def _with_name(delta: object) -> object:
    """The δ of a cap may be written alone."""
    is_number = isinstance(delta, int | float) and not isinstance(delta, bool)
    if is_number:
        return {"delta": delta}
    return delta


@dataclass(frozen=True, kw_only=True)
class After:
    """Changes to the merged change of each matrix, for any method, in this order.

    None: the default, which changes nothing; in an override, the recipe's value. ``rank``: share of
    the leading singular directions to keep. ``spectrum``: the power p in σ^p, which replaces each
    singular value σ; the Frobenius norm is unchanged. ``depth``: factors of the first and the last
    block, linear in between (LiNeS, arXiv 2410.17146); tensors in no block have that of the first.
    ``scale``: a factor. ``cap``: the limit on the change; False removes the recipe's. Raises
    RecipeError for a value out of its range.
    """

    rank: float | None = field(default=None, metadata=about(limits={"gt": 0, "le": 1}))
    spectrum: float | None = field(
        default=None, metadata=about(limits={"ge": 0, "le": LARGEST_POWER})
    )
    depth: tuple[float, float] | None = field(default=None, metadata=about(checked=_factors))
    scale: float | None = field(
        default=None, metadata=about(limits={"ge": -LARGEST_FACTOR, "le": LARGEST_FACTOR})
    )
    cap: Cap | Literal[False] | None = field(default=None, metadata=about(tidied=_with_name))

    def __post_init__(self) -> None:
        require_limits(self, "after")

    def over(self, defaults: After) -> After:
        """These settings; where one is None, that of ``defaults``."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(
            defaults, **{name: value for name, value in values.items() if value is not None}
        )


@dataclass(frozen=True, kw_only=True)
class Override:
    """One rule. It is for every tensor that meets all given conditions.

    Rules are applied in order, and each replaces the settings it has.
    """

    role: str | None = field(default=None, metadata=_FILLED)
    """Condition: what the tensor does ("query")."""
    blocks: str | None = field(
        default=None, metadata=about(tidied=_one_block, checked=check_blocks)
    )
    """Condition: transformer blocks, as "4-7", "0,2,9-"."""
    pattern: str | None = field(default=None, metadata=_FILLED)
    """Condition: its name, with ``*``, ``?`` and ``[…]``."""
    tensors: tuple[str, ...] = ()
    """Condition: names; empty: any."""
    disposition: Fate | None = None
    """What is done with the tensor; None: as without the rule."""
    merge_method: str | None = None
    """A method, which treats such a tensor as usual and starts from its own parameters (the
    recipe's, if it is the recipe's method); None: as without the rule.
    """
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict, hash=False)
    """Of that method; without a ``merge_method``, of the recipe's."""
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By expert; the others keep theirs."""
    experts: Mapping[str, Mapping[str, ParameterValue]] = field(default_factory=dict, hash=False)
    """Parameters for single experts, by name, such as a density."""
    after: After = After()
    """Changes to the merged change of these matrices; fields that are None are as in the recipe."""

    def __post_init__(self) -> None:
        if self.merge_method is not None:
            object.__setattr__(self, "merge_method", method_id(self.merge_method))

    @property
    def selects(self) -> bool:
        """Whether the rule selects tensors."""
        return bool(self.role or self.blocks or self.pattern or self.tensors)

    @property
    def changes(self) -> bool:
        """Whether the rule changes a setting."""
        fate = self.disposition or self.merge_method
        settings = self.parameters or self.weights or self.experts
        return bool(fate or settings) or self.after != After()

    def holds_for(self, name: str, role: str, block: int | None) -> bool:
        """Whether the rule is for a tensor of this name, role and block."""
        return (
            (self.role is None or role == self.role)
            and (self.blocks is None or (block is not None and in_blocks(block, self.blocks)))
            and (self.pattern is None or fnmatchcase(name, self.pattern))
            and (not self.tensors or name in self.tensors)
        )


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor that a rule may be for."""

    name: str
    role: str
    block: int | None


_FATES: Final = {"merge": "merged", "average": "averaged", "base": "kept from base"}


def describe(rule: Override) -> str:
    """Which tensors a rule is for, in words."""
    if rule.role is None:
        parts = []
    else:
        parts = [rule.role]
    parts += [] if rule.blocks is None else [f"blocks {rule.blocks}"]
    parts += [] if rule.pattern is None else [f"names {rule.pattern}"]
    if rule.tensors:
        if len(rule.tensors) > 1:
            more = f" and {len(rule.tensors) - 1} more"
        else:
            more = ""
        parts.append(rule.tensors[0] + more)
    return ", ".join(parts)


def describe_change(rule: Override, titles: Mapping[str, str]) -> str:
    """The settings of a rule, in words. ``titles``: of the methods, by name."""
    parts = []
    if rule.merge_method is not None:
        parts = [titles.get(rule.merge_method, rule.merge_method)]
    elif rule.disposition is not None:
        parts = [_FATES[rule.disposition]]
    parts += [f"{name} {value}" for name, value in rule.parameters.items()]
    parts += [f"weight of {name} {weight:g}" for name, weight in rule.weights.items()]
    for name, settings in rule.experts.items():
        parts += [f"{name}: {parameter} {value}" for parameter, value in settings.items()]
    return ", ".join((*parts, *describe_after(rule.after)))


def describe_after(after: After) -> list[str]:
    """The changes to a merged change, in words; empty if there are none."""
    parts = []
    if after.rank is not None:
        parts.append(f"rank {after.rank:g}")
    if after.spectrum is not None:
        parts.append(f"spectrum σ^{after.spectrum:g}")
    if after.depth is not None:
        parts.append(f"depth {after.depth[0]:g} to {after.depth[1]:g}")
    if after.scale is not None:
        parts.append(f"scale {after.scale:g}")
    if after.cap is not None:
        parts.append(_describe_cap(after.cap) if after.cap else "no cap")
    return parts


def _describe_cap(cap: Cap) -> str:
    if cap.one_head is None:
        one_head = ""
    else:
        one_head = f" (one head: {cap.one_head:g})"
    return f"cap δ {cap.delta:g}{one_head}"


def for_selection(change: Override, names: Collection[str], tensors: Sequence[Tensor]) -> Override:
    """A rule with the settings of ``change`` for exactly these tensors, as short as possible.

    A role, a range of blocks, or both replace the list of names if they select the same tensors.
    """
    chosen = [tensor for tensor in tensors if tensor.name in names]
    for brief in _brief(chosen):
        if {t.name for t in tensors if _holds(brief, t)} == {t.name for t in chosen}:
            return replace(change, role=brief.role, blocks=brief.blocks, pattern=None, tensors=())
    listed = tuple(tensor.name for tensor in chosen)
    return replace(change, role=None, blocks=None, pattern=None, tensors=listed)


def without(
    rules: Iterable[Override], names: Collection[str], tensors: Sequence[Tensor]
) -> tuple[Override, ...]:
    """The rules, restricted to other tensors than these; empty ones are dropped."""
    remaining = []
    for rule in rules:
        selected = {tensor.name for tensor in tensors if _holds(rule, tensor)}
        if not selected & set(names):
            remaining.append(rule)
        elif selected - set(names):
            remaining.append(for_selection(rule, selected - set(names), tensors))
    return tuple(remaining)


def with_names(rules: Iterable[Override], names: Mapping[str, str]) -> tuple[Override, ...]:
    """The rules with new names of experts; settings of experts without a new name are dropped."""
    renamed = []
    for rule in rules:
        weights = {names[n]: weight for n, weight in rule.weights.items() if n in names}
        experts = {names[n]: settings for n, settings in rule.experts.items() if n in names}
        changed = replace(rule, weights=weights, experts=experts)
        if changed.changes:
            renamed.append(changed)
    return tuple(renamed)


def _holds(rule: Override, tensor: Tensor) -> bool:
    return rule.holds_for(tensor.name, tensor.role, tensor.block)


def _brief(chosen: Sequence[Tensor]) -> list[Override]:
    roles = {tensor.role for tensor in chosen}
    blocks = sorted({tensor.block for tensor in chosen if tensor.block is not None})
    if len(roles) == 1:
        role = roles.pop()
    else:
        role = None
    if role is not None:
        rules = [Override(role=role)]
    else:
        rules = []
    if blocks and len(blocks) == blocks[-1] - blocks[0] + 1:
        if len(blocks) == 1:
            text = str(blocks[0])
        else:
            text = f"{blocks[0]}-{blocks[-1]}"
        rules += [Override(blocks=text)]
        rules += [Override(role=role, blocks=text)] if role is not None else []
    return rules
