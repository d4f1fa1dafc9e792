"""What the checks say of what is loaded, and what of it the person has accepted."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.checks import Check, Verdict


class Checks(QObject):
    """The plan's and, once the experts are compared, whether they fit the base; worst first."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.all: tuple[Check, ...] = ()
        self._accepted: frozenset[object] = frozenset()

    @property
    def worries(self) -> tuple[Check, ...]:
        """Warnings and errors that have not been accepted."""
        return tuple(c for c in self.all if c.is_worry and c.key not in self._accepted)

    @property
    def errors(self) -> tuple[Check, ...]:
        """What no consent helps against: a merge would fail."""
        return tuple(check for check in self.all if check.verdict is Verdict.ERROR)

    def accept(self) -> None:
        """The person has read the warnings there are now and merges all the same."""
        self._accepted |= {check.key for check in self.worries} - {c.key for c in self.errors}
        self.changed.emit()

    def ask_again(self) -> None:
        """Other models: nothing is accepted any more."""
        self._accepted = frozenset()

    def replace(self, found: tuple[Check, ...]) -> None:
        """These are the checks now."""
        if found != self.all:
            self.all = found
            self.changed.emit()
