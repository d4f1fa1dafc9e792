"""Singular values of one layer: every expert, the merge before and after refinement."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QToolTip, QWidget

from ace_gui.gui.plots.one_layer.spectrum_curves import short_label

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.figures.findings import ExpertSpectra, LayerSpectrum
from ace_gui.engine.contract.figures.spectral_figures import MARKS, directions_for
from ace_gui.formatting import counted, number_text, power_of_ten
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.end_labels import EndLabel, EndLabels
from ace_gui.gui.plots.one_layer.spectrum_curves import (
    AFTER,
    BEFORE,
    FLOOR_EXPONENT,
    Curve,
    Picture,
    Quantity,
    picture_of_comparison,
    picture_of_experts,
    picture_of_pair,
    picture_of_spectrum,
    same_experts,
    unrefined,
)
from ace_gui.gui.text import sentence_case
from ace_gui.gui.theme import Tokens

__all__ = ["AFTER", "BEFORE", "FLOOR_EXPONENT", "SpectrumPlot", "unrefined"]

NEAR_PIXELS = 14.0
_FADED = 0.3  # opacity of the curves that are not under the pointer


@dataclass(frozen=True, kw_only=True)
class Words:
    """The texts of a spectrum plot, whose values have this ``symbol``.

    By quantity: ``titles`` of the axis, longest first, and ``options`` with text and tooltip.
    ``share`` describes a cumulative value.
    """

    name: str
    empty: str
    symbol: str
    titles: Mapping[Quantity, tuple[str, ...]]
    options: Mapping[Quantity, tuple[str, str]]
    share: str


SINGULAR_VALUES: Final = Words(
    name="Singular values of the layer",
    empty="Choose a layer to see its singular values.",
    symbol="σ",
    titles={
        Quantity.VALUE: ("singular value σᵢ", "σᵢ"),
        Quantity.RELATIVE: ("singular value σᵢ / σ₁", "σᵢ / σ₁"),
        Quantity.ENERGY: ("cumulative energy (%)", "energy (%)", "%"),
    },
    options={
        Quantity.VALUE: ("singular values", "σᵢ, largest first"),
        Quantity.RELATIVE: (
            "relative to the largest",
            "σᵢ / σ₁: the shape of each spectrum, whatever its size",
        ),
        Quantity.ENERGY: (
            "cumulative energy",
            "Σσ² of the first i values as a share of all, with marks at 90, 95 and 99 %",
        ),
    },
    share="{share:.1f} % of the energy in {i} directions",
)


class SpectrumPlot(Plot):
    """Singular values against their index, largest first; the legend switches curves off.

    ``quantity`` chooses between σᵢ, σᵢ/σ₁ and the cumulative energy.
    """

    words = SINGULAR_VALUES

    def __init__(self, parent: QWidget | None = None) -> None:
        self._left = quantity_axis("left", *self.words.titles[Quantity.VALUE], grid=True)
        self._curves: tuple[Curve, ...] = ()
        self._items: dict[str, pg.PlotDataItem] = {}
        self._marks: list[pg.GraphicsObject] = []
        self._dots: dict[str, pg.ScatterPlotItem] = {}
        self._picture: Picture | None = None
        self._sources: tuple[object, ...] = ()
        self._drawn: dict[str, NDArray[np.float64]] = {}
        super().__init__(
            name=self.words.name,
            empty=self.words.empty,
            bottom=quantity_axis("bottom", "index i"),
            left=self._left,
            toggles=True,
            logarithmic=True,
            parent=parent,
        )
        options: dict[Hashable, tuple[str, str]]
        options = {q: (sentence_case(text), tip) for q, (text, tip) in self.words.options.items()}
        self.quantity = Choice("Quantity", options, self)
        self.quantity.chosen.connect(self.rescale)
        self.add_choice(self.quantity)
        self._ends = EndLabels()
        self._ends.clicked.connect(lambda key: self.legend.chip(key).click())
        self.canvas.frame.add_axes({"right": self._ends})
        self.canvas.frame.setContentsMargins(0, 4, 0, 0)  # names are enough
        self.add_curve_menu()
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self.legend.toggled.connect(lambda *_: self._show_switched_on())
        self.canvas.scene().sigMouseMoved.connect(self._hovered)
        self.canvas.left.connect(lambda: self._bring_forward(None))
        self.canvas.scene().sigMouseClicked.connect(self._clicked)

    def show_spectrum(self, spectrum: LayerSpectrum, expert_colours: Mapping[str, str]) -> None:
        """Draw ``spectrum``; ``expert_colours`` maps each expert's name to "#rrggbb"."""
        self.set_busy(False)
        picture = picture_of_spectrum(spectrum, expert_colours)
        self.show_picture(picture, spectrum, dict(expert_colours))

    def show_experts(
        self, found: ExpertSpectra, expert_colours: Mapping[str, str], *, awaited: bool = True
    ) -> None:
        """Draw the experts alone.

        If this recipe's merge is ``awaited``, the experts drawn for another recipe stay.
        """
        match self._sources:
            case ((ExpertSpectra() | LayerSpectrum()) as known, colours) if (
                colours == expert_colours
                and same_experts(known, found)
                and (awaited or isinstance(known, ExpertSpectra))
            ):
                return
        self.show_picture(picture_of_experts(found, expert_colours), found, dict(expert_colours))

    def show_comparison(
        self, old: LayerSpectrum, new: LayerSpectrum, labels: tuple[str, str] = ("old", "new")
    ) -> None:
        """Draw the merged delta of two merges of one layer in one plot, without experts."""
        self.set_busy(False)
        self.show_picture(picture_of_comparison(old, new, labels), *labels, old, new)

    def show_pair(
        self, title: str, caption: str, spectra: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """Draw two spectra by label in one plot."""
        self.set_busy(False)
        picture = picture_of_pair(title, caption, spectra)
        self.show_picture(picture, title, caption, *spectra, *spectra.values())

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of a spectrum."""
        self.set_busy(False)
        self._picture, self._sources = None, ()
        self.show_message(message or self.words.empty)

    def curves(self) -> tuple[Curve, ...]:
        """The drawn curves, the merge first; empty for a message."""
        return self._curves if self._picture is not None else ()

    def columns(self) -> tuple[FigureColumn, ...]:
        """The singular values as a table, one row per index; NaN beyond the end of a spectrum."""
        curves = self.curves()
        count = max((len(curve.values) for curve in curves), default=0)
        padded = {
            curve.entry.label: np.pad(
                curve.of(Quantity.VALUE), (0, count - len(curve.values)), constant_values=np.nan
            )
            for curve in curves
        }
        return (
            FigureColumn(title="i", values=np.arange(1, count + 1)),
            *(
                FigureColumn(title=f"{self.words.symbol}, {label}", values=v)
                for label, v in padded.items()
            ),
        )

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (the picture knows every theme)
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        heights = [v[np.isfinite(v)] for k, v in self._drawn.items() if self.legend.is_on(k)]
        present = np.concatenate([np.zeros(0), *heights])
        if not present.size:
            return
        low = float(present.min()) if self._logarithmic else 0.0
        view = self.canvas.getViewBox()
        length = max(len(values) for values in self._drawn.values())
        view.setLimits(xMin=1, xMax=max(length, 2))
        view.setXRange(1, max(length, 2), padding=0)
        view.setYRange(low, max(float(present.max()), low + 1e-300), padding=0.04)

    # Drawing

    @property
    def _logarithmic(self) -> bool:
        return self.log_box.isChecked() and self.quantity.current is not Quantity.ENERGY

    def show_picture(self, picture: Picture, *sources: object) -> None:
        """Draw a picture, unless that of the same ``sources`` is drawn already.

        The zoom is kept if the layer is the same.
        """
        known, self._sources = self._sources, sources
        if len(known) == len(sources) and all(map(_same, known, sources)):
            return
        zoomed = self._picture is not None and self._picture.title == picture.title
        view = self.canvas.getViewBox()
        across = view.viewRange()[0]
        self._picture = picture
        self.title.set_whole(picture.title)
        self._draw()
        if zoomed:
            view.setXRange(*across, padding=0)
        self.show_canvas()

    def _draw(self) -> None:
        picture = self._picture
        if picture is None:
            return
        quantity = self.quantity.current
        self.log_box.setEnabled(quantity is not Quantity.ENERGY)
        self._left.logarithmic = self._logarithmic
        self._left.setScale(100 if quantity is Quantity.ENERGY else 1)
        self._left.set_titles(*self.words.titles[quantity])
        self._left.picture = None
        self._curves = picture.curves(self.theme)
        self.legend.set_entries(picture.legend(self.theme))
        self._drawn = self._heights()
        self._draw_curves()
        for mark in self._marks:
            self.canvas.removeItem(mark)
        self._dots = {}
        self._marks = self._energy_marks() if quantity is Quantity.ENERGY else []
        self._show_switched_on()
        self.fit()
        self.caption.set_whole(" · ".join(filter(None, (picture.caption, self._cut_text()))))
        self.setAccessibleDescription(f"{picture.title}. {self.caption.whole}")

    def _draw_curves(self) -> None:
        """Reuse items of existing curves, because creating them is slower than drawing.

        The merge is drawn over the experts and comes first in the legend.
        """
        for key in self._items.keys() - {curve.entry.key for curve in self._curves}:
            self.canvas.removeItem(self._items.pop(key))
        for depth, curve in enumerate(self._curves):
            entry, heights = curve.entry, self._drawn[curve.entry.key]
            if entry.key not in self._items:
                self._items[entry.key] = self._new_item()
            self._items[entry.key].setZValue(len(self._curves) - depth)
            self._items[entry.key].setData(
                np.arange(1, len(heights) + 1),
                heights,
                pen=pg.mkPen(entry.colour, width=entry.width, style=entry.style),
                connect="finite",
            )

    def _new_item(self) -> pg.PlotDataItem:
        item = pg.PlotDataItem()
        self.canvas.addItem(item, ignoreBounds=True)
        item.setClipToView(True)  # SVG pictures have no clipping of their own
        return item

    def _energy_marks(self) -> list[pg.GraphicsObject]:
        """A line at each share, and a dot where each merge reaches it."""
        marks: list[pg.GraphicsObject] = []
        pen = pg.mkPen(self.theme.text2, width=1, style=Qt.PenStyle.DotLine)
        for index, share in enumerate(MARKS):
            # Next to each other on their lines: below each other they would overlap.
            options = {
                "position": 0.55 + 0.17 * index,
                "anchors": [(0.5, 0.5), (0.5, 0.5)],
                "color": self.theme.text2,
                "fill": self.theme.card,
            }
            label = f"{share:.0%}".replace("%", " %")
            line = pg.InfiniteLine(share, angle=0, pen=pen, label=label, labelOpts=options)
            line.setZValue(-1)
            marks.append(line)
        for curve in self._curves:
            if curve.entry.key.startswith("expert "):
                continue
            marks.append(self._dots_of(curve))
        for mark in marks:
            self.canvas.addItem(mark, ignoreBounds=True)
        return marks

    def _dots_of(self, curve: Curve) -> pg.ScatterPlotItem:
        """The points where the curve reaches each of the shares."""
        reached = [directions_for(curve.values, share) for share in MARKS]
        x = [index for index in reached if index]
        y = [self._drawn[curve.entry.key][index - 1] for index in x]
        brush, nothing = pg.mkBrush(curve.entry.colour), pg.mkPen(None)
        dots = pg.ScatterPlotItem(x=x, y=y, size=7, brush=brush, pen=nothing)
        dots.setZValue(len(self._curves) + 1)
        self._dots[curve.entry.key] = dots
        return dots

    def _heights(self) -> dict[str, NDArray[np.float64]]:
        """The drawn values of each curve: the quantity, or log10 with NaN where it is cut off."""
        quantity = self.quantity.current
        heights = {c.entry.key: c.of(quantity) for c in self._curves}
        if not self._logarithmic:
            return heights
        lowest = np.finfo(np.float64).tiny
        floors = {k: max(h.max() * 10.0**FLOOR_EXPONENT, lowest) for k, h in heights.items()}
        return {k: np.log10(np.where(h >= floors[k], h, np.nan)) for k, h in heights.items()}

    def _cut_text(self) -> str:
        cut = sum(int(np.isnan(heights).sum()) for heights in self._drawn.values())
        if not cut or not self._logarithmic:
            return ""
        return counted(
            cut,
            "%n value under {floor}·{symbol}₁ cut off",
            "%n values under {floor}·{symbol}₁ cut off",
            floor=power_of_ten(FLOOR_EXPONENT),
            symbol=self.words.symbol,
        )

    def _show_switched_on(self) -> None:
        for items in (self._items, self._dots):
            for key, item in items.items():
                item.setVisible(self.legend.is_on(key))
        self._name_ends()

    def _name_ends(self) -> None:
        """Place the names at the visible ends of the curves."""
        labels = []
        for curve in self._curves:
            entry, heights = curve.entry, self._drawn.get(curve.entry.key, np.zeros(0))
            seen = heights[np.isfinite(heights)]
            if seen.size:
                colour, strong = self.theme.ink_of(entry.colour), not entry.key.startswith("expert")
                on = self.legend.is_on(entry.key)
                end = float(seen[-1])
                name = short_label(entry.label)
                labels.append(EndLabel(entry.key, name, colour, end, strong=strong, on=on))
        self._ends.set_labels(labels)

    def _bring_forward(self, chosen: str | None) -> None:
        """Highlight one curve and fade the others; None: show all normally."""
        for key, item in self._items.items():
            item.setOpacity(1.0 if chosen in (None, key) else _FADED)

    # Mouse

    def nearest(self, scene_position: QPointF) -> tuple[str, int] | None:
        """The curve's key and the index i (from 1) of the nearest shown value, if one is near."""
        view = self.canvas.getViewBox()
        if not self._drawn or not view.sceneBoundingRect().contains(scene_position):
            return None
        at = view.mapSceneToView(scene_position)
        index, height = round(at.x()), view.viewPixelSize()[1]
        distances = {
            key: abs(values[index - 1] - at.y()) / height
            for key, values in self._drawn.items()
            if self.legend.is_on(key) and 1 <= index <= len(values)
        }
        near = {key: d for key, d in distances.items() if d <= NEAR_PIXELS}  # NaN is never near
        return (min(near, key=near.__getitem__), index) if near else None

    def _hovered(self, scene_position: QPointF) -> None:
        found = self.nearest(scene_position)
        self._bring_forward(None if found is None else found[0])
        if found is None:
            QToolTip.hideText()
            return
        key, index = found
        near = sorted(self._curves, key=lambda curve: curve.entry.key != key)
        shown = [c for c in near if self.legend.is_on(c.entry.key) and index <= len(c.values)]
        values = [f"{curve.entry.label}: {self._said_of(curve, index)}" for curve in shown]
        point = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(point, "\n".join(values), self.canvas)

    def _said_of(self, curve: Curve, index: int) -> str:
        quantity = self.quantity.current
        value = float(curve.of(quantity)[index - 1])
        if quantity is Quantity.ENERGY:
            share = 100 * value
            return self.words.share.format(share=share, i=index)
        own = self.words.symbol
        symbol = own if quantity is Quantity.VALUE else f"{own} / {own}₁"
        return f"{symbol} at i = {index} is {number_text(value, 3)}"

    def _clicked(self, event: object) -> None:
        if event.double():  # type: ignore[attr-defined]
            self.fit()


def _same(one: object, other: object) -> bool:
    """Compare texts and colours by value, and spectra, which never change, by identity."""
    return one is other or (isinstance(one, str | dict) and one == other)
