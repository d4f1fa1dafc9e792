"""Several merges of what is loaded, one after another, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.checks import MEMORY
from ace_gui.engine.contract.events import (
    CompareProgress,
    Event,
    MergeFinished,
    MethodCompared,
)
from ace_gui.engine.contract.jobs import CompareJob, Variant
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine_client import End, EngineClient, Operation
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.state.activity import MergeRun, Progress, State
from ace_gui.gui.state.inputs import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Recipe


class MethodComparison(QObject):
    """Runs a queue of recipes; ``rows`` are what came of them, oldest first.

    Finished merges join the session's runs, which keep a few stores; ``use`` makes one the
    session's merge, or merges again where its store is gone. ``changed`` follows a new row, a step
    and the end.
    """

    changed = Signal()

    def __init__(
        self,
        session: Session,
        engine: EngineClient,
        stores: MergeStores,
        conductor: Conductor,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._engine = engine
        self._stores = stores
        self._conductor = conductor
        self._operation: Operation | None = None
        self._wanted: MergeRun | None = None
        self._of: Path | None = None
        self.rows: tuple[MethodCompared, ...] = ()
        self.progress: CompareProgress | None = None
        session.draft.changed.connect(self._settle)

    @property
    def is_running(self) -> bool:
        """Whether merges are under way."""
        return self._operation is not None

    @property
    def obstacle(self) -> str:
        """What the checks have against any merge, as a sentence; memory is each method's own."""
        errors = (check.line for check in self._session.checks.errors if check.title != MEMORY)
        return next(errors, "")

    def start(self, recipes: Sequence[Recipe]) -> None:
        """Merge these, one after another. Rows of another base are forgotten."""
        if self.is_running or self.obstacle or not self._session.can_merge or not recipes:
            return
        if self._of != self._session.draft.inputs.base:
            self.rows, self._of = (), self._session.draft.inputs.base
        variants = []
        for recipe in recipes:
            merge = self._session.results.merge
            if merge is not None and merge.recipe == recipe:  # merged once more, in its place
                self._session.results.start_merge(None)
            store = self._stores.new(recipe)
            self._session.results.runs.forget(store)
            variants.append(Variant(recipe=recipe, store=store))
        job = CompareJob(
            variants=tuple(variants),
            device=self._session.device,
            memory_bytes=self._session.memory_bytes,
        )
        self._operation = self._engine.run(job, self._hear, self._end)
        self.changed.emit()

    def stop(self) -> None:
        """Stop at the next step; rows that are there stay."""
        if self._operation is not None:
            self._operation.cancel()

    def run_of(self, row: MethodCompared) -> MergeRun | None:
        """The finished merge of a row, as long as its store is kept."""
        store = row.variant.store
        return next((run for run in self._session.results.runs.all if run.store == store), None)

    def use(self, row: MethodCompared) -> None:
        """Make a row's recipe that of the window, and its merge the window's merge."""
        recipe = row.variant.recipe
        now, wanted = self._session.draft.inputs, Inputs.from_recipe(recipe)
        self._wanted = self.run_of(row)
        self._conductor.change(
            replace(
                now,
                method=wanted.method,
                parameters={**now.parameters, **wanted.parameters},
                overrides=wanted.overrides,
            )
        )
        if now == self._session.draft.inputs:  # it is that already
            self._settle()

    def _settle(self) -> None:
        """Once the wanted recipe is planned, its merge is the session's."""
        run, session = self._wanted, self._session
        if run is None or session.draft.plan is None or session.draft.plan.recipe != run.recipe:
            return
        self._wanted = None
        run.key = session.draft.recipe_key()
        run.parameters = session.draft.resolved_parameters()
        session.results.start_merge(run)

    def _hear(self, event: Event) -> None:
        match event:
            case CompareProgress():
                self.progress = event
                self._session.activity.set_progress(
                    Progress(state=State.MERGING, done=event.done, total=max(1, event.total))
                )
            case MethodCompared():
                self._take(event)
        self.changed.emit()

    def _take(self, row: MethodCompared) -> None:
        same = row.variant.recipe
        others = (known for known in self.rows if known.variant.recipe != same)
        self.rows = (*others, row)
        if row.error:
            self._stores.discard(row.variant.store)
            return
        finished = MergeFinished(
            store=row.variant.store, seconds=row.seconds, peak_bytes=row.peak_bytes
        )
        if row.variant.recipe.tasks == self._session.draft.inputs.tasks:
            self._session.results.scores.record(row.scores, str(row.variant.store))
        run = MergeRun(
            recipe=row.variant.recipe,
            key=(),
            store=row.variant.store,
            parameters=row.parameters,
            accuracies=row.by_task,
            reports={report.name: report for report in row.reports},
            finished=finished,
        )
        current = self._session.results.merge
        for old in self._session.results.runs.keep(run):
            if current is None or old.store != current.store:
                self._stores.discard(old.store)

    def _end(self, _: End) -> None:
        self._operation, self.progress = None, None
        self.changed.emit()
