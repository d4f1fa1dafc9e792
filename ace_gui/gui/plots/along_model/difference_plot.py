"""The difference between two merges, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.figures.findings import LayerDifference
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.layer_plot import (
    LayersPlot,
    block_of,
    block_starts,
    nearest_point,
    symbol_size,
)
from ace_gui.gui.plots.frame.axes import BlockAxis
from ace_gui.gui.plots.frame.base_plot import quantity_axis
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Choose two merges to compare."
RELATIVE_TIP: Final = (
    "‖W₁ − W₂‖ over the mean of ‖W₁ − W₀‖ and ‖W₂ − W₀‖, Frobenius norms: 0: equal, 2: opposite "
    "changes of the same size"
)
_NEAR: Final = 14.0  # pixels


class DifferencePlot(LayersPlot):
    """The relative difference of every layer, from the model's input to its output."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = BlockAxis()
        self._bottom.set_titles("layer, input → output (numbers: block)", "layer")
        self._left = quantity_axis("left", "relative difference", "difference", grid=True)
        self._differences: dict[str, LayerDifference] = {}
        super().__init__(
            name="Difference of two merges by layer",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            logarithmic=False,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self._points = pg.ScatterPlotItem(pxMode=True, symbol="o")
        self._mark = pg.InfiniteLine(angle=90, movable=False)
        for item in (self._points, self._mark):
            self.canvas.addItem(item, ignoreBounds=True)
        self.restyle(self.theme)

    def show_differences(
        self, names: Sequence[str], differences: Mapping[str, LayerDifference]
    ) -> None:
        """Show those layers of ``names`` whose difference is known."""
        known = [name for name in names if name in differences]
        same = self._set_names(known)
        self._differences = dict(differences)
        self.title.set_whole(summary(differences))
        if not same:
            self._bottom.set_blocks(
                block_starts([block_of(name) for name in known]),
                len([block_of(name) for name in known]),
            )
        self._draw()
        if not same:
            self.fit()
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of the layers."""
        self.set_busy(False)
        self._set_names(())
        self._differences = {}
        self.show_message(message or EMPTY)

    def columns(self) -> tuple[FigureColumn, ...]:
        """The differences as a table, one row per layer."""
        found = [self._differences[name] for name in self._names]
        figures: dict[str, tuple[list[float], str]] = {
            "relative difference": (self._relative().tolist(), RELATIVE_TIP),
            "cosine": (
                [d.cosine for d in found],
                "Cosine of the two changes W₁ − W₀, W₂ − W₀",
            ),
            "‖first‖": ([d.first_norm for d in found], "Frobenius norm ‖W₁ − W₀‖"),
            "‖second‖": ([d.second_norm for d in found], "Frobenius norm ‖W₂ − W₀‖"),
            "‖difference‖": (
                [d.difference_norm for d in found],
                "Frobenius norm ‖W₁ − W₂‖",
            ),
        }
        return (
            FigureColumn(title="layer", values=self._names),
            *(
                FigureColumn(title=title, values=np.array(values), tip=tip)
                for title, (values, tip) in figures.items()
            ),
        )

    def name_at(self, row: int) -> str:
        """The layer in a row of ``columns``."""
        return self._names[row]

    def row_of(self, name: str | None) -> int | None:
        """The row of a layer in ``columns``."""
        return self._index.get(name) if name is not None else None

    def fit(self) -> None:
        view, count = self.canvas.getViewBox(), len(self._names)
        pad = max(0.5, 0.012 * count)
        view.setLimits(xMin=-0.5 - pad, xMax=count - 0.5 + pad)
        view.setXRange(-0.5 - pad, count - 0.5 + pad, padding=0)
        self._fit_heights()

    def rescale(self) -> None:
        self._left.logarithmic = self.log_box.isChecked()
        self._left.picture = None
        self._draw()

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        self._points.setBrush(pg.mkBrush(self.theme.accent))
        self._points.setPen(pg.mkPen(None))
        self._mark.setPen(pg.mkPen(self.theme.text2, width=1, style=Qt.PenStyle.DotLine))

    # Drawing

    def _heights(self) -> NDArray[np.float64]:
        values = self._relative()
        if not self.log_box.isChecked():
            return values
        return np.log10(np.where(values > 0, values, np.nan))

    def _draw(self) -> None:
        heights = self._heights()
        shown = np.isfinite(heights)
        size = symbol_size(len(self._names))
        self._points.setData(x=np.flatnonzero(shown), y=heights[shown], size=size)
        self._fit_heights()
        self._draw_selection()

    def _fit_heights(self) -> None:
        heights = self._heights()
        known = heights[np.isfinite(heights)]
        if known.size:
            low = float(known.min()) if self.log_box.isChecked() else 0.0
            high = max(float(known.max()), low + (0.5 if self.log_box.isChecked() else 1e-9))
            self.canvas.getViewBox().setYRange(low, high, padding=0.08)

    def _draw_selection(self) -> None:
        index = self._selected
        self._mark.setVisible(index is not None)
        if index is not None:
            self._mark.setValue(index)
        self.caption.set_whole(self._hint() if index is None else self._describe(index))
        self.setAccessibleDescription(f"{self.title.whole}. {self.caption.whole}")

    def _hint(self) -> str:
        if not self._names:
            return ""
        return f"Most: {self._describe(int(np.argmax(self._relative())))}"

    def _relative(self) -> NDArray[np.float64]:
        return np.array([relative(self._differences[name]) for name in self._names])

    def _describe(self, index: int) -> str:
        difference = self._differences[self._names[index]]
        share, cosine = number_text(relative(difference), 3), number_text(difference.cosine, 3)
        return f"{difference.name}: relative difference {share}, cosine {cosine}"

    def nearest(self, scene_position: QPointF) -> int | None:
        """Index of the layer whose symbol is near."""
        x = np.arange(len(self._names), dtype=np.float64)
        return nearest_point(self, scene_position, x, self._heights(), _NEAR)


def relative(difference: LayerDifference) -> float:
    """‖W₁ − W₂‖ over the mean norm of both changes; 0 if neither changed anything."""
    mean = (difference.first_norm + difference.second_norm) / 2
    return difference.difference_norm / mean if mean > 0 else 0.0


def summary(differences: Mapping[str, LayerDifference]) -> str:
    """The difference over all layers."""
    if not differences:
        return ""
    squares = np.array(
        [[d.difference_norm, d.first_norm, d.second_norm] for d in differences.values()]
    )
    distance, first, second = np.linalg.norm(squares, axis=0)
    if distance == 0:
        return "The two merges are equal."
    whole = distance / ((first + second) / 2)
    return f"Relative difference over the model: {number_text(float(whole), 3)}"
