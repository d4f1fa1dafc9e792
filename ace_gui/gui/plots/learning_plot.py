"""How a method learns: the loss on every task, or a learned figure of every expert, by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QToolTip, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.end_labels import EndLabel, EndLabels
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.theme import Tokens

EMPTY: Final = (
    "A method that learns from data, such as AdaMerging, draws its loss here, step by step."
)
LOSSES, FIGURES = "losses", "figures"
WINDOW: Final = 20
"""Number of steps averaged in a loss curve, because batches differ."""


class LearningPlot(Plot):
    """One line per task or per expert, with its name at its end."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._left = quantity_axis("left", "loss", grid=True)
        self._losses: dict[str, NDArray[np.float64]] = {}
        self._figures: dict[str, NDArray[np.float64]] = {}
        self._curve = ""
        self._colours: dict[str, str] = {}
        self._items: dict[str, pg.PlotCurveItem] = {}
        super().__init__(
            name="Learning, step by step",
            empty=EMPTY,
            bottom=quantity_axis("bottom", "step"),
            left=self._left,
            toggles=True,
            wraps=False,
            parent=parent,
        )
        self.shown = Choice("Figures to show", {LOSSES: ("Loss", "")}, self)
        self.shown.chosen.connect(self._draw_all)
        self.add_control(self.shown)
        self._ends = EndLabels()
        self._ends.clicked.connect(lambda key: self.legend.chip(key).click())
        self.canvas.frame.add_axes({"right": self._ends})
        self.add_curve_menu()
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self.legend.toggled.connect(lambda *_: self._draw_all())
        self.canvas.scene().sigMouseMoved.connect(self._hovered)

    def show_steps(
        self,
        losses: Mapping[str, Sequence[float]],
        figures: Mapping[str, Sequence[float]],
        curve: str,
        colours: Mapping[str, str],
    ) -> None:
        """Draw these, one value per step. ``curve``: the kind of figures; ``colours`` by name."""
        self._losses = {name: np.array(each, dtype=float) for name, each in losses.items()}
        self._figures = {name: np.array(each, dtype=float) for name, each in figures.items()}
        self._curve, self._colours = curve, dict(colours)
        if not any(map(len, self._figures.values())):
            self.show_message(EMPTY)
            return
        self.shown.offer(
            {
                LOSSES: ("Loss", f"Of each task, the mean of {WINDOW} steps"),
                FIGURES: (_capital(curve), "Of each expert, the mean over the tensors"),
            }
        )
        self._draw_all()
        if self.message() is not None:
            self.show_canvas()

    def columns(self) -> Sequence[FigureColumn]:
        """Every step, its losses before averaging, and the figures."""
        count = max(map(len, self._figures.values()), default=0)
        found = [FigureColumn(title="step", values=np.arange(1, count + 1))]
        found += [
            FigureColumn(title=f"loss of {name}", values=_filled(each, count))
            for name, each in self._losses.items()
        ]
        return found + [
            FigureColumn(title=name, values=_filled(each, count), tip=self._curve)
            for name, each in self._figures.items()
        ]

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (both palettes are known)
        self._colours = {n: in_theme(colour, self.theme) for n, colour in self._colours.items()}
        if self._figures:
            self._draw_all()

    def rescale(self) -> None:
        """There is only one scale."""

    def fit(self) -> None:
        drawn = [own for name, own in self._drawn().items() if self.legend.is_on(name)]
        known = np.concatenate(drawn) if drawn else np.zeros(0)
        known = known[np.isfinite(known)]
        if not known.size:
            return
        low, high = float(known.min()), float(known.max())
        view = self.canvas.getViewBox()
        view.setXRange(1, max(max(map(len, drawn)), 2), padding=0.01)
        view.setYRange(low, max(high, low + 1e-6), padding=0.08)

    def _drawn(self) -> dict[str, NDArray[np.float64]]:
        if self.shown.current == FIGURES:
            return self._figures
        return {name: running_mean(each) for name, each in self._losses.items()}

    def _draw_all(self) -> None:
        drawn = self._drawn()
        losses = self.shown.current == LOSSES
        self._left.set_titles("loss" if losses else self._curve)
        self.title.set_whole("Loss of every task" if losses else _capital(self._curve))
        entries = [
            LegendEntry(key=name, label=name, colour=self._colours.get(name, self.theme.merged))
            for name in drawn
        ]
        self.legend.set_entries(entries)
        self._make_items(tuple(drawn))
        ends = []
        for entry in entries:
            own, on = drawn[entry.key], self.legend.is_on(entry.key)
            steps = np.arange(1, len(own) + 1, dtype=float)
            item = self._items[entry.key]
            item.setData(steps, own, pen=pg.mkPen(entry.colour, width=1.8), connect="finite")
            item.setVisible(on)
            seen = own[np.isfinite(own)]
            if seen.size:
                ink = self.theme.ink_of(entry.colour)
                ends.append(EndLabel(entry.key, entry.label, ink, float(seen[-1]), on=on))
        self._ends.set_labels(ends)
        self.fit()
        self.setAccessibleDescription("; ".join(self._words(name) for name in drawn))
        self.changed.emit()

    def _make_items(self, names: tuple[str, ...]) -> None:
        if tuple(self._items) == names:
            return
        for item in self._items.values():
            self.canvas.removeItem(item)
        self._items = {name: pg.PlotCurveItem() for name in names}
        for item in self._items.values():
            self.canvas.addItem(item, ignoreBounds=True)

    def _words(self, name: str, step: int | None = None) -> str:
        own = self._drawn()[name]
        if not len(own):
            return name
        index = len(own) - 1 if step is None else min(max(step - 1, 0), len(own) - 1)
        return f"{name}: {number_text(float(own[index]), 4)} at step {index + 1}"

    def _hovered(self, scene_position: QPointF) -> None:
        view = self.canvas.getViewBox()
        if self.message() is not None or not view.sceneBoundingRect().contains(scene_position):
            return
        step = round(view.mapSceneToView(scene_position).x())
        lines = [self._words(name, step) for name in self._drawn() if self.legend.is_on(name)]
        at = self.canvas.mapToGlobal(self.canvas.mapFromScene(scene_position))
        QToolTip.showText(at, "\n".join(lines), self.canvas)


def running_mean(values: NDArray[np.float64], window: int = WINDOW) -> NDArray[np.float64]:
    """The mean of each step and those before it, at most ``window`` of them."""
    if not len(values):
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    found: NDArray[np.float64] = (sums[last] - sums[first]) / (last - first)
    return found


def _filled(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.full(max(count - len(values), 0), np.nan)])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
