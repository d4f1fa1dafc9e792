"""The plot that draws the curves of a ``PlotSpec``, and a grid of such plots, one per block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, isfinite, sqrt
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QAction, QFont, QFontMetricsF, QPalette, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QToolTip, QVBoxLayout

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.canvas import NameAxis, QuantityAxis
from ace_gui.gui.plots.frame.export_image import ThemedWidget
from ace_gui.gui.plots.frame.items import (
    CurveItem,
    EndLabel,
    EndLabels,
    InnerEndLabels,
    MarkLine,
    place_names,
)
from ace_gui.gui.plots.frame.legend import Legend
from ace_gui.gui.plots.frame.spec import LegendEntry, PlotCurve, PlotSpec
from ace_gui.gui.theme import Face, Tokens, face, palette_of
from ace_gui.gui.widgets.controls import widget_action

_FADED: Final = 0.3  # opacity of the curves that are not under the pointer
_NEAR: Final = 14.0  # px: maximum distance from the pointer to a curve
_EDGE: Final = 0.9  # of the longest curve: longer ones are named at the right edge
_NEAR_POINT: Final = 26.0  # px: the same for a single point


class SpecPlot(Plot):
    """Draws curves. The pointer shows the values of all curves at its position.

    ``named_ends``: curves are named at their ends; the legend becomes a menu. ``point_chosen``
    carries the index of a clicked point.
    """

    point_chosen = Signal(int)
    named_ends = False
    holds = True
    """Whether the vertical range can be kept for the next layer."""

    def __init__(
        self,
        bottom: QuantityAxis | NameAxis | None = None,
        left: QuantityAxis | NameAxis | None = None,
    ) -> None:
        self.make: Callable[[], PlotSpec] | None = None
        """Returns the declaration for the person's current choices."""
        self.spec: PlotSpec | None = None
        self.sources: tuple[object, ...] = ()
        """The data from which the drawn declaration was made."""
        self.items: dict[str, CurveItem] = {}
        """The drawn curves by their keys."""
        self._drawn: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._fitted = [math.nan, math.nan]
        """The horizontal range that fits the curves."""
        self._written: list[pg.TextItem] = []
        self._lines: list[MarkLine] = []
        left = left or QuantityAxis("left", grid=True)
        bottom = bottom or QuantityAxis("bottom")
        self._axes = left, bottom
        super().__init__(bottom, left)
        self.ends = EndLabels()
        self.inner_ends = InnerEndLabels(self.canvas.getViewBox())
        if self.named_ends:
            for names in (self.ends, self.inner_ends):
                names.clicked.connect(lambda key: self.legend.chip(key).click())
            self.canvas.add_axis("right", self.ends)
            self.add_curve_menu()
        self.hold = QAction("Keep the vertical range", self, checkable=True, enabled=False)
        self.hold.setToolTip("Draw other layers in the same range, so that heights can be compared")
        if self.holds:
            self.addAction(self.hold)
            self.picture_button.menu().addAction(self.hold)
        self._hairline = pg.InfiniteLine(angle=90, movable=False)
        self._hairline.hide()
        self.canvas.addItem(self._hairline)
        view = self.canvas.getViewBox()
        view.setMouseEnabled(x=True, y=False)
        view.sigRangeChanged.connect(lambda *_: self._write_names())
        view.sigResized.connect(lambda _view: self._write_names())
        self.legend.toggled.connect(lambda *_: self._switch())
        scene = self.canvas.scene()
        scene.sigMouseMoved.connect(self._hover)
        scene.sigMouseClicked.connect(self._click)
        self.canvas.left.connect(lambda: self._point_at(None, None))

    def add_block_action(self, act: Callable[[], object]) -> QAction:
        """Add the action that saves a picture of every block, and return it."""
        tip = "One small plot for each block, all in one range, in one picture"
        action = widget_action(self, "Save picture of every block…", act, tip=tip)
        self.picture_button.menu().addAction(action)
        return action

    # Content

    def present(
        self,
        declared: PlotSpec | Callable[[], PlotSpec],
        *sources: object,
        zoomed: bool = False,
        busy: bool = False,
    ) -> None:
        """Draw a declaration, unless that of the same ``sources`` is drawn already.

        ``declared``: a function if the declaration depends on the plot's own choices. It is called
        again after each. ``zoomed``: keep the horizontal range if the person has changed it.
        ``busy``: another plot will follow.
        """
        view = self.canvas.getViewBox()
        across = view.viewRange()[0]
        zoomed = zoomed and self.is_zoomed
        if not busy:
            self.set_busy(False)
        sources_before = self.sources
        self.sources = sources
        same = len(sources_before) == len(sources) > 0 and all(map(_same, sources_before, sources))
        if same and self.message() is None:
            return
        self.make = declared if callable(declared) else lambda: declared
        self.rescale()
        if zoomed:
            view.setXRange(*across, padding=0)
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of the curves."""
        self.set_busy(False)
        self.make = None
        self.spec = None
        self.sources = ()
        self.show_message(message or self.empty)

    def columns(self) -> Sequence[FigureColumn]:
        if self.spec is None:
            return ()
        return self.spec.columns()

    def rescale(self) -> None:
        self._draw()
        self.fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_caption()
        self._write_names()

    # Drawing

    @property
    def levels(self) -> Sequence[float]:
        """Heights of lines across the plot that the person can move."""
        return ()

    @property
    def logarithmic(self) -> bool:
        """Whether the vertical axis is logarithmic."""
        spec = self.spec
        if spec is None:
            return False
        if spec.logarithmic_choice:
            return self.log_box.isChecked()
        return spec.y.logarithmic

    def _draw(self) -> None:
        if self.make is None:
            return
        self.spec = spec = self.make().in_theme(self.theme)
        self._drawn = {curve.key: self._on_axes(curve) for curve in spec.curves}
        self.log_box.setEnabled(spec.logarithmic_choice)
        logs = self.logarithmic, spec.x.logarithmic
        for axis, declared, logarithmic in zip(self._axes, (spec.y, spec.x), logs, strict=True):
            axis.declare(declared, logarithmic=logarithmic)
        self._quantity.setText(spec.y.title)
        self.title.set_full_text(spec.title)
        self.caption.set_full_text(spec.sentence)
        self.setAccessibleDescription(spec.description or f"{spec.title}. {spec.sentence}")
        entries = [curve for curve in spec.curves if curve.in_legend]
        awaited = LegendEntry(
            key="", label="merged", colour=self.theme.text2, style=Qt.PenStyle.DotLine, width=2.6
        )
        self.legend.set_entries([*[awaited] * spec.awaited, *entries])
        self._draw_curves(spec)
        self._draw_marks(spec)
        self._write_names()
        self._hairline.setPen(pg.mkPen(self.theme.text3, width=1))
        self._switch()

    def _draw_curves(self, spec: PlotSpec) -> None:
        """Reuse items of existing curves, because creating them is slower than drawing.

        The first curve is drawn over the others.
        """
        for key in self.items.keys() - self._drawn.keys():
            self.canvas.removeItem(self.items.pop(key))
        for depth, curve in enumerate(spec.curves):
            if curve.key not in self.items:
                self.items[curve.key] = item = CurveItem()
                self.canvas.addItem(item)
            item = self.items[curve.key]
            # SVG pictures do not clip, so lines are clipped here; symbols would be drawn twice
            item.setClipToView(curve.width > 0)
            item.setDynamicRangeLimit(1e6 if curve.width else None)
            item.setZValue(len(spec.curves) - depth)
            pen = pg.mkPen(curve.colour, width=curve.width, style=curve.style)
            if curve.filled:
                fill = curve.colour
            else:
                fill = self.theme.card
            item.setData(
                *self.drawn(curve),
                pen=pen if curve.width else None,
                connect="finite",
                symbol=curve.symbol or None,
                symbolSize=curve.size,
                symbolPen=pg.mkPen(curve.colour, width=1.6),
                symbolBrush=pg.mkBrush(fill),
            )

    def drawn(self, curve: PlotCurve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The positions of a curve's values on both axes; NaN where it is cut off."""
        return self._drawn[curve.key]

    def _on_axes(self, curve: PlotCurve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self.spec is not None
        x = curve.positions
        y = np.asarray(curve.y, dtype=np.float64)
        if self.logarithmic:
            y = np.log10(np.where(y >= max(curve.floor, np.finfo(np.float64).tiny), y, np.nan))
        return (np.log10(x) if self.spec.x.logarithmic else x), y

    def _draw_marks(self, spec: PlotSpec) -> None:
        for mark in self._lines:
            self.canvas.removeItem(mark)
        self._lines = [MarkLine(mark, self.theme) for mark in spec.marks]
        for mark in self._lines:
            self.canvas.addItem(mark)

    def _switch(self) -> None:
        """Show the curves that are switched on, and name every curve at its last known value."""
        spec = self.spec
        if spec is None:
            return
        labels = []
        for curve in spec.curves:
            on = self.is_on(curve)
            self.items[curve.key].setVisible(on)
            places, heights = self.drawn(curve)
            last = curve.last_visible(heights)
            if curve.end and last is not None:
                end = float(places[last]), float(heights[last])
                ink = self.theme.ink_of(curve.colour)
                labels.append(EndLabel(curve.key, curve.end, ink, *end, strong=curve.strong, on=on))
        edge = _EDGE * max((label.place for label in labels), default=0.0)
        self.ends.set_labels([label for label in labels if label.place >= edge])
        inside = [label for label in labels if label.place < edge]
        self.inner_ends.set_labels(inside, self.theme.card)

    def is_on(self, curve: PlotCurve) -> bool:
        return all(map(self.legend.is_on, (curve.key, *curve.with_keys)))

    @property
    def is_zoomed(self) -> bool:
        """Whether the horizontal range is another than the one that fits the curves."""
        return not np.allclose(self._fitted, self.canvas.getViewBox().viewRange()[0])

    def fit(self) -> None:
        spec = self.spec
        if spec is None:
            return
        drawn = [self.drawn(curve) for curve in spec.curves]
        heights = [self.drawn(curve)[1] for curve in spec.curves if self.is_on(curve)]
        across = spec.x.ends([x for x, _ in drawn])
        up = spec.y.ends(heights)
        view = self.canvas.getViewBox()
        if across is not None:
            view.setLimits(xMin=across[0], xMax=across[1])
            view.setXRange(*across, padding=0)
        if up is not None and not self.hold.isChecked():
            view.setYRange(*up, padding=0)
        self._fitted = list(view.viewRange()[0])

    # Names of points

    def _write_names(self) -> None:
        """Write the names of single points where there is room now."""
        self._erase()
        for line in self._lines:
            line.fit_name(self.canvas.getViewBox())
        curves = () if self.spec is None else self.spec.curves
        for curve in (curve for curve in curves if curve.names):
            font = face(Face.CAPTION_STRONG if curve.strong else Face.CAPTION)
            for text, x, y in zip(curve.names, *self.drawn(curve), strict=False):
                self._write(text, QPointF(x, y), self.theme.text2, font, anchor=(0, 0.5))
                if curve.strong and text:  # over lines
                    self._written[-1].fill = pg.mkBrush(self.theme.card)
                    self._written[-1].setZValue(99)
        if self._written:
            place_names(self._written, self.canvas.getViewBox(), self._symbols(), self._taken())

    def _write(
        self, text: str, at: QPointF, ink: str, font: QFont, *, anchor: tuple[float, float]
    ) -> None:
        item = pg.TextItem(text, color=ink, anchor=anchor)
        item.setFont(font)
        item.setPos(at)
        self.canvas.addItem(item)
        self._written.append(item)

    def _erase(self) -> None:
        for item in self._written:
            self.canvas.removeItem(item)
        self._written = []

    def _taken(self) -> list[QRectF]:
        """The areas of the scene that names must leave free."""
        return []

    def _symbols(self) -> NDArray[np.float64]:
        curves = () if self.spec is None else self.spec.curves
        drawn = [np.column_stack(self.drawn(c)) for c in curves if c.symbol and self.is_on(c)]
        return np.concatenate([np.zeros((0, 2)), *drawn])

    # Mouse

    def nearest(self, scene_position: QPointF) -> tuple[PlotCurve, int] | None:
        """The curve and the index of the nearest shown value, if one is near."""
        view = self.canvas.getViewBox()
        if self.spec is None or not view.sceneBoundingRect().contains(scene_position):
            return None
        at = view.mapSceneToView(scene_position)
        pixel = view.viewPixelSize()
        best: tuple[float, PlotCurve, int] | None = None
        for curve in self.spec.curves:
            x, y = self.drawn(curve)
            if not self.is_on(curve) or not len(x) or not (curve.label or curve.names):
                continue
            line = 0.2 if curve.width else 1.0  # a line passes every column: mainly height counts
            away = np.hypot(line * (x - at.x()) / pixel[0], (y - at.y()) / pixel[1])
            if np.isnan(away).all():
                continue
            index = int(np.nanargmin(np.abs(x - at.x()) if curve.width else away))
            if curve.width:
                limit = _NEAR
            else:
                limit = _NEAR_POINT
            if away[index] <= limit and (best is None or away[index] < best[0]):
                best = float(away[index]), curve, index
        if best is None:
            return None
        return best[1:]

    def _hover(self, scene_position: QPointF) -> None:
        text = self.text_at(scene_position)
        if text:
            point = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
            QToolTip.showText(point, text, self.canvas)
        else:
            QToolTip.hideText()

    def text_at(self, scene_position: QPointF) -> str:
        """A text about what is under the pointer; empty if nothing is."""
        nearest = self.nearest(scene_position)
        self._point_at(*(nearest or (None, None)))
        if nearest is None or self.spec is None:
            return ""
        curve, index = nearest
        x = float(curve.positions[index])
        lines = []
        if self.spec.position is not None:
            lines.append(self.spec.position(x))
        if not curve.width:
            lines.append(curve.text(index))
        for curve_near in self.spec.curves if curve.width else ():
            if (
                curve_near.width
                and curve_near.label
                and len(curve_near.y)
                and self.is_on(curve_near)
            ):
                at = int(np.abs(curve_near.positions - x).argmin())
                near = abs(float(curve_near.positions[at]) - x) <= 0.5 * curve_near.step
                if near and isfinite(curve_near.y[at]):
                    lines.append(curve_near.text(at))
        return "\n".join(lines)

    def _point_at(self, chosen: PlotCurve | None, index: int | None) -> None:
        """Highlight one curve and fade the others, with a line at the position."""
        for key, item in self.items.items():
            item.setOpacity(1.0 if chosen is None or key == chosen.key else _FADED)
        line = chosen is not None and bool(chosen.width)
        self._hairline.setVisible(line)
        if chosen is not None and index is not None:
            self._hairline.setValue(float(self.drawn(chosen)[0][index]))

    def _click(self, event: Any) -> None:
        if event.double():
            self.fit()
        elif event.button() == Qt.MouseButton.LeftButton:
            self.choose_at(event.scenePos())

    def choose_at(self, scene_position: QPointF) -> None:
        nearest = self.nearest(scene_position)
        if nearest is not None and not nearest[0].width:
            curve, index = nearest
            self.point_chosen.emit(curve.indices[index] if curve.indices else index)


def _same(first: object, second: object) -> bool:
    """Compare texts and mappings by value, and results, which never change, by identity."""
    return first is second or (isinstance(first, str | dict) and first == second)


_SIZE: Final = (960, 640)  # px
_LEAST: Final = (9, 14)  # in text lines: width and height from which a small plot can be read


class BlockGrid(ThemedWidget):
    """A small ``plot`` for each of ``panels``, with one legend. ``columns``: the data of all."""

    def __init__(
        self,
        plot: SpecPlot,
        panels: Sequence[Callable[[], PlotSpec]],
        columns: Callable[[], Sequence[FigureColumn]],
    ) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.Light)
        self.theme = plot.theme
        self._first = panels[0]
        self._columns = columns
        self.setAccessibleName(f"{plot.accessibleName()}, by block")
        self.setAccessibleDescription(plot.accessibleDescription())
        self.legend = Legend(toggles=False)
        self.panels: list[SpecPlot] = []
        self._grid = QGridLayout()
        for make in panels:
            axis = NameAxis("bottom") if make().x.names else None
            panel = SpecPlot(bottom=axis)
            panel.log_box.setChecked(plot.logarithmic)
            panel.present(partial(_bare, make))
            self.panels.append(panel)
        views = [panel.canvas.getViewBox() for panel in self.panels]
        lows, highs = zip(*(view.viewRange()[1] for view in views), strict=True)
        for view in views:
            view.setYRange(min(lows), max(highs), padding=0)
        column = QVBoxLayout(self)
        column.setSizeConstraint(QVBoxLayout.SizeConstraint.SetNoConstraint)
        column.addWidget(self.legend)
        column.addLayout(self._grid, 1)
        self.set_theme(self.theme)
        self.resize(*_SIZE)
        self._arrange()

    def _arrange(self) -> None:
        """Put as many plots in a row as can be read there, in a square at most."""
        across = self._across(self.width())
        for index, panel in enumerate(self.panels):
            self._grid.addWidget(panel, *divmod(index, across))

    def _across(self, width: int) -> int:
        """How many plots are next to each other."""
        line = QFontMetricsF(face(Face.BODY)).height()
        most = max(1, int(width / (_LEAST[0] * line)))
        return min(most, ceil(sqrt(len(self.panels))))

    def least_height(self, width: int) -> int:
        line = QFontMetricsF(face(Face.BODY)).height()
        rows = ceil(len(self.panels) / self._across(width))
        return ceil((rows * _LEAST[1] + 2) * line)  # two lines for the legend

    def set_theme(self, theme: Tokens) -> None:
        self.theme = theme
        self.setPalette(palette_of(theme))
        for panel in self.panels:
            panel.set_theme(theme)
        curves = self._first().in_theme(theme).curves
        self.legend.set_entries([curve for curve in curves if curve.in_legend])

    def columns(self) -> Sequence[FigureColumn]:
        return self._columns()

    def show_as_picture(self, on: bool) -> None:
        for panel in self.panels:
            panel.show_as_picture(on)
        self.activate_layout()

    def activate_layout(self) -> None:
        layout = self.layout()
        assert layout is not None
        self._arrange()
        layout.activate()
        for panel in self.panels:
            panel.activate_layout()


def _bare(make: Callable[[], PlotSpec]) -> PlotSpec:
    """The declaration without entries in the legend."""
    spec = make()
    return replace(spec, curves=[replace(curve, in_legend=False) for curve in spec.curves])
