"""Comparisons: several merges of what is loaded with their result rows, and any two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ace_gui.engine.contract.events import (
    CompareProgress,
    Event,
    JobProgress,
    MergeFinished,
    MethodCompared,
    Variant,
)
from ace_gui.engine.contract.findings import ModelDiff
from ace_gui.engine.contract.jobs import CompareJob, DiffJob
from ace_gui.engine.contract.plan import MEMORY
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.operations.one_operation import OneOperation
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.state.activity import MergeRun
from ace_gui.recipe import Recipe


class MethodComparison(OneOperation):
    """Runs a queue of recipes. ``rows`` are the results, oldest first.

    Finished merges join the session's runs; only a few that were made for a comparison are kept.
    ``use`` takes a row's recipe, and its merge if that is kept.
    """

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self._runs = runs
        self._of: Path | None = None
        self.rows: tuple[MethodCompared, ...] = ()
        self.progress: CompareProgress | None = None

    @property
    def obstacle(self) -> str:
        """The checks' error against any merge, as a sentence. Memory depends on the method."""
        errors = (check for check in self._session.checks.errors if check.title != MEMORY)
        return next((check.line for check in errors), "")

    def start(self, recipes: Sequence[Recipe]) -> None:
        """Run these merges one after another. Rows of another base model are dropped."""
        if self.is_running or self.obstacle or not self._session.can_merge or not recipes:
            return
        if self._of != self._session.draft.inputs.base:
            self.rows, self._of = (), self._session.draft.inputs.base
        job = CompareJob(
            variants=tuple(map(self._variant, recipes)),
            device=self._session.device,
            memory_bytes=self._session.memory_bytes,
            cluster=self._session.cluster,
        )
        self._begin(job)

    def _variant(self, recipe: Recipe) -> Variant:
        """The recipe, with its merge if that is kept and its models have not changed."""
        kept = (run for run in reversed(self._session.results.runs.all) if run.kept)
        for run in kept:
            if run.recipe == recipe and run.finished is not None and not run.outdated:
                return Variant(recipe=recipe, store=run.store, finished=run.finished)
        return Variant(recipe=recipe, store=self._runs.stores.new(recipe))

    def run_of(self, row: MethodCompared) -> MergeRun | None:
        """The finished merge of a row, as long as its store is kept."""
        store = row.variant.store
        return next((run for run in self._session.results.runs.all if run.store == store), None)

    def use(self, row: MethodCompared) -> None:
        """Make a row's recipe and its merge the window's."""
        run = self.run_of(row)
        self._runs.restore(run or MergeRun(recipe=row.variant.recipe, store=row.variant.store))

    def take(self, event: Event) -> None:
        match event:
            case CompareProgress():
                self.progress = event
            case MethodCompared():
                self._add(event)

    def _add(self, row: MethodCompared) -> None:
        same = row.variant.recipe
        others = (known for known in self.rows if known.variant.recipe != same)
        self.rows = (*others, row)
        store, merged = row.variant.store, row.variant.finished is not None
        if row.variant.recipe.tasks == self._session.draft.inputs.tasks:
            self._session.results.scores.record(row.scores, str(store))
        if merged:
            for score in row.scores:
                self._runs.record_score(replace(score, model=str(store)))
        elif row.error:
            self._runs.stores.discard(store)
        else:
            self._add_run(row)

    def _add_run(self, row: MethodCompared) -> None:
        finished = MergeFinished(
            store=row.variant.store, seconds=row.seconds, peak_bytes=row.peak_bytes
        )
        run = MergeRun(
            recipe=row.variant.recipe,
            store=row.variant.store,
            parameters=row.parameters,
            accuracies=row.by_task,
            reports={report.name: report for report in row.reports},
            finished=finished,
            norm=row.relative_norm,
            kept=False,
        )
        current = self._session.results.merge
        self._runs.add(run)
        if current is not None and current.key == run.key:
            self._session.results.start_merge(run)

    def end(self) -> None:
        self.progress = None


class ModelComparison(OneOperation):
    """Compares two models on disk tensor by tensor. ``found``: the last result."""

    found: ModelDiff | None = None
    progress: JobProgress | None = None

    def start(self, first: Path, second: Path) -> None:
        """Compare these. An earlier result is dropped."""
        self.found = None
        self._begin(DiffJob(first=first, second=second), quiet=True)

    def take(self, event: Event) -> None:
        match event:
            case JobProgress():
                self.progress = event
            case ModelDiff():
                self.found = event

    def end(self) -> None:
        self.progress = None
