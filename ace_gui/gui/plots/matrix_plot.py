"""One number for every pair of experts, as a matrix of coloured cells with numbers.

T experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QToolTip, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.axes import NameAxis, NameColumnsAxis
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.colours import cell_colour, ink_on
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Choose a layer to compare its experts."
_NUMBER_SIZE: Final = 0.9  # of the window's font
_NAME_SHARE: Final = 1.15  # names may be close together, because the cells separate them
_LEAST_SPAN: Final = 0.1  # range of the colours, so that rounding does not look like a difference


class _Cells(pg.GraphicsObject):
    """T × T filled rectangles. An image would be a bitmap in an exported drawing."""

    def __init__(self) -> None:
        super().__init__()
        self._colours: list[list[str]] = []

    def show_colours(self, colours: list[list[str]]) -> None:
        """Set one colour per cell, the first row on top."""
        self.prepareGeometryChange()
        self._colours = colours
        self.update()

    def boundingRect(self) -> QRectF:
        count = len(self._colours)
        return QRectF(-0.5, -0.5, count, count)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,  # noqa: ARG002  (Qt's signature)
        widget: QWidget | None = None,  # noqa: ARG002
    ) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        gap = 0.02
        for row, colours in enumerate(self._colours):
            for column, colour in enumerate(colours):
                cell = QRectF(column - 0.5 + gap, row - 0.5 + gap, 1 - 2 * gap, 1 - 2 * gap)
                painter.fillRect(cell, QColor(colour))


class ExpertMatrixPlot(Plot):
    """T × T numbers in [−1, 1]. The colours span the values of different experts."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._rows = NameAxis(share=0.3)
        self._across = NameColumnsAxis()
        self._names: tuple[str, ...] = ()
        self._values_TT = np.zeros((0, 0))
        self._meaning = ""
        self._directed = ""
        self._cells = _Cells()
        self._numbers: list[pg.TextItem] = []
        self._written: tuple[object, ...] = ()
        super().__init__(
            name=name, empty=EMPTY, bottom=self._across, left=self._rows, parent=parent
        )
        view = self.canvas.getViewBox()
        view.setMouseEnabled(x=False, y=False)
        view.invertY(True)
        self.canvas.addItem(self._cells, ignoreBounds=True)
        view.sigResized.connect(self._fill)
        self.canvas.scene().sigMouseMoved.connect(self._hovered)

    def show_matrix(
        self,
        title: str,
        names: Sequence[str],
        values_TT: NDArray[np.float64],
        *,
        meaning: str,
        caption: str = "",
        directed: str = "",
    ) -> None:
        """Draw ``values_TT``, NaN if unknown. ``meaning`` explains a number.

        ``directed``: a text with {one} for the row and {other} for the column if these are
        different properties of an expert. Then the matrix is not symmetric and its diagonal counts.
        """
        self.set_busy(False)
        same = np.array_equal(values_TT, self._values_TT, equal_nan=True)
        if same and (title, tuple(names)) == (self.title.whole, self._names):
            return
        self._names, self._values_TT, self._meaning = tuple(names), values_TT, meaning
        self._directed = directed
        self.title.set_whole(title)
        pairs = "" if directed else agreement(names, values_TT)
        self.caption.set_whole(" ".join(filter(None, (pairs, caption))))
        self.setAccessibleDescription(f"{title}. {self.caption.whole}")
        self.show_canvas()
        self._draw()

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of the matrix."""
        self.set_busy(False)
        self._names = ()
        self.show_message(message or EMPTY)

    def columns(self) -> tuple[FigureColumn, ...]:
        """The matrix as a table, one row and one column per expert."""
        numbers = zip(self._names, self._values_TT.T, strict=True)
        return (
            FigureColumn(title="expert", values=self._names),
            *(
                FigureColumn(title=name, values=values, tip=self._meaning)
                for name, values in numbers
            ),
        )

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        count = max(len(self._names), 1)
        view = self.canvas.getViewBox()
        view.setXRange(-0.5, count - 0.5, padding=0)
        view.setYRange(-0.5, count - 0.5, padding=0)

    # Drawing

    def _fill(self) -> None:
        """Draw what depends on the size: the names and the numbers."""
        self._rows.set_names(self._names, self.width())
        self._across.set_names(self._names, _NAME_SHARE * self.canvas.getViewBox().width())
        self._draw_numbers()

    def _draw(self) -> None:
        if not self._names:
            return
        self._cells.show_colours(self._colours())
        self.fit()
        self._fill()

    def _colours(self) -> list[list[str]]:
        """A diagonal without information has a muted colour."""
        span, count = self._span(), len(self._names)
        return [
            [
                self.theme.grid
                if self._is_idle(row, column) or np.isnan(self._values_TT[row, column])
                else cell_colour(float(self._values_TT[row, column]) / span, self.theme)
                for column in range(count)
            ]
            for row in range(count)
        ]

    def _is_idle(self, row: int, column: int) -> bool:
        return row == column and not self._directed

    def _span(self) -> float:
        idle = np.eye(len(self._names), dtype=bool) & (not self._directed)
        pairs = np.abs(self._values_TT[~idle])
        known = pairs[np.isfinite(pairs)]
        return max(float(known.max(initial=0.0)), _LEAST_SPAN)

    def _draw_numbers(self) -> None:
        """Draw the numbers unless they exist already; their cells do not depend on the size."""
        font = self.font()
        font.setPointSizeF(_NUMBER_SIZE * font.pointSizeF())
        numbers = self._texts_and_inks() if self._has_room(QFontMetricsF(font)) else []
        if (font, *numbers) == self._written:
            return
        self._written = (font, *numbers)
        for number in self._numbers:
            self.canvas.removeItem(number)
        self._numbers = []
        for row, column, text, ink in numbers:
            number = pg.TextItem(text, color=ink, anchor=(0.5, 0.5))
            number.setFont(font)
            number.setPos(column, row)
            self.canvas.addItem(number, ignoreBounds=True)
            self._numbers.append(number)

    def _texts_and_inks(self) -> list[tuple[int, int, str, str]]:
        """Row, column, text and text colour of every number."""
        return [
            (
                row,
                column,
                pair_text(float(self._values_TT[row, column])),
                self.theme.text2 if self._is_idle(row, column) else ink_on(colour),
            )
            for row, colours in enumerate(self._colours())
            for column, colour in enumerate(colours)
        ]

    def _has_room(self, metrics: QFontMetricsF) -> bool:
        """Whether the longest number fits into a cell."""
        view, count = self.canvas.getViewBox(), max(len(self._names), 1)
        wide = metrics.horizontalAdvance(pair_text(-0.88))
        return view.width() / count >= wide + 2 and view.height() / count >= metrics.height()

    def _hovered(self, scene_position: QPointF) -> None:
        view = self.canvas.getViewBox()
        at = view.mapSceneToView(scene_position)
        row, column = round(at.y()), round(at.x())
        inside = view.sceneBoundingRect().contains(scene_position)
        count = len(self._names)
        if not inside or not (0 <= row < count and 0 <= column < count):
            QToolTip.hideText()
            return
        words = self._directed or "{one} and {other}"
        pair = words.format(one=self._names[row], other=self._names[column])
        value = number_text(float(self._values_TT[row, column]), 4)
        point = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(point, f"{pair}: {self._meaning} {value}", self.canvas)


def pair_text(value: float) -> str:
    """A pair's number for a cell: ``.31``, ``−.02``, ``1``, ``0``, ``–``."""
    if np.isnan(value):
        return "–"
    text = f"{abs(value):.2f}"
    if text in ("0.00", "1.00"):
        return "0" if text == "0.00" else ("−1" if value < 0 else "1")
    return f"{'−' if value < 0 else ''}{text[1:]}"


def agreement(names: Sequence[str], values_TT: NDArray[np.float64]) -> str:
    """A sentence: the two experts with most in common, and the two with least."""
    pairs = [
        (float(values_TT[a, b]), f"{names[a]} and {names[b]}")
        for a, b in combinations(range(len(names)), 2)
        if np.isfinite(values_TT[a, b])
    ]
    if not pairs:
        return ""
    (low, least), (high, most) = min(pairs), max(pairs)
    if len(pairs) == 1:
        return f"{most}: {number_text(high)}."
    return f"{most} agree most ({number_text(high)}), {least} least ({number_text(low)})."
