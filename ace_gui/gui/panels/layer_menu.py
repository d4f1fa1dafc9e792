"""The context menu of the selected layers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from PySide6.QtWidgets import QMenu, QWidget

from ace_gui.formatting import counted
from ace_gui.gui.state.chosen.draft import by_family
from ace_gui.gui.state.chosen.layer_rules import (
    Rules,
    open_to_override,
    overridden,
    reset,
    rule_for,
)
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.recipe import Override


def layer_menu(
    session: Session,
    names: Collection[str],
    take: Callable[[Rules], object],
    ask: Callable[[Override], object],
    parent: QWidget,
) -> QMenu:
    """The menu for the selected layers.

    ``take`` is called with the new rules, ``ask`` with a rule for the user to complete.
    """
    menu = QMenu(parent)
    chosen = open_to_override(session, names)
    title = (
        counted(len(chosen), "tensor", "tensors")
        if len(chosen) != 1
        else next(iter(chosen)).split(".", 1)[-1]
    )
    menu.addSection(title if chosen else "Not part of the merge")

    def act(change: Override) -> None:
        take(overridden(session, chosen, change))

    methods = menu.addMenu("&Merge with")
    for family, members in by_family(session.draft.methods):
        group = methods.addMenu(family)
        group.setToolTipsVisible(True)
        for method in members:
            own = dict(session.draft.inputs.parameters.get(method.name, {}))
            if method.name == session.draft.inputs.method:
                own = {}
            change = Override(merge_method=method.name, disposition="merge", parameters=own)
            action = group.addAction(method.title)
            action.setToolTip(tooltip(method.summary))
            action.triggered.connect(partial(_ignoring_checked, act, change))
    for text, fate in (("&Average", "average"), ("&Keep from the base", "base")):
        change = Override(disposition=fate)  # type: ignore[arg-type]
        menu.addAction(text).triggered.connect(partial(_ignoring_checked, act, change))
    other = rule_for(session, chosen, Override())
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
