"""Applies the recipe's overrides and its steps after the method to the rows of the plan."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from ace_gui.architecture.scopes import DEFAULT
from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.engine.contract.plan import Disposition, PlanRow, RowOverride
from ace_gui.engine.planning.dispositions import combined, last_blocks, scales_base, with_after
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.task_heads import is_new
from ace_gui.errors import RecipeError
from ace_gui.formatting import value_text
from ace_gui.methods import checked_parameters, get_method, parameter_fields
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.recipe import Override, Recipe
from ace_gui.recipe.overrides import Fate
from ace_gui.recipe.rules import describe, describe_after
from ace_gui.recipe.values import After, ParameterValue

_FATES: Final = {
    "merge": Disposition.MERGED,
    "average": Disposition.AVERAGED,
    "base": Disposition.BASE,
}
_OPEN: Final = frozenset(_FATES.values())
"""Dispositions that an override may replace; copied tensors and an expert's own heads stay."""


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """The result of the rules so far for one tensor. ``values``: only those that were set."""

    method: str
    values: dict[str, ParameterValue]
    weights: dict[str, float]
    own: dict[str, dict[str, ParameterValue]]
    after: After
    fate: Fate | None = None
    rules: tuple[int, ...] = ()


def check_overrides(recipe: Recipe) -> None:
    """Raises RecipeError, naming the key, for a rule that is invalid for any model."""
    roles = [role.value for role in Role]
    for index, rule in enumerate(recipe.overrides):
        key = f"overrides[{index}]"
        if rule.role is not None and rule.role not in roles:
            close = difflib.get_close_matches(rule.role, roles, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise RecipeError(
                f"{key}: there is no role {rule.role!r}; known: {', '.join(roles)}.{hint}",
                key=f"{key}.role",
            )
        for what, names in (("weights", rule.weights), ("experts", rule.experts)):
            strangers = [name for name in names if name not in recipe.expert_names]
            if strangers:
                raise RecipeError(
                    f"{key}: there is no expert {strangers[0]!r}; the experts are "
                    f"{', '.join(recipe.expert_names)}.",
                    key=f"{key}.{what}",
                )
        _check_method(recipe, rule, key)
        _check_own(recipe, rule, key)


def _check_method(recipe: Recipe, rule: Override, key: str) -> None:
    try:
        checked_parameters(get_method(rule.merge_method or recipe.merge_method), rule.parameters)
    except RecipeError as error:
        where = "merge_method" if error.key == "merge_method" else f"parameters.{error.key}"
        raise RecipeError(f"{key}: {error.sentence}", key=f"{key}.{where}") from None


def _check_own(recipe: Recipe, rule: Override, key: str) -> None:
    method = get_method(rule.merge_method or recipe.merge_method)
    for name, own in rule.experts.items():
        unknown = [each for each in own if each not in method.for_one_expert]
        if unknown:
            known = ", ".join(method.for_one_expert) or "none"
            raise RecipeError(
                f"{key}: {method.name} has no parameter {unknown[0]!r} for one expert; of those "
                f"it has: {known}.",
                key=f"{key}.experts",
            )
        try:
            checked_parameters(method, own)
        except RecipeError as error:
            raise RecipeError(f"{key}: {name}: {error.sentence}", key=f"{key}.experts") from None


def overridden(
    rows: Sequence[PlanRow],
    recipe: Recipe,
    base: OpenedModel,
    asked: Mapping[str, frozenset[int]] = MappingProxyType({}),
    named: int | None = None,
) -> tuple[tuple[PlanRow, ...], tuple[str, ...]]:
    """Rows with the recipe's ``after`` and overrides, and a warning for each rule without effect.

    A tied tensor follows the tensor it is tied to. ``asked``: by tensor, indices of the rules
    without which it would not be merged. ``named``: the number of rules that users know; None: all.
    """
    last = last_blocks(rows)
    rows = tuple(with_after(row, recipe.after, last) for row in rows)
    if not recipe.overrides:
        return rows, ()
    changed, used = {}, set[int]()
    for row in rows:
        asking = asked.get(row.tensor, frozenset[int]())
        found, effective = _with_effect(row, recipe, base, last, asking)
        changed[row.name] = found if named is None else _with_rules_below(named, found)
        used |= effective
    warnings = tuple(
        f"overrides[{index}] ({describe(rule)}) changes no tensor of this merge; correct or "
        "remove it."
        for index, rule in enumerate(recipe.overrides[:named])
        if index not in used
    )
    return tuple(_tied(row, changed) for row in changed.values()), warnings


def _with_rules_below(named: int, row: PlanRow) -> PlanRow:
    if row.override is None:
        return row
    rules = tuple(index for index in row.override.rules if index < named)
    return replace(row, override=replace(row.override, rules=rules))


def method_of(row: PlanRow, default: MergeMethod[Any]) -> MergeMethod[Any]:
    """The method that merges a row: its own if it is overridden."""
    return default if row.override is None else get_method(row.override.method)


def parameters_of(row: PlanRow, default: MergeMethod[Any], parameters: Any) -> Any:
    """The parameters of ``method_of(row, default)``; ``parameters``: those of the default."""
    if row.override is None:
        return parameters
    return checked_parameters(method_of(row, default), row.override.parameters)


def _with_effect(
    row: PlanRow,
    recipe: Recipe,
    base: OpenedModel,
    last: Mapping[str, int],
    asking: frozenset[int],
) -> tuple[PlanRow, set[int]]:
    """The row with its rules applied, and the indices of the rules that change it."""
    alone = scales_base(recipe, get_method(recipe.merge_method))
    takes_part = row.in_base and (row.experts or alone) and row.disposition in _OPEN
    if not takes_part or row.tied_to is not None:
        return row, set()
    rules = enumerate(recipe.overrides)
    indices = [index for index, rule in rules if rule.holds_for(row.name, row.role, row.block)]
    changed = _overridden(row, recipe, base, last, indices, asking)
    needed = set(indices)
    for index in indices:
        others = [each for each in indices if each in needed and each != index]
        without = _overridden(row, recipe, base, last, others, asking)
        still_merged = not asking or not asking.isdisjoint(others)
        if still_merged and _result(without, recipe) == _result(changed, recipe):
            needed.remove(index)
    return changed, needed


def _result(row: PlanRow, recipe: Recipe) -> tuple[object, ...]:
    """Everything that the result of a row with this disposition depends on."""
    own, merged = row.override, row.disposition is Disposition.MERGED
    return (
        row.disposition,
        row.transposed,
        row.after,
        row.disposition is not Disposition.BASE and (own.weights if own else recipe.weights),
        merged and own and (own.method, own.parameters, own.own),
    )


def _overridden(
    row: PlanRow,
    recipe: Recipe,
    base: OpenedModel,
    last: Mapping[str, int],
    indices: Sequence[int],
    asking: frozenset[int],
) -> PlanRow:
    choice = _chosen(recipe, indices)
    if not choice.rules:
        return row
    method = get_method(choice.method)
    traits = base.architecture.traits[row.tensor]
    # A preset does not apply to heads that are merged nevertheless.
    scope = DEFAULT if traits.role is Role.HEAD else recipe.scope
    changed = combined(row, traits, method, scope, len(recipe.models))
    if is_new(base, row.tensor):
        changed = row
    elif choice.fate is not None and (choice.fate != "merge" or _can_merge(method, row)):
        changed = replace(changed, disposition=_FATES[choice.fate])
    usual = with_after(changed, recipe.after, last)
    changed = with_after(changed, choice.after, last)
    differences = _differences(changed, usual, choice, recipe)
    asked = not asking.isdisjoint(indices)
    if not differences and changed.disposition is row.disposition and not asked:
        return row
    values, notes = completed(choice.values, method, base)
    parameters = checked_parameters(method, values)
    _refuse_own_in_survey(method, parameters, choice)
    override = RowOverride(
        method=method.name,
        parameters=dataclasses.asdict(parameters),
        weights=tuple(choice.weights[name] for name in recipe.expert_names),
        rules=choice.rules,
        own=tuple(choice.own.get(name, {}) for name in recipe.expert_names) if choice.own else (),
    )
    merged = changed.disposition is Disposition.MERGED
    what = method.title if merged else changed.disposition.value
    if method.name != recipe.merge_method:
        differences += [f"{name} = {value_text(values[name])}" for name in notes]
    reason = f"overridden: {', '.join((what, *differences))}"
    return replace(changed, override=override, reason=reason)


def _refuse_own_in_survey(method: MergeMethod[Any], parameters: Any, choice: _Choice) -> None:
    """Refuse parameters per expert in a survey of the whole model, which uses one value for all."""
    if choice.own and method.survey and method.survey(parameters, len(choice.weights)) is not None:
        raise RecipeError(
            f"{method.title} takes parameters of one expert only where entries are chosen within "
            "each tensor; set trim to tensor.",
            key="trim",
        )


def _chosen(recipe: Recipe, indices: Sequence[int]) -> _Choice:
    choice = _Choice(
        method=recipe.merge_method,
        values=dict(recipe.parameters),
        weights=dict(zip(recipe.expert_names, recipe.weights, strict=True)),
        own={},
        after=recipe.after,
    )
    for index in indices:
        choice = _after(choice, recipe.overrides[index], index, recipe)
    return choice


def _after(choice: _Choice, rule: Override, index: int, recipe: Recipe) -> _Choice:
    method, values, own = choice.method, choice.values, choice.own
    if rule.merge_method is not None:
        method, own = rule.merge_method, {}
        values = dict(recipe.parameters) if method == recipe.merge_method else {}
    if rule.merge_method is not None or method == recipe.merge_method:
        values = {**values, **rule.parameters}
        own = own | {name: {**own.get(name, {}), **new} for name, new in rule.experts.items()}
    return _Choice(
        method=method,
        values=values,
        weights={**choice.weights, **rule.weights},
        own=own,
        after=rule.after.over(choice.after),
        fate=rule.disposition or (None if rule.merge_method else choice.fate),
        rules=(*choice.rules, index),
    )


def weights_for(name: str, traits: TensorTraits, recipe: Recipe) -> dict[str, float]:
    """The weight of each expert in a tensor, by name, from the recipe and its rules."""
    weights = dict(zip(recipe.expert_names, recipe.weights, strict=True))
    for rule in recipe.overrides:
        if rule.holds_for(name, traits.role.value, traits.block):
            weights |= rule.weights
    return weights


def _can_merge(method: MergeMethod[Any], row: PlanRow) -> bool:
    return method.kind is not Kind.MATRIX or (
        len(row.shape) == 2 and min(row.shape) >= method.narrowest
    )


def _differences(row: PlanRow, usual: PlanRow, choice: _Choice, recipe: Recipe) -> list[str]:
    """The changes by the rules for a row of this disposition, in words; empty if there are none.

    ``usual``: the row with the recipe's own ``after``.
    """
    found = []
    if row.disposition is Disposition.MERGED:
        same = choice.method == recipe.merge_method
        own = recipe.parameters if same else {}
        found = [] if same else [f"not {get_method(recipe.merge_method).title}"]
        found += [f"{n} {v}" for n, v in choice.values.items() if n not in own or own[n] != v]
        found += [f"{p} of {n} {v}" for n, each in choice.own.items() for p, v in each.items()]
        if row.after != usual.after:
            found += describe_after(choice.after)
    if row.disposition is not Disposition.BASE:
        given = dict(zip(recipe.expert_names, recipe.weights, strict=True))
        found += [f"weight of {n} {w:g}" for n, w in choice.weights.items() if w != given[n]]
    return found


def _tied(row: PlanRow, rows: dict[str, PlanRow]) -> PlanRow:
    source = None if row.tied_to is None else rows.get(row.tied_to)
    if source is None or source.override is None or row.disposition not in _OPEN:
        return row
    return replace(
        row,
        disposition=source.disposition,
        transposed=source.transposed,
        override=source.override,
        after=source.after,
    )


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
