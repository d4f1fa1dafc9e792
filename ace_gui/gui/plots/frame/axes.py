"""Axes with plain numbers: 0.01 or 10⁻⁵, never 1e-05 or an SI prefix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import Any

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QGraphicsSceneResizeEvent

# isort: split
import pyqtgraph as pg

from ace_gui.formatting import number_text, power_of_ten
from ace_gui.gui.theme import Face, face

LONGEST_LABEL = "0.001"  # a number is below its tick, and half of it extends beyond the axis
_TITLE_MARGIN = 4  # px, of Qt's text items
_NAMED = 72  # minimum width in px for the name "Block 12"
_LABELLED_WITHIN_DECADE = (2, 5)
_SHORT = 1.6  # decades: on a shorter axis 2 and 5 have labels, too
Ticks = list[tuple[float | None, list[float]]]


class PlainAxis(pg.AxisItem):
    """An axis that paints directly; pyqtgraph records and replays a picture, which is slower."""

    picture: Any
    _specs: tuple[Any, ...] | None = None

    def paint(self, p: QPainter, opt: object, widget: object) -> None:  # noqa: ARG002
        if self.picture is None:  # pyqtgraph's flag that ticks and texts must be computed again
            self._specs = self.generateDrawSpecs(p)
            if self._specs is not None:
                self._specs = (*self._specs[:2], _apart(self._specs[2]))
                ground = self.getViewWidget().backgroundBrush().color()
                _make_opaque([pen for pen, _start, _end in self._specs[1]], ground)
            self.picture = self._specs
        if self._specs is not None:
            p.save()
            self.drawPicture(p, *self._specs)
            p.restore()


def _apart(texts: Sequence[Any]) -> list[Any]:
    """The tick labels that do not overlap; the first, of the coarsest ticks, take precedence."""
    kept: list[Any] = []
    for text in texts:
        if not any(text[0].intersects(other[0]) for other in kept):
            kept.append(text)
    return kept


def _make_opaque(pens: Sequence[QPen], ground: QColor) -> None:
    """The same colour as an opaque one: Qt draws translucent lines six times slower."""
    for pen in {id(pen): pen for pen in pens}.values():
        colour = pen.color()
        share = colour.alphaF()
        parts = (
            (colour.redF(), ground.redF()),
            (colour.greenF(), ground.greenF()),
            (colour.blueF(), ground.blueF()),
        )
        mixed = (share * of_pen + (1 - share) * of_ground for of_pen, of_ground in parts)
        pen.setColor(QColor.fromRgbF(*mixed))


def label_overhang() -> float:
    """Pixels that a label at the end of a horizontal axis extends beyond it."""
    return QFontMetricsF(face(Face.CAPTION)).horizontalAdvance(LONGEST_LABEL) / 2


class QuantityAxis(PlainAxis):
    """An axis of a quantity, linear or logarithmic.

    If ``logarithmic`` is set, positions along the axis are log10 of the quantity.
    """

    labelText: str
    labelStyle: dict[str, str]
    _titles: tuple[str, ...] = ()
    _is_low = False

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation, maxTickLength=-4)
        self._overhang = label_overhang()
        self.logarithmic = False
        self.enableAutoSIPrefix(False)
        self.setStyle(tickTextOffset=4, autoExpandTextSpace=True)

    def set_titles(self, *titles: str) -> None:
        """Show the first of ``titles``, longest first, that fits on the axis.

        A cut title would be worse than none, so there is none if not even the last one fits.
        """
        if titles == self._titles:
            return
        self._titles = titles
        if self.orientation == "left":  # shown above the plot, because rotated text is hard to read
            self.retitled(self.title)
            return
        self.fit_letters()

    def fit_letters(self) -> None:
        """Apply the caption's font size to the title, and reserve space for labels at the ends."""
        self._overhang = label_overhang()
        if self.orientation != "left" and self._titles:
            points = f"{face(Face.CAPTION).pointSizeF():.2f}pt"
            self.setLabel(self._titles[0], **{**self.labelStyle, "font-size": points})
            self._fit_title()

    def make_room(self, low: bool) -> None:
        """Hide the title in a low plot."""
        if low != self._is_low:
            self._is_low = low
            self.showLabel(bool(self._titles))

    def showLabel(self, show: bool = True) -> None:
        super().showLabel(show and not self._is_low)

    @property
    def title(self) -> str:
        """The title that fits."""
        return self._titles[0] if self._titles else ""

    retitled: Callable[[str], object] = staticmethod(lambda _title: None)
    """Called with the title of a vertical axis."""

    def resizeEvent(self, event: QGraphicsSceneResizeEvent | None = None) -> None:
        if self.orientation != "left":
            self._fit_title()
        super().resizeEvent(event)

    def _fit_title(self) -> None:
        size = self.size()
        room = size.height() if self.orientation in ("left", "right") else size.width()
        if room <= 0 or not self._titles or self.label is None:  # not laid out yet, or closed
            return
        metrics, margins = QFontMetricsF(face(Face.CAPTION)), 2 * _TITLE_MARGIN
        fitting = (t for t in self._titles if metrics.horizontalAdvance(t) + margins <= room)
        title = next(fitting, "")
        if title != self.labelText:
            self.labelText = title
            self.label.setHtml(self.labelString())

    def boundingRect(self) -> QRectF:
        """Wide enough for a label at either end, with or without grid."""
        across = self._overhang if self.orientation == "bottom" else 0
        return super().boundingRect().adjusted(-across, 0, across, 0)

    def tickValues(self, low: float, high: float, size: float) -> Ticks:
        if not self.logarithmic:
            return super().tickValues(low, high, size)
        low, high = sorted((low, high))
        decades = range(floor(low), ceil(high) + 1)
        room = 44 if self.orientation == "bottom" else 20
        stride = max(1, ceil((high - low) * room / max(size, 1)))
        labelled = [float(d) for d in decades if d % stride == 0 and low <= d <= high]
        if stride > 1:
            between = [float(d) for d in decades if d % stride and low <= d <= high]
            return [(1.0, labelled), (None, between)]
        named = _LABELLED_WITHIN_DECADE if high - low <= _SHORT else ()
        minor = [d + log10(m) for d in decades for m in named]
        return [(1.0, labelled), (None, [v for v in minor if low <= v <= high])]

    def tickStrings(
        self, values: Sequence[float], scale: float, spacing: float | None
    ) -> list[str]:
        if not self.logarithmic:
            return [_plain(value * scale, (spacing or 1.0) * scale) for value in values]
        if spacing is not None:
            return [self._decade(round(value)) for value in values]
        if self.range[1] - self.range[0] > _SHORT:
            return [""] * len(values)
        return [_within_decade(value) for value in values]

    def _decade(self, exponent: int) -> str:
        """Plain numbers if all labels of the axis can be plain."""
        low, high = self.range
        if low >= -4.3 and high <= 4.3:
            return number_text(10.0**exponent, 1)
        return power_of_ten(exponent)


def _within_decade(position: float) -> str:
    exponent = floor(position + 1e-9)
    digit = round(10 ** (position - exponent))
    return number_text(digit * 10.0**exponent, 1) if digit in _LABELLED_WITHIN_DECADE else ""


def _plain(value: float, spacing: float) -> str:
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5 or spacing >= 1e-3:
        indices = max(0, ceil(-log10(spacing) - 1e-9))
        return f"{value:.{indices}f}".replace("-", "−")
    return number_text(value, max(1, floor(log10(abs(value))) - floor(log10(spacing)) + 1))


class NameAxis(PlainAxis):
    """A vertical axis with a name at each whole number, elided in the middle to fit.

    ``share``: the maximum part of the plot's width for names.
    """

    def __init__(self, share: float = 0.35) -> None:
        super().__init__("left", maxTickLength=0)
        self._names: tuple[str, ...] = ()
        self._share = share

    def set_names(self, names: Sequence[str], plot_width: float) -> None:
        """Show ``names`` at 0, 1, 2, …"""
        self._names = tuple(names)
        metrics = QFontMetricsF(self.font())
        room = self._share * plot_width
        texts = [metrics.elidedText(n, Qt.TextElideMode.ElideMiddle, room) for n in self._names]
        self.setTicks([list(enumerate(texts))])
        self.setWidth(max((metrics.horizontalAdvance(t) for t in texts), default=0) + 12)


class NameColumnsAxis(PlainAxis):
    """A horizontal axis with a name at each whole number, elided to its column's width."""

    def __init__(self) -> None:
        super().__init__("bottom", maxTickLength=0)
        self.setStyle(hideOverlappingLabels=False)

    def set_names(self, names: Sequence[str], plot_width: float) -> None:
        """Show ``names`` at 0, 1, 2, …, or only some of them if there is little room."""
        metrics = QFontMetricsF(self.font())
        each = 0.85 * plot_width / max(len(names), 1)
        longest = max((metrics.horizontalAdvance(name) for name in names), default=0.0)
        needed = min(longest, metrics.horizontalAdvance("query…"))
        stride = next(s for s in _strides() if s * each >= needed)
        mode = Qt.TextElideMode.ElideMiddle
        shown = list(enumerate(names))[::stride]
        texts = [(i, metrics.elidedText(name, mode, stride * each)) for i, name in shown]
        self.setTicks([texts])


class BlockAxis(QuantityAxis):
    """The position along the model, with each block named below its middle."""

    def __init__(self) -> None:
        super().__init__("bottom")
        self._middles: tuple[tuple[float, str], ...] = ()

    def set_blocks(self, starts: Sequence[tuple[int, str]], count: int) -> None:
        """``starts``: index of the first layer of each block, and the block's number.

        ``count``: the number of layers.
        """
        self._middles = tuple(
            ((low + high) / 2, label) for (low, high), label in block_spans(starts, count)
        )
        self.picture = None
        self.update()

    def tickValues(self, low: float, high: float, size: float) -> Ticks:
        shown = [position for position, _ in self._middles if low <= position <= high]
        if not shown:
            return []
        stride = next(s for s in _strides() if len(shown) / s * 30 <= max(size, 30))
        labelled = [position for position, _ in self._middles[::stride] if low <= position <= high]
        self._roomy = size / max(len(labelled), 1) > _NAMED
        return [(1.0, labelled)]

    def tickStrings(
        self,
        values: Sequence[float],
        scale: float,  # noqa: ARG002  (pyqtgraph's signature)
        spacing: float | None,  # noqa: ARG002
    ) -> list[str]:
        labels = dict(self._middles)
        return [f"Block {labels[value]}" if self._roomy else labels[value] for value in values]

    _roomy = False


def block_spans(
    starts: Sequence[tuple[int, str]], count: int
) -> list[tuple[tuple[float, float], str]]:
    """Start and end of each block, half a layer beyond its ends, and its number.

    Empty if there are no layers.
    """
    ends = [*(start for start, _ in starts), count][1:]
    return [
        ((start - 0.5, end - 0.5), label) for (start, label), end in zip(starts, ends, strict=True)
    ]


def _strides() -> list[int]:
    return [digit * 10**power for power in range(6) for digit in (1, 2, 5)]
