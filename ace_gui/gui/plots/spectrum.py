"""Singular values of one layer: every expert, the merge before and after refinement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QToolTip, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.engine.events import LayerSpectrum, Regime
from ace_gui.gui.plots.axes import number_text, power_of_ten
from ace_gui.gui.plots.base import Plot, quantity_axis
from ace_gui.gui.plots.legend import LegendEntry
from ace_gui.gui.theme import Theme

EMPTY = "Choose a layer to see its singular values."
FLOOR_EXPONENT = -9
"""Values under 10^this of the largest one are rounding, not spectrum; a log axis cuts them off."""

AFTER, BEFORE = "merge: after", "merge: before"
NEAR_PIXELS = 14.0
_EXPERT_STYLES = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashDotLine, Qt.PenStyle.DotLine)


@dataclass(frozen=True)
class _Curve:
    entry: LegendEntry
    values: NDArray[np.float64]


class SpectrumPlot(Plot):
    """Singular values against their index, largest first; the legend switches curves off."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._left = quantity_axis("left", "singular value σᵢ", grid=True)
        self._curves: tuple[_Curve, ...] = ()
        self._items: dict[str, pg.PlotDataItem] = {}
        self._colours: dict[str, str] = {}
        self._spectrum: LayerSpectrum | None = None
        self._drawn: dict[str, NDArray[np.float64]] = {}
        super().__init__(
            name="Singular values of the layer",
            empty=EMPTY,
            bottom=quantity_axis("bottom", "index i"),
            left=self._left,
            toggles=True,
            logarithmic=True,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self.legend.toggled.connect(lambda *_: self._show_switched_on())
        self.canvas.scene().sigMouseMoved.connect(self._hovered)
        self.canvas.scene().sigMouseClicked.connect(self._clicked)

    def show_spectrum(self, spectrum: LayerSpectrum, expert_colours: Mapping[str, str]) -> None:
        """Draw ``spectrum``; ``expert_colours`` maps each expert's name to "#rrggbb"."""
        self.set_busy(False)
        self._spectrum, self._colours = spectrum, dict(expert_colours)
        self.title.set_whole(spectrum.name)
        self._draw()
        self.show_canvas()

    def clear(self, message: str = EMPTY) -> None:
        """Show ``message`` in the place of a spectrum."""
        self.set_busy(False)
        self._spectrum = None
        self.show_message(message)

    def restyle(self, before: Theme) -> None:
        swap = dict(zip(before.expert_colours, self.theme.expert_colours, strict=True))
        self._colours = {name: swap.get(colour, colour) for name, colour in self._colours.items()}
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        heights = [v[np.isfinite(v)] for k, v in self._drawn.items() if self.legend.is_on(k)]
        present = np.concatenate([np.zeros(0), *heights])
        if not present.size:
            return
        low = float(present.min()) if self.log_box.isChecked() else 0.0
        view = self.canvas.getViewBox()
        length = max(len(values) for values in self._drawn.values())
        view.setLimits(xMin=1, xMax=max(length, 2))
        view.setXRange(1, max(length, 2), padding=0)
        view.setYRange(low, max(float(present.max()), low + 1e-300), padding=0.04)

    # Drawing

    def _draw(self) -> None:
        spectrum = self._spectrum
        if spectrum is None:
            return
        self._left.logarithmic = self.log_box.isChecked()
        self._left.picture = None
        self._curves = _curves(spectrum, self._colours, self.theme)
        self.legend.set_entries([curve.entry for curve in self._curves])
        self._drawn = self._heights()
        for item in self._items.values():
            self.canvas.removeItem(item)
        # The merge lies on top of the experts, in the legend it comes first.
        self._items = {c.entry.key: self._item(c) for c in reversed(self._curves)}
        self._show_switched_on()
        self.fit()
        cut = self._cut_count()
        self.caption.set_whole(_caption(spectrum, cut))
        self.setAccessibleDescription(f"{spectrum.name}. {self.caption.whole}")

    def _item(self, curve: _Curve) -> pg.PlotDataItem:
        entry, heights = curve.entry, self._drawn[curve.entry.key]
        pen = pg.mkPen(entry.colour, width=entry.width, style=entry.style)
        item = pg.PlotDataItem(
            np.arange(1, len(heights) + 1),
            heights,
            pen=pen,
            connect="finite",
        )
        self.canvas.addItem(item, ignoreBounds=True)
        item.setClipToView(True)  # SVG pictures know no clipping of their own
        return item

    def _floor(self) -> float:
        largest = max((c.values.max(initial=0.0) for c in self._curves), default=0.0)
        return float(largest) * 10.0**FLOOR_EXPONENT

    def _heights(self) -> dict[str, NDArray[np.float64]]:
        """What is drawn of each curve: log10 σ with NaN where it is cut off, or σ itself."""
        if not self.log_box.isChecked():
            return {c.entry.key: c.values for c in self._curves}
        floor = max(self._floor(), np.finfo(np.float64).tiny)
        heights = {}
        for curve in self._curves:
            kept = np.where(curve.values >= floor, curve.values, np.nan)
            heights[curve.entry.key] = np.log10(kept)
        return heights

    def _cut_count(self) -> int:
        return sum(int(np.isnan(heights).sum()) for heights in self._drawn.values())

    def _show_switched_on(self) -> None:
        for key, item in self._items.items():
            item.setVisible(self.legend.is_on(key))

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
        if found is None:
            QToolTip.hideText()
            return
        key, index = found
        curve = next(c for c in self._curves if c.entry.key == key)
        value = number_text(float(curve.values[index - 1]), 3)
        place = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(place, f"{curve.entry.label}: σ at i = {index} is {value}", self.canvas)

    def _clicked(self, event: object) -> None:
        if event.double():  # type: ignore[attr-defined]
            self.fit()


def unrefined(spectrum: LayerSpectrum) -> bool:
    """Whether the merge before and after refinement is the same."""
    before, after = spectrum.preliminary, spectrum.merged
    if before is None or before.shape != after.shape:
        return False
    largest = float(after.max(initial=0.0))
    return np.allclose(before, after, rtol=1e-9, atol=largest * 10.0**FLOOR_EXPONENT)


def _curves(
    spectrum: LayerSpectrum, colours: Mapping[str, str], theme: Theme
) -> tuple[_Curve, ...]:
    """The merge first, then the experts in their order."""
    refined = spectrum.preliminary is not None and not unrefined(spectrum)
    label = "after refinement" if refined else "merged"
    after = LegendEntry(key=AFTER, label=label, colour=theme.text, width=2.6)
    curves = [_Curve(after, spectrum.merged)]
    if refined and spectrum.preliminary is not None:
        before = LegendEntry(
            key=BEFORE,
            label="before (W_pre)",
            colour=theme.text,
            style=Qt.PenStyle.DashLine,
            width=2.0,
        )
        curves.append(_Curve(before, spectrum.preliminary))
    used: Counter[str] = Counter()
    for name, values in spectrum.experts.items():
        colour = colours.get(name, theme.muted)
        # Colours repeat beyond the palette; the line's style then tells experts apart.
        style = _EXPERT_STYLES[used[colour] % len(_EXPERT_STYLES)]
        used[colour] += 1
        entry = LegendEntry(key=f"expert {name}", label=name, colour=colour, style=style, width=1.4)
        curves.append(_Curve(entry, values))
    return tuple(curves)


def _caption(spectrum: LayerSpectrum, cut: int) -> str:
    report, parts = spectrum.report, []
    if report.regime is Regime.HOMOGENEOUS and unrefined(spectrum):
        parts.append("homogeneous: no refinement, before = after")
    elif report.regime is not None:
        parts.append(report.regime.value)
    elif unrefined(spectrum):
        parts.append("no refinement, before = after")
    if report.gamma is not None:
        parts.append(f"γ = {number_text(report.gamma, 3)}")
    if report.ridge_mass is not None:
        parts.append(f"ridge mass Σε = {number_text(report.ridge_mass)}")
    if cut:
        values = "value" if cut == 1 else "values"
        parts.append(f"{cut} {values} under {power_of_ten(FLOOR_EXPONENT)}·σ₁ cut off")
    return " · ".join(parts)
