"""How well ACE's covariances match the experts' inputs, per matrix, as far as known."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.figures.covariance_match import CovarianceMatch
from ace_gui.gui.state.activity import RecipeKey


class Agreements(QObject):
    """``matches`` has one entry per expert for each matrix of the models and inputs in ``key``.

    ``changed`` follows each matrix.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.key: RecipeKey = ()
        self.matches: dict[str, tuple[CovarianceMatch, ...]] = {}

    def record(self, key: RecipeKey, name: str, matches: tuple[CovarianceMatch, ...]) -> None:
        """Record one matrix. Results of other models or inputs are dropped."""
        if key != self.key:
            self.key, self.matches = key, {}
        if self.matches.get(name) != matches:
            self.matches[name] = matches
            self.changed.emit()

    def of(self, key: RecipeKey) -> dict[str, tuple[CovarianceMatch, ...]]:
        """The matches of these models and inputs."""
        return self.matches if key == self.key else {}
