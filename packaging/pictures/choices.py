"""Pictures of the methods to choose from, of overrides and of methods compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QWidget

from ace_gui.gui.picture import Studio
from ace_gui.gui.state.layer_rules import overridden
from ace_gui.recipe import Override

COMPARED: Final = ("ace", "linear", "task_arithmetic", "ties", "tsv_m", "slerp")

Take = Callable[[str, QWidget | None], None]


def choice_pictures(studio: Studio, take: Take) -> None:
    """The methods to choose from, some layers merged otherwise, and the methods compared."""
    _method_picture(studio, take)
    _override_pictures(studio, take)
    _comparison_picture(studio, take)


def _method_picture(studio: Studio, take: Take) -> None:
    dialog = studio.window.dialogs.choose_method()
    if dialog is not None:
        studio.settle()
        take("methods", dialog)
        dialog.reject()


def _override_pictures(studio: Studio, take: Take) -> None:
    window, session = studio.window, studio.window.session
    values = {row.name for row in session.layers.merged if row.role == "value"}
    rules = overridden(session, values, Override(merge_method="ties", disposition="merge"))
    rules = (*rules, Override(role="norm", blocks="0-1", disposition="base"))
    window.conductor.override(rules)
    studio.wait(
        lambda: (
            session.draft.plan is not None
            and session.draft.plan.recipe.overrides == rules
            and session.layers.is_analysed
            and not window.engine.is_busy
        ),
        window.engine.idle,
    )
    for area in window.workspace.left.findChildren(QScrollArea):
        area.ensureWidgetVisible(window.workspace.method.overrides)
    layers = window.workspace.layers
    layers.table.scrollTo(layers.tree.index_of(min(values)))
    studio.settle()
    take("overrides", None)
    window.override_editor.edit(0)
    studio.settle()
    take("override", window.override_editor.dialog)
    if window.override_editor.dialog is not None:
        window.override_editor.dialog.reject()
    window.conductor.override(())
    studio.wait(lambda: not window.engine.is_busy, window.engine.idle)


def _comparison_picture(studio: Studio, take: Take) -> None:
    window = studio.window
    window.workspace.show_methods()
    dialog = window.workspace.comparison.methods
    for (method, _variant), box in dialog.choices.boxes.items():
        box.setChecked(method in COMPARED)
    dialog.start.click()
    studio.wait(lambda: not window.comparison.is_running, window.comparison.changed)
    means = [
        place
        for place in range(dialog.model.columnCount())
        if dialog.model.headerData(place, Qt.Orientation.Horizontal) == "Mean ↑"
    ]
    dialog.table.sortByColumn((means or [0])[0], Qt.SortOrder.DescendingOrder)
    dialog.table.selectRow(0)
    studio.settle()
    take("compare-methods", None)
    window.workspace.show_space(0)
