"""The finished merges of this window, to be compared with one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.formatting import value_text
from ace_gui.gui.state.activity import MergeRun, RecipeKey

RUNS_KEPT: Final = 6
"""Finished merges whose stores stay on the disk; each is as large as the model."""


class FinishedRuns(QObject):
    """A few merges of one base, oldest first. ``changed`` follows when the list is another."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs: tuple[MergeRun, ...] = ()

    @property
    def all(self) -> tuple[MergeRun, ...]:
        """The merges, oldest first."""
        return self._runs

    def store_of(self, key: RecipeKey) -> Path | None:
        """Where the latest merge of a recipe is."""
        return next((run.store for run in reversed(self._runs) if run.key == key), None)

    def keep(self, run: MergeRun) -> tuple[MergeRun, ...]:
        """Add a finished merge; those that are one too many, whose stores may go."""
        others = [known for known in self._runs if known.store != run.store]
        runs = (*others, run)
        self._set(runs[-RUNS_KEPT:])
        return runs[:-RUNS_KEPT]

    def forget(self, store: Path) -> None:
        """The merge in this store is no more."""
        self._set(tuple(run for run in self._runs if run.store != store))

    def clear(self) -> tuple[MergeRun, ...]:
        """Forget every merge; those that were known."""
        runs = self._runs
        self._set(())
        return runs

    def _set(self, runs: tuple[MergeRun, ...]) -> None:
        if runs != self._runs:
            self._runs = runs
            self.changed.emit()


def run_titles(runs: Sequence[MergeRun], methods: Sequence[MethodInfo]) -> tuple[str, ...]:
    """A distinct title for each: the method, and its parameters as far as a person set them."""
    known = {method.name: method for method in methods}
    plain = [_title(run, known.get(run.recipe.merge_method)) for run in runs]
    repeated = Counter(plain)
    seen: Counter[str] = Counter()
    distinct = []
    for title in plain:
        seen[title] += 1
        distinct.append(f"{title} ({seen[title]})" if repeated[title] > 1 else title)
    return tuple(distinct)


def _title(run: MergeRun, method: MethodInfo | None) -> str:
    recipe = run.recipe
    labels = {field.name: field.label for field in method.fields} if method is not None else {}
    parts = [method.title if method is not None else recipe.merge_method]
    for name, value in recipe.parameters.items():
        parts.append(f"{labels.get(name, name)} {value_text(value)}")
    if recipe.scope != "default":
        parts.append(recipe.scope)
    return " · ".join(parts)
