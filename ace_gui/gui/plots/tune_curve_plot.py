"""The score of each parameter value on the half of the data that is used for the search."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

import numpy as np
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QToolTip, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.scored.tuned import TunePoint
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.numbers import value_text
from ace_gui.gui.plots.along_model.layer_plot import nearest_point
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.theme import Tokens

EMPTY = "Choose a parameter and a range, and start: the curve grows merge by merge."
_NEAR = 30.0  # px


class TuneCurvePlot(Plot):
    """One dot per merge, joined if one parameter is searched; the best is filled."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = quantity_axis("bottom", "value")
        self._points: tuple[TunePoint, ...] = ()
        self._name, self._label = "", ""
        self._best: TunePoint | None = None
        super().__init__(
            name="Score by value of the parameter",
            empty=EMPTY,
            bottom=self._bottom,
            left=quantity_axis("left", "score on the half used for the search", grid=True),
            parent=parent,
        )
        self.canvas.scene().sigMouseMoved.connect(self._hovered)
        self._line = pg.PlotDataItem()
        self._dots = pg.ScatterPlotItem(size=10, symbol="o")
        for item in (self._line, self._dots):
            self.canvas.addItem(item, ignoreBounds=True)

    def show_points(
        self,
        points: Sequence[TunePoint],
        name: str,
        label: str,
        *,
        logarithmic: bool,
        best: TunePoint | None,
    ) -> None:
        """Draw the points along the parameter ``name``, displayed as ``label``."""
        known = [point for point in points if point.score is not None]
        self._points, self._name, self._label = tuple(known), name, label
        self._bottom.logarithmic = logarithmic
        self._bottom.set_titles(label)
        self._best = best
        self.title.set_whole(f"Score by {label}")
        if not known:
            self.show_message("The first merge is running …")
            return
        self._draw()
        self.fit()
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show a message instead of the curve."""
        self._points = ()
        self.show_message(message or EMPTY)

    def columns(self) -> Sequence[FigureColumn]:
        """Every parameter, the score, and the time in seconds."""
        names = list(self._points[0].parameters) if self._points else []
        columns = [
            FigureColumn(
                title=name, values=np.array([float(p.parameters[name]) for p in self._points])
            )
            for name in names
        ]
        scores = np.array([float(p.score or 0.0) for p in self._points])
        seconds = np.array([p.seconds for p in self._points])
        columns.append(FigureColumn(title="score", values=scores))
        columns.append(FigureColumn(title="seconds", values=seconds))
        return columns

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (as every plot)
        if self._points:
            self._draw()

    def rescale(self) -> None:
        """The scale is the parameter's."""

    def fit(self) -> None:
        if not self._points:
            return
        x, y = self._positions()
        across = float(np.ptp(x)) or abs(float(x[0])) or 1.0
        up = float(np.ptp(y)) or 0.1
        view = self.canvas.getViewBox()
        view.setXRange(float(x.min()) - 0.06 * across, float(x.max()) + 0.06 * across, padding=0)
        view.setYRange(float(y.min()) - 0.12 * up, float(y.max()) + 0.12 * up, padding=0)

    def _positions(self) -> tuple[np.ndarray, np.ndarray]:
        values = [float(point.parameters[self._name]) for point in self._points]
        log = self._bottom.logarithmic
        x = np.array([log10(value) if log else value for value in values])
        return x, np.array([float(point.score or 0.0) for point in self._points])

    def _draw(self) -> None:
        theme = self.theme
        x, y = self._positions()
        order = np.argsort(x, kind="stable")
        alone = len(self._points[0].parameters) == 1
        line = (x[order], y[order]) if alone else ([], [])
        self._line.setData(*line, pen=pg.mkPen(theme.merged, width=1.8))
        chosen = [point is self._best for point in self._points]
        self._dots.setData(
            x=x,
            y=y,
            size=[13 if best else 9 for best in chosen],
            brush=[pg.mkBrush(theme.accent if best else theme.card) for best in chosen],
            pen=[pg.mkPen(theme.accent if best else theme.merged, width=1.6) for best in chosen],
        )
        self.setAccessibleDescription("; ".join(self._words(point) for point in self._points))

    def _words(self, point: TunePoint) -> str:
        values = ", ".join(f"{name} {value_text(v)}" for name, v in point.parameters.items())
        text = f"{values}: {number_text(point.score or 0.0, 4)}"
        return f"{text}, chosen" if point is self._best else text

    def _hovered(self, scene_position: QPointF) -> None:
        if not self._points or self.message() is not None:
            return
        near = nearest_point(self, scene_position, *self._positions(), _NEAR)
        if near is None:
            QToolTip.hideText()
            return
        at = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(at, self._words(self._points[near]), self.canvas)
