"""Editing of overrides, from the layers' menu, the method panel's list, or a dialog."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Override

if TYPE_CHECKING:
    from ace_gui.gui.dialogs.override_dialog import OverrideDialog
    from ace_gui.gui.shell.layout.workspace import Workspace


class OverrideEditor(QObject):
    """Connects the panels' requests. ``dialog`` is the open dialog, or None."""

    def __init__(
        self, session: Session, conductor: Conductor, workspace: Workspace, window: QWidget
    ) -> None:
        super().__init__(window)
        self._session = session
        self._conductor = conductor
        self._window = window
        self.dialog: OverrideDialog | None = None
        listed, layers = workspace.method.overrides, workspace.layers
        listed.overrides_edited.connect(conductor.override)
        listed.rule_wanted.connect(self.edit)
        layers.overrides_edited.connect(conductor.override)
        layers.rule_wanted.connect(self.complete)

    def edit(self, index: int) -> None:
        """Edit the override with this index, or a new one for -1."""
        if index < 0:
            self.complete(None)
            return
        rules = self._session.draft.inputs.overrides
        self._ask(rules[index], lambda made: (*rules[:index], made, *rules[index + 1 :]))

    def complete(self, rule: Override | None) -> None:
        """Edit a new override that starts from ``rule``."""
        self._ask(rule, lambda made: (*self._session.draft.inputs.overrides, made))

    def _ask(
        self, rule: Override | None, rules: Callable[[Override], tuple[Override, ...]]
    ) -> None:
        from ace_gui.gui.dialogs.override_dialog import OverrideDialog

        self.dialog = OverrideDialog(self._session, rule, self._window)
        self.dialog.rule_made.connect(lambda made: self._conductor.override(rules(made)))
        self.dialog.finished.connect(self._forget)
        self.dialog.open()

    def _forget(self) -> None:
        if self.dialog is not None:
            self.dialog.deleteLater()
            self.dialog = None
