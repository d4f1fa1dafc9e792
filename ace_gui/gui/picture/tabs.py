"""Pictures of every tab: what concerns all layers, and the close look at one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from ace_gui.gui.panels.what_if import WhatIfPanel
from ace_gui.gui.widgets.lazy_tabs import LazyTabs

if TYPE_CHECKING:
    from ace_gui.gui.picture import Studio

Take = Callable[[str, QWidget | None], None]
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
    studio.wait(lambda: what_if.new is not None, what_if.changed)
