"""Comparison of two finished merges, as far as their difference is known."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.figures.findings import LayerDifference
from ace_gui.gui.state.activity import MergeRun


class Comparison(QObject):
    """``wanted`` follows when two other merges are to be compared; ``changed`` carries a layer.

    ``differences`` by layer, without spectra, as they arrive. ``spectra`` of the layers that were
    viewed.
    """

    wanted = Signal()
    changed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.first: MergeRun | None = None
        self.second: MergeRun | None = None
        self.differences: dict[str, LayerDifference] = {}
        self.spectra: dict[str, LayerDifference] = {}

    @property
    def pair(self) -> tuple[MergeRun, MergeRun] | None:
        """The two merges, or None unless there are two different ones."""
        if self.first is None or self.second is None or self.first is self.second:
            return None
        return self.first, self.second

    def compare(self, first: MergeRun | None, second: MergeRun | None) -> None:
        """Compare these two merges; None: nothing to compare."""
        if (first, second) == (self.first, self.second):
            return
        self.first, self.second = first, second
        self.differences, self.spectra = {}, {}
        self.wanted.emit()

    def retain(self, runs: Sequence[MergeRun]) -> None:
        """Drop the comparison if one of the two is not among ``runs``."""
        if not (self.first in runs and self.second in runs):
            self.compare(None, None)

    def record(self, difference: LayerDifference) -> None:
        """Record one layer's difference."""
        self.differences[difference.name] = difference
        if difference.first is not None:
            self.spectra[difference.name] = difference
        self.changed.emit(difference.name)
