"""Small multiples: one plot for every block, all in one vertical range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, sqrt
from typing import Final, NamedTuple

from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QVBoxLayout

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.axes import NameColumnsAxis
from ace_gui.gui.plots.frame.export_image import ThemedWidget
from ace_gui.gui.plots.frame.legend import Legend
from ace_gui.gui.plots.frame.spec import PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens, palette_of

_SIZE: Final = (960, 640)  # px


class BlockPanel(NamedTuple):
    """One plot of a grid. ``names``: of its horizontal positions, empty for numbers."""

    make: Callable[[Tokens], PlotSpec]
    names: Sequence[str] = ()


class BlockGrid(ThemedWidget):
    """The ``panels`` of a ``plot`` with one legend. ``columns``: the data of all of them."""

    def __init__(
        self,
        plot: SpecPlot,
        panels: Sequence[BlockPanel],
        columns: Callable[[], Sequence[FigureColumn]],
    ) -> None:
        super().__init__()
        self.theme, self._first, self._columns = plot.theme, panels[0].make, columns
        self.setAccessibleName(f"{plot.accessibleName()}, by block")
        self.setAccessibleDescription(plot.accessibleDescription())
        self.legend = Legend(toggles=False)
        self.panels: list[SpecPlot] = []
        grid, across = QGridLayout(), ceil(sqrt(len(panels)))
        self._axes: list[tuple[NameColumnsAxis, Sequence[str]]] = []
        for index, (make, names) in enumerate(panels):
            axis = NameColumnsAxis() if names else None
            panel = SpecPlot(name="", empty="", logarithmic=plot.logarithmic, bottom=axis)
            panel.present(partial(_bare, make))
            if axis is not None:
                self._axes.append((axis, names))
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
        self.legend.setPalette(palette_of(theme))
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
        for axis, names in self._axes:
            axis.set_names(names, self.panels[0].width())
        for panel in self.panels:
            panel.activate_layout()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        QPainter(self).fillRect(self.rect(), QColor(self.theme.card))


def _bare(make: Callable[[Tokens], PlotSpec], theme: Tokens) -> PlotSpec:
    """The declaration without a legend of its own."""
    spec = make(theme)
    return replace(spec, curves=[replace(curve, in_legend=False) for curve in spec.curves])
