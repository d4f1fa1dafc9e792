"""The checks of what is loaded, and which warnings the user has accepted."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.checks import ADAPTER, Check, Verdict, replaced, worst_first
from ace_gui.engine.contract.figures.expert_distance import fit_checks, plan_changes
from ace_gui.engine.contract.figures.findings import LayerStatistics
from ace_gui.engine.contract.plan import Plan


class Checks(QObject):
    """The plan's checks and, after the experts are compared, whether they fit the base; worst
    first."""

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
        """Checks that would make a merge fail and cannot be accepted."""
        return tuple(check for check in self.all if check.verdict is Verdict.ERROR)

    def accept(self) -> None:
        """The user has seen the current warnings and wants to merge anyway."""
        self._accepted |= {check.key for check in self.worries} - {c.key for c in self.errors}
        self.changed.emit()

    def ask_again(self) -> None:
        """Forget accepted warnings, for other models."""
        self._accepted = frozenset()

    def replace(self, found: tuple[Check, ...]) -> None:
        if found != self.all:
            self.all = found
            self.changed.emit()


def checks_of(
    plan: Plan | None,
    memory_bytes: int | None,
    statistics: Mapping[str, LayerStatistics] | None,
    gpu_memory: int = 0,
) -> tuple[Check, ...]:
    """The checks of a plan for a merge in this window, which always keeps the whole model.

    ``memory_bytes``: a merge's memory limit, None for all free memory. ``statistics``: None until
    the experts are compared. ``gpu_memory``: of the chosen GPU, 0 for the CPU.
    """
    if plan is None:
        return ()
    found = tuple(check for check in plan.checks if check.title != ADAPTER)
    if memory_bytes is not None or gpu_memory:
        found = replaced(found, plan.memory_check(memory_bytes, gpu_memory))
    if statistics is not None:
        found = worst_first((*found, *fit_checks(plan_changes(plan, statistics))))
    return found
