"""The window's merges: one starts and runs; the finished ones are kept, exported and reported."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import (
    Event,
    Exported,
    JobCancelled,
    JobFailed,
    LearningProgress,
    MergeFinished,
    MergeStarted,
    Reported,
    StoreRead,
    TensorFinished,
)
from ace_gui.engine.contract.jobs import AnalyseJob, ExportJob, MergeJob, ReadStoresJob, ReportJob
from ace_gui.engine.contract.model_figures import relative_norm
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.errors import ResumeError
from ace_gui.gui.control.background import Background
from ace_gui.gui.control.engine_client import End, EngineClient
from ace_gui.gui.control.merge_stores import (
    RECORD,
    MergeStores,
    read_record,
    store_of,
    write_record,
)
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.draft import Inputs
from ace_gui.recipe.output_forms import Output


class MergeOperation:
    """Merges the current inputs, one merge at a time."""

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        self._session = engine.session
        self._engine = engine
        self._runs = runs
        self._pace = Pace()
        self._steps = Pace()
        self._costs: dict[str, float] = {}
        """The costs of the tensors that this run merges, by name."""
        self._done = 0.0

    @property
    def can_continue(self) -> bool:
        """Whether a start would continue an unfinished merge."""
        inputs = self._session.draft.inputs
        if self._session.can_resume or inputs.base is None:
            return self._session.can_resume
        return self._runs.stores.has(inputs.recipe())

    def start(self) -> None:
        """Merge what is loaded, or continue its interrupted merge."""
        session = self._session
        if not session.can_merge:
            return
        self._engine.drop(AnalyseJob)
        run = session.results.merge
        if run is None or not session.can_resume:  # earlier runs stay
            recipe = session.draft.inputs.recipe()
            parameters = session.draft.resolved_parameters()
            store = self._runs.stores.new(recipe)
            run = MergeRun(recipe=recipe, store=store, parameters=parameters)
        self._steps = Pace()
        session.results.learning.clear()
        job = MergeJob(
            recipe=run.recipe,
            store=run.store,
            device=session.device,
            cluster=session.cluster,
            resume=run.store.exists(),  # this window's, or one left by an earlier window
            memory_bytes=session.memory_bytes,
        )
        self._engine.run(job, self._receive, self._end)
        session.results.start_merge(run)

    def _receive(self, event: Event) -> None:
        match event:
            case TensorFinished():
                self._session.record_report(event.report)
                self._done += self._costs.get(event.report.name, 0.0)
                self._show_time_left(self._pace, self._done, sum(self._costs.values()))
            case MergeStarted():
                self._take_over(event)
            case LearningProgress():
                self._session.results.learning.take(event)
                self._show_time_left(self._steps, event.done, event.total)
            case MergeFinished():
                self._session.results.finish_merge(event)
                if self._session.results.merge is not None:
                    self._runs.add(self._session.results.merge)
                sentences = list(event.notes)
                if event.distilled is not None:
                    sentences.append(event.distilled.sentence)
                if event.sanity is not None:
                    sentences.append(event.sanity.sentence_in_window)
                if sentences:
                    self._session.advice.emit(" ".join(sentences))

    def _show_time_left(self, pace: Pace, done: float, total: float) -> None:
        self._session.activity.complete(seconds_left=pace.seconds_left(done, total))

    def _take_over(self, begun: MergeStarted) -> None:
        """Take over and show the tensors that an earlier run finished."""
        earlier = {report.name for report in begun.reports}
        rows = (row for row in self._session.layers.rows if row.in_base)
        self._costs = {row.name: cost(row) for row in rows if row.name not in earlier}
        self._done = 0.0
        self._pace = Pace()
        self._pace.seconds_left(0.0, 0.0)  # starts the clock
        if self._session.results.merge is not None:
            self._session.results.merge.bytes = begun.bytes_total
        for report in begun.reports:
            self._session.record_report(report)

    def _end(self, end: End) -> None:
        session = self._session
        run = self._session.results.merge
        session.layers.learnt.emit("")
        if isinstance(end, JobFailed) and isinstance(end.error, ResumeError):
            if run is not None:  # it cannot be continued
                self._runs.stores.discard(run.store)
                session.results.start_merge(None)
        elif isinstance(end, JobCancelled):
            session.advice.emit(
                "Merge cancelled. Finished tensors are kept, so Merge continues from there."
            )


QUIET: Final = 3.0
"""Seconds at the start without an estimate, which would be unreliable."""

_MATRIX: Final = 64
"""The products of a matrix with roughly this many columns take as long as reading it."""

_SMOOTH: Final = 0.3


class Pace:
    """Estimates the time left of a sequence of steps, from the steps after its first call."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._estimate: float | None = None
        self._estimated_at = 0.0

    def seconds_left(self, done: float, total: float) -> float | None:
        """Seconds left when ``done`` of the cost ``total`` is done; None until enough is known. A
        smaller ``done`` than before begins a new sequence."""
        now = self._clock()
        if self._first is None or done < self._first[1]:
            self._first = (now, done)
            self._estimate = None
        elapsed = now - self._first[0]
        steps = done - self._first[1]
        if elapsed < QUIET or not steps:
            return None
        estimate = elapsed / steps * (total - done)
        if self._estimate is not None:
            expected = max(0.0, self._estimate - (now - self._estimated_at))
            estimate = expected + _SMOOTH * (estimate - expected)
        self._estimate = estimate
        self._estimated_at = now
        return estimate


def cost(row: PlanRow) -> float:
    """A tensor's cost in entries to read. Matrix products add to it with the matrix's sides."""
    size = float(prod(row.shape))
    if row.disposition is Disposition.MERGED and len(row.shape) == 2:
        return size * (1 + min(row.shape) / _MATRIX)
    return size


class RunOperations(QObject):
    """Keeps finished merges and their records in step, and finds the run of the current inputs.

    ``listed`` carries every kept merge of any base model, after ``list_all``. ``wanted`` carries
    the Inputs of a run to restore.
    """

    listed = Signal(object)
    wanted = Signal(object)

    def __init__(self, engine: EngineClient, stores: MergeStores) -> None:
        super().__init__(engine)
        self._session = engine.session
        self._engine = engine
        self.stores = stores
        session = engine.session
        self._base: Path | None = None
        self._background = Background()
        session.draft.changed.connect(self._follow)
        session.activity.changed.connect(self._match)
        session.layers.learnt.connect(lambda name: None if name else self._measure())

    # Merge events

    def add(self, run: MergeRun) -> None:
        """Add a finished merge. It stays, whatever is merged or opened next."""
        run.made = time.time()
        run.bytes = stored_bytes(run.store)
        self._measure_one(run)
        given_up = self._session.results.runs.add(run)
        self._write(run)
        for old in given_up:
            self.stores.discard(old.store)

    def leave(self) -> None:
        """Forget the runs of the old base model. Kept runs stay on disk; trial runs are removed."""
        self._session.results.comparison.compare(None, None)
        self._session.results.start_merge(None)
        for run in self._session.results.runs.clear():
            (self.stores.release if run.kept else self.stores.discard)(run.store)

    def note(self, run: MergeRun) -> None:
        """Store a run whose name, score or export has changed."""
        run.kept = True
        self._write(run)
        self._session.results.runs.changed.emit()

    # User actions

    def restore(self, run: MergeRun) -> None:
        """Make the run's recipe current, and with it the run's merge."""
        inputs = self._session.draft.inputs
        colours = {expert.path: expert.colour for expert in inputs.experts}
        restored = Inputs.from_recipe(run.recipe)
        if colours.keys() == {expert.path for expert in restored.experts}:
            experts = (replace(expert, colour=colours[expert.path]) for expert in restored.experts)
            restored = replace(restored, experts=tuple(experts))
        if not run.kept:
            self.note(run)
        parameters_of_methods = {
            name: set_ for name, set_ in inputs.parameters.items() if name != restored.method
        }
        self.wanted.emit(
            replace(restored, parameters={**parameters_of_methods, **restored.parameters})
        )
        self._match()

    def rename(self, run: MergeRun, name: str) -> None:
        """Rename a run; "" restores the name of its method."""
        if name != run.name:
            run.name = name
            self.note(run)

    def delete(self, runs: Iterable[MergeRun]) -> None:
        results = self._session.results
        for run in tuple(runs):
            results.runs.forget(run.store)
            if results.merge is run:
                results.start_merge(None)
            self.stores.discard(run.store)

    def list_all(self) -> None:
        roots = self.stores.roots
        self._background.ask(lambda: read_all(*roots), self.listed)

    def delete_kept(self, stores: Iterable[Path]) -> None:
        """Remove merges of any base model, except those that another open window uses."""
        of_window = {run.store: run for run in self._session.results.runs.all}
        for store in tuple(stores):
            if store in of_window:
                self.delete([of_window[store]])
            elif self.stores.take(store):
                self.stores.discard(store)
        self.list_all()

    def finish(self) -> None:
        """Wait until every record is written."""
        self._background.waitForDone()

    # Lookup

    def _follow(self) -> None:
        """Look for kept runs of a new base model, and for the run of the current inputs."""
        plan = self._session.draft.plan
        if plan is not None:
            planned = plan.recipe.base_model
        else:
            planned = None
        if planned != self._base:
            self._base = planned
            if planned is not None:
                roots = self.stores.roots
                self._background.ask(lambda: (planned, read_all(*roots)), self._take_up)
        self._match()

    def _take_up(self, answer: tuple[Path, Sequence[MergeRun]]) -> None:
        """Add the runs that earlier windows kept, unless the base model has changed meanwhile."""
        base, kept_runs = answer
        if base != self._base:
            return
        known_stores = {run.store for run in self._session.results.runs.all}
        fresh = [
            run
            for run in kept_runs
            if run.recipe.base_model == base and run.store not in known_stores
        ]
        runs = [run for run in fresh if self.stores.take(run.store)]
        if runs:
            for run in runs:
                run.outdated = True  # until the engine has checked its models
            self._session.results.runs.take_up(runs)
            job = ReadStoresJob(stores=tuple(run.store for run in runs))
            self._engine.run(job, self._receive, quiet=True)

    def _receive(self, event: Event) -> None:
        if not isinstance(event, StoreRead):
            return
        runs = self._session.results.runs
        for run in runs.all:
            if run.store == event.store:
                run.reports = {report.name: report for report in event.reports}
                run.outdated = event.outdated
                runs.changed.emit()
        self._match()

    def _match(self) -> None:
        """Show the finished merge of the current inputs, if there is one, as the window's."""
        session = self._session
        draft = session.draft
        current = session.results.merge
        settled = draft.plan is not None and draft.inputs == draft.planned
        if not settled or session.activity.is_writing:
            return
        run = session.results.runs.find(draft.recipe_key())
        if run is not None and run is not current:
            session.results.start_merge(run)
            session.layers.learnt.emit("")

    # Figures

    def _measure(self) -> None:
        for run in self._session.results.runs.all:
            if run.norm is None and self._measure_one(run):
                self._write(run)
                self._session.results.runs.changed.emit()

    def _measure_one(self, run: MergeRun) -> bool:
        """Compute how far a merge moved the model if the experts are compared."""
        draft = self._session.draft
        layers = self._session.layers
        if run.norm is not None or draft.plan is None:
            return run.norm is not None
        if layers.is_analysed and run.key == draft.recipe_key():
            run.norm = relative_norm(draft.plan, layers.statistics, run.reports)
        return run.norm is not None

    def record_score(self, score: TaskScore) -> None:
        """Store a merge's score in every list that shows it."""
        for run in self._session.results.runs.all:
            if str(run.store) == score.model and run.accuracies.get(score.task) != score.score:
                run.accuracies = {**run.accuracies, score.task: score.score}
                self._write(run)
                self._session.results.runs.changed.emit()

    def _write(self, run: MergeRun) -> None:
        """Write the record of a run that is kept."""
        recorded = replace(run)

        def write() -> None:
            with suppress(OSError):  # the run then belongs to this window only
                if run.store.exists():
                    write_record(recorded)

        if run.kept:
            self._background.start(write)


def stored_bytes(store: Path) -> int:
    """The size of a merge on disk."""
    total = 0
    for folder, _, names in os.walk(store):
        for name in names:
            with suppress(OSError):  # another window has just removed it
                total += Path(folder, name).lstat().st_size
    return total


def read_all(*roots: Path) -> list[MergeRun]:
    """Every kept merge in these folders, oldest first."""
    files = (file for root in roots if root.is_dir() for file in root.glob(f"*{RECORD}"))
    runs = [run for file in files if store_of(file).is_dir() and (run := read_record(file))]
    for run in runs:
        run.bytes = stored_bytes(run.store)
    return sorted(runs, key=lambda run: run.made)


class OutputOperations(QObject):
    """Exports and reports the session's merge. ``exported`` carries an Exported."""

    exported = Signal(object)

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self._session = engine.session
        self.engine = engine
        self._runs = runs

    def export(self, folder: Path, output: Output, chosen: Any) -> None:
        """Write the finished merge in a form. ``chosen``: the form's options."""
        run = self._session.results.merge
        if run is not None and self._session.can_export:
            job = ExportJob(store=run.store, folder=folder, output=output, chosen=chosen)
            self.engine.run(job, self._receive)

    def report(self, file: Path) -> None:
        run = self._session.results.merge
        if run is not None and self._session.can_report:
            job = ReportJob(store=run.store, file=file, device=self._session.device)
            self.engine.run(job, self._receive)

    def _receive(self, event: Event) -> None:
        session = self._session
        match event:
            case Exported():
                if session.results.merge is not None:
                    session.results.merge.exported = True
                    self._runs.note(session.results.merge)
                self.exported.emit(event)
            case Reported(file=file):
                session.written.emit(f"The report is in {file}.", file)
