"""γ along the model: the layers that the experts disagree in, split by τ."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import QWidget

from ace_gui.gui.plots.along_model.gamma_plot import GammaPlot
from ace_gui.gui.plots.along_model.layer_plot import block_starts, columns_extent
from ace_gui.gui.plots.frame.axes import BlockAxis, block_spans


class HeterogeneityPlot(GammaPlot):
    """One symbol per layer, from the model's input to its output."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = BlockAxis()
        super().__init__(name="Heterogeneity along the model", bottom=self._bottom, parent=parent)

    def _extent(self) -> tuple[float, float, float]:
        return *columns_extent(len(self._names)), 4.0

    def _place(self) -> None:
        self._x = np.arange(len(self._names), dtype=np.float64)
        starts, count = block_starts(self._blocks), len(self._blocks)
        self._bottom.set_blocks(starts, count)
        self._bands.set_spans([span for span, _ in block_spans(starts, count)][::2])
