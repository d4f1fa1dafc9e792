"""Learning curves of a method: losses by task, figures by expert."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import LearningProgress


class LearningCurves(QObject):
    """Of the latest merge that learned. ``losses`` by task, ``figures`` by expert, one per step.

    ``curve`` is the kind of the figures. ``changed`` follows new steps, at most ten times a second.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.losses: dict[str, list[float]] = {}
        self.figures: dict[str, list[float]] = {}
        self.curve = ""

    @property
    def is_empty(self) -> bool:
        """Whether no step is known."""
        return not self.figures

    def clear(self) -> None:
        """A merge begins, so no curves are known."""
        if not self.is_empty:
            self.losses, self.figures, self.curve = {}, {}, ""
            self.changed.emit()

    def take(self, event: LearningProgress) -> None:
        """Take new steps. Those from ``event.first`` on replace the existing ones."""
        self.curve = event.curve
        for known, news in ((self.losses, event.losses), (self.figures, event.figures)):
            for name, values in news.items():
                known.setdefault(name, [])[event.first :] = values
        self.changed.emit()
