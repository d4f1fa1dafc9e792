"""The finished merges of one base model, from this window and earlier ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.formatting import counted, symbol_of
from ace_gui.gui.numbers import value_text
from ace_gui.gui.state.activity import MergeRun, RecipeKey
from ace_gui.recipe.recommended import TITLE, is_recommended

TRIALS_KEPT: Final = 6
"""Number of merges made only for a comparison whose stores stay; each is as large as the model."""


class Runs(QObject):
    """``all`` is oldest first. ``changed`` follows any change of the list or its content."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.all: tuple[MergeRun, ...] = ()

    def find(self, key: RecipeKey) -> MergeRun | None:
        """The latest merge with this key whose models have not changed."""
        found = (run for run in reversed(self.all) if run.key == key and not run.outdated)
        return next(found, None)

    def store_of(self, key: RecipeKey) -> Path | None:
        run = self.find(key)
        return None if run is None else run.store

    def add(self, run: MergeRun) -> tuple[MergeRun, ...]:
        """Add a finished merge, and return those that may be deleted.

        These are an earlier merge of the same recipe, whose name it takes over, and the oldest of
        those made only for a comparison.
        """
        same = [known for known in self.all if known.key == run.key and known.store != run.store]
        for earlier in same:
            run.name, run.kept = run.name or earlier.name, run.kept or earlier.kept
        others = [known for known in self.all if known not in same and known.store != run.store]
        trials = [known for known in (*others, run) if not known.kept][:-TRIALS_KEPT]
        self._set(tuple(known for known in (*others, run) if known not in trials))
        return (*same, *trials)

    def take_up(self, found: Sequence[MergeRun]) -> None:
        """Insert the merges that earlier windows kept before those of this one."""
        known = {run.store for run in self.all}
        new = (run for run in found if run.store not in known)
        self._set(tuple(sorted((*new, *self.all), key=lambda run: run.made)))

    def forget(self, store: Path) -> None:
        self._set(tuple(run for run in self.all if run.store != store))

    def clear(self) -> tuple[MergeRun, ...]:
        """Remove and return all merges."""
        runs = self.all
        self._set(())
        return runs

    def _set(self, runs: tuple[MergeRun, ...]) -> None:
        if [id(run) for run in runs] != [id(run) for run in self.all]:
            self.all = runs
            self.changed.emit()


def run_titles(runs: Sequence[MergeRun], methods: Sequence[MethodInfo]) -> tuple[str, ...]:
    """A distinct title for each: its name, or the method and the parameters set by the user."""
    plain = [run.name or " · ".join(title_parts(run, methods)) for run in runs]
    repeated = Counter(plain)
    seen: Counter[str] = Counter()
    distinct = []
    for title in plain:
        seen[title] += 1
        distinct.append(f"{title} ({seen[title]})" if repeated[title] > 1 else title)
    return tuple(distinct)


def title_parts(run: MergeRun, methods: Sequence[MethodInfo]) -> list[str]:
    """The method, and the user's values that differ from its defaults."""
    recipe = run.recipe
    method = next((each for each in methods if each.name == recipe.merge_method), None)
    fields = method.fields if method is not None else ()
    labels = {field.name: symbol_of(field.label) or field.label for field in fields}
    parts = [method.title if method is not None else recipe.merge_method]
    if is_recommended(recipe):
        parts = [TITLE]
    else:
        for name, value in recipe.parameters.items():
            parts.append(f"{labels.get(name, name)} {value_text(value)}")
    if recipe.overrides:
        count = len(recipe.overrides)
        parts.append(counted(count, "override", "overrides"))
    if recipe.scope != "default":
        parts.append(recipe.scope)
    return parts


def mean_score(run: MergeRun) -> float | None:
    """Mean over the recipe's tasks; None unless all were evaluated."""
    wanted = {task.title for task in run.recipe.tasks} or set(run.accuracies)
    known = run.accuracies.keys() >= wanted
    return fmean(run.accuracies[title] for title in wanted) if wanted and known else None


def relative_norm(
    statistics: Mapping[str, LayerStatistics], reports: Mapping[str, LayerReport]
) -> float | None:
    """Norm of the change of all tensors over the experts' mean; None: not known."""
    squares: dict[str, float] = {}
    total = 0.0
    for name, report in reports.items():
        found = statistics.get(name)
        if report.delta_norm is None or found is None:
            continue
        total += report.delta_norm**2
        for expert, energy in found.energies.items():
            squares[expert] = squares.get(expert, 0.0) + energy
    norms = [math.sqrt(square) for square in squares.values() if square > 0]
    return math.sqrt(total) / fmean(norms) if norms else None
