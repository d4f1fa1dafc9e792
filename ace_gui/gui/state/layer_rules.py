"""Overrides of selected layers: the rules that a menu over the layers' table makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from PySide6.QtWidgets import QMenu, QWidget

from ace_gui.engine.contract.plan import AUTOMATIC, Disposition, PlanRow
from ace_gui.gui.state.inputs import Inputs
from ace_gui.gui.state.method_families import by_family
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.recipe import Override
from ace_gui.recipe.rules import Tensor, for_selection, without

ACE: Final = "ace"

Rules = tuple[Override, ...]

_OPEN = frozenset({Disposition.MERGED, Disposition.AVERAGED, Disposition.BASE})


def open_to_override(session: Session, names: Collection[str]) -> frozenset[str]:
    """Those of the tensors that take part in the merge; a tied one by what it is tied to."""
    rows = [row for name in names if (row := session.layers.row(name)) is not None]
    sources = (session.layers.row(row.tied_to) if row.tied_to else row for row in rows)
    return frozenset(row.name for row in sources if row is not None and _takes_part(row))


def overridden(session: Session, names: Collection[str], change: Override) -> Rules:
    """The session's rules, with another for these tensors in the place of what was said of them."""
    tensors = _tensors(session)
    kept: list[Override] = []
    for rule in session.draft.inputs.overrides:
        ruled = {t.name for t in tensors if rule.holds_for(t.name, t.role, t.block)}
        others = rule.weights or rule.experts or rule.cap is not None
        if others or not ruled & set(names):
            kept.append(rule)
        elif ruled - set(names):
            kept += without([rule], names, tensors) if rule.tensors else [rule]
    return (*kept, for_selection(change, names, tensors))


def automatic_for(session: Session, names: Collection[str] | None) -> Inputs:
    """The inputs with the automatic variant of ACE for these layers, or for all (None)."""
    inputs = session.draft.inputs
    if names is None:
        return inputs.with_parameter("variant", AUTOMATIC)
    change = Override(parameters={"variant": AUTOMATIC})
    if inputs.method != ACE:
        change = replace(change, merge_method=ACE, disposition="merge")
    chosen = open_to_override(session, names)
    return replace(inputs, overrides=overridden(session, chosen, change))


def governing(rules: Sequence[Override], places: Iterable[int], method: str) -> int | None:
    """The last of the rules at ``places`` that its tensors have their parameters from.

    None where those are the recipe's. ``method``: the recipe's.
    """
    found, current = None, method
    for place in places:
        rule = rules[place] if place < len(rules) else Override()  # until the next plan
        current = rule.merge_method or current
        if rule.merge_method is not None or (rule.parameters and current == method):
            found = place
    return found


def reset(session: Session, names: Collection[str]) -> Rules:
    """The session's rules, none of them for these tensors."""
    return without(session.draft.inputs.overrides, names, _tensors(session))


def layer_menu(
    session: Session,
    names: Collection[str],
    take: Callable[[Rules], object],
    ask: Callable[[Override], object],
    parent: QWidget,
) -> QMenu:
    """What can be done with the selected layers.

    ``take`` is given the new rules; ``ask`` a rule to be completed by the person.
    """
    menu = QMenu(parent)
    chosen = open_to_override(session, names)
    title = f"{len(chosen)} layers" if len(chosen) != 1 else next(iter(chosen)).split(".", 1)[-1]
    menu.addSection(title if chosen else "No part of the merge")

    def act(change: Override) -> None:
        take(overridden(session, chosen, change))

    methods = menu.addMenu("&Merge by")
    methods.setToolTipsVisible(True)
    for family, members in by_family(session.draft.methods):
        methods.addSection(family)
        for method in members:
            own = dict(session.draft.inputs.parameters.get(method.name, {}))
            if method.name == session.draft.inputs.method:
                own = {}
            change = Override(merge_method=method.name, disposition="merge", parameters=own)
            action = methods.addAction(method.title)
            action.setToolTip(tooltip(method.summary))
            action.triggered.connect(partial(_ignoring_checked, act, change))
    for text, fate in (("&Average", "average"), ("&Keep from the base", "base")):
        change = Override(disposition=fate)  # type: ignore[arg-type]
        menu.addAction(text).triggered.connect(partial(_ignoring_checked, act, change))
    other = for_selection(Override(), chosen, _tensors(session))
    menu.addAction("&Other…").triggered.connect(partial(_ignoring_checked, ask, other))
    menu.addSeparator()
    reset_action = menu.addAction("&Reset")
    reset_action.triggered.connect(lambda _=False: take(reset(session, chosen)))
    for action in menu.actions():
        action.setEnabled(bool(chosen))
    reset_action.setEnabled(any((row := session.layers.row(n)) and row.override for n in chosen))
    return menu


def _ignoring_checked(
    act: Callable[[Override], object], change: Override, _checked: bool = False
) -> None:
    act(change)


def _takes_part(row: PlanRow) -> bool:
    return row.in_base and bool(row.experts) and row.disposition in _OPEN


def _tensors(session: Session) -> list[Tensor]:
    return [
        Tensor(name=row.name, role=row.role, block=row.block)
        for row in session.layers.rows
        if _takes_part(row) and row.tied_to is None
    ]
