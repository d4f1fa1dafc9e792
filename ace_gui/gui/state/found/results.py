"""Results of the recipe: the merge, earlier merges, findings about layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import MergeFinished
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.found.known_scores import KnownScores
from ace_gui.gui.state.found.layer_results import Findings
from ace_gui.gui.state.found.learning_curves import LearningCurves
from ace_gui.gui.state.found.runs import Runs
from ace_gui.gui.state.found.two_merges import Comparison
from ace_gui.recipe.values import ParameterValue


@dataclass(frozen=True, kw_only=True)
class ChosenByTrying:
    """Tuned parameters of a method. ``note`` describes the search, for the recipe."""

    method: str
    parameters: Mapping[str, ParameterValue]
    note: str


class Results(QObject):
    """``changed`` follows when a merge begins, finishes, or is evaluated.

    ``merge``: the latest, finished, running or interrupted. ``runs``: the finished ones.
    ``scores``: of the models on the tasks. ``learning``: the curves of a learning merge.
    ``chosen``: the parameters tuned last.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.merge: MergeRun | None = None
        self.runs = Runs(self)
        self.findings = Findings(self)
        self.comparison = Comparison(self)
        self.scores = KnownScores(self)
        self.learning = LearningCurves(self)
        self.chosen: ChosenByTrying | None = None
        self.runs.changed.connect(lambda: self.comparison.retain(self.runs.all))

    def note_on(self, inputs: Inputs) -> str:
        """How the parameters of these inputs were tuned; empty if they were not."""
        chosen = self.chosen
        if chosen is None or chosen.method != inputs.method:
            return ""
        now = inputs.touched
        same = all(now.get(name) == value for name, value in chosen.parameters.items())
        return chosen.note if same else ""

    @property
    def is_merged(self) -> bool:
        """Whether the latest merge is finished."""
        return self.merge is not None and self.merge.finished is not None

    def start_merge(self, run: MergeRun | None) -> None:
        """A merge begins or is resumed; None: there is no merge any more."""
        self.merge = run
        self.changed.emit()

    def finish_merge(self, finished: MergeFinished) -> None:
        """Every tensor is in the store."""
        if self.merge is not None:
            self.merge.finished = finished
            self.changed.emit()
