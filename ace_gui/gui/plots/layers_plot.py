"""Plots of many layers, of which one is selected by mouse or keyboard: their base, and the energies
of every expert along the model (ACE, Figs. 4 to 7).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent

from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.models.layer_figures import LayerFigures
from ace_gui.gui.plots.frame.canvas import BlockAxis, Span, block_spans
from ace_gui.gui.plots.frame.export_image import ask_for_picture
from ace_gui.gui.plots.frame.items import Bands
from ace_gui.gui.plots.frame.spec import Axis, Curve, Mark, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import BlockGrid, SpecPlot
from ace_gui.gui.theme import Tokens, in_theme
from ace_gui.gui.widgets.controls import Choice

_NEAR: Final = 12.0  # px from the middle of a column
_ARRAYS: Final = ("gamma_L", "mean_log_L", "energies_LT")
_FIRST_NUMBER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


class LayersPlot(SpecPlot):
    """A plot of layers. ``layer_selected`` carries the name that the user selected.

    Left and right (or up and down) step through the layers. Subclasses implement ``layer_at``,
    ``_describe`` and ``_draw_selection``.
    """

    layer_selected = Signal(str)

    def __init__(self, **axes: Any) -> None:
        self.layers = LayerFigures()
        self._colours: dict[str, str] = {}
        self._names: tuple[str, ...] = ()
        self._index: dict[str, int] = {}
        self._marked = ""
        super().__init__(**axes)

    def show_layers(self, found: LayerFigures, colours: Mapping[str, str] | None = None) -> None:
        """Show the layers in model order, unless nothing is new: a merge reports many without
        new figures. ``colours``: of the experts."""
        known, hues = self.layers, dict(colours or {})
        same = (known.names, known.roles, self._colours) == (found.names, found.roles, hues)
        pairs = [(getattr(known, name), getattr(found, name)) for name in _ARRAYS]
        if same and all(np.array_equal(one, other, equal_nan=True) for one, other in pairs):
            return
        copies = {name: getattr(found, name).copy() for name in _ARRAYS}
        self.layers, self._colours = replace(found, **copies), hues
        self._take_layers(same)

    def _take_layers(self, same: bool) -> None:
        """Show ``layers``; ``same``: only their figures have changed."""
        raise NotImplementedError

    def clear(self, message: str = "") -> None:
        self.layers = LayerFigures()
        self._set_names(())
        super().clear(message)

    def select(self, name: str | None) -> None:
        """Mark one layer without a signal. An unknown name clears the mark."""
        self._marked = name or ""
        self._draw_selection()

    @property
    def selected(self) -> str | None:
        return None if self._selected is None else self._marked

    @property
    def _selected(self) -> int | None:
        return self._index.get(self._marked)

    def name_at(self, row: int) -> str:
        """The layer in a row of ``columns``."""
        return self._names[row]

    def row_of(self, name: str | None) -> int | None:
        """The row of a layer in ``columns``."""
        return self._index.get(name or "")

    def layer_at(self, scene_position: QPointF) -> int | None:
        """Index of the nearest layer, if one is near."""
        raise NotImplementedError

    def _set_names(self, names: Sequence[str]) -> None:
        """Replace the layers; the selection stays."""
        self._names = tuple(names)
        self._index = {name: i for i, name in enumerate(self._names)}

    def _describe(self, index: int) -> str:
        raise NotImplementedError

    def _draw_selection(self) -> None:
        raise NotImplementedError

    def _bring_into_view(self, index: int) -> None:
        """Scroll to a layer if not all are visible."""

    @property
    def hint(self) -> str:
        """The caption while no layer is selected; no picture has it."""
        return ""

    def _show_caption(self) -> None:
        self.caption.set_full_text(self._said())
        super()._show_caption()

    def _said(self) -> str:
        if self._selected is None:
            return "" if self.canvas.in_picture else self.hint
        return self._describe(self._selected)

    def _choose(self, index: int) -> None:
        self.select(self._names[index])
        self._bring_into_view(index)
        self.layer_selected.emit(self._names[index])

    def text_at(self, scene_position: QPointF) -> str:
        index = self.layer_at(scene_position)
        return "" if index is None else self._describe(index)

    def choose_at(self, scene_position: QPointF) -> None:
        index = self.layer_at(scene_position)
        if index is not None:
            self._choose(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._names) - 1 if self.message() is None else -1
        at, key = self._selected, Qt.Key
        onward, back = (0, last) if at is None else (at + 1, at - 1)
        targets = {
            key.Key_Right: onward,
            key.Key_Down: onward,
            key.Key_Left: back,
            key.Key_Up: back,
            key.Key_Home: 0,
            key.Key_End: last,
        }
        if event.key() not in targets or last < 0:
            super().keyPressEvent(event)
            return
        self._choose(min(max(targets[key(event.key())], 0), last))


class LayerCurvesPlot(LayersPlot):
    """Draws a declaration whose positions are the layers, with a line at the selected one."""

    toggles = False

    def __init__(self) -> None:
        self._blocks_axis = BlockAxis()
        super().__init__(bottom=self._blocks_axis)
        self._mark = pg.InfiniteLine(angle=90, movable=False)
        self._mark.hide()
        self._bands = Bands()
        for item in (self._bands, self._mark):
            self.canvas.addItem(item)
        self._spans: list[Span] = []
        self.add_block_action(lambda: ask_for_picture(self.by_block(), self))

    def by_block(self) -> BlockGrid:
        """The same plot as small multiples."""
        return BlockGrid(self, [partial(self._cut, span) for span in self._spans], self.columns)

    def _cut(self, span: Span, theme: Tokens) -> PlotSpec:
        """The part of the declaration that belongs to one block."""
        assert self.make is not None
        spec, ((low, high), number) = self.make(theme), span
        down, up = self.canvas.getViewBox().viewRange()[1]
        curves = []
        for curve in filter(lambda curve: curve.label, spec.curves):
            inside = (curve.positions > low) & (curve.positions < high)
            x, y = curve.positions[inside] - ceil(low), curve.y[inside]
            curves.append(replace(curve, x=x, y=y))
        return replace(
            spec,
            title=f"Block {number}",
            sentence="",
            curves=curves,
            x=Axis(low=-0.5, high=high - low - 0.5, names=self.short_names[ceil(low) : ceil(high)]),
            y=replace(spec.y, low=down, high=up, padding=0.0),
            marks=[Mark(value=each) for each in self.levels],
        )

    @property
    def short_names(self) -> Sequence[str]:
        """The layers' names within a block."""
        return self._names

    def set_columns(self, names: Sequence[str], blocks: Sequence[int | None]) -> None:
        self._set_names(names)
        self._spans = block_spans(blocks)
        self._blocks_axis.set_blocks(self._spans)
        self._bands.spans = [span for span, _ in self._spans][::2]

    @property
    def across(self) -> Axis:
        low, high = columns_extent(len(self._names))
        return Axis(low=low, high=high)

    def _draw(self) -> None:
        super()._draw()
        self._mark.setPen(pg.mkPen(self.theme.text2, width=1, style=Qt.PenStyle.DotLine))
        self._bands.colour = self.theme.sunk
        self._bands.update()
        self._draw_selection()

    def _draw_selection(self) -> None:
        self._mark.setVisible(self._selected is not None)
        if self._selected is not None:
            self._mark.setValue(self._selected)
        self._show_caption()

    def layer_at(self, scene_position: QPointF) -> int | None:
        view = self.canvas.getViewBox()
        if not view.sceneBoundingRect().contains(scene_position):
            return None
        at = view.mapSceneToView(scene_position).x()
        column = round(at)
        near = abs(column - at) / view.viewPixelSize()[0] <= _NEAR
        return column if near and 0 <= column < len(self._names) else None


def block_of(name: str) -> int | None:
    """The block number in a tensor's name."""
    found = _FIRST_NUMBER.search(name)
    return int(found.group(1)) if found else None


def slot_of(name: str) -> str:
    """The name without its block number: equal for the same matrix of every block."""
    return _FIRST_NUMBER.sub(".#.", name, count=1)


def symbol_size(count: int) -> float:
    """Symbol size in pixels for this number of layers."""
    return 9.0 if count <= 150 else 7.0 if count <= 600 else 5.0


def columns_extent(count: int) -> tuple[float, float]:
    """The range of this number of columns, with a small margin at both ends."""
    pad = max(0.5, 0.012 * count)
    return -0.5 - pad, count - 0.5 + pad


_ENERGY_TIP = "‖ΔW‖², the squared Frobenius norm"
_ROLE_TIP = "Show the layers of one role only, joined by lines"
_SYMBOLS = ("o", "s", "t1", "d")  # for experts that share a colour


class EnergiesAlongPlot(LayerCurvesPlot):
    """One curve per expert: its energy in every layer, from the model's input to its output.

    Lines are only drawn for a single role: between layers of different roles they mean nothing.
    """

    called = "Energies along the model"
    empty = "The experts' energies appear here once a base and its experts are open."
    toggles = True
    wraps = False
    logarithmic_first = True

    def __init__(self) -> None:
        self._shown = np.zeros(0, dtype=np.intp)
        super().__init__()
        self.keep_title()
        self.role = Choice("Role whose energies are shown", _role_options(()))
        self.role.chosen.connect(lambda: self._take_layers(same=False))
        self.add_control(self.role)

    def _take_layers(self, same: bool) -> None:
        """Show the layers of the chosen role."""
        found = self.layers
        self.role.offer(_role_options(found.roles))
        role = self.role.current
        shown = [i for i, other in enumerate(found.roles) if role in (None, other)]
        self._shown = np.array(shown, dtype=np.intp)
        self.set_columns([found.names[i] for i in shown], [found.blocks[i] for i in shown])
        if shown and self._colours:
            self.present(self._spec, zoomed=same)
        else:
            self.clear()

    def _spec(self, theme: Tokens) -> PlotSpec:
        energies, one_role = self.layers.energies_LT[self._shown], self.role.current is not None
        size = max(symbol_size(self._shown.size) - 3, 3)
        used: Counter[str] = Counter()
        curves = []
        for expert, y in zip(self._colours, energies.T, strict=True):
            colour = in_theme(self._colours[expert], theme)
            curves.append(
                Curve(
                    key=expert,
                    label=expert,
                    x=np.arange(len(y), dtype=np.float64),
                    y=y,
                    colour=colour,
                    width=1.0 if one_role else 0.0,
                    symbol=_SYMBOLS[used[colour] % len(_SYMBOLS)],
                    size=size,
                )
            )
            used[colour] += 1
        totals = zip(self._colours, np.nansum(energies, axis=0), strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in totals if v > 0)
        experts = counted(len(self._colours), "expert", "experts")
        return PlotSpec(
            title=f"{experts} in {counted(self._shown.size, 'matrix', 'matrices')}",
            curves=curves,
            x=replace(self.across, title="layer, input → output (numbers: block)"),
            y=Axis(
                title="energy ‖ΔW‖²", low=None if self.log_box.isChecked() else 0.0, padding=0.08
            ),
            columns=self._columns,
            logarithmic_choice=True,
            description=f"Energies over the layers shown: {words}",
        )

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per shown layer, one column per expert."""
        energies = zip(self._colours, self.layers.energies_LT[self._shown].T, strict=True)
        return (
            FigureColumn("layer", self._names),
            FigureColumn("role", self.short_names),
            *(FigureColumn(e, values, _ENERGY_TIP) for e, values in energies),
        )

    @property
    def short_names(self) -> Sequence[str]:
        return [self.layers.roles[index] for index in self._shown]

    def _describe(self, index: int) -> str:
        energies = zip(self._colours, self.layers.energies_LT[self._shown[index]], strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in energies if np.isfinite(v))
        return f"{self._names[index]}: {words or 'not known yet'}"

    @property
    def hint(self) -> str:
        return "Choose a layer to see its energies; the legend hides experts."


def _role_options(roles: Iterable[str]) -> dict[Hashable, tuple[str, str]]:
    """None means all roles."""
    every: dict[Hashable, tuple[str, str]] = {None: ("All roles", _ROLE_TIP)}
    return every | {role: (role, _ROLE_TIP) for role in roles}
