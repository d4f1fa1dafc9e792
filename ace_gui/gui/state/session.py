"""The state of the window as a whole, without widgets and processes, and its checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import EngineReady
from ace_gui.engine.contract.findings import (
    ExpertSpectra,
    LayerReport,
    LayerSpectrum,
    LayerStatistics,
)
from ace_gui.engine.contract.model_figures import fit_checks, plan_changes
from ace_gui.engine.contract.plan import Check, CheckVerdict, Plan, replaced, worst_first
from ace_gui.errors import NonFiniteError, WorkbenchError
from ace_gui.formatting import counted
from ace_gui.gui.state.activity import Activity, ActivityState, Level, Log, LogSource
from ace_gui.gui.state.draft import Draft, Inputs
from ace_gui.gui.state.planned_layers import PlannedLayers
from ace_gui.gui.state.results import Results
from ace_gui.gui.text import error_details
from ace_gui.recipe.task_kinds import kind_of_class

NO_MODEL: Final = "Open a base model first."
NO_EXPERT: Final = "Add an expert first."
WAIT: Final = "Wait for the merge or the export to end, or cancel it."
STILL_READ: Final = "The models are still being read."


class Checks(QObject):
    """The checks of the plan, the worst first. After the experts are compared, they also say
    whether the experts fit the base."""

    changed = Signal()
    all: tuple[Check, ...] = ()
    _accepted: frozenset[object] = frozenset()

    @property
    def worries(self) -> tuple[Check, ...]:
        """Warnings and errors that have not been accepted."""
        return tuple(c for c in self.all if c.is_worry and c.key not in self._accepted)

    @property
    def errors(self) -> tuple[Check, ...]:
        """Checks that would make a merge fail and cannot be accepted."""
        return tuple(check for check in self.all if check.verdict is CheckVerdict.ERROR)

    @property
    def summary(self) -> str:
        """``2 warnings``, or that all have passed; empty before there is a plan."""
        if self.all:
            passed = counted(len(self.all), "check passed", "checks passed")
        else:
            passed = ""
        return count_of(self.all) or passed

    def accept(self) -> None:
        """Accept the current warnings: the user has seen them and wants to merge anyway."""
        self._accepted |= {check.key for check in self.worries} - {c.key for c in self.errors}
        self.changed.emit()

    def replace(self, checks: tuple[Check, ...], *, ask_again: bool = False) -> None:
        """Set the checks. ``ask_again``: forget accepted warnings, because of other models."""
        if ask_again:
            self._accepted = frozenset()
        if checks != self.all:
            self.all = checks
            self.changed.emit()


def count_of(checks: Iterable[Check]) -> str:
    """``1 error, 2 warnings``, or an empty string."""
    verdicts = [check.verdict for check in checks]
    errors = verdicts.count(CheckVerdict.ERROR)
    warnings = verdicts.count(CheckVerdict.WARNING)
    if errors:
        parts = [counted(errors, "error", "errors")]
    else:
        parts = []
    parts += [counted(warnings, "warning", "warnings")] if warnings else []
    return ", ".join(parts)


def checks_of(
    plan: Plan | None,
    memory_bytes: int | None,
    statistics: Mapping[str, LayerStatistics] | None,
    gpu_memory: int = 0,
) -> tuple[Check, ...]:
    """The checks of a plan for a merge in this window, which always keeps the whole model.

    ``memory_bytes``: a merge's memory limit, None for all free memory. ``statistics``: None until
    the experts are compared. ``gpu_memory``: of the chosen GPU, 0 for the CPU.
    """
    if plan is None:
        return ()
    checks = plan.checks
    if memory_bytes is not None or gpu_memory:
        checks = replaced(checks, plan.memory_check(memory_bytes, gpu_memory))
    if statistics is not None:
        checks = worst_first((*checks, *fit_checks(plan_changes(plan, statistics))))
    return checks


CLUSTER: Final = "cluster:"
"""Prefix of a cluster's address in a device name."""


class Session(QObject):
    """The parts of the window's state, and the steps that involve several of them.

    ``draft``: the inputs and their plan. ``layers``: the plan's tensors. ``activity``: running
    work. ``results``: the merges and findings. ``log``: the messages. Each part has its own
    signals. They are sent after all parts are up to date, so nothing depends on their order.

    ``problem`` carries a WorkbenchError, ``advice`` a sentence, ``written`` a sentence and the file
    that it is about.

    Panels send requests to the controllers: ``inputs_wanted`` carries other Inputs,
    ``parameter_wanted`` a name and a value (None: the default), ``finding_wanted`` a kind of
    finding and whether a visible panel shows it, ``spectra_wanted`` rows and the function that gets
    their spectra. ``data_wanted``: the user wants to add data for the tasks. ``try_wanted``
    carries an example and the title of its task.
    """

    engine_changed = Signal()
    selection_changed = Signal()
    problem = Signal(object)
    advice = Signal(str)
    written = Signal(str, object)
    inputs_wanted = Signal(object)
    parameter_wanted = Signal(str, object)
    finding_wanted = Signal(object, bool)
    spectra_wanted = Signal(object, object)
    data_wanted = Signal()
    try_wanted = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.engine: EngineReady | None = None
        self.device = "auto"
        self.cluster = ""
        self.memory_bytes: int | None = None
        self.selection: str | None = None
        self.draft = Draft(self)
        self.layers = PlannedLayers(self.draft, self)
        self.checks = Checks(self)
        self.activity = Activity(self)
        self.results = Results(self)
        self.log = Log(self)
        self._refused: tuple[Check, ...] = ()
        for signal in (self.written, self.advice):
            signal.connect(lambda text, *_: self.log.add(Level.INFO, LogSource.WINDOW, text))
        self.draft.changed.connect(lambda: self.results.scores.follow(self.draft.inputs))

    # Queries

    @property
    def state(self) -> ActivityState:
        """The most important running work, or without any the stage of the project."""
        if (running := self.activity.foremost) is not None:
            return running
        if self.results.is_merged:
            return ActivityState.MERGED
        if self.draft.plan is not None:
            return ActivityState.READY
        return ActivityState.EMPTY

    @property
    def can_merge(self) -> bool:
        """Whether there is a plan with experts and nothing prevents a merge."""
        return not self.merge_obstacle

    @property
    def merge_obstacle(self) -> str:
        """The reason why no merge can begin now, or an empty string."""
        plan = self.draft.plan
        inputs = self.draft.inputs
        if self.activity.is_writing:
            return WAIT
        if plan is None or self.activity.is_running(ActivityState.PLANNING):
            if inputs.experts:
                return STILL_READ
            if inputs.base:
                return NO_EXPERT
            return NO_MODEL
        if plan.experts:
            return ""
        return NO_EXPERT

    @property
    def can_export(self) -> bool:
        """Whether there is a finished merge and nothing is merging or exporting."""
        busy = self.activity.is_writing
        return self.results.is_merged and not busy

    @property
    def can_report(self) -> bool:
        """Whether there is a finished merge and no report is being written."""
        return self.can_export and not self.activity.is_running(ActivityState.REPORTING)

    @property
    def writes_text(self) -> bool:
        """Whether the open models generate text."""
        plan = self.draft.plan
        if plan is None:
            kind = None
        else:
            kind = kind_of_class(plan.base.architecture)
        return kind is not None and kind.traits.writes

    @property
    def merge_is_current(self) -> bool:
        merge = self.results.merge
        return merge is not None and merge.key == self.draft.recipe_key()

    @property
    def can_resume(self) -> bool:
        """Whether there is an unfinished merge of exactly this recipe."""
        return self.merge_is_current and not self.results.is_merged

    @property
    def must_learn(self) -> bool:
        """Whether layers can be known only after the merge, because its method learns."""
        method = self.draft.method
        key = self.draft.recipe_key()
        learns = method is not None and method.learns
        return learns and self.results.runs.store_of(key) is None

    def spectrum(self, name: str) -> LayerSpectrum | None:
        """The spectrum of a tensor for the current inputs, or None."""
        return self.results.findings.get(LayerSpectrum, name, self.draft.recipe_key())

    def expert_spectra(self, name: str) -> ExpertSpectra | None:
        """The experts' spectra of a tensor, which do not depend on the recipe, or None."""
        return self.results.findings.get(ExpertSpectra, name, self.draft.models_key())

    # Updates

    def set_engine(self, engine: EngineReady) -> None:
        self.engine = engine
        self.draft.set_methods(self.engine.methods)
        self.engine_changed.emit()

    def adopt(self, inputs: Inputs, plan: Plan | None) -> None:
        """Adopt valid inputs and their plan; None if everything is unloaded."""
        vectors_changed = inputs.task_vectors != self.draft.planned.task_vectors
        self._refused = ()
        self.layers.take(inputs, plan)
        selected = self.selection
        row = self.layers.row(self.selection)
        if row is not None:
            self.selection = row.name
        else:
            self.selection = None
        with self.draft.adopting(inputs, plan):
            self._gather_checks(ask_again=vectors_changed)
        if self.selection != selected:
            self.selection_changed.emit()

    def close(self) -> None:
        """Unload everything; the engine stays. The recommended merge is chosen again."""
        self.results.findings.clear()
        self.adopt(Inputs().recommended(), None)

    @property
    def chosen_device(self) -> str:
        """The argument for ``choose_device``."""
        if self.cluster:
            return CLUSTER + self.cluster
        return self.device

    def choose_device(self, name: str) -> None:
        """Choose where to merge: ``auto``, an engine's device name, or ``cluster:ADDRESS`` for the
        workers of a cluster. A cluster does not change the device of other work."""
        if name.startswith(CLUSTER):
            self.cluster = name.removeprefix(CLUSTER)
        else:
            self.cluster = ""
        if not self.cluster:
            self.device = name
        self._gather_checks()

    def limit_memory(self, memory_bytes: int | None) -> None:
        self.memory_bytes = memory_bytes
        self._gather_checks()

    def finish_analysis(self) -> None:
        """Note that all statistics of what is loaded are known."""
        self.layers.set_analysed()
        self._gather_checks()
        self.layers.learnt.emit("")

    def refuse_values(self, error: NonFiniteError) -> None:
        """Add a check that fails: a tensor has NaN or Inf, at which a merge would stop."""
        self._refused = (Check("Values", error.sentence, CheckVerdict.ERROR),)
        self._gather_checks()

    def record_report(self, report: LayerReport) -> None:
        if self.results.merge is not None:
            self.results.merge.reports[report.name] = report
            self.layers.record_report(report)

    def select(self, name: str | None) -> None:
        """Select a tensor in all views."""
        if name != self.selection and (name is None or self.layers.row(name) is not None):
            self.selection = name
            self.selection_changed.emit()

    def fail(self, error: WorkbenchError) -> None:
        """Report an error to the user; what is loaded stays."""
        self.log.add(Level.ERROR, LogSource.WINDOW, error.sentence, error_details(error))
        self.problem.emit(error)

    def _gather_checks(self, *, ask_again: bool = False) -> None:
        if self.layers.is_analysed:
            statistics = self.layers.statistics
        else:
            statistics = None
        if self.engine is not None:
            devices = self.engine.devices
        else:
            devices = ()
        chosen = [device for device in devices if self.device in {"auto", device.name}]
        # The memory of the chosen GPU, or of the smallest if the engine chooses.
        gpu_memory = min(
            (device.memory_bytes for device in chosen if device.memory_bytes), default=0
        )
        checks = checks_of(self.draft.plan, self.memory_bytes, statistics, gpu_memory)
        self.checks.replace((*self._refused, *checks), ask_again=ask_again)
