"""The one plot of curves: it draws a ``PlotSpec``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QToolTip

# isort: split
import pyqtgraph as pg

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.axes import QuantityAxis
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.end_labels import EndLabel, EndLabels
from ace_gui.gui.plots.frame.items import CurveItem
from ace_gui.gui.plots.frame.spec import Axis, Curve, LegendEntry, Mark, PlotSpec
from ace_gui.gui.theme import Face, Tokens, face
from ace_gui.gui.widgets.fields.buttons import widget_action

_FADED: Final = 0.3  # opacity of the curves that are not under the pointer
_NEAR: Final = 14.0  # px: a curve under the pointer
_NEAR_POINT: Final = 26.0  # px: a single point under the pointer
_LOW: Final = 17  # in text lines: a lower plot has no room for its sentence


class SpecPlot(Plot):
    """Draws curves. The pointer shows the values of all of them at one position.

    ``ends``: curves are named at their ends; the legend becomes a menu. ``point_chosen`` carries
    the index of a clicked point.
    """

    point_chosen = Signal(int)
    holds = True
    """Whether the vertical range can be kept for the next layer."""

    def __init__(
        self,
        *,
        ends: bool = False,
        bottom: pg.AxisItem | None = None,
        left: pg.AxisItem | None = None,
        **how: Any,
    ) -> None:
        self.make: Callable[[Tokens], PlotSpec] | None = None
        """Declares the plot for a theme."""
        self.spec: PlotSpec | None = None
        self.sources: tuple[object, ...] = ()
        """What the drawn declaration was made of."""
        self.items: dict[str, CurveItem] = {}
        """The drawn curves by their keys."""
        self._drawn: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._written: list[tuple[pg.TextItem, QPointF, bool]] = []
        self._lines: list[pg.InfiniteLine] = []
        left, bottom = left or quantity_axis("left", grid=True), bottom or quantity_axis("bottom")
        self._axes = left, bottom
        super().__init__(bottom=bottom, left=left, **how)
        self.ends = EndLabels()
        if ends:
            self.ends.clicked.connect(lambda key: self.legend.chip(key).click())
            self.canvas.frame.add_axes({"right": self.ends})
            self.canvas.fit_letters()
            self.add_curve_menu()
        self.hold = QAction("Keep the vertical range", self, checkable=True)
        self.hold.setToolTip("Draw other layers in the same range, so that heights can be compared")
        self._hairline = pg.InfiniteLine(angle=90, movable=False)
        self._hairline.hide()
        self.canvas.addItem(self._hairline, ignoreBounds=True)
        view = self.canvas.getViewBox()
        view.setMouseEnabled(x=True, y=False)
        view.sigRangeChanged.connect(lambda *_: self._part_names())
        self.legend.toggled.connect(lambda *_: self._switch())
        scene = self.canvas.scene()
        scene.sigMouseMoved.connect(self._hover)
        scene.sigMouseClicked.connect(self._click)
        self.canvas.left.connect(lambda: self._point_at(None, None))
        self.changed.connect(self._fit_sentence)

    def add_block_action(self, act: Callable[[], object]) -> QAction:
        """Add the action that saves a picture of every block, and return it."""
        tip = "One small plot for each block, all in one range, in one picture"
        action = widget_action(self, "Save picture of every block…", act, tip=tip)
        self.picture_button.menu().addAction(action)
        return action

    # Content

    def present(
        self,
        make: Callable[[Tokens], PlotSpec],
        *sources: object,
        zoomed: bool = False,
        busy: bool = False,
    ) -> None:
        """Draw what ``make`` declares for a theme, unless it is made of the ``sources`` that are
        drawn already.

        ``zoomed``: keep the horizontal range. ``busy``: another plot is on its way.
        """
        view = self.canvas.getViewBox()
        across = view.viewRange()[0]
        if not busy:
            self.set_busy(False)
        known, self.sources = self.sources, sources
        same = len(known) == len(sources) > 0 and all(map(_same, known, sources))
        if same and self.message() is None:
            return
        if self.make is None and self.holds:
            self.addAction(self.hold)
            self.picture_button.menu().addAction(self.hold)
        self.make = make
        self.rescale()
        if zoomed:
            view.setXRange(*across, padding=0)
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of the curves."""
        self.set_busy(False)
        self.make, self.spec, self.sources = None, None, ()
        self.show_message(message or self.empty)

    def columns(self) -> Sequence[FigureColumn]:
        """The data as a table."""
        return () if self.spec is None else self.spec.columns()

    def restyle(self) -> None:
        self._draw()

    def rescale(self) -> None:
        self._draw()
        self.fit()

    def show_as_picture(self, on: bool) -> None:
        if on and self.spec is not None:
            self.caption.setVisible(bool(self.caption.whole) and self.message() is None)
        elif self.spec is not None:
            self._fit_sentence()
        super().show_as_picture(on)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_sentence()
        self._part_names()

    def _fit_sentence(self) -> None:
        if self.caption.wordWrap():
            low = self.height() < _LOW * self.fontMetrics().height()
            self.caption.setVisible(bool(self.caption.whole) and self.message() is None and not low)

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
        return self.log_box.isChecked() if spec.logarithmic_choice else spec.y.logarithmic

    def _draw(self) -> None:
        if self.make is None:
            return
        self.spec = spec = self.make(self.theme)
        self.log_box.setEnabled(spec.logarithmic_choice)
        logs = self.logarithmic, spec.x.logarithmic
        for axis, own, log in zip(self._axes, (spec.y, spec.x), logs, strict=True):
            if isinstance(axis, QuantityAxis):
                axis.logarithmic = log
                axis.setScale(own.scale)
                axis.set_titles(*own.titles)
                axis.picture = None
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
        self._draw_names(spec)
        self._hairline.setPen(pg.mkPen(self.theme.text3, width=1))
        self._switch()

    def _draw_curves(self, spec: PlotSpec) -> None:
        """Reuse items of existing curves, because creating them is slower than drawing.

        The first curve is drawn over the others.
        """
        self._drawn = {curve.key: self._on_axes(curve) for curve in spec.curves}
        for key in self.items.keys() - self._drawn.keys():
            self.canvas.removeItem(self.items.pop(key))
        for depth, curve in enumerate(spec.curves):
            if curve.key not in self.items:
                self.items[curve.key] = item = CurveItem()
                self.canvas.addItem(item, ignoreBounds=True)
            item = self.items[curve.key]
            # SVG pictures have no clipping of their own; many symbols are not drawn twice
            item.setClipToView(curve.width > 0)
            item.setDynamicRangeLimit(1e6 if curve.width else None)
            item.setZValue(len(spec.curves) - depth)
            pen = pg.mkPen(curve.colour, width=curve.width, style=curve.style)
            fill = curve.colour if curve.filled else self.theme.card
            item.setData(
                *self.drawn(curve),
                pen=pen if curve.width else None,
                connect=curve.connect,
                symbol=curve.symbol or None,
                symbolSize=curve.size,
                symbolPen=pg.mkPen(curve.colour, width=1.6),
                symbolBrush=pg.mkBrush(fill),
            )

    def drawn(self, curve: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The positions of a curve's values on both axes; NaN where it is cut off."""
        return self._drawn[curve.key]

    def _on_axes(self, curve: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self.spec is not None
        x, y = curve.positions, np.asarray(curve.y, dtype=np.float64)
        if self.logarithmic:
            y = np.log10(np.where(y >= max(curve.floor, np.finfo(np.float64).tiny), y, np.nan))
        return (np.log10(x) if self.spec.x.logarithmic else x), y

    def _draw_marks(self, spec: PlotSpec) -> None:
        for mark in self._lines:
            self.canvas.removeItem(mark)
        self._lines = [self._line_of(mark) for mark in spec.marks]
        for mark in self._lines:
            self.canvas.addItem(mark, ignoreBounds=True)

    def _line_of(self, mark: Mark) -> pg.InfiniteLine:
        anchor = [(-0.04, 0.5), (1.04, 0.5)] if mark.upright else [(0.5, 0.5)] * 2
        options = {
            "position": mark.share,
            "anchors": anchor,
            "color": self.theme.text2,
            "fill": None if mark.upright else self.theme.card,
        }
        style = Qt.PenStyle.DashLine if mark.upright else Qt.PenStyle.DotLine
        pen = pg.mkPen(self.theme.text3, width=1, style=style)
        line = pg.InfiniteLine(
            mark.value,
            angle=90 if mark.upright else 0,
            pen=pen,
            label=mark.label or None,
            labelOpts=options,
        )
        if mark.label:
            line.label.textItem.setFont(face(Face.CAPTION))
        line.setZValue(-1)
        return line

    def _switch(self) -> None:
        """Show the curves that are switched on, and name all at their visible ends."""
        spec = self.spec
        if spec is None:
            return
        labels = []
        for curve in spec.curves:
            self.items[curve.key].setVisible(self.is_on(curve))
            seen = self.drawn(curve)[1]
            seen = seen[np.isfinite(seen)]
            if curve.end and seen.size:
                ink, on = self.theme.ink_of(curve.colour), self.is_on(curve)
                end = float(seen[-1])
                labels.append(EndLabel(curve.key, curve.end, ink, end, strong=curve.strong, on=on))
        self.ends.set_labels(labels)

    def is_on(self, curve: Curve) -> bool:
        """Whether a curve is switched on."""
        return all(map(self.legend.is_on, (curve.key, *curve.with_keys)))

    def fit(self) -> None:
        spec = self.spec
        if spec is None:
            return
        drawn = [self.drawn(curve) for curve in spec.curves]
        heights = [self.drawn(curve)[1] for curve in spec.curves if self.is_on(curve)]
        across, up = _range(spec.x, [x for x, _ in drawn]), _range(spec.y, heights)
        view = self.canvas.getViewBox()
        if across is not None:
            view.setLimits(xMin=across[0], xMax=across[1])
            view.setXRange(*across, padding=0)
        if up is not None and not self.hold.isChecked():
            view.setYRange(*up, padding=0)

    # Names of points

    def _draw_names(self, spec: PlotSpec) -> None:
        for name, _, _ in self._written:
            self.canvas.removeItem(name)
        self._written = []
        for curve in spec.curves:
            for text, x, y in zip(curve.names, *self.drawn(curve), strict=False):
                item = pg.TextItem(text, color=self.theme.text2, anchor=(0, 0.5))
                item.setFont(face(Face.CAPTION_STRONG if curve.strong else Face.CAPTION))
                item.setPos(x, y)
                self.canvas.addItem(item, ignoreBounds=True)
                self._written.append((item, QPointF(x, y), curve.strong))
        self._part_names()

    def _part_names(self) -> None:
        """Hide names that would be cut or overlap; the pointer and the table show them."""
        view, taken = self.canvas.getViewBox(), list[QRectF]()
        gap = 8.0  # px between a point and its name
        for item, at, _ in sorted(self._written, key=lambda each: not each[2]):
            point, room = view.mapViewToScene(at), item.boundingRect()
            room.moveTo(point.x() + gap, point.y() - room.height() / 2)
            outside = room.right() > view.sceneBoundingRect().right()
            if outside:  # then it is at the left of its point
                room.moveRight(point.x() - gap)
            share = gap / max(room.width(), 1.0)
            item.setAnchor((1 + share if outside else -share, 0.5))
            inside = view.sceneBoundingRect().contains(room)
            item.setVisible(inside and not any(map(room.intersects, taken)))
            if item.isVisible():
                taken.append(room)

    # Mouse

    def nearest(self, scene_position: QPointF) -> tuple[Curve, int] | None:
        """The curve and the index of the nearest shown value, if one is near."""
        view = self.canvas.getViewBox()
        if self.spec is None or not view.sceneBoundingRect().contains(scene_position):
            return None
        at, pixel = view.mapSceneToView(scene_position), view.viewPixelSize()
        best: tuple[float, Curve, int] | None = None
        for curve in self.spec.curves:
            x, y = self.drawn(curve)
            if not self.is_on(curve) or not len(x) or not (curve.label or curve.names):
                continue
            line = 0.2 if curve.width else 1.0  # the height counts, as the line passes all columns
            away = np.hypot(line * (x - at.x()) / pixel[0], (y - at.y()) / pixel[1])
            if np.isnan(away).all():
                continue
            index = int(np.nanargmin(np.abs(x - at.x()) if curve.width else away))
            limit = _NEAR if curve.width else _NEAR_POINT
            if away[index] <= limit and (best is None or away[index] < best[0]):
                best = float(away[index]), curve, index
        return None if best is None else best[1:]

    def _hover(self, scene_position: QPointF) -> None:
        text = self.text_at(scene_position)
        if text:
            point = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
            QToolTip.showText(point, text, self.canvas)
        else:
            QToolTip.hideText()

    def text_at(self, scene_position: QPointF) -> str:
        """What is under the pointer, as text; empty if nothing is."""
        found = self.nearest(scene_position)
        self._point_at(*(found or (None, None)))
        if found is None or self.spec is None:
            return ""
        curve, index = found
        x, lines = float(curve.positions[index]), []
        if self.spec.position is not None:
            lines.append(self.spec.position(x))
        if not curve.width:
            lines.append(curve.text(index))
        for other in self.spec.curves if curve.width else ():
            if other.width and other.label and len(other.y) and self.is_on(other):
                at = int(np.abs(other.positions - x).argmin())
                near = abs(float(other.positions[at]) - x) <= 0.5 * _step(other)
                if near and isfinite(other.y[at]):
                    lines.append(other.text(at))
        return "\n".join(lines)

    def _point_at(self, chosen: Curve | None, index: int | None) -> None:
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
        """Choose the point under the pointer."""
        found = self.nearest(scene_position)
        if found is not None and not found[0].width:
            curve, index = found
            self.point_chosen.emit(curve.indices[index] if curve.indices else index)


def _same(one: object, other: object) -> bool:
    """Compare texts and mappings by value, and results, which never change, by identity."""
    return one is other or (isinstance(one, str | dict) and one == other)


def _step(curve: Curve) -> float:
    """The distance between two positions of a curve."""
    positions = curve.positions
    return float(np.ptp(positions)) / (len(positions) - 1) if len(positions) > 1 else 1.0


def _range(axis: Axis, values: Sequence[NDArray[np.float64]]) -> tuple[float, float] | None:
    """The ends of an axis; None if nothing is known."""
    known = np.concatenate([np.zeros(0), *values])
    known = known[np.isfinite(known)]
    low = float(known.min(initial=np.inf)) if axis.low is None else axis.low
    high = float(known.max(initial=-np.inf)) if axis.high is None else axis.high
    if not (isfinite(low) and isfinite(high)):
        return None
    pad = axis.padding * (high - low) or (0.0 if high > low else 0.05 * abs(high) or 0.5)
    return low - pad, high + pad
