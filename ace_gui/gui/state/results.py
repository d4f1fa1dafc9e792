"""The recipe's results: the merge, earlier merges of its base model, findings about layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final, TypeVar

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import LearningProgress, MergeFinished
from ace_gui.engine.contract.findings import (
    CovarianceMatch,
    ExpertSpectra,
    LayerCovariances,
    LayerDifference,
    LayerDistribution,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.gui.state.activity import MergeRun, RecipeKey
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.known_scores import KnownScores
from ace_gui.recipe.values import ParameterValue

TRIALS_KEPT: Final = 6
"""Number of merges made only for a comparison that stay; each is as large as the model."""


class Runs(QObject):
    """The finished merges. ``all``: the oldest first. ``changed``: of the list or of a run."""

    changed = Signal()
    all: tuple[MergeRun, ...] = ()

    def find(self, key: RecipeKey) -> MergeRun | None:
        """The latest merge with this key whose models have not changed."""
        matching = (run for run in reversed(self.all) if run.key == key and not run.outdated)
        return next(matching, None)

    def store_of(self, key: RecipeKey) -> Path | None:
        run = self.find(key)
        if run is None:
            return None
        return run.store

    def add(self, run: MergeRun) -> tuple[MergeRun, ...]:
        """Add a finished merge, and return the merges that may be deleted.

        These are earlier merges of the same recipe, whose name the new one takes over, and the
        oldest of the merges that were made only for a comparison.
        """
        same = [
            known_run
            for known_run in self.all
            if known_run.key == run.key and known_run.store != run.store
        ]
        for earlier in same:
            run.name = run.name or earlier.name
            run.kept = run.kept or earlier.kept
        runs_before = [
            known_run
            for known_run in self.all
            if known_run not in same and known_run.store != run.store
        ]
        trials = [known_run for known_run in (*runs_before, run) if not known_run.kept][
            :-TRIALS_KEPT
        ]
        self._set(tuple(known_run for known_run in (*runs_before, run) if known_run not in trials))
        return (*same, *trials)

    def take_up(self, earlier: Sequence[MergeRun]) -> None:
        """Insert the merges that earlier windows kept, by the times when they were made."""
        self._set(tuple(sorted((*earlier, *self.all), key=lambda run: run.made)))

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


def mean_score(run: MergeRun) -> float | None:
    """The mean score over the recipe's tasks; None unless all were evaluated."""
    titles = {task.title for task in run.recipe.tasks} or set(run.accuracies)
    is_scored = run.accuracies.keys() >= titles
    if titles and is_scored:
        return fmean(run.accuracies[title] for title in titles)
    return None


FINDINGS_KEPT: Final = 100
"""Number of findings kept per kind."""

Finding = ExpertSpectra | LayerSpectrum | LayerSubspaces | LayerDistribution | LayerCovariances
_F = TypeVar(
    "_F", ExpertSpectra, LayerSpectrum, LayerSubspaces, LayerDistribution, LayerCovariances
)


class Findings(QObject):
    """The latest findings by kind, layer and inputs. ``changed`` carries the layer.

    For the latest models and inputs, it also keeps how well each covariance matches.
    """

    changed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._matches_key: RecipeKey = ()
        self._matches: dict[str, tuple[CovarianceMatch, ...]] = {}
        self._findings: defaultdict[type, dict[tuple[str, RecipeKey], Finding]] = defaultdict(dict)

    def record(self, key: RecipeKey, finding: Finding) -> None:
        """Record a finding, and drop the oldest of its kind if there are too many."""
        findings = self._findings[type(finding)]
        findings[finding.name, key] = finding
        if isinstance(finding, LayerCovariances):
            if key != self._matches_key:
                self._matches_key = key
                self._matches = {}
            self._matches[finding.name] = finding.matches
        while len(findings) > FINDINGS_KEPT:
            del findings[next(iter(findings))]
        self.changed.emit(finding.name)

    def matches(self, key: RecipeKey) -> dict[str, tuple[CovarianceMatch, ...]]:
        """How well ACE's covariances match the inputs of these models, by matrix; one entry per
        expert."""
        if key == self._matches_key:
            return self._matches
        return {}

    def get(self, kind: type[_F], name: str, key: RecipeKey) -> _F | None:
        """The finding of this kind for a layer, or None."""
        finding = self._findings[kind].get((name, key))
        if isinstance(finding, kind):
            return finding
        return None

    def clear(self) -> None:
        self._findings.clear()


class LearningCurves(QObject):
    """The curves of the latest merge that learned, with one value per step.

    ``losses``: by task. ``figures``: by expert; ``curve`` is their name. ``changed``: there are new
    steps; it comes at most ten times a second.
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
        """Drop the curves, because another merge begins."""
        if not self.is_empty:
            self.losses = {}
            self.figures = {}
            self.curve = ""
            self.changed.emit()

    def take(self, event: LearningProgress) -> None:
        """Take new steps. Those from ``event.first`` on replace the existing ones.

        Curves of another meaning begin anew.
        """
        if event.curve != self.curve:
            self.losses = {}
            self.figures = {}
        self.curve = event.curve
        for curves, news in ((self.losses, event.losses), (self.figures, event.figures)):
            for name, values in news.items():
                curves.setdefault(name, [])[event.first :] = values
        self.changed.emit()


class MergeComparison(QObject):
    """Two merges that are compared. ``wanted``: there are two others; ``changed`` carries a layer.

    ``differences``: by layer, as far as they have arrived, without spectra. ``spectra``: of the
    layers that were viewed.
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
        """The two merges, or None if there are not two different ones."""
        if self.first is None or self.second is None or self.first is self.second:
            return None
        return self.first, self.second

    def compare(self, first: MergeRun | None, second: MergeRun | None) -> None:
        """Compare these two merges, or nothing if one is None."""
        if (first, second) == (self.first, self.second):
            return
        self.first = first
        self.second = second
        self.differences = {}
        self.spectra = {}
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
    """Everything that was computed. ``changed``: a merge has begun, finished or been evaluated.

    ``merge``: the latest merge, finished, running or interrupted. ``runs``: the finished merges.
    ``scores``: of the models on the tasks. ``learning``: the curves of a merge that learns.
    ``chosen``: the parameters of the latest search.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.merge: MergeRun | None = None
        self.runs = Runs(self)
        self.findings = Findings(self)
        self.comparison = MergeComparison(self)
        self.scores = KnownScores(self)
        self.learning = LearningCurves(self)
        self.chosen: ChosenByTrying | None = None
        self.runs.changed.connect(lambda: self.comparison.retain(self.runs.all))

    def note_on(self, inputs: Inputs) -> str:
        """A note on how the parameters of these inputs were tuned; empty if they were not."""
        chosen = self.chosen
        if chosen is None or chosen.method != inputs.method:
            return ""
        touched = inputs.touched
        unchanged = all(touched.get(name) == value for name, value in chosen.parameters.items())
        if unchanged:
            return chosen.note
        return ""

    @property
    def is_merged(self) -> bool:
        return self.merge is not None and self.merge.finished is not None

    def start_merge(self, run: MergeRun | None) -> None:
        """Set the merge that begins or is resumed; None if there is no merge any more."""
        self.merge = run
        self.changed.emit()

    def finish_merge(self, finished: MergeFinished) -> None:
        """Note that the merge is finished: every tensor is in the store."""
        if self.merge is not None:
            self.merge.finished = finished
            self.changed.emit()
