"""What is loaded, chosen, known and going on. Knows no widget and no process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.checks import memory_check, replaced, worst_first
from ace_gui.engine.contract.events import EngineReady, MergeFinished, MethodInfo, SampleAccuracy
from ace_gui.engine.contract.expert_distance import equally_weighted, fit_checks
from ace_gui.engine.contract.findings import (
    ExpertSpectra,
    LayerReport,
    LayerSpectrum,
    LayerStatistics,
)
from ace_gui.engine.contract.plan import AUTOMATIC, Disposition, Plan, PlanRow
from ace_gui.errors import WorkbenchError
from ace_gui.gui.state.activity import MergeRun, Progress, RecipeKey, State
from ace_gui.gui.state.checks import Checks
from ace_gui.gui.state.finished_runs import FinishedRuns
from ace_gui.gui.state.inputs import Inputs
from ace_gui.gui.state.layer_results import Findings
from ace_gui.gui.state.model_order import model_order
from ace_gui.gui.state.two_merges import Comparison
from ace_gui.recipe.values import ParameterValue

_BY_PRIORITY = (
    State.EXPORTING,
    State.MERGING,
    State.REPORTING,
    State.PLANNING,
    State.ANALYSING,
)


class Session(QObject):
    """The state of the window.

    Inputs are changed in two steps: ``propose`` shows a change, then ``adopt`` keeps it with the
    plan it led to, or ``reject`` goes back to what was loaded before. ``problem`` carries a
    WorkbenchError, ``advice`` a sentence.
    """

    engine_changed = Signal()
    inputs_changed = Signal()
    plan_changed = Signal()
    layer_changed = Signal(str)
    layers_changed = Signal()
    tau_changed = Signal(float)
    selection_changed = Signal()
    merge_changed = Signal()
    state_changed = Signal()
    progress_changed = Signal()
    accuracy_changed = Signal()
    problem = Signal(object)
    advice = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.engine: EngineReady | None = None
        self.device = "auto"
        self.memory_bytes: int | None = None
        self.inputs = Inputs()
        self.plan: Plan | None = None
        self.plan_is_due = False  # it will be asked for in a moment
        self.rows: tuple[PlanRow, ...] = ()
        self.statistics: dict[str, LayerStatistics] = {}
        self.merge: MergeRun | None = None
        self.runs = FinishedRuns(self)
        self.findings = Findings(self)
        self.comparison = Comparison(self)
        self.runs.changed.connect(lambda: self.comparison.retain(self.runs.all))
        self.selection: str | None = None
        self.progress: Progress | None = None
        self.checks = Checks(self)
        self.accuracies: dict[str, SampleAccuracy] = {}
        self._planned_inputs = Inputs()
        self._rows: dict[str, PlanRow] = {}
        self._running: set[State] = set()
        self._analysed: tuple[object, ...] = ()
        self._tau_preview: float | None = None

    # What is so

    @property
    def state(self) -> State:
        """The most important thing going on, else how far the person has come."""
        for state in _BY_PRIORITY:
            if state in self._running:
                return state
        if self.merge is not None and self.merge.finished is not None:
            return State.MERGED
        return State.READY if self.plan is not None else State.EMPTY

    def is_running(self, state: State) -> bool:
        """Whether a job of this kind is running, also beside a more important one."""
        return state in self._running

    @property
    def can_merge(self) -> bool:
        """There is a plan with experts, and nothing in the way."""
        busy = {State.MERGING, State.EXPORTING, State.PLANNING} & self._running
        return self.plan is not None and bool(self.plan.experts) and not busy

    @property
    def can_export(self) -> bool:
        """There is a finished merge and nothing is merging or exporting."""
        finished = self.merge is not None and self.merge.finished is not None
        return finished and not {State.MERGING, State.EXPORTING} & self._running

    @property
    def can_report(self) -> bool:
        """There is a finished merge to report on, and no report is being written."""
        return self.can_export and State.REPORTING not in self._running

    @property
    def merge_is_current(self) -> bool:
        """Whether the merge was made from what is chosen now."""
        return self.merge is not None and self.merge.key == self.recipe_key()

    @property
    def can_resume(self) -> bool:
        """Whether an unfinished merge of just this recipe waits in its store."""
        return self.merge_is_current and self.merge is not None and self.merge.finished is None

    @property
    def has_gamma(self) -> bool:
        """Whether the planned method has a heterogeneity and regimes."""
        return self.plan is not None and self.plan.heterogeneity

    @property
    def methods(self) -> tuple[MethodInfo, ...]:
        """Those there are; none until the engine has said so."""
        return self.engine.methods if self.engine else ()

    @property
    def method(self) -> MethodInfo | None:
        """The chosen method; None until the engine has said what it is."""
        return next((method for method in self.methods if method.name == self.inputs.method), None)

    @property
    def tau(self) -> float:
        """The threshold: as dragged at this moment, else as set, else the method's own.

        Infinite under a variant that has none: nothing is above it.
        """
        if self.parameter("variant") == AUTOMATIC:
            return math.inf
        if self._tau_preview is not None:
            return self._tau_preview
        return float(self.parameter("tau") or 0.0)

    def tau_of(self, row: PlanRow) -> float:
        """The threshold that holds for a tensor: its own where an override names one."""
        own = row.override is not None and any(
            "tau" in self.inputs.overrides[place].parameters
            for place in row.override.rules
            if place < len(self.inputs.overrides)
        )
        own |= row.override is not None and math.isinf(self.tau)
        known = self.plan.tau_of(row) if own and self.plan is not None else None
        return self.tau if known is None else known

    @property
    def tau_is_set(self) -> bool:
        """Whether the threshold is the person's, set or under the mouse, not the method's own."""
        return self._tau_preview is not None or "tau" in self.inputs.touched

    def parameter(self, name: str) -> ParameterValue | None:
        """The value in force of a parameter of the chosen method."""
        if name in self.inputs.touched:
            return self.inputs.touched[name]
        plan = self.plan
        if plan is not None and plan.recipe.merge_method == self.inputs.method:
            planned = plan.parameters.get(name)
            if planned is not None:
                return planned
        fields = self.method.fields if self.method else ()
        return next((field.default for field in fields if field.name == name), None)

    def recipe_key(self) -> RecipeKey:
        """Equal for inputs that lead to the same merge; () without a base."""
        if self.inputs.base is None:
            return ()
        return (replace(self.inputs.recipe(), parameters=self.resolved_parameters()),)

    def models_key(self) -> RecipeKey:
        """Equal for inputs with the same task vectors under the same names."""
        return (*_models(self.inputs), self.inputs.names)

    def resolved_parameters(self) -> dict[str, ParameterValue]:
        """Every parameter of the chosen method with the value in force, as far as it is known."""
        names = dict.fromkeys(self.inputs.touched)
        if self.plan is not None and self.plan.recipe.merge_method == self.inputs.method:
            names = {**dict.fromkeys(self.plan.parameters), **names}
        values = ((name, self.parameter(name)) for name in names)
        return {name: value for name, value in values if value is not None}

    def row(self, name: str) -> PlanRow | None:
        """The plan's row of a tensor."""
        return self._rows.get(name)

    def gamma(self, name: str) -> float | None:
        """γ of a tensor, where it has one and it is known."""
        statistics = self.statistics.get(name)
        return statistics.gamma if statistics else None

    @property
    def most_heterogeneous(self) -> str | None:
        """The merged tensor with the largest γ."""
        known = [(self.gamma(row.name), row.name) for row in self.merged_rows]
        return max(((g, n) for g, n in known if g is not None), default=(0.0, None))[1]

    @property
    def merged_rows(self) -> list[PlanRow]:
        """The tensors that the recipe's method itself merges, in the model's order."""
        return [
            row
            for row in self.rows
            if row.disposition is Disposition.MERGED
            and (row.override is None or row.override.method == self.inputs.method)
        ]

    def has_spectrum(self, row: PlanRow) -> bool:
        """Whether there is a spectrum to ask for: the method merges this matrix."""
        merged = row.disposition is Disposition.MERGED
        return merged and len(row.shape) == 2 and bool(row.experts)

    # Checks

    def _gather_checks(self) -> None:
        found = self.plan.checks if self.plan is not None else ()
        if self.plan is not None and self.memory_bytes is not None:
            needed = self.plan.peak_bytes, self.plan.largest_tensor
            found = replaced(found, memory_check(*needed, self.memory_bytes, limited=True))
        if self.plan is not None and self.is_analysed:
            recipe = self.plan.recipe
            weights = dict(zip(recipe.expert_names, recipe.weights, strict=True))
            alike = equally_weighted(self.statistics, self.rows, recipe.weights)
            found = worst_first((*found, *fit_checks(alike, weights)))
        self.checks.replace(found)

    def limit_memory(self, memory_bytes: int | None) -> None:
        """What a merge may use; None: what is free."""
        self.memory_bytes = memory_bytes
        self._gather_checks()

    # The engine

    def set_engine(self, engine: EngineReady) -> None:
        """The engine is up and has said what it can do."""
        self.engine = engine
        self.engine_changed.emit()

    # Inputs and plan

    def propose(self, inputs: Inputs) -> None:
        """Show a change; ``adopt`` or ``reject`` follows where it needs a plan."""
        if inputs == self.inputs:
            return
        before = self.tau
        self.inputs = inputs
        self._tau_preview = None
        self.inputs_changed.emit()
        if self.tau != before:
            self.tau_changed.emit(self.tau)
        self.merge_changed.emit()

    def keep(self, inputs: Inputs) -> None:
        """A change that needs no plan: it is good as it stands."""
        self._planned_inputs = inputs
        self.propose(inputs)

    def set_parameter(self, name: str, value: ParameterValue | None) -> None:
        """Set a parameter, or leave it to its default. It holds whatever becomes of proposals."""
        if self._planned_inputs.method == self.inputs.method:
            self._planned_inputs = self._planned_inputs.with_parameter(name, value)
        self._tau_preview = None
        self.propose(self.inputs.with_parameter(name, value))

    def adopt(self, inputs: Inputs, plan: Plan) -> None:
        """The inputs are good, and this is their plan. Statistics stay where they still hold.

        ``rows`` stays the same tuple where the same method does the same with every tensor.
        """
        before, shown, selected = self._planned_inputs, self.inputs, self.selection
        if _models(inputs) != _models(before):
            self.statistics = {}
            self.accuracies = {}
            self.checks.ask_again()
        elif inputs.names != before.names:
            self._rename(dict(zip(before.names, inputs.names, strict=True)))
        rows, known = model_order(plan.rows), self.plan
        other_method = known is None or known.recipe.merge_method != plan.recipe.merge_method
        if other_method or rows != self.rows:
            self.rows = rows
        self.plan = plan
        self._rows = {row.name: row for row in plan.rows}
        self._planned_inputs = self.inputs = inputs
        self._tau_preview = None
        if self.selection not in self._rows:
            self.selection = None
        self._gather_checks()
        if inputs != shown:
            self.inputs_changed.emit()
        self.plan_changed.emit()
        if self.selection != selected:
            self.selection_changed.emit()
        self.merge_changed.emit()
        self.state_changed.emit()

    def reject(self) -> None:
        """The inputs lead nowhere: back to those of the plan."""
        self.propose(self._planned_inputs)
        self.state_changed.emit()

    def close(self) -> None:
        """Unload everything; the engine stays."""
        self.plan, self.rows, self._rows, self.selection = None, (), {}, None
        self.statistics, self.accuracies = {}, {}
        self.findings.clear()
        self._analysed = ()
        self.checks.ask_again()
        self._gather_checks()
        self.inputs = self._planned_inputs = Inputs(method=self.inputs.method)
        for signal in (self.inputs_changed, self.plan_changed, self.selection_changed):
            signal.emit()
        self.state_changed.emit()

    def preview_tau(self, tau: float) -> None:
        """The threshold while it is dragged: regimes follow, the recipe does not yet."""
        if tau != self.tau:
            self._tau_preview = tau
            self.tau_changed.emit(tau)

    # What the engine found out

    @property
    def analysis_key(self) -> tuple[object, ...]:
        """What the statistics depend on."""
        inputs = self.inputs
        return (*_models(inputs), inputs.scope, inputs.overrides, self.has_gamma)

    @property
    def is_analysed(self) -> bool:
        """Whether the statistics of what is loaded are complete."""
        return self._analysed in (self.analysis_key, (*self.analysis_key[:-1], True))

    def finish_analysis(self) -> None:
        """Every statistic of what is loaded is known."""
        self._analysed = self.analysis_key
        self._gather_checks()
        self.layers_changed.emit()

    def record_statistics(self, statistics: LayerStatistics) -> None:
        """What the task vectors say of one tensor."""
        self.statistics[statistics.name] = statistics
        self.layer_changed.emit(statistics.name)

    def start_merge(self, run: MergeRun | None) -> None:
        """A merge begins, anew or resumed; None: there is no merge any more."""
        self.merge = run
        self.merge_changed.emit()

    def record_report(self, report: LayerReport) -> None:
        """One tensor is merged; its report fills in statistics that were not known."""
        if self.merge is None:
            return
        self.merge.reports[report.name] = report
        if report.name not in self.statistics and report.energies is not None:
            known = LayerStatistics(name=report.name, energies=report.energies, gamma=report.gamma)
            self.statistics[report.name] = known
        self.layer_changed.emit(report.name)

    def finish_merge(self, finished: MergeFinished) -> None:
        """Every tensor is in the store."""
        if self.merge is not None:
            self.merge.finished = finished
            self.merge_changed.emit()

    def spectrum(self, name: str) -> LayerSpectrum | None:
        """The spectrum of a tensor under what is chosen now, if it is known."""
        return self.findings.get(LayerSpectrum, name, self.recipe_key())

    def expert_spectra(self, name: str) -> ExpertSpectra | None:
        """The experts' spectra of a tensor, whatever the recipe, if they are known."""
        return self.findings.get(ExpertSpectra, name, self.models_key())

    def record_accuracy(self, accuracy: SampleAccuracy) -> None:
        """Held-out accuracy of one of the sample's models."""
        self.accuracies[accuracy.model] = accuracy
        self.accuracy_changed.emit()

    # What is going on

    def select(self, name: str | None) -> None:
        """Select a tensor, everywhere."""
        if name != self.selection and (name is None or name in self._rows):
            self.selection = name
            self.selection_changed.emit()

    def begin(self, state: State) -> None:
        """A job of this kind is running."""
        self._running.add(state)
        self.state_changed.emit()

    def end(self, state: State) -> None:
        """The job of this kind has ended, well or not."""
        self._running.discard(state)
        if self.progress is not None and self.progress.state is state:
            self.set_progress(None)
        self.state_changed.emit()

    def set_progress(self, progress: Progress | None) -> None:
        """How far the running job is."""
        self.progress = progress
        self.progress_changed.emit()

    def fail(self, error: WorkbenchError) -> None:
        """Tell the person; what is loaded stays loaded."""
        self.problem.emit(error)

    def _rename(self, names: Mapping[str, str]) -> None:
        for name, known in self.statistics.items():
            energies = {names.get(expert, expert): e for expert, e in known.energies.items()}
            left_out = tuple(names.get(expert, expert) for expert in known.left_out)
            self.statistics[name] = replace(known, energies=energies, left_out=left_out)


def _models(inputs: Inputs) -> tuple[object, ...]:
    """What the statistics are of: energies are weighted."""
    experts = tuple((expert.path, expert.weight) for expert in inputs.experts)
    return (inputs.base, experts, *inputs.of_task_vectors())
