"""Overrides in words; rules made from a selection of tensors, and taken back from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ace_gui.recipe.overrides import After, Override


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor that a rule may be for."""

    name: str
    role: str
    block: int | None


_FATES: Final = {"merge": "merged", "average": "averaged", "base": "kept from base"}


def describe(rule: Override) -> str:
    """Which tensors a rule is for, in words."""
    parts = [] if rule.role is None else [rule.role]
    parts += [] if rule.blocks is None else [f"blocks {rule.blocks}"]
    parts += [] if rule.pattern is None else [f"names {rule.pattern}"]
    if rule.tensors:
        more = f" and {len(rule.tensors) - 1} more" if len(rule.tensors) > 1 else ""
        parts.append(rule.tensors[0] + more)
    return ", ".join(parts)


def describe_change(rule: Override, titles: Mapping[str, str]) -> str:
    """What is different for these tensors, in words. ``titles``: of the methods, by name."""
    parts = []
    if rule.merge_method is not None:
        parts = [titles.get(rule.merge_method, rule.merge_method)]
    elif rule.disposition is not None:
        parts = [_FATES[rule.disposition]]
    parts += [f"{name} {value}" for name, value in rule.parameters.items()]
    parts += [f"weight of {name} {weight:g}" for name, weight in rule.weights.items()]
    parts += [
        f"{name}: {parameter} {value}"
        for name, own in rule.experts.items()
        for parameter, value in own.items()
    ]
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
        parts.append(f"cap δ {after.cap.delta:g}" if after.cap else "no cap")
    return parts


def for_selection(change: Override, names: Collection[str], tensors: Sequence[Tensor]) -> Override:
    """A rule with the settings of ``change`` for exactly these tensors, as short as possible.

    All tensors of a role, of a range of blocks, or of a role in such a range need no list.
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
    """The rules, none of which is for one of these tensors any more; empty ones are dropped."""
    kept = []
    for rule in rules:
        ruled = {tensor.name for tensor in tensors if _holds(rule, tensor)}
        if not ruled & set(names):
            kept.append(rule)
        elif ruled - set(names):
            kept.append(for_selection(rule, ruled - set(names), tensors))
    return tuple(kept)


def with_names(rules: Iterable[Override], names: Mapping[str, str]) -> tuple[Override, ...]:
    """The rules with experts under other names; those without a name are no longer there."""
    changed = (
        replace(
            rule,
            weights={names[n]: w for n, w in rule.weights.items() if n in names},
            experts={names[n]: own for n, own in rule.experts.items() if n in names},
        )
        for rule in rules
    )
    return tuple(rule for rule in changed if rule.changes)


def _holds(rule: Override, tensor: Tensor) -> bool:
    return rule.holds_for(tensor.name, tensor.role, tensor.block)


def _brief(chosen: Sequence[Tensor]) -> list[Override]:
    roles = {tensor.role for tensor in chosen}
    blocks = sorted({tensor.block for tensor in chosen if tensor.block is not None})
    role = roles.pop() if len(roles) == 1 else None
    found = [Override(role=role)] if role is not None else []
    if blocks and len(blocks) == blocks[-1] - blocks[0] + 1:
        text = str(blocks[0]) if len(blocks) == 1 else f"{blocks[0]}-{blocks[-1]}"
        found += [Override(blocks=text)]
        found += [Override(role=role, blocks=text)] if role is not None else []
    return found
