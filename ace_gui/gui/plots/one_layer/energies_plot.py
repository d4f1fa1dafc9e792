"""How much each expert changed one layer: ‖ΔW_t‖²_F by expert."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log10

import numpy as np
from PySide6.QtCore import QPointF
from PySide6.QtGui import QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.axes import NameAxis
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.canvas import room_at_end
from ace_gui.gui.theme import Tokens

EMPTY = "Choose a layer to see how much each expert changed it."
GAP = "\u2002"  # between a mark and its number
BAR = 0.62
_ENERGY_TIP = "Squared Frobenius norm of the expert's change: the sum of its squared entries"
_NORM_TIP = "Frobenius norm of the expert's change"


class EnergiesPlot(Plot):
    """One bar per expert, the first expert on top, with its energy next to it.

    On a logarithmic axis a bar's length means nothing, so there a dot marks the energy.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        self._names_axis = NameAxis()
        self._bottom = quantity_axis("bottom", "energy ‖ΔW‖²", "‖ΔW‖²", grid=True)
        self._energies: dict[str, float] = {}
        self._colours: dict[str, str] = {}
        self._numbers: list[pg.TextItem] = []
        super().__init__(
            name="Energy of each expert in the layer",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._names_axis,
            logarithmic=False,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=False, y=False)
        self.canvas.getViewBox().sigResized.connect(lambda _view: self.fit())
        self.canvas.scene().sigMouseMoved.connect(self._hovered)
        nothing = pg.mkPen(None)
        self.bars = pg.BarGraphItem(x0=0, y=[], width=[], height=BAR, pen=nothing)
        self.dots = pg.ScatterPlotItem(size=11, symbol="o", pen=nothing)
        for item in (self.bars, self.dots):
            self.canvas.addItem(item, ignoreBounds=True)

    def show_energies(
        self, name: str, energies: Mapping[str, float], colours: Mapping[str, str]
    ) -> None:
        """Draw ``energies`` of the layer ``name``; ``colours`` maps expert to "#rrggbb"."""
        self.set_busy(False)
        if not energies:
            self.clear("The energies of this layer are not known.")
            return
        shown = self.title.whole, self._energies, self._colours
        if (name, energies, colours) == shown and self.message() is None:
            return
        self._energies, self._colours = dict(energies), dict(colours)
        self.title.set_whole(name)
        self._draw()
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of the bars."""
        self.set_busy(False)
        self._energies = {}
        self.show_message(message or EMPTY)

    def columns(self) -> tuple[FigureColumn, ...]:
        """The energies and the norms of the experts as a table."""
        values = np.array(list(self._energies.values()), dtype=np.float64)
        return (
            FigureColumn(title="expert", values=tuple(self._energies)),
            FigureColumn(title="energy ‖ΔW‖²", values=values, tip=_ENERGY_TIP),
            FigureColumn(title="norm ‖ΔW‖", values=np.sqrt(values), tip=_NORM_TIP),
        )

    def restyle(self, before: Tokens) -> None:
        swap = dict(zip(before.expert_colours, self.theme.expert_colours, strict=True))
        self._colours = {name: swap.get(colour, colour) for name, colour in self._colours.items()}
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        if not self._energies:
            return
        view, count = self.canvas.getViewBox(), len(self._energies)
        view.invertY(True)
        view.setYRange(-0.7, count - 0.3, padding=0)
        low, high = self._span()
        metrics = QFontMetricsF(QApplication.font())
        longest = max(map(metrics.horizontalAdvance, map(_number, self._energies.values())))
        view.setXRange(low, high + room_at_end(view, high - low, longest), padding=0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._names_axis.set_names(tuple(self._energies), self.width())

    def _draw(self) -> None:
        if not self._energies:
            return
        self._bottom.logarithmic = self.log_box.isChecked()
        self._bottom.picture = None
        self._names_axis.set_names(tuple(self._energies), self.width())
        self._draw_marks()
        self._draw_numbers()
        self.fit()
        self.caption.set_whole(_spread(self._energies))
        words = ", ".join(f"{name} {number_text(e, 3)}" for name, e in self._energies.items())
        self.setAccessibleDescription(f"{self.title.whole}: {words}")

    def _span(self) -> tuple[float, float]:
        """The range of the horizontal axis that the marks need."""
        positive = [energy for energy in self._energies.values() if energy > 0]
        if not positive:
            return 0.0, 1.0
        if not self.log_box.isChecked():
            return 0.0, max(positive)
        low, high = floor(log10(min(positive))), ceil(log10(max(positive)))
        return float(low), float(max(high, low + 1))

    def _position(self, energy: float) -> float:
        """The position of ``energy`` on the axis; zero is at its start."""
        if not self.log_box.isChecked():
            return energy
        return log10(energy) if energy > 0 else self._span()[0]

    def _draw_marks(self) -> None:
        indices = [self._position(energy) for energy in self._energies.values()]
        colours = [self._colours.get(name, self.theme.text2) for name in self._energies]
        brushes, logarithmic = [pg.mkBrush(colour) for colour in colours], self.log_box.isChecked()
        self.bars.setVisible(not logarithmic)
        self.dots.setVisible(logarithmic)
        if not logarithmic:
            self.bars.setOpts(y=range(len(indices)), width=indices, brushes=brushes)
            return
        shown = [row for row, energy in enumerate(self._energies.values()) if energy > 0]
        self.dots.setData(
            x=[indices[row] for row in shown], y=shown, brush=[brushes[row] for row in shown]
        )

    def _draw_numbers(self) -> None:
        """Reuse items for the next layer, because creating them is slower than changing their
        text."""
        while len(self._numbers) > len(self._energies):
            self.canvas.removeItem(self._numbers.pop())
        while len(self._numbers) < len(self._energies):
            self._numbers.append(pg.TextItem(anchor=(0, 0.5)))
            self.canvas.addItem(self._numbers[-1], ignoreBounds=True)
        for row, energy in enumerate(self._energies.values()):
            self._numbers[row].setText(_number(energy), self.theme.text)
            self._numbers[row].setPos(self._position(energy), row)

    def _hovered(self, scene_position: QPointF) -> None:
        view = self.canvas.getViewBox()
        row = round(view.mapSceneToView(scene_position).y())
        if not 0 <= row < len(self._energies):
            QToolTip.hideText()
            return
        name, energy = list(self._energies.items())[row]
        point = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(point, f"{name}: ‖ΔW‖² = {number_text(energy, 4)}", self.canvas)


def _number(energy: float) -> str:
    """The number next to a bar."""
    return GAP + (number_text(energy, 3) if energy else "0, unchanged")


def _spread(energies: Mapping[str, float]) -> str:
    """The spread of the energies as text."""
    changed = {name: energy for name, energy in energies.items() if energy > 0}
    if len(changed) < 2:
        return ""
    most, least = max(changed, key=changed.__getitem__), min(changed, key=changed.__getitem__)
    ratio = number_text(changed[most] / changed[least], 2)
    return f"the energy of {most} is {ratio} times that of {least}"
