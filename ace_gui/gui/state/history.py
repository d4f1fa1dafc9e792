"""Undo and redo of the user's inputs. Each step has the inputs before and after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack
from shiboken6 import isValid

from ace_gui.formatting import counted
from ace_gui.gui.state.draft import Draft, Expert, Inputs
from ace_gui.recipe.values import model_name

TOGETHER: Final = 1.0
"""Seconds within which changes of the same value, such as typing, are one step."""


class UndoHistory(QObject):
    """Follows the draft and adds a step to ``stack`` for every adopted change.

    ``wanted`` carries the Inputs that undo or redo request. If they are not adopted, for example
    because a model is gone, the stack goes back to the step before.
    """

    wanted = Signal(object)

    def __init__(
        self,
        draft: Draft,
        parent: QObject | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self._draft = draft
        self._clock = clock
        self._at = draft.planned
        self._target: Inputs | None = None
        self._came_from = 0
        self._quiet = False
        # The stack signals its own destruction, which a half-destroyed window must not receive.
        self.stack = stack = QUndoStack()
        if parent is not None:
            parent.destroyed.connect(lambda: isValid(stack) and stack.blockSignals(True))
        draft.changed.connect(self._follow)

    def reset(self) -> None:
        """Clear the history, because something else was opened."""
        self.stack.clear()
        self._at = self._draft.planned
        self._target = None

    def go(self, inputs: Inputs) -> None:
        """Request the inputs of a step, unless only the stack's index is corrected."""
        if not self._quiet:
            self._target, self._came_from = inputs, self.stack.index()  # its index moves afterwards
            self.wanted.emit(inputs)

    def _follow(self) -> None:
        draft = self._draft
        if draft.planned.base is None:
            self.reset()
        elif draft.planned == self._target:
            self._at = draft.planned
            self._target = None
        elif draft.planned != self._at:
            self._target = None
            self._push(draft.planned)
        elif self._target is not None and draft.inputs == draft.planned:
            self._target = None
            self._without_asking(lambda: self.stack.setIndex(self._came_from))

    def _push(self, inputs: Inputs) -> None:
        variant = inputs.touched.get("variant")
        titles = {method.name: method.label(variant) for method in self._draft.methods}
        labels = {field.name: field.label for field in self._draft.fields}
        text = change_text(self._at, inputs, titles, labels)
        step = UndoStep(self, self._at, inputs, text, self._clock())
        self._at = inputs
        self._without_asking(lambda: self.stack.push(step))

    def _without_asking(self, action: Callable[[], object]) -> None:
        self._quiet = True
        try:
            action()
        finally:
            self._quiet = False


class UndoStep(QUndoCommand):
    """A change of the inputs with its time (``at``)."""

    def __init__(
        self, history: UndoHistory, before: Inputs, after: Inputs, text: str, at: float
    ) -> None:
        super().__init__(text)
        self._history = history
        self.before = before
        self.after = after
        self.at = at

    def undo(self) -> None:
        self._history.go(self.before)

    def redo(self) -> None:
        self._history.go(self.after)

    def id(self) -> int:
        return 1  # Qt may merge steps with the same id

    def mergeWith(self, newer: QUndoCommand) -> bool:
        """Take in a step of the same kind that follows within ``TOGETHER``."""
        if not isinstance(newer, UndoStep) or newer.text() != self.text():
            return False
        if newer.at - self.at > TOGETHER or len(newer.after.experts) != len(self.before.experts):
            return False
        self.after = newer.after
        self.at = newer.at
        self.setObsolete(self.after == self.before)
        return True


def change_text(
    before: Inputs, after: Inputs, titles: Mapping[str, str], labels: Mapping[str, str]
) -> str:
    """The text after Undo or Redo. ``titles``: of methods, ``labels``: of parameters, by name."""
    if before.base != after.base:
        return "change of the base model"
    if before.experts != after.experts:
        return _experts_text(before.experts, after.experts)
    if before.method != after.method:
        return f"change to {titles.get(after.method, after.method)}"
    old = before.touched
    new = after.touched
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if names:
        return f"change of {labels.get(names[0], names[0]) if len(names) == 1 else 'parameters'}"
    options = {
        "overrides": "overrides",
        "tasks": "tasks",
        "scope": "scope",
        "after": "later steps",
        "distil": "alignment",
    }
    changed = (text for n, text in options.items() if getattr(before, n) != getattr(after, n))
    return f"change of {next(changed, 'options')}"


def _experts_text(old: Sequence[Expert], new: Sequence[Expert]) -> str:
    old_paths = {expert.path for expert in old}
    new_paths = {expert.path for expert in new}
    if len(new) > len(old):
        return f"adding {_named([expert for expert in new if expert.path not in old_paths])}"
    if len(new) < len(old):
        return f"removing {_named([expert for expert in old if expert.path not in new_paths])}"
    before, after = next((a, b) for a, b in zip(old, new, strict=True) if a != b)
    if before.path != after.path:
        return "change of experts"
    if before.name != after.name:
        return f"renaming {_named([before])}"
    return f"weight of {_named([after])}"


def _named(experts: Sequence[Expert]) -> str:
    if len(experts) == 1:
        return experts[0].name or model_name(experts[0].path)
    return counted(len(experts), "expert", "experts")
