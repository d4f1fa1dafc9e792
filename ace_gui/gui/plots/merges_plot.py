"""Several merges: one figure as bars, and as points against the norm or a parameter's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtGui import QColor, QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.axes import NameAxis
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.canvas import room_at_end
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Face, Tokens, face

EMPTY: Final = "Merge with several methods to compare them."
_SHARE: Final = 0.34  # maximum part of the width for names
_BAR: Final = 0.62
_POINT: Final = 10  # px
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


class MergeScatter(SpecPlot):
    """A figure of each merge, against how far it moved the model or a parameter's value."""

    def __init__(self, parent: QWidget | None = None) -> None:
        name = "Norm of the change and result of every merge"
        super().__init__(name=name, empty=EMPTY, toggles=False, parent=parent)

    def show_merges(self, figure: str, points: Sequence[MergePoint], parameter: str = "") -> None:
        """Show these. ``figure``: the name of ``y``; ``parameter``: that of ``x`` if it is not a
        norm."""
        if not points:
            self.clear()
            return
        values = [point.x for point in points]
        wide = bool(parameter) and min(values) > 0 and max(values) >= _DECADES * min(values)
        norm = "norm of the change, by the experts' mean"
        described = ", ".join(f"{p.title} {p.y:.3g} at {p.x:.3g}" for p in points)
        title = f"{figure} by {parameter}" if parameter else f"{figure} against norm"
        span = max(values) - min(values)
        x = Axis(
            titles=(parameter,) if parameter else (norm, "norm"),
            logarithmic=wide,
            high=None if parameter else max(values) + 0.3 * max(span, 0.1),  # room for names
            padding=0.06,
        )
        self.present(
            lambda theme: PlotSpec(
                title=title,
                curves=[
                    *_points(points, theme, named=not parameter),
                    *_along(points, theme)[: bool(parameter)],
                ],
                x=x,
                y=Axis(titles=(figure,), padding=0.12),
                columns=lambda: _columns(points, figure, parameter or "norm"),
                description=f"{title}: {described}",
            )
        )


def _points(points: Sequence[MergePoint], theme: Tokens, *, named: bool) -> Iterator[Curve]:
    """The window's merge, then the others."""
    for current in (True, False):
        own = [point for point in points if point.current == current]
        yield Curve(
            key="current" if current else "others",
            label="",
            x=np.array([point.x for point in own]),
            y=np.array([point.y for point in own]),
            colour=theme.merged if current else theme.control,
            width=0,
            symbol="o",
            size=_POINT,
            names=[point.title if named else "" for point in own],
            words=[f"{p.title}: {p.y:.3g} at {p.x:.3g}" for p in own].__getitem__,
            indices=tuple(index for index, point in enumerate(points) if point in own),
            strong=current,
            in_legend=False,
        )


def _along(points: Sequence[MergePoint], theme: Tokens) -> list[Curve]:
    """The curve along a parameter."""
    order = sorted(points, key=lambda point: point.x)
    x, y = np.array([p.x for p in order]), np.array([p.y for p in order])
    curve = Curve(key="curve", label="", x=x, y=y, colour=theme.merged, width=1.8, in_legend=False)
    return [curve]


def _columns(points: Sequence[MergePoint], figure: str, across: str) -> list[FigureColumn]:
    return [
        FigureColumn(title="merge", values=[point.title for point in points]),
        FigureColumn(title=across, values=np.array([point.x for point in points])),
        FigureColumn(title=figure, values=np.array([point.y for point in points])),
    ]
