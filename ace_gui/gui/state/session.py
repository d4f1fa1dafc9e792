"""What the window knows as a whole. Knows no widget and no process."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import EngineReady
from ace_gui.engine.contract.figures.findings import ExpertSpectra, LayerReport, LayerSpectrum
from ace_gui.engine.contract.plan import Plan
from ace_gui.errors import WorkbenchError
from ace_gui.gui.state.activity import Activity, State
from ace_gui.gui.state.checks import Checks, checks_of
from ace_gui.gui.state.chosen.draft import Draft
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.found.planned_layers import PlannedLayers
from ace_gui.gui.state.found.results import Results
from ace_gui.gui.state.log import Level, Log, Source
from ace_gui.gui.text import error_details

CLUSTER: Final = "cluster:"
"""Before the address of a cluster, where a device is named."""


class Session(QObject):
    """The parts of the window's state, and what takes several of them to say or to do.

    ``draft``: the inputs and their plan; ``layers``: the plan's tensors; ``checks``; ``activity``:
    what runs; ``results``: the merges and findings; ``log``: what was said. Each part has its own
    signals. They are sent when every part is up to date, so that nothing depends on their order.

    ``problem`` carries a WorkbenchError, ``advice`` a sentence, ``written`` a sentence and the file
    that it is about.
    """

    engine_changed = Signal()
    selection_changed = Signal()
    problem = Signal(object)
    advice = Signal(str)
    written = Signal(str, object)

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
        self.written.connect(lambda said, _: self.log.add(Level.INFO, Source.WINDOW, said))
        self.advice.connect(lambda said: self.log.add(Level.INFO, Source.WINDOW, said))
        self.draft.changed.connect(lambda: self.results.scores.follow(self.draft.inputs))

    # What is so

    @property
    def state(self) -> State:
        """The most important thing going on, else how far the person has come."""
        if (running := self.activity.foremost) is not None:
            return running
        if self.results.is_merged:
            return State.MERGED
        return State.READY if self.draft.plan is not None else State.EMPTY

    @property
    def can_merge(self) -> bool:
        """There is a plan with experts, and nothing in the way."""
        plan = self.draft.plan
        busy = self.activity.is_running(State.MERGING, State.EXPORTING, State.PLANNING)
        return plan is not None and bool(plan.experts) and not busy

    @property
    def can_export(self) -> bool:
        """There is a finished merge and nothing is merging or exporting."""
        busy = self.activity.is_running(State.MERGING, State.EXPORTING)
        return self.results.is_merged and not busy

    @property
    def can_report(self) -> bool:
        """There is a finished merge to report on, and no report is being written."""
        return self.can_export and not self.activity.is_running(State.REPORTING)

    @property
    def merge_is_current(self) -> bool:
        """Whether the merge was made from what is chosen now."""
        merge = self.results.merge
        return merge is not None and merge.key == self.draft.recipe_key()

    @property
    def can_resume(self) -> bool:
        """Whether an unfinished merge of just this recipe waits in its store."""
        return self.merge_is_current and not self.results.is_merged

    @property
    def must_learn(self) -> bool:
        """Whether nothing is known of this merge before it is made, as its method learns."""
        method, key = self.draft.method, self.draft.recipe_key()
        learns = method is not None and method.learns
        return learns and self.results.runs.store_of(key) is None

    def spectrum(self, name: str) -> LayerSpectrum | None:
        """The spectrum of a tensor under what is chosen now, if it is known."""
        return self.results.findings.get(LayerSpectrum, name, self.draft.recipe_key())

    def expert_spectra(self, name: str) -> ExpertSpectra | None:
        """The experts' spectra of a tensor, whatever the recipe, if they are known."""
        return self.results.findings.get(ExpertSpectra, name, self.draft.models_key())

    # What happens

    def set_engine(self, engine: EngineReady) -> None:
        """The engine is up and has said what it can do."""
        self.engine = engine
        self.draft.set_methods(self.engine.methods)
        self.engine_changed.emit()

    def adopt(self, inputs: Inputs, plan: Plan | None) -> None:
        """The inputs are good, and this is their plan; None: everything is unloaded."""
        if inputs.task_vectors != self.draft.planned.task_vectors:
            self.checks.ask_again()
        self.layers.take(inputs, plan)
        selected, row = self.selection, self.layers.row(self.selection)
        self.selection = row.name if row is not None else None
        with self.draft.adopting(inputs, plan):
            self._gather_checks()
        if self.selection != selected:
            self.selection_changed.emit()

    def close(self) -> None:
        """Unload everything; the engine stays."""
        self.results.findings.clear()
        now = self.draft.inputs
        start = Inputs().recommended() if now.is_recommended else Inputs(method=now.method)
        self.adopt(start, None)

    @property
    def chosen_device(self) -> str:
        """As ``choose_device`` takes it."""
        return CLUSTER + self.cluster if self.cluster else self.device

    def choose_device(self, name: str) -> None:
        """Where to merge: ``auto``, an engine's name for a device, or ``cluster:ADDRESS`` for the
        workers of a cluster; what else is computed then stays where it was."""
        self.cluster = name.removeprefix(CLUSTER) if name.startswith(CLUSTER) else ""
        if not self.cluster:
            self.device = name
        self._gather_checks()

    def limit_memory(self, memory_bytes: int | None) -> None:
        """What a merge may use; None: what is free."""
        self.memory_bytes = memory_bytes
        self._gather_checks()

    def finish_analysis(self) -> None:
        """Every statistic of what is loaded is known."""
        self.layers.set_analysed()
        self._gather_checks()
        self.layers.learnt.emit("")

    def record_report(self, report: LayerReport) -> None:
        """One tensor is merged."""
        if self.results.merge is not None:
            self.results.merge.reports[report.name] = report
            self.layers.record_report(report)

    def select(self, name: str | None) -> None:
        """Select a tensor, everywhere."""
        if name != self.selection and (name is None or self.layers.row(name) is not None):
            self.selection = name
            self.selection_changed.emit()

    def fail(self, error: WorkbenchError) -> None:
        """Tell the person; what is loaded stays loaded."""
        self.log.add(Level.ERROR, Source.WINDOW, error.sentence, error_details(error))
        self.problem.emit(error)

    def _gather_checks(self) -> None:
        statistics = self.layers.statistics if self.layers.is_analysed else None
        found = checks_of(self.draft.plan, self.memory_bytes, statistics, self._gpu_memory())
        self.checks.replace(found)

    def _gpu_memory(self) -> int:
        """Of the chosen GPU; of the smallest where the engine chooses."""
        devices = self.engine.devices if self.engine is not None else ()
        chosen = [each for each in devices if self.device in {"auto", each.name}]
        return min((each.memory_bytes for each in chosen if each.memory_bytes), default=0)
