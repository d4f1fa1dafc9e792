"""Several merges: one figure as bars, and as points against the norm or a parameter's values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.gui.plots.frame.axes import NameAxis
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.canvas import room_at_end
from ace_gui.gui.theme import Face, Tokens, face

EMPTY: Final = "Merge with several methods to compare them."
_SHARE: Final = 0.34  # maximum part of the width for names
_BAR: Final = 0.62
_POINT: Final = 10  # px
_NEAR: Final = 24.0  # px
_DECADES: Final = 100.0  # minimum ratio of the values for a logarithmic scale


@dataclass(frozen=True)
class MergePoint:
    """A merge in a plot: its title, two figures, and whether it is the window's."""

    title: str
    x: float
    y: float
    current: bool = False


class MergeBars(Plot):
    """One figure of every merge as a bar, in the given order."""

    merge_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self._points: tuple[MergePoint, ...] = ()
        self._left = NameAxis(_SHARE)
        self._bottom = quantity_axis("bottom")
        super().__init__(
            name="Merges by one figure",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=False, y=False)
        self.canvas.getViewBox().invertY(True)
        self.canvas.getViewBox().sigResized.connect(lambda _view: self.fit())
        self.canvas.scene().sigMouseClicked.connect(self._click)
        self._items: list[pg.GraphicsObject] = []

    def show_merges(self, figure: str, points: Sequence[MergePoint]) -> None:
        """Show ``x`` of these merges, which is ``figure``, from the top."""
        self._points = tuple(points)
        if not self._points:
            self.show_message(EMPTY)
            return
        self.title.set_whole(figure)
        self._draw()
        text = ", ".join(f"{point.title} {f'{point.x:.3g}'}" for point in self._points)
        self.setAccessibleDescription(f"{figure}: {text}")
        self.show_canvas()

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        highest = max((point.x for point in self._points), default=1.0) or 1.0
        lowest = min((point.x for point in self._points), default=0.0)
        view = self.canvas.getViewBox()
        metrics = QFontMetricsF(face(Face.CAPTION_STRONG))
        longest = max((metrics.horizontalAdvance(_end(p)) for p in self._points), default=0.0)
        span = max(highest, 0.0) - min(lowest, 0.0)
        end = max(highest, 0.0) + room_at_end(view, span, longest)  # the figure at a bar's end
        view.setXRange(min(0.0, lowest), end, padding=0)
        view.setYRange(-0.6, max(len(self._points), 5) - 0.4, padding=0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._left.set_names([point.title for point in self._points], self.width())

    def _draw(self) -> None:
        for item in self._items:
            self.canvas.removeItem(item)
        self._items = []
        self._left.set_names([point.title for point in self._points], self.width())
        for index, point in enumerate(self._points):
            colour = self.theme.merged if point.current else self.theme.control
            bar = pg.BarGraphItem(
                x0=[0], width=[point.x], y=[index], height=_BAR, brush=QColor(colour), pen=None
            )
            end = pg.TextItem(_end(point), color=self.theme.text2, anchor=(0, 0.5))
            end.setFont(face(Face.CAPTION_STRONG if point.current else Face.CAPTION))
            end.setPos(point.x, index)
            for item in (bar, end):
                self.canvas.addItem(item, ignoreBounds=True)
                self._items.append(item)
        self.fit()

    def _click(self, event: object) -> None:
        where = self.canvas.getViewBox().mapSceneToView(event.scenePos())  # type: ignore[attr-defined]
        index = round(where.y())
        if 0 <= index < len(self._points):
            self.merge_chosen.emit(index)


def _end(point: MergePoint) -> str:
    """The text at the end of the bar."""
    return f" {point.x:.3g}"


class MergeScatter(Plot):
    """A figure of each merge, against how far it moved the model or a parameter's value."""

    merge_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self._points: tuple[MergePoint, ...] = ()
        self._parameter = ""
        self._bottom = quantity_axis("bottom")
        self._left = quantity_axis("left", grid=True)
        super().__init__(
            name="Norm of the change and result of every merge",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=False, y=False)
        self.canvas.scene().sigMouseClicked.connect(self._click)
        self._spots = pg.ScatterPlotItem(pxMode=True, size=_POINT)
        self._curve = pg.PlotCurveItem()
        for item in (self._curve, self._spots):
            self.canvas.addItem(item, ignoreBounds=True)
        self._names: list[pg.TextItem] = []

    def show_merges(self, figure: str, points: Sequence[MergePoint], parameter: str = "") -> None:
        """Show these. ``figure``: the name of ``y``; ``parameter``: that of ``x`` if it is not a
        norm."""
        self._points, self._parameter = tuple(points), parameter
        if not self._points:
            self.show_message(EMPTY)
            return
        self._left.set_titles(figure)
        values = [point.x for point in self._points]
        wide = bool(parameter) and min(values) > 0 and max(values) >= _DECADES * min(values)
        self._bottom.logarithmic = wide
        if parameter:
            self._bottom.set_titles(parameter)
            self.title.set_whole(f"{figure} by {parameter}")
        else:
            self._bottom.set_titles("norm of the change, by the experts' mean", "norm")
            self.title.set_whole(f"{figure} against norm")
        self._draw()
        text = ", ".join(f"{p.title} {p.y:.3g} at {p.x:.3g}" for p in self._points)
        self.setAccessibleDescription(f"{self.title.whole}: {text}")
        self.show_canvas()

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        if not self._points:
            return
        x, y = (
            np.array([self._across(p) for p in self._points]),
            np.array([p.y for p in self._points]),
        )
        view = self.canvas.getViewBox()
        high = max(float(np.ptp(y)), 0.02)
        if self._parameter:
            view.setXRange(x.min(), x.max(), padding=0.06)
        else:  # with room for names
            wide = max(float(np.ptp(x)), 0.1)
            view.setXRange(max(0.0, x.min() - 0.08 * wide), x.max() + 0.35 * wide, padding=0)
        view.setYRange(y.min() - 0.12 * high, y.max() + 0.12 * high, padding=0)

    def _across(self, point: MergePoint) -> float:
        return math.log10(point.x) if self._bottom.logarithmic else point.x

    def _draw(self) -> None:
        """A curve along a parameter, or else a name at each point."""
        theme = self.theme
        order = sorted(self._points, key=lambda p: p.x) if self._parameter else []
        pen = pg.mkPen(theme.merged, width=1.8)
        self._curve.setData([self._across(p) for p in order], [p.y for p in order], pen=pen)
        ink = [theme.merged if point.current else theme.control for point in self._points]
        self._spots.setData(
            [self._across(point) for point in self._points],
            [point.y for point in self._points],
            brush=[QColor(colour) for colour in ink],
            pen=pg.mkPen(theme.card, width=1.5),
        )
        for name in self._names:
            self.canvas.removeItem(name)
        self._names = []
        for point in () if self._parameter else self._points:
            name = pg.TextItem(f"  {point.title}  ", color=theme.text2, anchor=(0, 0.5))
            name.setFont(face(Face.CAPTION_STRONG if point.current else Face.CAPTION))
            name.setPos(point.x, point.y)
            self.canvas.addItem(name, ignoreBounds=True)
            self._names.append(name)
        self.fit()
        self._part_names()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._part_names()

    def _part_names(self) -> None:
        """Hide names that would be cut or overlap; the tooltip and the table have them."""
        view = self.canvas.getViewBox()
        taken: list[QRectF] = []
        order = sorted(range(len(self._names)), key=lambda n: not self._points[n].current)
        for index in order:
            name, point = self._names[index], self._points[index]
            corner = view.mapViewToScene(QPointF(point.x, point.y)) + QPointF(_POINT, 0)
            room = name.boundingRect()
            room.moveTo(corner.x(), corner.y() - room.height() / 2)
            outside = room.right() > view.sceneBoundingRect().right()
            if outside:  # then it is at the left of its point
                room.moveRight(corner.x() - 2 * _POINT)
            name.setAnchor((float(outside), 0.5))
            inside = view.sceneBoundingRect().contains(room)
            free = inside and not any(room.intersects(other) for other in taken)
            name.setVisible(free)
            if free:
                taken.append(room)

    def _click(self, event: object) -> None:
        scene = event.scenePos()  # type: ignore[attr-defined]
        view = self.canvas.getViewBox()
        indices = (QPointF(self._across(p), p.y) for p in self._points)
        spots = [view.mapViewToScene(index) - scene for index in indices]
        lengths = [float(np.hypot(spot.x(), spot.y())) for spot in spots]
        if lengths and min(lengths) < _NEAR:
            self.merge_chosen.emit(int(np.argmin(lengths)))
