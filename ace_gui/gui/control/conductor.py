"""Opens, plans and analyses what the user chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeGuard

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.events import Event, JobDone, JobFailed, MixturePlanned, PlanReady
from ace_gui.engine.contract.jobs import (
    AnalyseJob,
    ConvertJob,
    CovariancesJob,
    ExportJob,
    LoadRecipeJob,
    MergeJob,
    PlanJob,
    ReportJob,
)
from ace_gui.errors import MismatchError, PickleConsentError, WorkbenchError
from ace_gui.formatting import listing
from ace_gui.gui.control.engine_client import End, EngineClient
from ace_gui.gui.control.expert_analysis import ExpertAnalysis
from ace_gui.gui.control.merge_operation import RunOperations
from ace_gui.gui.control.scoring import SCORING
from ace_gui.gui.state.draft import Inputs
from ace_gui.recipe.values import ParameterValue

PLAN_DELAY: Final = 300  # ms


class Conductor(QObject):
    """Opens, plans and analyses, all in the GUI thread.

    ``opened`` carries the paths that were loaded, for the list of recent projects. ``leaving`` is
    emitted before the loaded project is unloaded or replaced. ``mixture_opened`` carries the
    MixturePlanned of a file that describes a mixture of experts; what is loaded stays.
    """

    opened = Signal(object)
    leaving = Signal()
    mixture_opened = Signal(object)

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self._session = engine.session
        self._engine = engine
        self._runs = runs
        self._refused: tuple[Path | None, Callable[[], None]] | None = None
        self._left_out: dict[str, str] = {}  # why, by name, while the rest is being added
        self._to_add: tuple[Path, ...] = ()
        """Experts to add to the models that are being opened."""
        self._is_postponed = False
        """Whether a change of the loaded project waits for the end of an opening."""
        self._plan_timer = engine.delayed(PLAN_DELAY, self.plan)
        self._analysis = ExpertAnalysis(engine)
        runs.wanted.connect(self.change)
        engine.session.inputs_wanted.connect(self.change)
        engine.session.parameter_wanted.connect(self.set_parameter)

    # User actions

    def open(self, paths: Iterable[Path]) -> None:
        """Load a recipe, or model folders with the base first, and replace what is loaded.

        Folders take the settings that were chosen while nothing was loaded.
        """
        self._forget_plan()
        inputs = self._session.draft.inputs
        paths = tuple(paths)
        unused = inputs.base is not None or inputs.is_recommended
        if unused:
            chosen = None
        else:
            chosen = replace(inputs, base=paths[0]).recipe()
        self._run_plan(LoadRecipeJob(paths=paths, chosen=chosen))

    def add_experts(self, paths: Iterable[Path]) -> None:
        """Add experts. If some do not fit, the others are added without them.

        While models are being opened, the experts are added to these as soon as they are open.
        """
        if self.opening:
            self._to_add = (*self._to_add, *paths)
            names = listing([path.name for path in self._to_add])
            self._session.advice.emit(f"As soon as the base is open, {names} will be added.")
            return
        self._left_out = {}
        self.change(self._session.draft.inputs.with_experts(paths))

    def change(self, inputs: Inputs) -> None:
        """Replace the inputs: models, method, parameters, overrides and options."""
        draft = self._session.draft
        if inputs.base is None:
            draft.keep(inputs)
            return
        if inputs.base != draft.inputs.base:
            self._withdraw_plan()  # another base is opened in the place of what is being opened
        draft.propose(inputs)
        self.plan()

    @property
    def opening(self) -> tuple[Path, ...]:
        """The paths that are being opened; empty if none are."""
        for entry in self._engine.running(LoadRecipeJob):
            if isinstance(entry.job, LoadRecipeJob):
                return entry.job.paths
        return ()

    def close(self) -> None:
        """Unload everything."""
        self.leaving.emit()
        self._forget_plan()
        self._analysis.drop()
        self._runs.leave()
        self._session.close()

    def set_parameter(self, name: str, value: ParameterValue | None) -> None:
        """Set a parameter; None restores its default."""
        self._session.draft.set_parameter(name, value)
        # A threshold changes the regimes but not the plan, unless some tensors override it.
        threshold = name == "tau" and value is not None and not self._session.draft.inputs.overrides
        if self._session.draft.inputs.base is not None and not threshold:
            self._session.activity.plan_is_due = True
            self._plan_timer.start()

    def convert(self, path: Path) -> None:
        """Convert a pickle with the user's consent, then repeat what it prevented."""

        def repeat(end: End) -> None:
            if isinstance(end, JobDone) and self._refused is not None and self._refused[0] == path:
                (_, again) = self._refused
                self._refused = None
                again()

        self._engine.run(ConvertJob(path=path), on_end=repeat)

    def plan(self) -> None:
        """Plan the inputs, for example again after space has been freed.

        While other models are being opened, only if these cannot be opened.
        """
        self._session.activity.plan_is_due = False
        self._is_postponed = bool(self.opening)
        if self._is_postponed:
            return
        self._withdraw_plan()
        inputs = self._session.draft.inputs
        if inputs.base is not None:
            self._run_plan(PlanJob(recipe=inputs.recipe()), inputs)

    def cancel(self) -> None:
        """Cancel running work: opening, merge, export, report, analysis, scoring."""
        self._engine.cancel(MergeJob, ExportJob, ReportJob, AnalyseJob, CovariancesJob, *SCORING)
        self.stop_opening()

    def stop_opening(self) -> None:
        """Cancel opening and return to what is loaded."""
        self._engine.cancel(ConvertJob)
        if self._engine.running(PlanJob, LoadRecipeJob):
            self._forget_plan()
            self._analysis.begin()

    # Planning

    def _forget_plan(self) -> None:
        """Drop the plan that is being made, and keep the current one."""
        proposed = self._is_postponed or bool(self._engine.running(PlanJob))
        self._withdraw_plan()
        if proposed:
            self._session.draft.reject()

    def _withdraw_plan(self) -> None:
        self._plan_timer.stop()
        self._to_add = ()
        self._is_postponed = False
        self._session.activity.plan_is_due = False
        # An engine that fails to receive this is of no use, unless it is merging meanwhile.
        writes = bool(self._engine.running(MergeJob, ExportJob, ReportJob))
        self._engine.drop(PlanJob, LoadRecipeJob, enforced=not writes)

    def _run_plan(self, job: PlanJob | LoadRecipeJob, inputs: Inputs | None = None) -> None:
        self._engine.run(
            job, partial(self._adopt, job, inputs), partial(self._end_plan, job, inputs)
        )

    def _adopt(self, job: PlanJob | LoadRecipeJob, inputs: Inputs | None, event: Event) -> None:
        if isinstance(event, MixturePlanned):
            self.mixture_opened.emit(event)
        if not isinstance(event, PlanReady):
            return
        if isinstance(job, LoadRecipeJob):
            self.leaving.emit()
        session = self._session
        if inputs is None:
            planned = Inputs.from_recipe(event.plan.recipe)
        else:  # parameters and tasks may have changed meanwhile
            now = session.draft.inputs
            if inputs.names != now.names:
                tasks = inputs.tasks
            else:
                tasks = now.tasks
            planned = replace(inputs, parameters=now.parameters, tasks=tasks)
        merges = (session.results.merge, *session.results.runs.all)
        if any(run is not None and run.recipe.base_model != planned.base for run in merges):
            self._runs.leave()
        session.adopt(planned, event.plan)
        self._analysis.allow_again()
        if isinstance(job, LoadRecipeJob):
            self.opened.emit(job.paths)
        else:
            self._tell_left_out()

    def _end_plan(self, job: PlanJob | LoadRecipeJob, inputs: Inputs | None, end: End) -> None:
        if isinstance(job, PlanJob) and isinstance(end, JobFailed):
            self._session.draft.reject()
            if inputs is not None:
                self._leave_out(inputs, end.error)
        if isinstance(job, LoadRecipeJob):
            self._end_opening(job, end)
        elif _needs_consent(end) and inputs is not None:
            self._refused = end.error.path, partial(self.change, inputs)

    def _end_opening(self, job: LoadRecipeJob, end: End) -> None:
        """Add the experts that were to be added meanwhile, or plan what is still loaded."""
        experts = self._to_add
        is_postponed = self._is_postponed
        self._to_add = ()
        self._is_postponed = False
        if _needs_consent(end):
            self._refused = end.error.path, partial(self._open_with, job.paths, experts)
        elif isinstance(end, JobDone) and experts:
            self.add_experts(experts)
        elif experts:
            names = listing([path.name for path in experts])
            self._session.advice.emit(f"Without its base, {names} could not be added.")
        if is_postponed and not isinstance(end, JobDone):
            self.plan()

    def _open_with(self, paths: tuple[Path, ...], experts: tuple[Path, ...]) -> None:
        self.open(paths)
        self._to_add = experts

    def _leave_out(self, inputs: Inputs, error: WorkbenchError) -> None:
        """Add the other experts that were to be added with the one that the error is about."""
        now = self._session.draft.inputs
        path = error.path
        added = [expert for expert in inputs.experts if expert not in now.experts]
        fit = [
            expert for expert in added if path is None or expert.path not in (path, *path.parents)
        ]
        if len(fit) == len(added) or isinstance(error, PickleConsentError):
            return
        self._left_out |= {
            expert.path.name: error.sentence for expert in added if expert not in fit
        }
        if fit:
            self.change(now.with_experts(expert.path for expert in fit))
        else:
            QTimer.singleShot(0, self, self._tell_left_out)  # after the error itself

    def _tell_left_out(self) -> None:
        """Name all experts that were not added, if there are several; its error names one."""
        if len(self._left_out) > 1:
            names = listing(self._left_out)
            sentences = "\n".join(self._left_out.values())
            text = f"{names} do not fit this base, and were not added."
            self._session.fail(MismatchError(text, details=sentences))
        self._left_out = {}


def _needs_consent(end: End) -> TypeGuard[JobFailed]:
    """Whether a pickle must be converted first, for which the user is asked."""
    return isinstance(end, JobFailed) and isinstance(end.error, PickleConsentError)
