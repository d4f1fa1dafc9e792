"""Undo and redo of everything a person chooses: each step is the inputs before and after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack
from shiboken6 import isValid

from ace_gui.gui.state.chosen.changes import change_text
from ace_gui.gui.state.chosen.draft import Draft
from ace_gui.gui.state.chosen.inputs import Inputs

TOGETHER: Final = 1.0
"""Seconds: the same thing changed again within them is one step, as while typing a number."""

_MERGES: Final = 1


class History(QObject):
    """Follows the draft: inputs that were adopted are a step. ``stack`` has the steps.

    ``wanted`` carries the Inputs that undo or redo ask for. Where these are not adopted, because a
    model is gone, the step is taken back.
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
        self._draft, self._clock = draft, clock
        self._at = draft.planned
        self._target: Inputs | None = None
        self._came_from = 0
        self._quiet = False
        # It tells of its own end, which a window that is half gone must not hear.
        self.stack = stack = QUndoStack()
        if parent is not None:
            parent.destroyed.connect(lambda: isValid(stack) and stack.blockSignals(True))
        draft.changed.connect(self._follow)

    def reset(self) -> None:
        """Something else is open: there is nothing to undo."""
        self.stack.clear()
        self._at, self._target = self._draft.planned, None

    def go(self, inputs: Inputs) -> None:
        """Ask for the inputs of a step, unless the stack is only brought in order."""
        if not self._quiet:
            self._target, self._came_from = inputs, self.stack.index()  # it moves afterwards
            self.wanted.emit(inputs)

    def _follow(self) -> None:
        draft = self._draft
        if draft.planned.base is None:
            self.reset()
        elif draft.planned == self._target:
            self._at, self._target = draft.planned, None
        elif draft.planned != self._at:
            self._target = None
            self._push(draft.planned)
        elif self._target is not None and draft.inputs == draft.planned:
            self._target = None
            self._without_asking(lambda: self.stack.setIndex(self._came_from))

    def _push(self, now: Inputs) -> None:
        titles = {method.name: method.title for method in self._draft.methods}
        method = self._draft.method
        labels = {field.name: field.label for field in method.fields} if method else {}
        text = change_text(self._at, now, titles, labels)
        step = Step(self, self._at, now, text, self._clock())
        self._at = now
        self._without_asking(lambda: self.stack.push(step))

    def _without_asking(self, action: Callable[[], object]) -> None:
        self._quiet = True
        try:
            action()
        finally:
            self._quiet = False


class Step(QUndoCommand):
    """From some inputs to others, at a time."""

    def __init__(
        self, history: History, before: Inputs, after: Inputs, text: str, at: float
    ) -> None:
        super().__init__(text)
        self._history = history
        self.before, self.after, self.at = before, after, at

    def undo(self) -> None:
        self._history.go(self.before)

    def redo(self) -> None:
        self._history.go(self.after)

    def id(self) -> int:
        return _MERGES

    def mergeWith(self, other: QUndoCommand) -> bool:
        """Take over a later step of the same kind that follows at once."""
        if not isinstance(other, Step) or other.text() != self.text():
            return False
        if other.at - self.at > TOGETHER or len(other.after.experts) != len(self.before.experts):
            return False
        self.after, self.at = other.after, other.at
        self.setObsolete(self.after == self.before)
        return True
