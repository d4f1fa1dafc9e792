"""Coach marks one after another; each waits until its step is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, SignalInstance
from PySide6.QtWidgets import QWidget

from ace_gui.gui.widgets.coach_mark import CoachMark


def _nothing() -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a tour.

    ``target`` returns its control, ``begin`` makes the control visible, and ``done`` returns
    whether the step is done. Without ``done`` the user confirms the step. ``picture``: shown below
    the sentence.
    """

    sentence: str
    target: Callable[[], QWidget | None]
    begin: Callable[[], object] = _nothing
    done: Callable[[], bool] = _never
    picture: type[QWidget] | None = None


class Tour(QObject):
    """Shows ``steps`` over ``window``. After each of the ``watched`` signals a step may be done."""

    def __init__(
        self, window: QWidget, steps: Sequence[Step], watched: Sequence[SignalInstance] = ()
    ) -> None:
        super().__init__(window)
        self.mark = CoachMark(window)
        self._steps = tuple(steps)
        self._watched = tuple(watched)
        self.step_index = -1
        self.mark.next_wanted.connect(self._go_on)
        self.mark.end_wanted.connect(self.end)
        for signal in self._watched:
            signal.connect(self._look)
        self._go_on()

    @property
    def is_running(self) -> bool:
        """Whether a mark is shown."""
        return 0 <= self.step_index < len(self._steps)

    def end(self) -> None:
        if not self.is_running:
            return
        self.step_index = len(self._steps)
        self.mark.leave()
        for signal in self._watched:
            signal.disconnect(self._look)
        self.deleteLater()

    def _look(self, *_: object) -> None:
        if self.is_running and self._steps[self.step_index].done():
            self._go_on()

    def _go_on(self) -> None:
        """Go to the next step that is not done yet."""
        self.step_index += 1
        while self.is_running and self._steps[self.step_index].done():
            self.step_index += 1
        if not self.is_running:
            self.step_index = len(self._steps) - 1
            self.end()
            return
        step, last = self._steps[self.step_index], self.step_index == len(self._steps) - 1
        step.begin()
        counted = f"Step {self.step_index + 1} of {len(self._steps)}"
        onward = "Done" if last else "Next" if step.done is _never else "Skip"
        picture = None if step.picture is None else step.picture()
        self.mark.point(step.target(), counted, step.sentence, onward, picture)
