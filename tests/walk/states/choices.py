"""Settings that change the form: overrides, the cap, variants, a method that learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from PySide6.QtWidgets import QScrollArea

from ace_gui.gui.panels.health_panel import HealthPanel
from ace_gui.gui.picture import Studio
from ace_gui.gui.shell.layout.cards import VIEWS
from ace_gui.gui.state.chosen.layer_rules import overridden
from ace_gui.recipe import Override
from ace_gui.recipe.values import After, Cap
from tests.walk.states.doing import Step, change, opened, turn_to, until_ready

SMALL_RIDGE = 1e-9
"""With it the published variant moves the sample far more than its experts did."""


def choices(studio: Studio) -> Iterator[Step]:
    """Each kind of choice; at the end the settings of the merge are back."""
    window, session = studio.window, studio.window.session
    before = session.draft.inputs
    published = before.with_method("ace")
    yield from _overrides(studio)
    change(studio, replace(before, after=After(cap=Cap())))
    yield "a cap", window
    change(studio, published.with_parameter("epsilon", SMALL_RIDGE))
    yield "settings changed", window
    studio.merge()
    window.workspace.cards.bring(VIEWS)
    turn_to(window.workspace.heterogeneity.tabs, HealthPanel)
    yield "health warns", window
    change(studio, published.with_parameter("variant", "automatic"))
    yield "the automatic variant", window
    window.workspace.heterogeneity.tabs.setCurrentIndex(0)
    change(studio, before)


def _overrides(studio: Studio) -> Iterator[Step]:
    window, session = studio.window, studio.window.session
    values = {row.name for row in session.layers.merged if row.role == "value"}
    rules = overridden(session, values, Override(merge_method="ties", disposition="merge"))
    rules = (*rules, Override(role="norm", blocks="0-1", disposition="base"))
    window.conductor.override(rules)
    plan = lambda: session.draft.plan  # noqa: E731
    until_ready(studio, lambda: plan() is not None and plan().recipe.overrides == rules)
    for area in window.workspace.left.findChildren(QScrollArea):
        area.ensureWidgetVisible(window.workspace.method.overrides)
    layers = window.workspace.layers
    if values:
        layers.table.scrollTo(layers.model.index_of(min(values)))
    yield "overrides", window
    yield from opened("an override", lambda: window.override_editor.edit(0))
    window.conductor.override(())
    until_ready(studio, lambda: not session.draft.inputs.overrides)
