"""The comparison of several merges of the open models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ace_gui.engine.contract.events import Event, MergeFinished, MethodCompared, Variant
from ace_gui.engine.contract.jobs import CompareJob, MeasureJob
from ace_gui.engine.contract.model_figures import norms
from ace_gui.engine.contract.plan import MEMORY
from ace_gui.gui.control.engine_client import EngineClient, Operation
from ace_gui.gui.control.merge_operation import RunOperations
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.run_names import run_title
from ace_gui.recipe import Recipe


class MethodComparison(Operation):
    """Merges with several recipes in turn. ``rows``: the results, the oldest first.

    Finished merges join the session's runs, where only a few that were made for a comparison stay.
    The current merge has a row at once; while ``set_visible``, its distances are measured in quiet.
    """

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self._runs = runs
        self._of: Path | None = None
        self.rows: tuple[MethodCompared, ...] = ()
        self._measuring = Operation(engine)
        self._measuring.changed.connect(self._take_measured)
        self._is_visible = False
        for changed in (self._session.results.changed, self._session.draft.changed):
            changed.connect(self._settle)
        engine.idle.connect(self._settle)

    def set_visible(self, is_visible: bool) -> None:
        """Set whether the results are visible."""
        self._is_visible = is_visible
        self._settle()

    @property
    def all_rows(self) -> tuple[MethodCompared, ...]:
        """The results, after the current merge if none of them is of it."""
        current = self._current
        if current is None or any(row.variant.store == current.store for row in self.rows):
            return self.rows
        return (self._row_of(current), *self.rows)

    @property
    def _current(self) -> MergeRun | None:
        """The current merge, if it is finished and of the open models as they are."""
        results = self._session.results
        current = results.merge
        if current is None or current not in results.runs.all or current.outdated:
            return None
        if current.recipe.base_model != self._session.draft.inputs.base:
            return None
        return current

    def _row_of(self, run: MergeRun) -> MethodCompared:
        """What is known of a merge before anything of it is read."""
        session = self._session
        plan = session.draft.plan
        merged = 0.0
        of_experts: dict[str, float] = {}
        if plan is not None:
            merged, of_experts = norms(plan, session.layers.statistics, run.reports)
        scores = session.results.scores.line(str(run.store))
        reports = tuple(run.reports.values())
        return MethodCompared(
            title=run_title(run, session.draft.methods),
            variant=Variant(recipe=run.recipe, store=run.store, finished=run.finished),
            index=0,
            parameters=run.parameters,
            seconds=run.finished.seconds if run.finished else 0.0,
            peak_bytes=run.finished.peak_bytes if run.finished else 0,
            norm=merged,
            expert_norms=of_experts,
            warned=sum(bool(report.warnings) for report in reports),
            noted=sum(bool(report.notes) for report in reports),
            scores=tuple(scores.values()),
            reports=reports,
        )

    def _settle(self) -> None:
        """Measure the current merge once nothing else runs; anything else comes first."""
        busy = len(self._engine.running(object)) > self._measuring.is_running
        if self._measuring.is_running and (busy or not self._is_visible):
            self._measuring.drop()
        current = self._current
        if current is None or busy or not self._is_visible or self._measuring.is_running:
            return
        if any(row.variant.store == current.store for row in self.rows):
            return
        measured = self._measuring.job
        if measured is not None and measured.variant.store == current.store:
            return
        variant = Variant(recipe=current.recipe, store=current.store, finished=current.finished)
        self._measuring.run(MeasureJob(variant=variant, device=self._session.device))

    def _take_measured(self) -> None:
        """Put the figures of the current merge beside its scores."""
        row = self._measuring.last(MethodCompared)
        current = self._current
        if self._measuring.is_running or row is None or row.error or current is None:
            return
        if row.variant.store != current.store:
            return
        self._keep_rows_of_base()
        before = self._row_of(current)
        if all(present.variant.store != current.store for present in self.rows):
            variant = replace(row.variant, recipe=current.recipe)
            self.rows = (replace(row, variant=variant, scores=before.scores), *self.rows)
        self.changed.emit()

    @property
    def obstacle(self) -> str:
        """The error that stops every merge. Memory does not count: it depends on the method."""
        errors = (check for check in self._session.checks.errors if check.title != MEMORY)
        return next((check.line for check in errors), "")

    def start(self, recipes: Sequence[Recipe], runs: Sequence[MergeRun] = ()) -> None:
        """Merge these recipes one after another, and measure finished merges beside them.

        ``runs``: the merges to measure; the current one always is. Rows of another base model are
        dropped.
        """
        if self.is_running or self.obstacle or not self._session.can_merge:
            return
        if not recipes and not runs:
            return
        self._measuring.drop()
        self._keep_rows_of_base()
        job = CompareJob(
            variants=self._variants(recipes, runs),
            device=self._session.device,
            memory_bytes=self._session.memory_bytes,
            cluster=self._session.cluster,
        )
        self.run(job, quiet=False)

    def _keep_rows_of_base(self) -> None:
        """Drop the results of another base model."""
        if self._of != self._session.draft.inputs.base:
            self.rows = ()
            self._of = self._session.draft.inputs.base

    def _variants(self, recipes: Sequence[Recipe], runs: Sequence[MergeRun]) -> tuple[Variant, ...]:
        """Each merge once, the finished ones first."""
        current = self._current
        finished = [run for run in runs if run.finished is not None and not run.outdated]
        if current is not None and current.kept and current not in finished:
            finished.insert(0, current)
        tasks = self._session.draft.inputs.tasks
        by_recipe: dict[str, Variant] = {}
        for run in finished:
            recipe = replace(run.recipe, tasks=tasks)
            variant = Variant(recipe=recipe, store=run.store, finished=run.finished)
            by_recipe.setdefault(repr(recipe), variant)
        for recipe in recipes:
            if repr(recipe) not in by_recipe:
                by_recipe[repr(recipe)] = self._variant(recipe)
        return tuple(by_recipe.values())

    def _variant(self, recipe: Recipe) -> Variant:
        """The recipe, with its merge if that is kept and its models are unchanged."""
        kept_runs = (run for run in reversed(self._session.results.runs.all) if run.kept)
        for run in kept_runs:
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
        if isinstance(event, MethodCompared):
            self._add(event)

    def _add(self, row: MethodCompared) -> None:
        recipe = row.variant.recipe
        store = row.variant.store
        further_rows = [
            present
            for present in self.rows
            if present.variant.recipe != recipe and present.variant.store != store
        ]
        self.rows = (*further_rows, row)
        merged = row.variant.finished is not None
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
