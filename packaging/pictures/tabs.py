"""Pictures of every tab: what concerns all layers, and the close look at one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.gui.panels.what_if_panel import WhatIfPanel
from ace_gui.gui.picture import Studio
from ace_gui.gui.widgets.lazy_tabs import LazyTabs

Take = Callable[[str, QWidget | None], None]
OTHER_METHOD: Final = "task_arithmetic"
"""What the recipe's own method is compared with."""

_PATIENCE = 4  # times to settle: some tabs ask the engine


def tab_pictures(studio: Studio, take: Take) -> None:
    """Every tab of the panel below and of the inspector, and one plot read as a table."""
    workspace = studio.window.workspace
    lower, inspector = workspace.heterogeneity, workspace.inspector
    _turn(studio, take, "all-layers", lower.tabs, lower)
    _turn(studio, take, "inspector", inspector.tabs, inspector)
    view = lower.tabs.content(0)
    lower.tabs.setCurrentIndex(0)
    inspector.tabs.setCurrentIndex(0)
    view.show_table(True)  # type: ignore[attr-defined]
    studio.settle()
    take("all-layers-as-a-table", lower)
    view.show_table(False)  # type: ignore[attr-defined]
    own = studio.window.session.draft.inputs.method
    compare_merges(studio)
    take("compare", None)
    workspace.show_space(0)
    _choose_method(studio, own)
    lower.tabs.setCurrentIndex(0)
    studio.merge()


def turn_to(tabs: LazyTabs, kind: type[QWidget]) -> QWidget:
    """Show the tab with a panel of this kind; LookupError where there is none."""
    for index in range(tabs.count()):
        if isinstance(tabs.content(index), kind):
            tabs.setCurrentIndex(index)
            return tabs.content(index)
    raise LookupError(kind.__name__)


def compare_merges(studio: Studio) -> None:
    """Merge once more, by another method, and turn to both merges."""
    window, session = studio.window, studio.window.session
    _choose_method(studio, OTHER_METHOD)
    studio.merge()
    window.workspace.show_comparison()
    name, comparison = session.selection, session.results.comparison
    studio.wait(lambda: name in comparison.spectra, comparison.changed)
    studio.settle()


def _choose_method(studio: Studio, name: str) -> None:
    window, session = studio.window, studio.window.session
    window.conductor.choose_method(name)
    studio.wait(
        lambda: (
            session.draft.inputs.method == name and session.can_merge and session.layers.is_analysed
        ),
        window.engine.idle,
    )


def _turn(studio: Studio, take: Take, where: str, tabs: LazyTabs, panel: QWidget) -> None:
    for index in range(tabs.count()):
        tabs.setCurrentIndex(index)
        if isinstance(tabs.current, WhatIfPanel):
            _try_values(studio)
        for _ in range(_PATIENCE):
            studio.settle()
        title = tabs.tabText(index).partition(" (")[0]
        take(f"{where}-{title.lower().replace(' ', '-').replace('γ', 'gamma')}", panel)


def _try_values(studio: Studio) -> None:
    what_if = studio.window.what_if
    what_if.try_parameter("epsilon", 1e-3)
    what_if.try_parameter("k_frac", 0.1)
    studio.wait(lambda: what_if.new is not None, studio.window.session.results.findings.changed)
