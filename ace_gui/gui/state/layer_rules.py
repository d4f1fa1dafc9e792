"""Overrides of selected layers: the rules for the user's choices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from ace_gui.engine.contract.plan import AUTOMATIC, MEASURED, Disposition, PlanRow
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Override
from ace_gui.recipe.overrides import After, Tensor, for_selection, without

ACE: Final = "ace"

Rules = tuple[Override, ...]

_OPEN = frozenset({Disposition.MERGED, Disposition.AVERAGED, Disposition.BASE})


def open_to_override(session: Session, names: Collection[str]) -> frozenset[str]:
    """The tensors that are merged; a tied tensor is replaced by the one it is tied to."""
    rows = [row for name in names if (row := session.layers.row(name)) is not None]
    sources = (session.layers.row(row.tied_to) if row.tied_to else row for row in rows)
    return frozenset(row.name for row in sources if row is not None and _takes_part(row))


def overridden(session: Session, names: Collection[str], change: Override) -> Rules:
    """The session's rules, with those for these tensors replaced."""
    tensors = _tensors(session)
    kept: list[Override] = []
    for rule in session.draft.inputs.overrides:
        ruled = {t.name for t in tensors if rule.holds_for(t.name, t.role, t.block)}
        others = rule.weights or rule.experts or rule.after != After()
        if others or not ruled & set(names):
            kept.append(rule)
        elif ruled - set(names):
            kept += without([rule], names, tensors) if rule.tensors else [rule]
    return (*kept, for_selection(change, names, tensors))


def automatic_for(session: Session, names: Collection[str] | None) -> Inputs:
    """The inputs with ACE's automatic variant for these layers, or for all (None)."""
    inputs = session.draft.inputs
    if names is None:
        return inputs.with_parameter("variant", AUTOMATIC)
    change = Override(parameters={"variant": AUTOMATIC})
    if inputs.method != ACE:
        change = replace(change, merge_method=ACE, disposition="merge")
    chosen = open_to_override(session, names)
    return replace(inputs, overrides=overridden(session, chosen, change))


def with_measured(inputs: Inputs) -> Inputs:
    """The inputs with ACE's variant that uses the measured covariances."""
    return replace(inputs, method=ACE).with_parameter("variant", MEASURED)


def uses_measured(inputs: Inputs) -> bool:
    """Whether that variant is chosen."""
    return inputs.method == ACE and inputs.touched.get("variant") == MEASURED


def governing(rules: Sequence[Override], indices: Iterable[int], method: str) -> int | None:
    """The last of the rules at ``indices`` that sets its tensors' parameters.

    None if the recipe sets them. ``method`` is the recipe's.
    """
    found, current = None, method
    for index in indices:
        rule = rules[index] if index < len(rules) else Override()  # until the next plan
        current = rule.merge_method or current
        if rule.merge_method is not None or (rule.parameters and current == method):
            found = index
    return found


def reset(session: Session, names: Collection[str]) -> Rules:
    """The session's rules without those for these tensors."""
    return without(session.draft.inputs.overrides, names, _tensors(session))


def _takes_part(row: PlanRow) -> bool:
    return row.in_base and bool(row.experts) and row.disposition in _OPEN


def rule_for(session: Session, names: Collection[str], change: Override) -> Override:
    """An override ``change`` for exactly these tensors."""
    return for_selection(change, names, _tensors(session))


def _tensors(session: Session) -> list[Tensor]:
    return [
        Tensor(name=row.name, role=row.role, block=row.block)
        for row in session.layers.rows
        if _takes_part(row) and row.tied_to is None
    ]
