"""Results of the recipe: the merge, the earlier merges of its base model, findings about layers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final, TypeVar

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import LearningProgress, MergeFinished, MethodInfo
from ace_gui.engine.contract.findings import (
    CovarianceMatch,
    ExpertSpectra,
    LayerCovariances,
    LayerDifference,
    LayerDistribution,
    LayerReport,
    LayerSpectrum,
    LayerStatistics,
    LayerSubspaces,
)
from ace_gui.formatting import counted, symbol_of
from ace_gui.gui.state.activity import MergeRun, RecipeKey
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.known_scores import KnownScores
from ace_gui.gui.text import value_text
from ace_gui.recipe.recommended import TITLE, is_recommended
from ace_gui.recipe.values import ParameterValue

TRIALS_KEPT: Final = 6
"""Number of merges made only for a comparison whose stores stay; each is as large as the model."""


class Runs(QObject):
    """``all`` is oldest first. ``changed`` follows any change of the list or its content."""

    changed = Signal()
    all: tuple[MergeRun, ...] = ()

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
        """Insert new merges, which earlier windows kept, before those of this one."""
        self._set(tuple(sorted((*found, *self.all), key=lambda run: run.made)))

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


FINDINGS_KEPT: Final = 100
"""Number of findings kept per kind."""

Finding = ExpertSpectra | LayerSpectrum | LayerSubspaces | LayerDistribution | LayerCovariances
_F = TypeVar(
    "_F", ExpertSpectra, LayerSpectrum, LayerSubspaces, LayerDistribution, LayerCovariances
)


class Findings(QObject):
    """The latest findings by kind, layer and inputs. ``changed`` carries the layer.

    The matches of all compared covariances are kept, for one set of models and inputs.
    """

    changed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._matches_key: RecipeKey = ()
        self._matches: dict[str, tuple[CovarianceMatch, ...]] = {}
        self._known: defaultdict[type, dict[tuple[str, RecipeKey], Finding]] = defaultdict(dict)

    def record(self, key: RecipeKey, finding: Finding) -> None:
        """Record a finding, and drop the oldest of its kind if there are too many."""
        known = self._known[type(finding)]
        known[finding.name, key] = finding
        if isinstance(finding, LayerCovariances):
            if key != self._matches_key:
                self._matches_key, self._matches = key, {}
            self._matches[finding.name] = finding.matches
        while len(known) > FINDINGS_KEPT:
            del known[next(iter(known))]
        self.changed.emit(finding.name)

    def matches(self, key: RecipeKey) -> dict[str, tuple[CovarianceMatch, ...]]:
        """How well ACE's covariances match the inputs of these models, by matrix; one entry per
        expert."""
        return self._matches if key == self._matches_key else {}

    def get(self, kind: type[_F], name: str, key: RecipeKey) -> _F | None:
        """The finding of this kind for a layer, or None."""
        found = self._known[kind].get((name, key))
        return found if isinstance(found, kind) else None

    def clear(self) -> None:
        self._known.clear()


class LearningCurves(QObject):
    """Of the latest merge that learned. ``losses`` by task, ``figures`` by expert, one per step.

    ``curve`` is the kind of the figures. ``changed`` follows new steps, at most ten times a second.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.losses: dict[str, list[float]] = {}
        self.figures: dict[str, list[float]] = {}
        self.curve = ""

    @property
    def is_empty(self) -> bool:
        return not self.figures

    def clear(self) -> None:
        """A merge begins, so no curves are known."""
        if not self.is_empty:
            self.losses, self.figures, self.curve = {}, {}, ""
            self.changed.emit()

    def take(self, event: LearningProgress) -> None:
        """Take new steps. Those from ``event.first`` on replace the existing ones."""
        self.curve = event.curve
        for known, news in ((self.losses, event.losses), (self.figures, event.figures)):
            for name, values in news.items():
                known.setdefault(name, [])[event.first :] = values
        self.changed.emit()


class Comparison(QObject):
    """``wanted`` follows when two other merges are to be compared; ``changed`` carries a layer.

    ``differences`` by layer, without spectra, as they arrive. ``spectra`` of the layers that were
    viewed.
    """

    wanted = Signal()
    changed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.first: MergeRun | None = None
        self.second: MergeRun | None = None
        self.differences: dict[str, LayerDifference] = {}
        self.spectra: dict[str, LayerDifference] = {}

    @property
    def pair(self) -> tuple[MergeRun, MergeRun] | None:
        """The two merges, or None unless there are two different ones."""
        if self.first is None or self.second is None or self.first is self.second:
            return None
        return self.first, self.second

    def compare(self, first: MergeRun | None, second: MergeRun | None) -> None:
        """Compare these two merges; None: nothing to compare."""
        if (first, second) == (self.first, self.second):
            return
        self.first, self.second = first, second
        self.differences, self.spectra = {}, {}
        self.wanted.emit()

    def retain(self, runs: Sequence[MergeRun]) -> None:
        """Drop the comparison if one of the two is not among ``runs``."""
        if not (self.first in runs and self.second in runs):
            self.compare(None, None)

    def record(self, difference: LayerDifference) -> None:
        self.differences[difference.name] = difference
        if difference.first is not None:
            self.spectra[difference.name] = difference
        self.changed.emit(difference.name)


@dataclass(frozen=True, kw_only=True)
class ChosenByTrying:
    """Tuned parameters of a method. ``note`` describes the search, for the recipe."""

    method: str
    parameters: Mapping[str, ParameterValue]
    note: str


class Results(QObject):
    """``changed`` follows when a merge begins, finishes, or is evaluated.

    ``merge``: the latest, finished, running or interrupted. ``runs``: the finished ones.
    ``scores``: of the models on the tasks. ``learning``: the curves of a learning merge.
    ``chosen``: the parameters tuned last.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.merge: MergeRun | None = None
        self.runs = Runs(self)
        self.findings = Findings(self)
        self.comparison = Comparison(self)
        self.scores = KnownScores(self)
        self.learning = LearningCurves(self)
        self.chosen: ChosenByTrying | None = None
        self.runs.changed.connect(lambda: self.comparison.retain(self.runs.all))

    def note_on(self, inputs: Inputs) -> str:
        """How the parameters of these inputs were tuned; empty if they were not."""
        chosen = self.chosen
        if chosen is None or chosen.method != inputs.method:
            return ""
        now = inputs.touched
        same = all(now.get(name) == value for name, value in chosen.parameters.items())
        return chosen.note if same else ""

    @property
    def is_merged(self) -> bool:
        return self.merge is not None and self.merge.finished is not None

    def start_merge(self, run: MergeRun | None) -> None:
        """A merge begins or is resumed; None: there is no merge any more."""
        self.merge = run
        self.changed.emit()

    def finish_merge(self, finished: MergeFinished) -> None:
        """Every tensor is in the store."""
        if self.merge is not None:
            self.merge.finished = finished
            self.changed.emit()
