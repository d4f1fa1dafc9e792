"""What came of the recipe: the merge, earlier merges, and what was found out about layers."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import MergeFinished, SampleAccuracy
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.finished_runs import FinishedRuns
from ace_gui.gui.state.layer_results import Findings
from ace_gui.gui.state.two_merges import Comparison


class Results(QObject):
    """``changed`` follows when there is another merge, it is finished, or accuracies are known.

    ``merge``: the latest, finished, running or interrupted. ``runs``: the finished ones.
    ``accuracies``: held out, by model, of the sample.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.merge: MergeRun | None = None
        self.runs = FinishedRuns(self)
        self.findings = Findings(self)
        self.comparison = Comparison(self)
        self.accuracies: dict[str, SampleAccuracy] = {}
        self.runs.changed.connect(lambda: self.comparison.retain(self.runs.all))

    @property
    def is_merged(self) -> bool:
        """Whether the latest merge is finished."""
        return self.merge is not None and self.merge.finished is not None

    def start_merge(self, run: MergeRun | None) -> None:
        """A merge begins, anew or resumed; None: there is no merge any more."""
        self.merge = run
        self.changed.emit()

    def finish_merge(self, finished: MergeFinished) -> None:
        """Every tensor is in the store."""
        if self.merge is not None:
            self.merge.finished = finished
            self.changed.emit()

    def record_accuracy(self, accuracy: SampleAccuracy) -> None:
        """Held-out accuracy of one of the sample's models."""
        self.accuracies[accuracy.model] = accuracy
        self.changed.emit()
