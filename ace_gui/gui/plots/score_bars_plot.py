"""Scores by task: base, the merge, and the task's own expert, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QColor, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.models.task_figures_model import figure_words, score_text
from ace_gui.gui.plots.frame.axes import NameColumnsAxis
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.plots.frame.marks import Bands
from ace_gui.gui.state.found.score_figures import Figure
from ace_gui.gui.text import sentence_case
from ace_gui.gui.theme import Face, Tokens, face

EMPTY: Final = "Scores appear here once the models have been evaluated."
WIDTH: Final = 0.25  # part of a group's width for one bar
STEP: Final = 0.29
SERIES: Final = ("base", "merge", "expert")
_QUARTERS: Final = [0.25 * n for n in range(5)]
_BELOW: Final = 0.012  # part of the highest bar: room for the axis' zero
_PALE: Final = 48  # of 255: the fill of an outlined bar


@dataclass(frozen=True, kw_only=True)
class ScoreGroup:
    """The bars of one task, or of the mean. ``colour``: the expert's, "" for the mean."""

    title: str
    bars: tuple[Figure, Figure, Figure]
    colour: str = ""
    is_mean: bool = False


class ScoreBarsPlot(Plot):
    """The merge is filled, base and expert are outlined. Numbers are above the bars."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = NameColumnsAxis()
        self._left = quantity_axis("left", grid=True)
        self._groups: tuple[ScoreGroup, ...] = ()
        self._merge = "merged"
        self._items: list[pg.GraphicsObject] = []
        self._numbers: list[pg.TextItem] = []
        super().__init__(
            name="Scores by task",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            parent=parent,
        )
        self._bands = Bands()
        self.canvas.addItem(self._bands, ignoreBounds=True)
        self.canvas.getViewBox().setMouseEnabled(x=False, y=False)
        self.canvas.scene().sigMouseMoved.connect(self._hovered)

    def show_scores(self, groups: Sequence[ScoreGroup], merge: str, quantity: str) -> None:
        """Draw these. ``merge``: the name of the merged model; ``quantity``: what is plotted."""
        self._groups, self._merge = tuple(groups), merge
        self.title.set_whole(sentence_case(f"{quantity} by task"))
        self._draw()
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show a message instead of the bars."""
        self._groups = ()
        self.show_message(message or EMPTY)

    def columns(self) -> Sequence[FigureColumn]:
        """The same figures as a table."""
        found = [FigureColumn(title="task", values=[group.title for group in self._groups])]
        for index, name in enumerate(self._names):
            bars = [group.bars[index] for group in self._groups]
            found.append(FigureColumn(title=name, values=np.array([bar.value for bar in bars])))
            errors = np.array([bar.error for bar in bars])
            found.append(FigureColumn(title=f"± {name}", values=errors, tip="Standard error."))
        return found

    @property
    def _names(self) -> tuple[str, str, str]:
        return "base", self._merge, "expert"

    def restyle(self, before: Tokens) -> None:
        swap = dict(zip(before.expert_colours, self.theme.expert_colours, strict=True))
        self._groups = tuple(
            replace(group, colour=swap.get(group.colour, group.colour)) for group in self._groups
        )
        self._draw()

    def rescale(self) -> None:
        """There is only one scale."""

    def fit(self) -> None:
        bars = [bar for group in self._groups for bar in group.bars]
        tops = [bar.value + _finite(bar.error) for bar in bars]
        known = [value for value in tops if math.isfinite(value)]
        top = max([*known, 0.0]) or 1.0
        low = min([*known, 0.0])
        view = self.canvas.getViewBox()
        quarters = [[(at, f"{at:g}") for at in _QUARTERS], []]
        self._left.setTicks(quarters if top <= 1.15 and low >= 0.0 else None)
        view.setXRange(-0.55, len(self._groups) - 0.45, padding=0)
        number = 1.3 * QFontMetrics(face(Face.CAPTION_STRONG)).height() / max(view.height(), 1.0)
        above = max(0.1 * top, (top - low) * number / max(1 - number, 0.5))
        view.setYRange(low - _BELOW * top, top + above, padding=0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._name_groups()
        self.fit()
        self._draw_numbers()

    # Drawing

    def _draw(self) -> None:
        for item in self._items:
            self.canvas.removeItem(item)
        self._items = []
        if not self._groups:
            return
        theme = self.theme
        means = [n for n, group in enumerate(self._groups) if group.is_mean]
        self._bands.set_spans([(n - 0.46, n + 0.46) for n in means])
        self._bands.set_colour(theme.sunk)
        for series in range(len(SERIES)):
            self._draw_series(series)
        zero = pg.InfiniteLine(pos=0, angle=0, pen=pg.mkPen(theme.axis, width=1))
        self._add(zero)
        self._show_legend()
        self._name_groups()
        self.fit()
        self._draw_numbers()
        self._describe()

    def _draw_series(self, series: int) -> None:
        """Bars of one series, with error bars of one standard error."""
        theme = self.theme
        groups = [(n, group) for n, group in enumerate(self._groups) if _known(group.bars[series])]
        if not groups:
            return
        x = np.array([_bar_centre(n, series) for n, _ in groups])
        y = np.array([group.bars[series].value for _, group in groups])
        pens, brushes = zip(*(self._look(series, group) for _, group in groups), strict=True)
        bars = pg.BarGraphItem(x=x, height=y, width=WIDTH, pens=pens, brushes=brushes)
        self._add(bars)
        errors = np.array([_finite(group.bars[series].error) for _, group in groups])
        ink = theme.card if series == 1 else theme.text2
        above = pg.ErrorBarItem(
            x=x, y=y, top=errors, bottom=0 * errors, beam=0.06, pen=pg.mkPen(theme.text2, width=1.2)
        )
        below = pg.ErrorBarItem(
            x=x, y=y, top=0 * errors, bottom=errors, beam=0.06, pen=pg.mkPen(ink, width=1.2)
        )
        for item in (above, below):
            self._add(item)

    def _look(self, series: int, group: ScoreGroup) -> tuple[object, object]:
        theme = self.theme
        if series == 1:
            return pg.mkPen(None), pg.mkBrush(theme.merged)
        colour = QColor(theme.base if series == 0 else group.colour or theme.axis)
        pale = QColor(colour)
        pale.setAlpha(_PALE)
        return pg.mkPen(colour, width=1.4), pg.mkBrush(pale)

    def _show_legend(self) -> None:
        theme = self.theme
        entries = [
            LegendEntry(key="base", label="base", colour=theme.base, symbol="s", filled=False),
            LegendEntry(key="merge", label="merged", colour=theme.merged, symbol="s"),
            LegendEntry(
                key="expert",
                label="its expert, in colour",
                colour=theme.axis,
                symbol="s",
                filled=False,
            ),
        ]
        self.legend.set_entries(entries)

    def _name_groups(self) -> None:
        self._bottom.set_names([group.title for group in self._groups], self.width())

    def _draw_numbers(self) -> None:
        """Above the bars; the merge's first, the others where they cover no number.

        If there is little room, all are written without the leading zero.
        """
        while self._numbers:
            self.canvas.removeItem(self._numbers.pop())
        view = self.canvas.getViewBox()
        spacing = STEP * view.width() / max(len(self._groups), 1)
        wide = QFontMetrics(face(Face.CAPTION_STRONG)).horizontalAdvance(score_text(0.0)) <= spacing
        bars = [
            (n, series, bar)
            for n, group in enumerate(self._groups)
            for series, bar in enumerate(group.bars)
            if _known(bar)
        ]
        taken: list[QRectF] = []
        for n, series, bar in sorted(bars, key=lambda each: each[1] != 1):
            number = score_text(bar.value)
            written = number if wide else number.removeprefix("0")
            font = face(Face.CAPTION_STRONG if series == 1 else Face.CAPTION)
            metrics = QFontMetrics(font)
            size = QSizeF(metrics.horizontalAdvance(written), metrics.height())
            top = QPointF(_bar_centre(n, series), bar.value + _finite(bar.error))
            corner = view.mapViewToScene(top) - QPointF(size.width() / 2, size.height())
            rect = QRectF(corner, size)
            if any(map(rect.intersects, taken)):
                continue
            taken.append(rect)
            ink = self.theme.text if series == 1 else self.theme.text2
            item = pg.TextItem(written, color=ink, anchor=(0.5, 1))
            item.setFont(font)
            item.setPos(top)
            self.canvas.addItem(item, ignoreBounds=True)
            self._numbers.append(item)

    def _add(self, item: pg.GraphicsObject) -> None:
        self.canvas.addItem(item, ignoreBounds=True)
        self._items.append(item)

    def _describe(self) -> None:
        self.setAccessibleDescription("; ".join(map(self._words, self._groups)))

    def _words(self, group: ScoreGroup) -> str:
        parts = [
            f"{name} {figure_words(bar)}"
            for name, bar in zip(self._names, group.bars, strict=True)
            if _known(bar)
        ]
        return f"{group.title}: {', '.join(parts)}"

    def _hovered(self, scene_position: QPointF) -> None:
        view = self.canvas.getViewBox()
        index = round(view.mapSceneToView(scene_position).x())
        if not 0 <= index < len(self._groups) or self.message() is not None:
            QToolTip.hideText()
            return
        at = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(at, self._words(self._groups[index]), self.canvas)


def _bar_centre(group: int, series: int) -> float:
    return group + (series - 1) * STEP


def _known(bar: Figure) -> bool:
    return math.isfinite(bar.value)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
