"""The distribution of γ by role (ACE, Fig. 1): the kinds of layers that experts disagree in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.gui.plots.along_model.gamma_plot import GammaPlot
from ace_gui.gui.plots.frame.axes import NameColumnsAxis
from ace_gui.gui.theme import Tokens

STRIP = 0.66  # the part of a role's width that its layers cover, from input to output
BOX = 0.8


class RolePlot(GammaPlot):
    """One strip of symbols per role, from input to output, over a box of its quartiles."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = NameColumnsAxis()
        self._bottom.setLabel("role (in each: layers, input → output; box: quartiles and median)")
        self._role_names: tuple[str, ...] = ()
        self._role = np.zeros(0, dtype=np.intp)
        self._boxes: list[pg.GraphicsObject] = []
        super().__init__(name="Heterogeneity by role", bottom=self._bottom, parent=parent)

    def _extent(self) -> tuple[float, float, float]:
        return -0.6, max(len(self._role_names), 1) - 0.4, 1.2

    def restyle(self, before: Tokens) -> None:
        super().restyle(before)
        self._draw_boxes()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._bottom.set_names([*self._role_names], self.width())

    def _place(self) -> None:
        self._role_names = tuple(dict.fromkeys(self._roles))
        indices = {role: index for index, role in enumerate(self._role_names)}
        self._role = np.array([indices[role] for role in self._roles], dtype=np.intp)
        self._x = self._role.astype(np.float64)
        for index in range(len(self._role_names)):
            chosen = np.flatnonzero(self._role == index)
            depth = (np.arange(chosen.size) + 0.5) / chosen.size - 0.5
            self._x[chosen] += STRIP * depth
        self._bottom.set_names([*self._role_names], self.width())

    def _walk(self) -> Sequence[int]:
        return [int(index) for index in np.argsort(self._x, kind="stable")]

    def _refresh(self) -> None:
        super()._refresh()
        self._draw_boxes()

    def quartiles(self) -> NDArray[np.float64]:
        """Roles × 3: the quartiles of γ for every role, NaN if no γ is known."""
        found = np.full((len(self._role_names), 3), np.nan)
        for index in range(len(self._role_names)):
            gamma = self._gamma[self._role == index]
            if not np.isnan(gamma).all():
                found[index] = np.nanpercentile(gamma, (25, 50, 75))
        return found

    def _draw_boxes(self) -> None:
        for item in self._boxes:
            self.canvas.removeItem(item)
        drawn = [
            (index, [self._position(float(value)) for value in row])
            for index, row in enumerate(self.quartiles())
            if not np.isnan(row).any()
        ]
        tint = QColor(self.theme.text2)
        tint.setAlpha(46)
        indices = [index for index, _ in drawn]
        box = pg.BarGraphItem(
            x=indices,
            y0=[low for _, (low, _, _) in drawn],
            y1=[high for _, (_, _, high) in drawn],
            width=BOX,
            brush=tint,
            pen=pg.mkPen(self.theme.text2, width=1),
        )
        ends = np.array([[index - BOX / 2, index + BOX / 2] for index in indices]).ravel()
        heights = np.repeat([middle for _, (_, middle, _) in drawn], 2)
        pen = pg.mkPen(self.theme.text, width=2)
        median = pg.PlotDataItem(ends, heights, connect="pairs", pen=pen)
        self._boxes = [box, median]
        for item in self._boxes:
            item.setZValue(-1)
            self.canvas.addItem(item, ignoreBounds=True)
