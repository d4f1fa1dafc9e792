"""γ along the model: which layers the experts disagree in, and where τ parts them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import floor, isfinite, log10

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import QToolTip, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.gui.plots.axes import BlockAxis, ThresholdAxis, number_text
from ace_gui.gui.plots.base import Plot, quantity_axis
from ace_gui.gui.plots.legend import LegendEntry
from ace_gui.gui.theme import ROLE_FAMILIES, Theme, role_family

EMPTY = "γ appears here once a base and two experts are open."
HINT = "Choose a layer to see its spectrum; drag the line to change τ."
SYMBOLS = {"attention": "o", "MLP": "s", "embedding": "t1", "norm": "d", "other": "p"}
REPAINT_MS = 50
NEAR_PIXELS = 28.0
LOWEST_LOG = -6.0  # γ under 1e-6, zero included, is drawn on the lower edge
_FIRST_NUMBER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


def two_digits(value: float) -> float:
    """``value`` rounded to two significant digits, as τ is set by dragging."""
    return float(f"{value:.1e}")


def tau_text(tau: float) -> str:
    """ "τ = 0.30"."""
    return f"τ = {number_text(tau)}"


class HeterogeneityPlot(Plot):
    """One symbol a layer in the order of the model, filled where γ > τ.

    Left and right (or up and down) walk the layers, Ctrl with up and down moves τ.

    Signals: ``tau_changed`` while τ moves, ``tau_committed`` when it is let go (each a float), and
    ``layer_selected`` with the name of a layer that the person chose.
    """

    tau_changed = Signal(float)
    tau_committed = Signal(float)
    layer_selected = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = BlockAxis()
        self._left = quantity_axis("left", "heterogeneity γ", grid=True)
        self._names: tuple[str, ...] = ()
        self._roles: tuple[str, ...] = ()
        self._index: dict[str, int] = {}
        self._family = np.zeros(0, dtype=np.intp)
        self._gamma = np.zeros(0)
        self._tau = 0.3
        self._selected: int | None = None
        self._y_range = (0.0, 1.0)
        super().__init__(
            name="Heterogeneity along the model",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            wraps=False,
            logarithmic=True,
            parent=parent,
        )
        self._repaint = QTimer(self, singleShot=True, interval=REPAINT_MS)
        self._repaint.timeout.connect(self._refresh)
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self._make_items()
        self.restyle(self.theme)

    # What is shown

    def set_layers(self, names: Sequence[str], roles: Sequence[str]) -> None:
        """Show these layers from left to right; every γ is unknown again."""
        chosen, same = self.selected, self._names == tuple(names)
        self._names, self._roles = tuple(names), tuple(roles)
        self._index = {name: i for i, name in enumerate(self._names)}
        families = [ROLE_FAMILIES.index(role_family(role)) for role in self._roles]
        self._family = np.array(families, dtype=np.intp)
        self._gamma = np.full(len(self._names), np.nan)
        self._selected = self._index.get(chosen) if chosen is not None else None
        if not self._names:
            self.show_message(EMPTY)
            return
        self._name_blocks()
        self._set_legend()
        self.show_canvas()
        if same:
            self._refresh()
        else:
            self.fit()

    def set_gamma(self, name: str, gamma: float | None) -> None:
        """γ of one layer, None where it is not known; names that are not shown are passed over."""
        self.set_many({name: gamma})

    def set_many(self, gammas: Mapping[str, float | None]) -> None:
        """γ of many layers; as ``set_gamma``. Drawn within ``REPAINT_MS``."""
        for name, gamma in gammas.items():
            index = self._index.get(name)
            if index is not None:
                self._gamma[index] = np.nan if gamma is None else gamma
        if not self._repaint.isActive():
            self._repaint.start()

    def set_tau(self, tau: float) -> None:
        """Move the line of τ; no signal."""
        if tau == self._tau:
            return
        self._tau = tau
        if not self._line.moving:
            self._refresh()

    @property
    def tau(self) -> float:
        """Where the line of τ is."""
        return self._tau

    def select(self, name: str | None) -> None:
        """Mark one layer; no signal. A name that is not shown clears the mark."""
        self._selected = self._index.get(name) if name is not None else None
        self._draw_selection()

    @property
    def selected(self) -> str | None:
        """The marked layer."""
        return None if self._selected is None else self._names[self._selected]

    def clear(self) -> None:
        """Show no layers."""
        self.set_layers((), ())

    def fit(self) -> None:
        view = self.canvas.getViewBox()
        count = len(self._names)
        pad = max(0.5, 0.012 * count)
        low, high = -0.5 - pad, count - 0.5 + pad
        view.setLimits(xMin=low, xMax=high, minXRange=min(4.0, high - low))
        view.setXRange(low, high, padding=0)
        self._refresh()

    def rescale(self) -> None:
        self._left.logarithmic = self.log_box.isChecked()
        self._left.picture = None
        self._refresh()

    # Drawing

    def _make_items(self) -> None:
        self._left.logarithmic = self.log_box.isChecked()
        self._bottom.setLabel("layer, input → output (numbers: block)")
        self._below = pg.LinearRegionItem(orientation="horizontal", movable=False)
        self._mark = pg.InfiniteLine(angle=90, movable=False)
        self._ring = pg.ScatterPlotItem(pxMode=True, size=17)
        self._right = ThresholdAxis()
        self.canvas.setAxisItems({"right": self._right})
        self._line = pg.InfiniteLine(angle=0, movable=True)
        self._line.setCursor(Qt.CursorShape.SizeVerCursor)
        self._line.sigDragged.connect(self._dragged)
        self._line.sigPositionChangeFinished.connect(self._released)
        self._points = {
            (family, above): pg.ScatterPlotItem(pxMode=True, symbol=SYMBOLS[name])
            for family, name in enumerate(ROLE_FAMILIES)
            for above in (False, True)
        }
        for item in (self._below, self._mark, *self._points.values(), self._ring, self._line):
            self.canvas.addItem(item, ignoreBounds=True)
        scene = self.canvas.scene()
        scene.sigMouseMoved.connect(self._hovered)
        scene.sigMouseClicked.connect(self._clicked)

    def restyle(self, before: Theme) -> None:  # noqa: ARG002  (nothing here depends on it)
        theme = self.theme
        for (family, above), item in self._points.items():
            colour = theme.role_colours[ROLE_FAMILIES[family]]
            item.setPen(pg.mkPen(colour, width=1.3))
            item.setBrush(pg.mkBrush(colour if above else theme.base))
        self._line.setPen(pg.mkPen(theme.accent, width=2))
        self._line.setHoverPen(pg.mkPen(theme.accent, width=4))
        self._right.setTextPen(pg.mkPen(theme.accent))
        self._right.setPen(pg.mkPen(None))
        tint = QColor(theme.muted)
        tint.setAlpha(22)
        self._below.setBrush(tint)
        for edge in self._below.lines:
            edge.setPen(pg.mkPen(None))
        self._mark.setPen(pg.mkPen(theme.muted, width=1, style=Qt.PenStyle.DotLine))
        self._ring.setPen(pg.mkPen(theme.text, width=2))
        self._ring.setBrush(pg.mkBrush(None))
        self._set_legend()

    def _set_legend(self) -> None:
        present = {ROLE_FAMILIES[family] for family in self._family}
        text = self.theme.text
        hollow = LegendEntry(
            key="hollow", label="hollow: γ ≤ τ", colour=text, symbol="o", filled=False
        )
        self.legend.set_entries(
            [
                LegendEntry(
                    key=family,
                    label=family,
                    colour=self.theme.role_colours[family],
                    symbol=SYMBOLS[family],
                )
                for family in ROLE_FAMILIES
                if family in present
            ]
            + [hollow]
        )

    def _name_blocks(self) -> None:
        found = [_FIRST_NUMBER.search(name) for name in self._names]
        blocks = [match.group(1) if match else "" for match in found]
        starts = [(i + 1, now) for i, (was, now) in enumerate(pairwise(blocks)) if now != was]
        self._bottom.set_blocks([s for s in [(0, blocks[0]), *starts] if s[1]])

    def _position(self, gamma: float) -> float:
        """Where γ or τ stands on the vertical axis, within its range."""
        low, high = self._y_range
        if not self.log_box.isChecked():
            return min(max(gamma, low), high)
        return min(max(log10(gamma), low), high) if gamma > 0 else low

    def _refresh(self) -> None:
        self._repaint.stop()
        if not self._names:
            return
        self._y_range = _y_range(self._gamma, self._tau, self.log_box.isChecked())
        self.canvas.getViewBox().setYRange(*self._y_range, padding=0.08)
        self._line.setBounds(self._y_range)
        self._line.setValue(self._position(self._tau))
        self._draw_regimes()
        self._draw_selection()

    def _heights(self) -> NDArray[np.float64]:
        low, high = self._y_range
        gamma = self._gamma
        if self.log_box.isChecked():
            with np.errstate(divide="ignore", invalid="ignore"):
                gamma = np.log10(gamma)
        return np.clip(gamma, low, high)  # NaN stays NaN, and is not drawn

    def _draw_regimes(self) -> None:
        """Fill the symbols above τ. Two items a family, each of one style, keep this fast."""
        known = ~np.isnan(self._gamma)
        above = self._gamma > self._tau
        heights, size = self._heights(), _symbol_size(len(self._names))
        for (family, is_above), item in self._points.items():
            chosen = np.flatnonzero(known & (self._family == family) & (above == is_above))
            item.setData(x=chosen, y=heights[chosen], size=size)
        bottom = self.canvas.getViewBox().viewRange()[1][0]
        self._below.setRegion((bottom, self._position(self._tau)))
        self._right.set_threshold(self._position(self._tau), tau_text(self._tau))
        self._tell(int(known.sum()), int((known & above).sum()))

    def _tell(self, known: int, above: int) -> None:
        count = len(self._names)
        text = f"{above} layers heterogeneous, {known - above} homogeneous"
        if known < count:
            text += f", {count - known} not known yet"
        self.title.set_whole(text)
        self.setAccessibleDescription(f"{tau_text(self._tau)}: {text}. {self.caption.whole}")
        self.title.setVisible(self.message() is None)

    def _draw_selection(self) -> None:
        index = self._selected
        self._mark.setVisible(index is not None)
        if index is not None:
            self._mark.setValue(index)
        if index is None or np.isnan(self._gamma[index]):
            self._ring.setData(x=[], y=[])
        else:
            height = self._heights()[index]
            self._ring.setData(x=[index], y=[height], symbol=SYMBOLS[self._family_name(index)])
        self.caption.set_whole(HINT if index is None else self._describe(index))
        self.caption.setVisible(self.message() is None)

    def _family_name(self, index: int) -> str:
        return ROLE_FAMILIES[self._family[index]]

    def _describe(self, index: int) -> str:
        gamma = self._gamma[index]
        name, role = self._names[index], self._roles[index]
        if np.isnan(gamma):
            return f"γ not known · {role} · {name}"
        regime = "heterogeneous" if gamma > self._tau else "homogeneous"
        return f"γ = {number_text(gamma, 3)} · {regime} · {role} · {name}"

    # Mouse and keyboard

    def _dragged(self) -> None:
        position = float(self._line.value())
        self._tau = two_digits(10**position if self.log_box.isChecked() else max(position, 0.0))
        self._draw_regimes()
        self.tau_changed.emit(self._tau)

    def _released(self) -> None:
        self._refresh()
        self.tau_committed.emit(self._tau)

    def nearest(self, scene_position: QPointF) -> int | None:
        """Index of the layer whose symbol is nearest, if one is near."""
        view = self.canvas.getViewBox()
        if not view.sceneBoundingRect().contains(scene_position) or not self._names:
            return None
        at = view.mapSceneToView(scene_position)
        width, height = view.viewPixelSize()
        across = (np.arange(len(self._names)) - at.x()) / width
        distance = np.hypot(across, (self._heights() - at.y()) / height)
        if np.isnan(distance).all():
            return None
        best = int(np.nanargmin(distance))
        return best if distance[best] <= NEAR_PIXELS else None

    def _hovered(self, scene_position: QPointF) -> None:
        index = None if self._line.moving else self.nearest(scene_position)
        if index is None:
            QToolTip.hideText()
            return
        place = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(place, self._describe(index), self.canvas)

    def _clicked(self, event: object) -> None:
        if event.button() != Qt.MouseButton.LeftButton:  # type: ignore[attr-defined]
            return
        if event.double():  # type: ignore[attr-defined]
            self.fit()
            return
        index = self.nearest(event.scenePos())  # type: ignore[attr-defined]
        if index is not None:
            self._choose(index)

    def _choose(self, index: int) -> None:
        self._selected = index
        self._draw_selection()
        self._bring_into_view(index)
        self.layer_selected.emit(self._names[index])

    def _bring_into_view(self, index: int) -> None:
        view = self.canvas.getViewBox()
        low, high = view.viewRange()[0]
        if not low <= index <= high:
            view.setXRange(index - (high - low) / 2, index + (high - low) / 2, padding=0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, count = event.key(), len(self._names)
        vertical = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
        if count and key in vertical and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._step_tau(vertical[Qt.Key(key)])
            return
        at = self._selected
        targets = {
            Qt.Key.Key_Right: 0 if at is None else at + 1,
            Qt.Key.Key_Down: 0 if at is None else at + 1,
            Qt.Key.Key_Left: count - 1 if at is None else at - 1,
            Qt.Key.Key_Up: count - 1 if at is None else at - 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: count - 1,
        }
        if key not in targets or not count or self.message() is not None:
            super().keyPressEvent(event)
            return
        self._choose(min(max(targets[Qt.Key(key)], 0), count - 1))

    def _step_tau(self, direction: int) -> None:
        step = 10.0 ** (floor(log10(self._tau)) - 1) if self._tau > 0 else 0.01
        self.set_tau(two_digits(max(self._tau + direction * step, 0.0)))
        self.tau_changed.emit(self._tau)
        self.tau_committed.emit(self._tau)


def _symbol_size(count: int) -> float:
    return 9.0 if count <= 150 else 7.0 if count <= 600 else 5.0


def _y_range(gamma: NDArray[np.float64], tau: float, logarithmic: bool) -> tuple[float, float]:
    """What the vertical axis spans: every finite γ, and τ where it is not far away from them."""
    usable = gamma[np.isfinite(gamma)]
    if not logarithmic:
        highest = max(usable.max(initial=0.0), tau if isfinite(tau) else 0.0)
        return 0.0, float(highest) or 1.0
    logs = np.log10(usable[usable > 0])
    at = log10(tau) if tau > 0 else -1.0
    low = min(logs.min(initial=at - 0.5), max(at - 0.3, logs.min(initial=at) - 2))
    high = max(logs.max(initial=at + 0.5), min(at + 0.3, logs.max(initial=at) + 2))
    return max(float(low), LOWEST_LOG), max(float(high), LOWEST_LOG + 1)
