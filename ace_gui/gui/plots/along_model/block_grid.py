"""A plot along the model as small multiples: one for every block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, sqrt
from typing import Final

from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QVBoxLayout

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.axes import NameColumnsAxis
from ace_gui.gui.plots.frame.export_image import ThemedWidget
from ace_gui.gui.plots.frame.legend import Legend
from ace_gui.gui.plots.frame.spec import Axis, Mark, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens, palette_of

Span = tuple[tuple[float, float], str]
"""The ends of a block along the horizontal axis, and its number."""
_SIZE: Final = (960, 640)  # px


class BlockGrid(ThemedWidget):
    """The curves of ``plot`` cut into blocks, all in its vertical range. ``names``: of all
    layers."""

    def __init__(self, plot: SpecPlot, spans: Sequence[Span], names: Sequence[str]) -> None:
        super().__init__()
        self.plot, self.theme = plot, plot.theme
        self.setAccessibleName(f"{plot.accessibleName()}, by block")
        self.setAccessibleDescription(plot.accessibleDescription())
        self.legend = Legend(toggles=False)
        self.panels: list[SpecPlot] = []
        grid, across = QGridLayout(), ceil(sqrt(len(spans)))
        self._axes: list[tuple[NameColumnsAxis, Sequence[str]]] = []
        for index, span in enumerate(spans):
            axis = NameColumnsAxis()
            panel = SpecPlot(name=span[1], empty="", logarithmic=plot.logarithmic, bottom=axis)
            panel.present(partial(self._cut, span))
            low, high = span[0]
            self._axes.append((axis, names[ceil(low) : ceil(high)]))
            self.panels.append(panel)
            grid.addWidget(panel, *divmod(index, across))
        column = QVBoxLayout(self)
        column.addWidget(self.legend)
        column.addLayout(grid, 1)
        self.set_theme(self.theme)
        self.resize(*_SIZE)

    def set_theme(self, theme: Tokens) -> None:
        self.theme = theme
        self.legend.setPalette(palette_of(theme))
        self.legend.set_entries([each for each in self._whole(theme).curves if each.in_legend])
        for panel in self.panels:
            panel.set_theme(theme)

    def columns(self) -> Sequence[FigureColumn]:
        return self.plot.columns()

    def show_as_picture(self, on: bool) -> None:
        for panel in self.panels:
            panel.show_as_picture(on)
        self.activate_layout()

    def activate_layout(self) -> None:
        layout = self.layout()
        assert layout is not None
        layout.activate()
        for panel, (axis, names) in zip(self.panels, self._axes, strict=True):
            axis.set_names(names, panel.width())
            panel.activate_layout()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        QPainter(self).fillRect(self.rect(), QColor(self.theme.card))

    def _whole(self, theme: Tokens) -> PlotSpec:
        assert self.plot.make is not None
        return self.plot.make(theme)

    def _cut(self, span: Span, theme: Tokens) -> PlotSpec:
        """The part of the declaration that belongs to one block."""
        spec, ((low, high), number) = self._whole(theme), span
        down, up = self.plot.canvas.getViewBox().viewRange()[1]
        curves = []
        for curve in spec.curves:
            inside = (curve.positions > low) & (curve.positions < high)
            x, y = curve.positions[inside] - ceil(low), curve.y[inside]
            curves.append(replace(curve, x=x, y=y, in_legend=False))
        return replace(
            spec,
            title=f"Block {number}",
            sentence="",
            curves=curves,
            x=Axis(low=-0.5, high=high - low - 0.5),
            y=replace(spec.y, low=down, high=up, padding=0.0),
            marks=[Mark(value=each) for each in self.plot.levels],
        )
