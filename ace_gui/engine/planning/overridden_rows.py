"""Applies the recipe's overrides and its steps after the method to the rows of the plan."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ace_gui.architecture.scopes import DEFAULT
from ace_gui.architecture.traits import Role
from ace_gui.engine.contract.plan import Disposition, PlanRow, RowOverride
from ace_gui.engine.planning.dispositions import (
    FATES,
    combined,
    last_blocks,
    scales_base,
    with_after,
)
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.task_heads import has_one_head, is_new
from ace_gui.errors import RecipeError
from ace_gui.formatting import value_text
from ace_gui.methods import checked_parameters, get_method, parameter_fields
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.recipe import Override, Recipe
from ace_gui.recipe.overrides import Fate, describe, describe_after
from ace_gui.recipe.values import After, ParameterValue


def check_overrides(recipe: Recipe) -> None:
    """Raises RecipeError, naming the key, for a rule that is invalid for any model."""
    roles = [role.value for role in Role]
    for index, rule in enumerate(recipe.overrides):
        key = f"overrides[{index}]"
        if rule.role is not None and rule.role not in roles:
            close = difflib.get_close_matches(rule.role, roles, n=1)
            if close:
                hint = f" Did you mean {close[0]!r}?"
            else:
                hint = ""
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
        _check_parameters(recipe, rule, key)


def _check_parameters(recipe: Recipe, rule: Override, key: str) -> None:
    """Check a rule's method and its parameters, also those of single experts."""
    try:
        method = get_method(rule.merge_method or recipe.merge_method)
        checked_parameters(method, rule.parameters)
    except RecipeError as error:
        if error.key == "merge_method":
            where = "merge_method"
        else:
            where = f"parameters.{error.key}"
        raise RecipeError(f"{key}: {error.sentence}", key=f"{key}.{where}") from None
    for name, parameters in rule.experts.items():
        unknown = [values for values in parameters if values not in method.for_one_expert]
        if unknown:
            allowed = ", ".join(method.for_one_expert) or "none"
            raise RecipeError(
                f"{key}: {method.name} has no parameter {unknown[0]!r} for one expert; of those "
                f"it has: {allowed}.",
                key=f"{key}.experts",
            )
        try:
            checked_parameters(method, parameters)
        except RecipeError as error:
            raise RecipeError(f"{key}: {name}: {error.sentence}", key=f"{key}.experts") from None


def overridden(
    rows: Sequence[PlanRow],
    recipe: Recipe,
    base: OpenedModel,
    required_rules: Mapping[str, frozenset[int]] = MappingProxyType({}),
    named: int | None = None,
) -> tuple[tuple[PlanRow, ...], tuple[str, ...]]:
    """Rows with the recipe's ``after`` and overrides, and a warning for each rule without effect.

    A tied tensor follows the tensor it is tied to. ``required_rules``: by tensor, the indices
    of rules that cause it to be merged. ``named``: the number of rules that users know; None: all.
    """
    last = last_blocks(rows)
    one_head = has_one_head(base, rows)
    rows = tuple(with_after(row, recipe.after, last, one_head=one_head) for row in rows)
    if not recipe.overrides:
        return rows, ()
    rules = _OverrideRules(recipe=recipe, base=base, last=last, one_head=one_head, named=named)
    changed = {}
    used = set[int]()
    for row in rows:
        row_changed, effective = rules.applied(row, required_rules.get(row.tensor, frozenset()))
        changed[row.name] = row_changed
        used |= effective
    warnings = []
    for index, rule in enumerate(recipe.overrides[:named]):
        if index not in used:
            warnings.append(
                f"overrides[{index}] ({describe(rule)}) changes no tensor of this merge; correct "
                "or remove it."
            )
    return tuple(_tied(row, changed) for row in changed.values()), tuple(warnings)


def _tied(row: PlanRow, rows: Mapping[str, PlanRow]) -> PlanRow:
    if row.tied_to is None:
        source = None
    else:
        source = rows.get(row.tied_to)
    if source is None or source.override is None or row.disposition not in FATES.values():
        return row
    return replace(
        row,
        disposition=source.disposition,
        transposed=source.transposed,
        override=source.override,
        after=source.after,
    )


@dataclass(frozen=True, kw_only=True)
class _RuledTensor:
    """The result of the rules so far for one tensor."""

    method: str
    """The name of its method."""
    values: dict[str, ParameterValue]
    """The method's parameters that were set."""
    weights: dict[str, float]
    """By expert."""
    after: After
    """The steps after the method."""
    own: dict[str, dict[str, ParameterValue]] = dataclasses.field(default_factory=dict)
    """Parameters for single experts, by name."""
    fate: Fate | None = None
    """What is done with the tensor; None if no rule says it."""

    def under(self, rule: Override, recipe: Recipe) -> _RuledTensor:
        """The choice after one more rule."""
        method = self.method
        values = self.values
        own_values = self.own
        if rule.merge_method is not None:
            method = rule.merge_method
            own_values = {}
            if method == recipe.merge_method:
                values = dict(recipe.parameters)
            else:
                values = {}
        if rule.merge_method is not None or method == recipe.merge_method:
            values = {**values, **rule.parameters}
            own_values = own_values | {
                name: {**own_values.get(name, {}), **new} for name, new in rule.experts.items()
            }
        return _RuledTensor(
            method=method,
            values=values,
            weights={**self.weights, **rule.weights},
            own=own_values,
            after=rule.after.over(self.after),
            fate=rule.disposition or (None if rule.merge_method else self.fate),
        )


@dataclass(frozen=True, kw_only=True)
class _OverrideRules:
    """Applies the overrides of a recipe to rows.

    ``last``, ``one_head``: as for ``with_after``; ``named``: as for ``overridden``.
    """

    recipe: Recipe
    base: OpenedModel
    last: Mapping[str, int]
    one_head: bool
    named: int | None

    def applied(self, row: PlanRow, asking: frozenset[int]) -> tuple[PlanRow, set[int]]:
        """The row with its rules applied, and the indices of these if they change it together."""
        alone = scales_base(self.recipe, get_method(self.recipe.merge_method))
        takes_part = row.in_base and (row.experts or alone) and row.disposition in FATES.values()
        if not takes_part or row.tied_to is not None:
            return row, set()
        rules = enumerate(self.recipe.overrides)
        indices = [index for index, rule in rules if rule.holds_for(row.name, row.role, row.block)]
        changed = self._under(row, indices, asking)
        if changed is row:
            return row, set()
        return changed, set(indices)

    def _with_after(self, row: PlanRow, after: After) -> PlanRow:
        return with_after(row, after, self.last, one_head=self.one_head)

    def _under(self, row: PlanRow, indices: Sequence[int], asking: frozenset[int]) -> PlanRow:
        """The row under these rules alone."""
        if not indices:
            return row
        recipe = self.recipe
        choice = _RuledTensor(
            method=recipe.merge_method,
            values=dict(recipe.parameters),
            weights=dict(zip(recipe.expert_names, recipe.weights, strict=True)),
            after=recipe.after,
        )
        for index in indices:
            choice = choice.under(recipe.overrides[index], recipe)
        method = get_method(choice.method)
        traits = self.base.architecture.traits[row.tensor]
        # A preset does not apply to heads that are merged nevertheless.
        if traits.role is Role.HEAD:
            scope = DEFAULT
        else:
            scope = recipe.scope
        changed = combined(row, traits, method, scope, len(recipe.models))
        if is_new(self.base, row.tensor):
            changed = row
        elif choice.fate is not None and (choice.fate != "merge" or _can_merge(method, row)):
            changed = replace(changed, disposition=FATES[choice.fate])
        unruled = self._with_after(changed, recipe.after)
        changed = self._with_after(changed, choice.after)
        differences = self._differences(changed, choice, shaped=changed.after != unruled.after)
        if (
            not differences
            and changed.disposition is row.disposition
            and asking.isdisjoint(indices)
        ):
            return row
        return self._with_override(changed, choice, indices, differences)

    def _with_override(
        self, row: PlanRow, choice: _RuledTensor, indices: Sequence[int], differences: Sequence[str]
    ) -> PlanRow:
        """The row with these settings, and a reason that names what differs from the recipe's."""
        method = get_method(choice.method)
        names = self.recipe.expert_names
        values, notes = completed(choice.values, method, self.base)
        parameters = checked_parameters(method, values)
        sets = [parameters]
        for own_parameters in choice.own.values():
            sets.append(checked_parameters(method, {**values, **own_parameters}))
        if choice.own and any(method.needs_model(rules_named, len(names)) for rules_named in sets):
            raise RecipeError(
                f"{method.title} takes parameters of one expert only where entries are chosen "
                "within each tensor; set trim to tensor.",
                key="trim",
            )
        override = RowOverride(
            method=method.name,
            parameters=dataclasses.asdict(parameters),
            weights=tuple(choice.weights[name] for name in names),
            rules=tuple(i for i in indices if self.named is None or i < self.named),
            own=tuple(choice.own.get(name, {}) for name in names) if choice.own else (),
        )
        merged = row.is_merged
        what = [method.title if merged else row.disposition.value, *differences]
        if method.name != self.recipe.merge_method:
            what += [f"{name} = {value_text(values[name])}" for name in notes]
        return replace(row, override=override, reason=f"overridden: {', '.join(what)}")

    def _differences(self, row: PlanRow, choice: _RuledTensor, *, shaped: bool) -> list[str]:
        """The changes by the rules for a row of this disposition, in words; empty without any.

        ``shaped``: whether the steps after the method differ from the recipe's.
        """
        words = []
        recipe = self.recipe
        if row.is_merged:
            if choice.method == recipe.merge_method:
                defaults = recipe.parameters
            else:
                defaults = {}
                words.append(f"not {get_method(recipe.merge_method).title}")
            for name, value in choice.values.items():
                if name not in defaults or defaults[name] != value:
                    words.append(f"{name} {value}")
            for expert, values in choice.own.items():
                words += [f"{parameter} of {expert} {value}" for parameter, value in values.items()]
            if shaped:
                words += describe_after(choice.after)
        if row.disposition is not Disposition.BASE:
            weights = dict(zip(recipe.expert_names, recipe.weights, strict=True))
            words += [f"weight of {n} {w:g}" for n, w in choice.weights.items() if w != weights[n]]
        return words


def _can_merge(method: MergeMethod[Any], row: PlanRow) -> bool:
    return method.kind is not Kind.MATRIX or (
        len(row.shape) == 2 and min(row.shape) >= method.narrowest
    )


def completed(
    values: Mapping[str, ParameterValue], method: MergeMethod[Any], base: OpenedModel
) -> tuple[Mapping[str, ParameterValue], Mapping[str, str]]:
    """The values completed with the method's defaults for this base, and the defaults' sources."""
    if method.defaults is None:
        return values, {}
    config = {**(base.checkpoint.config or {}), "model_type": base.architecture.family}
    of_base = method.defaults(config)
    names = _left_open(method, values)
    left_open = {name: pair for name, pair in of_base.items() if name in names}
    defaults = {name: value for name, (value, _) in left_open.items()}
    return {**defaults, **values}, {name: note for name, (_, note) in left_open.items()}


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
    used = [rule.parameters for rule in overrides if rule.rules[-1:] == (index,)]
    defaults = {name: used[0][name] for name in names if used}
    return replace(rule, parameters={**defaults, **rule.parameters})


def _left_open(method: MergeMethod[Any], values: Mapping[str, ParameterValue]) -> list[str]:
    """The parameters in force that have no value and follow from the base."""
    if method.defaults is None:
        return []
    fields = {field.name: field for field in parameter_fields(method)}
    names = []
    for name in method.defaults({}):
        condition_name, *choices = fields[name].applies_when or (name,)
        value = values.get(condition_name, fields[condition_name].default)
        if name not in values and (not choices or value in choices):
            names.append(name)
    return names
