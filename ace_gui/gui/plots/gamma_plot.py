"""Plots along the model: γ with a line of τ to drag, and the experts' energies (Figs. 4 to 7)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import floor, inf, isfinite, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent

from ace_gui.engine.contract.health import BY_SCALE, UNRELIABLE
from ace_gui.engine.contract.plan import ROLE_FAMILIES, role_family
from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.canvas import room_at_end
from ace_gui.gui.plots.frame.items import ThresholdLine
from ace_gui.gui.plots.frame.spec import PlotAxis, PlotCurve, PlotSpec
from ace_gui.gui.plots.layers_plot import LayerCurvesPlot, columns_extent, symbol_size
from ace_gui.gui.theme import repetition
from ace_gui.gui.widgets.controls import Choice
from ace_gui.linalg.heterogeneity import WHY_BY_SCALE

EMPTY = "γ appears here once a base and two experts are open."
SYMBOLS = {"attention": "o", "MLP": "s", "embedding": "t1", "norm": "d", "other": "p"}
_HALO = 22  # pixels: diameter of the selected layer's halo
_LINE = 1_000  # layers of one role: a line through more cannot be read, and is slow to draw
_PILL_MOST = 3.0  # a plot narrower than this many pills keeps no space free for the pill
LOWEST_LOG = -16.0  # γ below 1e-16, which is zero but for rounding, is drawn on the lower edge
NEAR_POLE = "by scale alone"
UNRELIABLE_LABEL = "unreliable γ"
"""The legend's word for the same without a threshold, and thus without regimes."""
POLE_TIP = f"{BY_SCALE}: {WHY_BY_SCALE}"
UNRELIABLE_TIP = f"{UNRELIABLE}: {WHY_BY_SCALE}"


def two_digits(value: float) -> float:
    """``value`` rounded to two significant digits, like a dragged τ."""
    return float(f"{value:.1e}")


def heterogeneous_text(above: int, with_gamma: int) -> str:
    """How many matrices are heterogeneous, as text. ``with_gamma``: the number with a known γ."""
    return counted(
        above,
        "%n of {known} matrices is heterogeneous",
        "%n of {known} matrices are heterogeneous",
        known=with_gamma,
    )


def treated_alike(count: int) -> str:
    """The text for a method without γ."""
    return counted(count, "%n tensor", "%n tensors, all treated alike")


def tau_text(tau: float) -> str:
    """ "τ = 0.30"."""
    if isfinite(tau):
        return f"τ = {number_text(tau)}"
    return "no τ"


class GammaPlot(LayerCurvesPlot):
    """One symbol per layer, filled if γ > τ, crossed if γ is unreliable, as in the table.

    Ctrl with up and down moves τ. ``tau_changed`` carries τ while it moves, ``tau_committed`` when
    it is released.
    """

    tau_changed = Signal(float)
    tau_committed = Signal(float)
    called = "Heterogeneity along the model"
    empty = EMPTY
    wraps = False
    logarithmic_first = True
    axis_named_outside = True

    def __init__(self) -> None:
        self._family = np.zeros(0, dtype=np.intp)
        self._x = np.zeros(0)
        self._tau = 0.3
        self._y_range = (0.0, 1.0)
        super().__init__()
        self.threshold = ThresholdLine()
        self.threshold.sigDragged.connect(self._dragged)
        self.threshold.sigPositionChangeFinished.connect(self._released)
        self.canvas.addItem(self.threshold)
        self.canvas.getViewBox().sigResized.connect(lambda _view: self._fit_again())

    # Data

    def _take_layers(self, same: bool) -> None:
        layers = self.layers
        self.set_columns(layers.names, layers.blocks)
        families = {role: ROLE_FAMILIES.index(role_family(role)) for role in set(layers.roles)}
        self._family = np.array([families[role] for role in layers.roles], dtype=np.intp)
        self._x = np.arange(len(layers.names), dtype=np.float64)
        if layers.names:
            self.present(self._spec, zoomed=same or self.threshold.moving)
        else:
            self.clear()

    def set_tau(self, tau: float) -> None:
        """Move the line of τ without a signal. An infinite τ hides it."""
        if tau == self._tau:
            return
        self._tau = tau
        if not self.threshold.moving:
            self._refresh()
            self._fit_again()

    @property
    def tau(self) -> float:
        return self._tau

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per layer."""
        indices = range(len(self._names))
        deviation = np.sqrt(self.layers.gamma_L * self.layers.mean_log_L**2)
        return (
            FigureColumn("layer", self._names),
            FigureColumn("role", self.layers.roles),
            FigureColumn("γ", self.layers.gamma_L, "Heterogeneity (ACE, Eq. 7)"),
            FigureColumn("γ unreliable", self._reasons()),
            FigureColumn("regime", [self._regime(index) for index in indices]),
            FigureColumn(
                "mean ln energy",
                self.layers.mean_log_L,
                "Mean over the experts of ln ‖ΔW‖². A mean near zero alone makes γ large.",
            ),
            FigureColumn(
                "deviation of ln energy",
                deviation,
                "Standard deviation over the experts; γ is its square over that of the mean.",
            ),
        )

    @property
    def levels(self) -> Sequence[float]:
        return [self.threshold.value()] * isfinite(self._tau)

    @property
    def short_names(self) -> Sequence[str]:
        return self.layers.roles

    @property
    def across(self) -> PlotAxis:
        """The axis of all layers, with space for the pill of τ beside them."""
        low, high = columns_extent(len(self._names))
        width = self.canvas.getViewBox().width()
        pill = self.threshold.room
        if isfinite(self._tau) and width > _PILL_MOST * pill:
            low -= room_at_end(width, high - low, pill)
        return PlotAxis(low=low, high=high)

    def _fit_again(self) -> None:
        """Show all layers again after a resize, unless the plot is zoomed."""
        if not self.is_zoomed:
            self.rescale()

    @property
    def hint(self) -> str:
        if isfinite(self._tau):
            drag = "; drag the line to change τ"
        else:
            drag = ""
        return f"Choose a layer to see its spectrum{drag}."

    # Drawing

    def _spec(self) -> PlotSpec:
        has_gamma = ~np.isnan(self.layers.gamma_L)
        above = self.layers.gamma_L > self._tau_L
        crossed = self._unreliable()
        text = self._summary(
            int(has_gamma.sum()), int((has_gamma & above).sum()), int(crossed.sum())
        )
        return PlotSpec(
            title=text,
            curves=[*self._symbols_by_family(crossed), *self._chosen()],
            x=self.across,
            y=PlotAxis(title="γ", low=self._y_range[0], high=self._y_range[1], padding=0.08),
            columns=self._columns,
            logarithmic_choice=True,
            description=f"{tau_text(self._tau)}: {text}. {self.caption.full_text}",
        )

    def _symbols_by_family(self, crossed: NDArray[np.bool_]) -> Iterator[PlotCurve]:
        """The crosses, then the symbols of each family. Filled ones share a legend entry."""
        gamma = self.layers.gamma_L
        tau_L = self._tau_L
        size = symbol_size(len(self._names))
        look: dict[str, Any] = {"symbol": "x", "colour": "text", "size": size + 5}
        in_legend = bool(crossed.any())
        if self._has_tau:
            label = NEAR_POLE
        else:
            label = UNRELIABLE_LABEL
        yield self._symbols_of("crossed", label, crossed, in_legend=in_legend, **look)
        for family, name in enumerate(ROLE_FAMILIES):
            in_family = self._family == family
            look = {"symbol": SYMBOLS[name], "size": size, "colour": "text2", "filled": False}
            hollow = in_family & (gamma <= tau_L)
            in_legend = bool(in_family.any())
            yield self._symbols_of(name, name, hollow, in_legend=in_legend, **look)
            look |= {"colour": "accent", "filled": True, "in_legend": False}
            yield self._symbols_of(f"{name}: γ > τ", name, in_family & (gamma > tau_L), **look)
        look = {"symbol": "s", "colour": "accent", "in_legend": self._has_tau}
        yield self._symbols_of("filled", "heterogeneous: γ > τ", np.zeros_like(crossed), **look)

    def _symbols_of(
        self, key: str, label: str, chosen: NDArray[np.bool_], **look: Any
    ) -> PlotCurve:
        x = self._x[chosen]
        y = self._clipped()[chosen]
        indices = np.flatnonzero(chosen).tolist()
        return PlotCurve(key=key, label=label, x=x, y=y, width=0, indices=indices, **look)

    def _summary(self, with_gamma: int, above: int, crossed: int) -> str:
        count = len(self._names)
        has_tau = self._has_tau
        parts = [heterogeneous_text(above, with_gamma) if has_tau else treated_alike(count)]
        if crossed and has_tau:
            parts.append(f"{crossed} of the {above} by scale alone (norms near 1)")
        elif crossed:
            parts.append(f"γ is unreliable in {crossed} (norms near 1)")
        zeros = int((self.layers.gamma_L <= 10.0**LOWEST_LOG).sum())
        if zeros and self.log_box.isChecked():
            parts.append(f"{zeros} with γ = 0, at the lower edge")
        overridden = int((self._tau_L != self._tau).sum())
        if overridden:
            parts.append(f"{overridden} with a τ from an override")
        if with_gamma < count:
            parts.append(f"{count - with_gamma} without γ")
        return "; ".join(parts)

    def _unreliable(self) -> NDArray[np.bool_]:
        return self.layers.unreliable(self._tau)

    def _reasons(self) -> list[str]:
        """Why γ of each layer is unreliable; empty where it is not."""
        return [WHY_BY_SCALE if crossed else "" for crossed in self._unreliable()]

    @property
    def _tau_L(self) -> NDArray[np.float64]:
        """The threshold of each layer; the line is the recipe's."""
        return self.layers.tau_L(self._tau)

    @property
    def _has_tau(self) -> bool:
        """Whether any layer has a threshold."""
        return bool(np.isfinite(self._tau_L).any())

    def _clipped(self) -> NDArray[np.float64]:
        """γ within the range of the axis; NaN stays NaN and is not drawn."""
        low, high = self._y_range
        if self.log_box.isChecked():
            low = 10.0**low
            high = 10.0**high
        return np.clip(self.layers.gamma_L, low, high)

    def _refresh(self) -> None:
        """Draw again and keep a zoom."""
        if self._names:
            self.present(self._spec, zoomed=True)

    def _draw(self) -> None:
        if not self._names:
            return
        logarithmic = self.log_box.isChecked()
        line = self.threshold
        line.set_theme(self.theme)
        line.write(f"τ {self._tau:.3f}" if isfinite(self._tau) else "")
        line.setVisible(isfinite(self._tau))
        if not line.moving:
            low, high = self._y_range = _y_range(self.layers.gamma_L, self._tau, logarithmic)
            tau = self._tau if not logarithmic else log10(self._tau) if self._tau > 0 else low
            line.setBounds(self._y_range)
            line.setValue(min(max(tau, low), high))
        super()._draw()

    def _taken(self) -> list[QRectF]:
        """The area of the whole line of τ, as high as its pill."""
        if not self.threshold.isVisible():
            return []
        view = self.canvas.getViewBox()
        height = self.threshold.pill.boundingRect().height()
        room = QRectF(view.sceneBoundingRect())
        line = view.mapViewToScene(QPointF(0, float(self.threshold.value()))).y()
        return [QRectF(room.left(), line - height / 2, room.width(), height)]

    def select(self, name: str | None) -> None:
        before = self._selected
        super().select(name)
        if self._selected != before:
            self._draw()

    def _draw_selection(self) -> None:
        self._show_caption()

    def _chosen(self) -> Iterator[PlotCurve]:
        """A halo around the selected layer with its name and γ, and a line through its role."""
        index = self._selected
        if index is None or np.isnan(self.layers.gamma_L[index]):
            return
        role = self.layers.roles[index]
        selected = np.arange(len(self._x)) == index
        yield self._symbols_of(
            "halo",
            "",
            selected,
            symbol="o",
            size=_HALO,
            colour="accent 32",
            names=[f"{role} {number_text(self.layers.gamma_L[index], 3)}"],
            strong=True,
            in_legend=False,
        )
        same_role = np.array([role_of_layer == role for role_of_layer in self.layers.roles])
        if same_role.sum() <= _LINE:
            look: dict[str, Any] = {"colour": "accent 96", "in_legend": False}
            x = self._x[same_role]
            y = self._clipped()[same_role]
            yield PlotCurve(key="path", label="", x=x, y=y, width=1.4, **look)

    def _regime(self, index: int) -> str:
        gamma = self.layers.gamma_L[index]
        tau = self._tau_L[index]
        if np.isnan(gamma) or not isfinite(tau):
            return "–"
        return "heterogeneous" if gamma > tau else "homogeneous"

    def _describe(self, index: int) -> str:
        gamma = self.layers.gamma_L[index]
        name = self._names[index]
        role = self.layers.roles[index]
        if np.isnan(gamma):
            return " · ".join(["γ not known", role, name])
        parts = [f"γ = {number_text(gamma, 3)}", self._regime(index), role, name]
        text = " · ".join(part for part in parts if part != "–")
        if not self._unreliable()[index]:
            return text
        return f"{text} · {POLE_TIP if isfinite(self._tau_L[index]) else UNRELIABLE_TIP}"

    # Mouse and keyboard

    def layer_at(self, scene_position: QPointF) -> int | None:
        """Index of the layer with the nearest symbol, if one is near."""
        nearest = self.nearest(scene_position)
        return None if nearest is None else nearest[0].indices[nearest[1]]

    def _hover(self, scene_position: QPointF) -> None:
        if not self.threshold.moving:
            super()._hover(scene_position)

    def _dragged(self) -> None:
        position = float(self.threshold.value())
        self._tau = two_digits(10**position if self.log_box.isChecked() else max(position, 0.0))
        self._refresh()
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


def _y_range(gamma: NDArray[np.float64], tau: float, logarithmic: bool) -> tuple[float, float]:
    """The range of the vertical axis, with every finite γ, and with τ unless it is far away."""
    usable = gamma[np.isfinite(gamma)]
    if not logarithmic:
        highest = max(usable.max(initial=0.0), tau if isfinite(tau) else 0.0)
        return 0.0, float(highest) or 1.0
    logs = np.log10(usable[usable > 0])
    if 0 < tau < inf:
        level = log10(tau)
    else:
        level = -1.0
    low = min(logs.min(initial=level - 0.5), max(level - 0.3, logs.min(initial=level) - 2))
    high = max(logs.max(initial=level + 0.5), min(level + 0.3, logs.max(initial=level) + 2))
    return max(float(low), LOWEST_LOG), max(float(high), LOWEST_LOG + 1)


_ENERGY_TIP = "‖ΔW‖², the squared Frobenius norm"
_ROLE_TIP = "Show the layers of one role only, joined by lines"
_SYMBOLS = ("o", "s", "t1", "d")  # for experts that share a colour


class EnergiesAlongPlot(LayerCurvesPlot):
    """One curve per expert with its energy in every layer, from the model's input to its output.

    It has lines only for a single role, as lines between layers of different roles mean nothing.
    """

    called = "Energies along the model"
    empty = "The experts' energies appear here once a base and its experts are open."
    toggles = True
    wraps = False
    logarithmic_first = True

    def __init__(self) -> None:
        self._indices = np.zeros(0, dtype=np.intp)
        super().__init__()
        self.keep_title()
        self.role = Choice("Role whose energies are shown", _role_options(()))
        self.role.chosen.connect(lambda: self._take_layers(same=False))
        self.add_control(self.role)

    def _take_layers(self, same: bool) -> None:
        """Show the layers of the chosen role."""
        layers = self.layers
        self.role.offer(_role_options(layers.roles))
        role = self.role.current
        indices = [i for i, layer_role in enumerate(layers.roles) if role in (None, layer_role)]
        self._indices = np.array(indices, dtype=np.intp)
        self.set_columns([layers.names[i] for i in indices], [layers.blocks[i] for i in indices])
        if indices and self._colours:
            self.present(self._spec, zoomed=same)
        else:
            self.clear()

    def _spec(self) -> PlotSpec:
        energies = self.layers.energies_LT[self._indices]
        one_role = self.role.current is not None
        size = max(symbol_size(self._indices.size) - 3, 3)
        curves = []
        for expert, y in zip(self._colours, energies.T, strict=True):
            colour = self._colours[expert]
            curves.append(
                PlotCurve(
                    key=expert,
                    label=expert,
                    x=np.arange(len(y), dtype=np.float64),
                    y=y,
                    colour=colour,
                    width=1.0 if one_role else 0.0,
                    symbol=_SYMBOLS[repetition(colour) % len(_SYMBOLS)],
                    size=size,
                )
            )
        totals = zip(self._colours, np.nansum(energies, axis=0), strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in totals if v > 0)
        experts = counted(len(self._colours), "expert", "experts")
        return PlotSpec(
            title=f"{experts} in {counted(self._indices.size, 'matrix', 'matrices')}",
            curves=curves,
            x=replace(self.across, title="layer, input → output (numbers: block)"),
            y=PlotAxis(
                title="energy ‖ΔW‖²", low=None if self.log_box.isChecked() else 0.0, padding=0.08
            ),
            columns=self._columns,
            logarithmic_choice=True,
            description=f"Energies over the layers shown: {words}",
        )

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per shown layer, one column per expert."""
        energies = zip(self._colours, self.layers.energies_LT[self._indices].T, strict=True)
        return (
            FigureColumn("layer", self._names),
            FigureColumn("role", self.short_names),
            *(FigureColumn(e, values, _ENERGY_TIP) for e, values in energies),
        )

    @property
    def short_names(self) -> Sequence[str]:
        return [self.layers.roles[index] for index in self._indices]

    def _describe(self, index: int) -> str:
        energies = zip(self._colours, self.layers.energies_LT[self._indices[index]], strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in energies if np.isfinite(v))
        return f"{self._names[index]}: {words or 'not known yet'}"

    @property
    def hint(self) -> str:
        return "Choose a layer to see its energies; the legend hides experts."


def _role_options(roles: Iterable[str]) -> dict[Hashable, tuple[str, str]]:
    """The choices of the role; None means all roles."""
    all_roles: dict[Hashable, tuple[str, str]] = {None: ("All roles", _ROLE_TIP)}
    return all_roles | {role: (role, _ROLE_TIP) for role in roles}
