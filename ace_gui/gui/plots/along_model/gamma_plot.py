"""γ along the model, with τ as a draggable line."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf, isfinite, log10, nan

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.figures.health import BY_SCALE, WHY_BY_SCALE, gamma_near_pole
from ace_gui.engine.contract.plan import ROLE_FAMILIES, role_family
from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.layer_plot import (
    LayersPlot,
    block_starts,
    columns_extent,
    nearest_point,
    same_figures,
    symbol_size,
)
from ace_gui.gui.plots.frame.axes import BlockAxis, block_spans
from ace_gui.gui.plots.frame.base_plot import quantity_axis
from ace_gui.gui.plots.frame.canvas import room_at_end
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.plots.frame.marks import Bands, ThresholdLine
from ace_gui.gui.plots.frame.points import Points
from ace_gui.gui.theme import Face, Tokens, face

EMPTY = "γ appears here once a base and two experts are open."
SYMBOLS = {"attention": "o", "MLP": "s", "embedding": "t1", "norm": "d", "other": "p"}
NEAR_PIXELS = 28.0
HALO = 22  # pixels: diameter of the selected layer's halo
_SYMBOL = 5.0  # pixels: radius of a symbol
_LEVELS = (0.5, 1.5, -0.5, 2.5, -1.5)  # vertical anchors of the selected layer's name
_PILL_MOST = 3.0  # in a plot narrower than this many pills no room is left free for it
LOWEST_LOG = -6.0  # γ below 1e-6, including zero, is drawn on the lower edge
NEAR_POLE = "by scale alone"
POLE_TIP = f"{BY_SCALE}: {WHY_BY_SCALE}"


def two_digits(value: float) -> float:
    """``value`` rounded to two significant digits, as for a dragged τ."""
    return float(f"{value:.1e}")


def heterogeneous_text(above: int, known: int) -> str:
    """How many matrices are heterogeneous, among those with a known γ."""
    return counted(
        above,
        "%n of {known} matrices is heterogeneous",
        "%n of {known} matrices are heterogeneous",
        known=known,
    )


def treated_alike(count: int) -> str:
    """The text for a method without γ."""
    return f"{count} matrices, all treated alike"


def tau_text(tau: float) -> str:
    """ "τ = 0.30"."""
    return f"τ = {number_text(tau)}" if isfinite(tau) else "no τ"


class GammaPlot(LayersPlot):
    """One symbol per layer, filled if γ > τ, crossed if γ is near its pole.

    Ctrl with up and down moves τ.

    Signals: ``tau_changed`` while τ moves and ``tau_committed`` when it is released, each a float.
    """

    tau_changed = Signal(float)
    tau_committed = Signal(float)
    axis_named_outside = True

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = BlockAxis()
        self._left = quantity_axis("left", "γ", grid=True)
        self._roles: tuple[str, ...] = ()
        self._blocks: tuple[int | None, ...] = ()
        self._family = np.zeros(0, dtype=np.intp)
        self._x = np.zeros(0)
        self._gamma = np.zeros(0)
        self._mean_log = np.zeros(0)
        self._tau = 0.3
        self._y_range = (0.0, 1.0)
        self._fitted = [nan, nan]
        super().__init__(
            name="Heterogeneity along the model",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            wraps=False,
            logarithmic=True,
            parent=parent,
        )
        view = self.canvas.getViewBox()
        view.setMouseEnabled(x=True, y=False)
        self._make_items()
        view.sigResized.connect(lambda _view: self._fit_again())
        view.sigRangeChanged.connect(lambda *_: self._put_said())
        self.restyle(self.theme)

    # Data

    def set_layers(
        self, names: Sequence[str], roles: Sequence[str], blocks: Sequence[int | None]
    ) -> None:
        """Set the layers in model order. Their γ is unknown at first."""
        same = self._set_names(names)
        self._roles, self._blocks = tuple(roles), tuple(blocks)
        families = {role: ROLE_FAMILIES.index(role_family(role)) for role in set(self._roles)}
        self._family = np.array([families[role] for role in self._roles], dtype=np.intp)
        self._gamma = np.full(len(self._names), np.nan)
        self._mean_log = np.full(len(self._names), np.nan)
        if not self._names:
            self.show_message(EMPTY)
            return
        self._place()
        self._set_legend()
        self.show_canvas()
        if same:
            self._refresh()
        else:
            self.fit()

    def set_figures(self, gamma_L: NDArray[np.float64], mean_log_L: NDArray[np.float64]) -> None:
        """γ and mean log energy of every layer, NaN if unknown."""
        if same_figures(gamma_L, self._gamma) and same_figures(mean_log_L, self._mean_log):
            return
        self._gamma, self._mean_log = gamma_L.copy(), mean_log_L.copy()
        self._refresh()

    def set_tau(self, tau: float) -> None:
        """Move the line of τ without a signal; infinite hides it."""
        if tau == self._tau:
            return
        self._tau = tau
        if not self.threshold.moving:
            self._refresh()
            self._fit_again()

    @property
    def tau(self) -> float:
        """The position of the τ line."""
        return self._tau

    def clear(self, message: str = "") -> None:
        self.set_layers((), (), ())
        self.show_message(message or self.empty)

    def columns(self) -> tuple[FigureColumn, ...]:
        """The figures as a table, one row per layer."""
        shown = range(len(self._names))
        deviation = np.sqrt(self._gamma * self._mean_log**2)
        return (
            FigureColumn(title="layer", values=self._names),
            FigureColumn(title="role", values=self._roles),
            FigureColumn(title="γ", values=self._gamma, tip="Heterogeneity (ACE, Eq. 7)"),
            FigureColumn(title="regime", values=[self._regime(index) for index in shown]),
            FigureColumn(
                title="mean ln energy",
                values=self._mean_log,
                tip="Mean over the experts of ln ‖ΔW‖². A mean near zero alone makes γ large.",
            ),
            FigureColumn(
                title="deviation of ln energy",
                values=deviation,
                tip="Standard deviation over the experts; γ is its square over that of the mean.",
            ),
        )

    def fit(self) -> None:
        self._fit_range()
        self._refresh()

    def _fit_range(self) -> None:
        """Show all layers, none of them under the pill of τ."""
        low, high = columns_extent(len(self._names))
        view, pill = self.canvas.getViewBox(), self.threshold.room
        if isfinite(self._tau) and view.width() > _PILL_MOST * pill:
            low -= room_at_end(view, high - low, pill)
        view.setLimits(xMin=low, xMax=high, minXRange=min(4.0, high - low))
        view.setXRange(low, high, padding=0)
        self._fitted = list(view.viewRange()[0])

    def _fit_again(self) -> None:
        """After a resize: show all layers again, unless the plot is zoomed."""
        if self._names and np.allclose(self._fitted, self.canvas.getViewBox().viewRange()[0]):
            self._fit_range()
        self._put_said()

    def rescale(self) -> None:
        self._left.logarithmic = self.log_box.isChecked()
        self._left.picture = None
        self._refresh()

    def _place(self) -> None:
        self._x = np.arange(len(self._names), dtype=np.float64)
        starts, count = block_starts(self._blocks), len(self._blocks)
        self._bottom.set_blocks(starts, count)
        self._bands.set_spans([span for span, _ in block_spans(starts, count)][::2])

    @property
    def hint(self) -> str:
        drag = "; drag the line to change τ" if isfinite(self._tau) else ""
        return f"Choose a layer to see its spectrum{drag}."

    # Drawing

    def _make_items(self) -> None:
        self._left.logarithmic = self.log_box.isChecked()
        self._bands = Bands()
        self._path = pg.PlotDataItem()
        self._halo = pg.ScatterPlotItem(size=HALO)
        self.chosen_name = pg.TextItem(anchor=(1.0, 0.5))
        self._crosses = Points(symbol="x")
        self.threshold = ThresholdLine()
        self.threshold.sigDragged.connect(self._dragged)
        self.threshold.sigPositionChangeFinished.connect(self._released)
        self.symbols = {
            (family, above): Points(symbol=SYMBOLS[name])
            for family, name in enumerate(ROLE_FAMILIES)
            for above in (False, True)
        }
        below, above = (
            (self._bands, self._path, self._halo),
            (self._crosses, self.chosen_name, self.threshold),
        )
        for item in (*below, *self.symbols.values(), *above):
            self.canvas.addItem(item, ignoreBounds=True)

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        theme = self.theme
        for (_family, above), item in self.symbols.items():
            item.setPen(pg.mkPen(theme.accent if above else theme.text2, width=1.6))
            item.setBrush(pg.mkBrush(theme.accent if above else theme.card))
        self.threshold.set_theme(theme)
        self._bands.set_colour(theme.sunk)
        trail, halo = QColor(theme.accent), QColor(theme.accent)
        trail.setAlphaF(0.6)
        halo.setAlphaF(0.2)
        self._path.setPen(pg.mkPen(trail, width=1.4))
        self._halo.setPen(pg.mkPen(None))
        self._halo.setBrush(pg.mkBrush(halo))
        self.chosen_name.setFont(face(Face.CAPTION_STRONG))
        self.chosen_name.setColor(theme.text)
        self.chosen_name.fill = pg.mkBrush(theme.card)  # smaller values are drawn there
        self._crosses.setPen(pg.mkPen(theme.text, width=1))
        self._crosses.setBrush(pg.mkBrush(theme.card))
        self._set_legend()

    def _set_legend(self) -> None:
        present = {ROLE_FAMILIES[family] for family in self._family}
        ink, accent = self.theme.text2, self.theme.accent
        entries = [
            LegendEntry(key=family, label=family, colour=ink, symbol=SYMBOLS[family], filled=False)
            for family in ROLE_FAMILIES
            if family in present
        ]
        if isfinite(self._tau):
            entries.append(
                LegendEntry(key="filled", label="heterogeneous: γ > τ", colour=accent, symbol="s")
            )
        if self._near_pole().any():
            entries.append(LegendEntry(key="crossed", label=NEAR_POLE, colour=ink, symbol="x"))
        self.legend.set_entries(entries)

    def _near_pole(self) -> NDArray[np.bool_]:
        return gamma_near_pole(self._gamma, self._mean_log, self._tau)

    def _position(self, gamma: float) -> float:
        """The vertical position of γ or τ, limited to the axis range."""
        low, high = self._y_range
        if not self.log_box.isChecked():
            return min(max(gamma, low), high)
        return min(max(log10(gamma), low), high) if gamma > 0 else low

    def _refresh(self) -> None:
        if not self._names:
            return
        self._y_range = _y_range(self._gamma, self._tau, self.log_box.isChecked())
        self.canvas.getViewBox().setYRange(*self._y_range, padding=0.08)
        self.threshold.setBounds(self._y_range)
        self.threshold.setValue(self._position(self._tau))
        self.threshold.setVisible(isfinite(self._tau))
        self._draw_regimes()
        self._draw_selection()
        self.changed.emit()

    def _heights(self) -> NDArray[np.float64]:
        low, high = self._y_range
        gamma = self._gamma
        if self.log_box.isChecked():
            with np.errstate(divide="ignore", invalid="ignore"):
                gamma = np.log10(gamma)
        return np.clip(gamma, low, high)  # NaN stays NaN and is not drawn

    def _draw_regimes(self) -> None:
        """Fill the symbols above τ. Two items per family, each with one style, keep this fast."""
        known = ~np.isnan(self._gamma)
        above = self._gamma > self._tau
        heights, size = self._heights(), symbol_size(len(self._names))
        for (family, is_above), item in self.symbols.items():
            chosen = np.flatnonzero(known & (self._family == family) & (above == is_above))
            if chosen.size or len(item.data):
                item.setData(x=self._x[chosen], y=heights[chosen], size=size)
        crossed = np.flatnonzero(self._near_pole())
        self._crosses.setData(x=self._x[crossed], y=heights[crossed], size=size + 5)
        self._set_legend()
        self.threshold.write(f"τ {self._tau:.3f}" if isfinite(self._tau) else "")
        self._tell(int(known.sum()), int((known & above).sum()), crossed.size)

    def _tell(self, known: int, above: int, crossed: int) -> None:
        count = len(self._names)
        has_tau = isfinite(self._tau)
        parts = [heterogeneous_text(above, known) if has_tau else treated_alike(count)]
        if crossed:
            near = f"{crossed} of the {above} by scale alone (norms near 1)"
            parts.append(near)
        if known < count:
            parts.append(f"{count - known} without γ")
        text = "; ".join(parts)
        self.title.set_whole(text)
        self.setAccessibleDescription(f"{tau_text(self._tau)}: {text}. {self.caption.whole}")
        self.title.setVisible(self.message() is None)

    def _draw_selection(self) -> None:
        """A halo around the layer, its name and γ next to it, and a line through its role."""
        index, heights = self._selected, self._heights()
        known = index is not None and not np.isnan(self._gamma[index])
        self.chosen_name.setVisible(known)
        if index is None or not known:
            self._halo.setData(x=[], y=[])
            self._path.setData([], [])
        else:
            x, height = self._x[index], heights[index]
            self._halo.setData(x=[x], y=[height])
            self.chosen_name.setText(f"{self._roles[index]} {number_text(self._gamma[index], 3)}")
            self.chosen_name.setPos(x, height)
            self._put_said()
            alike = [i for i, role in enumerate(self._roles) if role == self._roles[index]]
            self._path.setData(self._x[alike], heights[alike], connect="finite")
        self._show_caption()

    def _put_said(self) -> None:
        """Put the layer's name next to the halo, where it covers the fewest symbols."""
        if not self.chosen_name.isVisible() or self._selected is None:
            return
        view, size = self.canvas.getViewBox(), self.chosen_name.textItem.boundingRect()
        across, up = view.viewPixelSize()
        if not (across > 0 and up > 0):  # not laid out yet
            return
        symbols_S2 = np.column_stack((self._x / across, -self._heights() / up))
        symbols_S2 -= symbols_S2[self._selected]
        gap = HALO / 2 / max(1.0, size.width())
        anchors = [(side, level) for level in _LEVELS for side in (1 + gap, -gap)]
        boxes = [size.translated(-x * size.width(), -y * size.height()) for x, y in anchors]
        (left, _), (_, top) = view.viewRange()
        x, y = self._x[self._selected], self._heights()[self._selected]
        seen = QRectF((left - x) / across, (y - top) / up, view.width(), view.height())
        threshold = QRectF(seen)  # the pill's height, from side to side: the line is in its middle
        height = self.threshold.pill.boundingRect().height() if self.threshold.isVisible() else 0.0
        threshold.setTop((y - float(self.threshold.value())) / up - height / 2)
        threshold.setHeight(height)

        def costs(box: QRectF) -> tuple[bool, int, bool]:
            covered = _inside(symbols_S2, box)
            return not seen.contains(box), covered, box.intersects(threshold)

        self.chosen_name.setAnchor(anchors[min(range(len(boxes)), key=lambda at: costs(boxes[at]))])

    def _regime(self, index: int) -> str:
        gamma = self._gamma[index]
        if np.isnan(gamma) or not isfinite(self._tau):
            return "–"
        return "heterogeneous" if gamma > self._tau else "homogeneous"

    def _describe(self, index: int) -> str:
        gamma = self._gamma[index]
        name, role = self._names[index], self._roles[index]
        if np.isnan(gamma):
            return " · ".join(["γ not known", role, name])
        parts = [f"γ = {number_text(gamma, 3)}", self._regime(index), role, name]
        text = " · ".join(part for part in parts if part != "–")
        return f"{text} · {POLE_TIP}" if self._near_pole()[index] else text

    # Mouse and keyboard

    def layer_at(self, scene_position: QPointF) -> int | None:
        """Index of the layer with the nearest symbol, if one is near."""
        return nearest_point(self, scene_position, self._x, self._heights(), NEAR_PIXELS)

    def _hover(self, scene_position: QPointF) -> None:
        if not self.threshold.moving:
            super()._hover(scene_position)

    def _dragged(self) -> None:
        position = float(self.threshold.value())
        self._tau = two_digits(10**position if self.log_box.isChecked() else max(position, 0.0))
        self._draw_regimes()
        self.tau_changed.emit(self._tau)

    def _released(self) -> None:
        self._refresh()
        self.tau_committed.emit(self._tau)

    def _bring_into_view(self, index: int) -> None:
        view = self.canvas.getViewBox()
        low, high = view.viewRange()[0]
        x = self._x[index]
        if not low <= x <= high:
            view.setXRange(x - (high - low) / 2, x + (high - low) / 2, padding=0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        directions = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
        control = event.modifiers() & Qt.KeyboardModifier.ControlModifier
        has_line = bool(self._names) and isfinite(self._tau)
        if has_line and control and event.key() in directions:
            self._step_tau(directions[Qt.Key(event.key())])
            return
        super().keyPressEvent(event)

    def _step_tau(self, direction: int) -> None:
        step = 10.0 ** (floor(log10(self._tau)) - 1) if self._tau > 0 else 0.01
        self.set_tau(two_digits(max(self._tau + direction * step, 0.0)))
        self.tau_changed.emit(self._tau)
        self.tau_committed.emit(self._tau)


def _inside(points_S2: NDArray[np.float64], box: QRectF) -> int:
    """The number of symbols that a box covers, in pixels; NaN is never covered."""
    enlarged = box.adjusted(-_SYMBOL, -_SYMBOL, _SYMBOL, _SYMBOL)
    x, y = points_S2.T
    across = (x >= enlarged.left()) & (x <= enlarged.right())
    return int((across & (y >= enlarged.top()) & (y <= enlarged.bottom())).sum())


def _y_range(gamma: NDArray[np.float64], tau: float, logarithmic: bool) -> tuple[float, float]:
    """The range of the vertical axis: every finite γ, and τ unless it is far away."""
    usable = gamma[np.isfinite(gamma)]
    if not logarithmic:
        highest = max(usable.max(initial=0.0), tau if isfinite(tau) else 0.0)
        return 0.0, float(highest) or 1.0
    logs = np.log10(usable[usable > 0])
    at = log10(tau) if 0 < tau < inf else -1.0
    low = min(logs.min(initial=at - 0.5), max(at - 0.3, logs.min(initial=at) - 2))
    high = max(logs.max(initial=at + 0.5), min(at + 0.3, logs.max(initial=at) + 2))
    return max(float(low), LOWEST_LOG), max(float(high), LOWEST_LOG + 1)
