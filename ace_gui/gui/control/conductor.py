"""Turns what the person wants into jobs, and what the engine says into the session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.events import (
    CachedModelsFound,
    EngineReady,
    Event,
    Exported,
    ExportProgress,
    JobCancelled,
    JobDone,
    JobFailed,
    LayerAnalysed,
    MergeFinished,
    MergeStarted,
    PassProgress,
    PlanReady,
    Reported,
    ReportProgress,
    SampleAccuracy,
    TensorFinished,
)
from ace_gui.engine.contract.findings import ExpertSpectra, LayerSpectrum
from ace_gui.engine.contract.jobs import (
    AnalyseJob,
    CachedModelsJob,
    ConvertJob,
    ExportJob,
    LoadRecipeJob,
    MergeJob,
    PlanJob,
    ReportJob,
    SampleAccuracyJob,
    SpectrumJob,
)
from ace_gui.engine.contract.plan import Plan
from ace_gui.errors import EngineError, PickleConsentError, ResumeError, WorkbenchError
from ace_gui.gui.control.job_book import JobBook, Running, Worker
from ace_gui.gui.control.merge_runs import MergeRuns
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.time_left import Pace
from ace_gui.gui.state.activity import Progress, State
from ace_gui.gui.state.inputs import Expert, Inputs
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Override
from ace_gui.recipe.values import ParameterValue

PLAN_DELAY: Final = 300  # ms
SPECTRUM_DELAY: Final = 80  # ms


class Conductor(QObject):
    """Submits, cancels and follows jobs. Everything here happens in the window's thread.

    ``exported`` carries an Exported; ``opened`` the paths of what was loaded from a recipe or
    from folders, for the list of recent files; ``cached_models`` a CachedModelsFound; ``idle``
    follows the end of the last job.
    """

    exported = Signal(object)
    cached_models = Signal(object)
    opened = Signal(object)
    spectrum_awaited = Signal(bool)
    idle = Signal()

    def __init__(
        self, session: Session, worker: Worker, stores: MergeStores, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._runs = MergeRuns(session, stores)
        self._jobs = JobBook(session, worker, self)
        self._jobs.ended.connect(self._end)
        self._refused: Running | None = None
        self._pace = Pace()
        self._plan_timer = self._timer(PLAN_DELAY, self._plan)
        self._spectrum_timer = self._timer(SPECTRUM_DELAY, self._ask_for_spectrum)
        worker.said.connect(self._hear)
        worker.engine_lost.connect(self._lose_engine)
        session.selection_changed.connect(self.want_spectrum)
        session.inputs_changed.connect(self.want_spectrum)

    # Wishes

    def open(self, paths: Iterable[Path]) -> None:
        """Load a recipe, or model folders with the base first, in place of what is loaded."""
        self._forget_plan()
        self._jobs.submit(LoadRecipeJob(paths=tuple(paths)))

    def set_base(self, path: Path) -> None:
        """Take another base; the experts stay if they fit it."""
        self._replan(replace(self._session.inputs, base=path))

    def add_experts(self, paths: Iterable[Path]) -> None:
        """Add experts at the end of the list."""
        self._replan(self._session.inputs.with_experts(paths))

    def remove_experts(self, indices: Iterable[int]) -> None:
        """Take experts off the list."""
        self._replan(self._session.inputs.without_experts(indices))

    def change_expert(self, index: int, expert: Expert) -> None:
        """Another name or weight for one expert."""
        self._replan(self._session.inputs.with_expert(index, expert))

    def change(self, inputs: Inputs) -> None:
        """Another method, scope or output type."""
        if self._session.inputs.base is None:
            self._session.keep(inputs)
        else:
            self._replan(inputs)

    def override(self, rules: tuple[Override, ...]) -> None:
        """Other overrides of the recipe for some tensors."""
        self.change(replace(self._session.inputs, overrides=rules))

    def choose_method(self, name: str) -> None:
        """Another merge method; every method keeps its own parameters."""
        self.change(replace(self._session.inputs, method=name))

    def close(self) -> None:
        """Unload everything."""
        self._forget_plan()
        self._jobs.withdraw(AnalyseJob, SpectrumJob)
        self._runs.drop_all()
        self._session.close()

    def set_parameter(self, name: str, value: ParameterValue | None) -> None:
        """Set a parameter, or leave it to its default (None)."""
        self._session.set_parameter(name, value)
        # A threshold changes regimes and not the plan, unless some tensors have their own.
        threshold = name == "tau" and value is not None and not self._session.inputs.overrides
        if self._session.inputs.base is not None and not threshold:
            self._plan_timer.start()

    def list_cached_models(self) -> None:
        """Look what is in the local Hugging Face cache."""
        self._jobs.submit(CachedModelsJob())

    def convert(self, path: Path) -> None:
        """Convert a pickle, with the person's consent, then try again what it stopped."""
        self._jobs.submit(ConvertJob(path=path))

    def merge(self) -> None:
        """Merge what is loaded, from where an interrupted merge of it stopped."""
        session = self._session
        if not session.can_merge:
            return
        self._jobs.withdraw(AnalyseJob)
        run = session.merge
        if run is None or not session.can_resume:
            run = self._runs.new()
        self._pace = Pace()
        resume = run.store.exists()  # this window's, or one that an earlier window left
        self._jobs.submit(
            MergeJob(
                recipe=run.recipe,
                store=run.store,
                device=session.device,
                resume=resume,
                memory_bytes=session.memory_bytes,
            )
        )
        session.start_merge(run)

    @property
    def can_continue(self) -> bool:
        """Whether a merge would go on with one that this window or an earlier one began."""
        return self._runs.can_continue

    def check_again(self) -> None:
        """Plan what is loaded once more: there may be more room by now."""
        self._plan()

    def cancel(self) -> None:
        """Stop what is going on: opening, a merge, an export, a report, an analysis."""
        self._jobs.cancel(MergeJob, ExportJob, ReportJob, AnalyseJob, SampleAccuracyJob)
        self.stop_opening()

    def stop_opening(self) -> None:
        """Go back to what is loaded, whatever is being opened."""
        self._jobs.cancel(ConvertJob)
        if self._jobs.has(PlanJob, LoadRecipeJob):
            self._forget_plan()
            self.want_spectrum()
            self.analyse()

    def export(self, folder: Path, dtype: str | None, shard: int, *, heads: bool = False) -> None:
        """Write the finished merge in files of at most ``shard`` bytes, if wished with heads on."""
        run = self._session.merge
        if run is not None and self._session.can_export:
            job = ExportJob(store=run.store, folder=folder, dtype=dtype, shard_bytes=shard)
            self._jobs.submit(replace(job, complete_heads=heads))

    def report(self, file: Path) -> None:
        """Write what the finished merge did as one HTML file."""
        run = self._session.merge
        if run is not None and self._session.can_report:
            job = ReportJob(store=run.store, file=file, device=self._session.device)
            self._jobs.submit(job)

    def evaluate_sample(self) -> None:
        """Held-out accuracies of the sample's models."""
        self._jobs.submit(SampleAccuracyJob())

    def analyse(self) -> None:
        """Compare the experts, unless that is done or something is in the way."""
        session = self._session
        busy = session.is_running(State.MERGING) or session.is_running(State.PLANNING)
        if busy or session.plan is None or not session.plan.experts or session.is_analysed:
            return
        self._jobs.withdraw(AnalyseJob)
        self._jobs.submit(AnalyseJob(recipe=session.plan.recipe))

    def want_spectrum(self) -> None:
        """The selection or the recipe changed: its spectrum will be asked for in a moment."""
        self._spectrum_timer.start()

    @property
    def is_busy(self) -> bool:
        """Whether any job is under way."""
        waiting = self._plan_timer.isActive() or self._spectrum_timer.isActive()
        return waiting or not self._jobs.is_empty

    # Jobs

    def _replan(self, inputs: Inputs) -> None:
        self._session.propose(inputs)
        self._plan()

    def _forget_plan(self) -> None:
        """What was to be planned is not wanted any more, and what is planned stays."""
        planning = self._jobs.has(PlanJob)
        self._withdraw_plan()
        if planning:
            self._session.reject()

    def _withdraw_plan(self) -> None:
        self._plan_timer.stop()
        # An engine that cannot even hear of it is of no use, unless it is merging meanwhile.
        writes = self._jobs.has(MergeJob, ExportJob, ReportJob)
        self._jobs.withdraw(PlanJob, LoadRecipeJob, enforced=not writes)

    def _plan(self) -> None:
        self._withdraw_plan()
        inputs = self._session.inputs
        if inputs.base is None:
            return
        self._jobs.submit(PlanJob(recipe=inputs.recipe()), inputs=inputs)

    def _ask_for_spectrum(self) -> None:
        session = self._session
        self._jobs.withdraw(SpectrumJob)
        row = session.row(session.selection) if session.selection else None
        # While a plan is under way the recipe may yet be rejected; its end asks again.
        planning = session.is_running(State.PLANNING) or self._plan_timer.isActive()
        wanted = row is not None and session.has_spectrum(row) and not planning
        if row is not None and wanted and session.spectrum(row.name) is None:
            key = session.recipe_key()
            job = SpectrumJob(
                recipe=session.inputs.recipe(),
                row=row,
                device=session.device,
                store=session.runs.store_of(key),
            )
            keys = {ExpertSpectra: session.models_key(), LayerSpectrum: key}
            self._jobs.submit(job, keys=keys)
            self.spectrum_awaited.emit(True)
        self._check_idle()

    def _end(self, running: Running) -> None:
        if isinstance(running.job, SpectrumJob):
            self.spectrum_awaited.emit(False)

    # Events

    def _hear(self, number: int, event: Event) -> None:
        if isinstance(event, EngineReady):
            self._session.set_engine(event)
            return
        running = self._jobs.get(number)
        if running is None:  # cancelled and forgotten
            return
        match event:
            case JobDone():
                self._jobs.finish(number)
                self._follow_up(running)
            case JobFailed(error=error):
                self._jobs.finish(number)
                self._fail(running, error)
            case JobCancelled():
                self._jobs.finish(number)
                self._follow_up(running, cancelled=True)
            case _:
                self._learn(running, event)
        self._check_idle()

    def _learn(self, running: Running, event: Event) -> None:
        session = self._session
        match event:
            case PlanReady(plan=plan):
                inputs = self._planned(running, plan)
                merges = (session.merge, *session.runs.all)
                if any(run is not None and run.recipe.base_model != inputs.base for run in merges):
                    self._runs.drop_all()
                session.adopt(inputs, plan)
                if isinstance(running.job, LoadRecipeJob):
                    self.opened.emit(running.job.paths)
            case LayerAnalysed(statistics=statistics, done=done, total=total):
                session.record_statistics(statistics)
                session.set_progress(Progress(state=State.ANALYSING, done=done, total=total))
            case MergeStarted():
                self._pace.start(event.bytes_total)
                session.set_progress(
                    Progress(state=State.MERGING, done=event.done, total=event.total)
                )
            case PassProgress(title=title, done=done, total=total):
                session.set_progress(
                    Progress(state=State.MERGING, done=done, total=total, title=title)
                )
            case TensorFinished():
                self._advance(event)
            case MergeFinished():
                session.finish_merge(event)
                self._runs.keep()
            case ExpertSpectra() | LayerSpectrum():
                session.findings.record(running.keys[type(event)], event)
            case ReportProgress(done=done, total=total):
                session.set_progress(Progress(state=State.REPORTING, done=done, total=total))
            case Reported(file=file):
                session.advice.emit(f"The report is in {file}.")
            case ExportProgress(done=done, total=total):
                session.set_progress(Progress(state=State.EXPORTING, done=done, total=total))
            case Exported():
                if session.merge is not None:
                    session.merge.exported = True
                self.exported.emit(event)
            case SampleAccuracy():
                session.record_accuracy(event)
            case CachedModelsFound():
                self.cached_models.emit(event)

    def _planned(self, running: Running, plan: Plan) -> Inputs:
        """The inputs that a plan is of; parameters may have been set since it was asked for."""
        if running.inputs is None:
            return Inputs.from_recipe(plan.recipe)
        return replace(running.inputs, parameters=self._session.inputs.parameters)

    def _advance(self, event: TensorFinished) -> None:
        self._session.record_report(event.report)
        left = self._pace.seconds_left(event.bytes_done)
        progress = Progress(
            state=State.MERGING, done=event.done, total=event.total, seconds_left=left
        )
        self._session.set_progress(progress)

    def _follow_up(self, running: Running, *, cancelled: bool = False) -> None:
        """What comes after a job that did not fail."""
        if isinstance(running.job, PlanJob | LoadRecipeJob):
            self.want_spectrum()
        if isinstance(running.job, ConvertJob) and not cancelled:
            self._try_again()
        if isinstance(running.job, AnalyseJob) and not cancelled:
            self._session.finish_analysis()
        if isinstance(running.job, MergeJob):
            self._session.layers_changed.emit()
            if cancelled:
                self._session.advice.emit(
                    "Merge cancelled. What is finished is kept: Merge continues from there."
                )
        self.analyse()

    def _try_again(self) -> None:
        """Plan once more what a pickle stood in the way of."""
        refused, self._refused = self._refused, None
        if refused is not None and refused.inputs is not None:
            self._replan(refused.inputs)
        elif refused is not None and isinstance(refused.job, LoadRecipeJob):
            self.open(refused.job.paths)

    def _fail(self, running: Running, error: WorkbenchError) -> None:
        if isinstance(error, PickleConsentError):
            self._refused = running
        if isinstance(running.job, PlanJob):
            self._session.reject()
        if isinstance(running.job, MergeJob):
            self._session.layers_changed.emit()
            if isinstance(error, ResumeError):
                self._runs.drop()
        self._session.fail(error)

    def _lose_engine(self, error: EngineError) -> None:
        """Every job is gone; what is loaded stays, and an interrupted merge can be resumed."""
        planning = self._jobs.has(PlanJob)
        self._jobs.finish_all()
        if planning:
            self._session.reject()
        self._session.layers_changed.emit()
        self._session.fail(error)
        self._check_idle()

    def _check_idle(self) -> None:
        if not self.is_busy:
            self.idle.emit()

    def _timer(self, milliseconds: int, action: object) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(milliseconds)
        timer.timeout.connect(action)
        return timer
