"""Small multiples: one plot for every block, all in one vertical range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, sqrt
from typing import Final

from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QGridLayout, QVBoxLayout

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.axes import NameAxis
from ace_gui.gui.plots.frame.export_image import ThemedWidget
from ace_gui.gui.plots.frame.legend import Legend
from ace_gui.gui.plots.frame.spec import PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens, palette_of

_SIZE: Final = (960, 640)  # px


class BlockGrid(ThemedWidget):
    """The ``panels`` of a ``plot`` with one legend. ``columns``: the data of all of them."""

    def __init__(
        self,
        plot: SpecPlot,
        panels: Sequence[Callable[[Tokens], PlotSpec]],
        columns: Callable[[], Sequence[FigureColumn]],
    ) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.Light)
        self.theme, self._first, self._columns = plot.theme, panels[0], columns
        self.setAccessibleName(f"{plot.accessibleName()}, by block")
        self.setAccessibleDescription(plot.accessibleDescription())
        self.legend = Legend(toggles=False)
        self.panels: list[SpecPlot] = []
        grid, across = QGridLayout(), ceil(sqrt(len(panels)))
        for index, make in enumerate(panels):
            axis = NameAxis("bottom") if make(self.theme).x.names else None
            panel = SpecPlot(bottom=axis)
            panel.log_box.setChecked(plot.logarithmic)
            panel.present(partial(_bare, make))
            self.panels.append(panel)
            grid.addWidget(panel, *divmod(index, across))
        views = [panel.canvas.getViewBox() for panel in self.panels]
        lows, highs = zip(*(view.viewRange()[1] for view in views), strict=True)
        for view in views:
            view.setYRange(min(lows), max(highs), padding=0)
        column = QVBoxLayout(self)
        column.addWidget(self.legend)
        column.addLayout(grid, 1)
        self.set_theme(self.theme)
        self.resize(*_SIZE)

    def set_theme(self, theme: Tokens) -> None:
        self.theme = theme
        self.setPalette(palette_of(theme))
        for panel in self.panels:
            panel.set_theme(theme)
        self.legend.set_entries([each for each in self._first(theme).curves if each.in_legend])

    def columns(self) -> Sequence[FigureColumn]:
        return self._columns()

    def show_as_picture(self, on: bool) -> None:
        for panel in self.panels:
            panel.show_as_picture(on)
        self.activate_layout()

    def activate_layout(self) -> None:
        layout = self.layout()
        assert layout is not None
        layout.activate()
        for panel in self.panels:
            panel.activate_layout()


def _bare(make: Callable[[Tokens], PlotSpec], theme: Tokens) -> PlotSpec:
    """The declaration without a legend of its own."""
    spec = make(theme)
    return replace(spec, curves=[replace(curve, in_legend=False) for curve in spec.curves])
