"""The base of plots of many layers, one of which is selected by mouse or keyboard, and the plot of
the difference between two merges or two models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent

from ace_gui.engine.contract.findings import GroupChange, LayerDifference, ModelDiff, TensorChange
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.models.layer_figures import LayerFigures
from ace_gui.gui.plots.frame.canvas import BlockAxis, Span, block_spans
from ace_gui.gui.plots.frame.export_image import ask_for_picture
from ace_gui.gui.plots.frame.items import Bands
from ace_gui.gui.plots.frame.spec import PlotAxis, PlotCurve, PlotMark, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import BlockGrid, SpecPlot

_NEAR: Final = 12.0  # px from the middle of a column
_ARRAYS: Final = ("gamma_L", "mean_log_L", "energies_LT", "override_tau_L")
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

    def show_layers(self, layers: LayerFigures, colours: Mapping[str, str] | None = None) -> None:
        """Show the layers in model order, unless no figure is new, as in many reports of a merge.
        ``colours``: of the experts."""
        layers_before = self.layers
        hues = dict(colours or {})
        same = (layers_before.names, layers_before.roles, self._colours) == (
            layers.names,
            layers.roles,
            hues,
        )
        pairs = [(getattr(layers_before, name), getattr(layers, name)) for name in _ARRAYS]
        if same and all(np.array_equal(before, after, equal_nan=True) for before, after in pairs):
            return
        copies = {name: getattr(layers, name).copy() for name in _ARRAYS}
        self.layers = replace(layers, **copies)
        self._colours = hues
        self._take_layers(same)

    def _take_layers(self, same: bool) -> None:
        """Show ``layers``; ``same``: only their figures have changed."""
        raise NotImplementedError

    def clear(self, message: str = "") -> None:
        self.layers = LayerFigures()
        self._set_names(())
        super().clear(message)

    def select(self, name: str | None) -> None:
        """Select a layer without a signal. An unknown name clears the selection."""
        self._marked = name or ""
        self._draw_selection()

    @property
    def selected(self) -> str | None:
        if self._selected is None:
            return None
        return self._marked

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
        """The caption while no layer is selected; exported pictures omit it."""
        return ""

    def _show_caption(self) -> None:
        self.caption.set_full_text(self._said())
        super()._show_caption()

    def _said(self) -> str:
        if self._selected is None:
            if self.canvas.in_picture:
                return ""
            return self.hint
        return self._describe(self._selected)

    def _choose(self, index: int) -> None:
        self.select(self._names[index])
        self._bring_into_view(index)
        self.layer_selected.emit(self._names[index])

    def text_at(self, scene_position: QPointF) -> str:
        index = self.layer_at(scene_position)
        if index is None:
            return ""
        return self._describe(index)

    def choose_at(self, scene_position: QPointF) -> None:
        index = self.layer_at(scene_position)
        if index is not None:
            self._choose(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.message() is None:
            last = len(self._names) - 1
        else:
            last = -1
        at = self._selected
        key = Qt.Key
        after, before = (0, last) if at is None else (at + 1, at - 1)
        targets = {
            key.Key_Right: after,
            key.Key_Down: after,
            key.Key_Left: before,
            key.Key_Up: before,
            key.Key_Home: 0,
            key.Key_End: last,
        }
        if event.key() not in targets or last < 0:
            super().keyPressEvent(event)
            return
        self._choose(min(max(targets[key(event.key())], 0), last))


class LayerCurvesPlot(LayersPlot):
    """Draws curves along the layers, with a line at the selected one."""

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

    def _cut(self, span: Span) -> PlotSpec:
        """The part of the declaration that belongs to one block."""
        assert self.make is not None
        spec = self.make()
        ((low, high), number) = span
        down, up = self.canvas.getViewBox().viewRange()[1]
        curves = []
        for curve in filter(lambda curve: curve.label, spec.curves):
            inside = (curve.positions > low) & (curve.positions < high)
            x = curve.positions[inside] - ceil(low)
            y = curve.y[inside]
            curves.append(replace(curve, x=x, y=y))
        return replace(
            spec,
            title=f"Block {number}",
            sentence="",
            curves=curves,
            x=PlotAxis(
                low=-0.5, high=high - low - 0.5, names=self.short_names[ceil(low) : ceil(high)]
            ),
            y=replace(spec.y, low=down, high=up, padding=0.0),
            marks=[PlotMark(value=level) for level in self.levels],
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
    def across(self) -> PlotAxis:
        low, high = columns_extent(len(self._names))
        return PlotAxis(low=low, high=high)

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
        if near and 0 <= column < len(self._names):
            return column
        return None


def block_of(name: str) -> int | None:
    """The block number in a tensor's name."""
    match = _FIRST_NUMBER.search(name)
    if match:
        return int(match.group(1))
    return None


def slot_of(name: str) -> str:
    """The name without its block number, which is the same for one matrix of every block."""
    return _FIRST_NUMBER.sub(".#.", name, count=1)


def symbol_size(count: int) -> float:
    """Symbol size in pixels for this number of layers."""
    if count <= 150:
        return 9.0
    if count <= 600:
        return 7.0
    return 5.0


def columns_extent(count: int) -> tuple[float, float]:
    """The range of this number of columns, with a small margin at both ends."""
    pad = max(0.5, 0.012 * count)
    return -0.5 - pad, count - 0.5 + pad


RELATIVE: Final = "relative difference"
_RELATIVE_TIP: Final = (
    "‖W₁ − W₂‖ over the mean of ‖W₁ − W₀‖ and ‖W₂ − W₀‖, Frobenius norms: 0: equal, 2: opposite "
    "changes of the same size"
)
_CHANGE_TIP: Final = "‖B − A‖ over ‖A‖, Frobenius norms"


@dataclass(frozen=True, kw_only=True)
class LayerDifferences:
    """One relative difference per name."""

    names: tuple[str, ...]
    """The rows' names."""
    blocks: tuple[int | None, ...]
    """Their transformer blocks."""
    relative: NDArray[np.float64]
    """NaN if undefined."""
    tip: str
    """Explains it."""
    columns: Callable[[], tuple[FigureColumn, ...]]
    """The table's further columns."""
    title: str
    """Of the plot."""
    cosines: NDArray[np.float64] | None = None
    """Between the changes of two merges; None for two models."""


_NONE: Final = LayerDifferences(
    names=(), blocks=(), relative=np.zeros(0), tip="", columns=tuple, title=""
)


def of_merges(names: Sequence[str], differences: Mapping[str, LayerDifference]) -> LayerDifferences:
    """The differences of two merges in those layers of ``names`` where they are known."""
    measured = [differences[name] for name in names if name in differences]

    def columns() -> tuple[FigureColumn, ...]:
        figures = {
            "cosine": ([d.cosine for d in measured], "Cosine of the two changes W₁ − W₀, W₂ − W₀"),
            "‖first‖": ([d.first_norm for d in measured], "Frobenius norm ‖W₁ − W₀‖"),
            "‖second‖": ([d.second_norm for d in measured], "Frobenius norm ‖W₂ − W₀‖"),
            "‖difference‖": ([d.difference_norm for d in measured], "Frobenius norm ‖W₁ − W₂‖"),
        }
        return tuple(
            FigureColumn(title, np.array(values), tip) for title, (values, tip) in figures.items()
        )

    return LayerDifferences(
        names=tuple(d.name for d in measured),
        blocks=tuple(block_of(d.name) for d in measured),
        relative=np.array([relative(d) for d in measured]),
        tip=_RELATIVE_TIP,
        columns=columns,
        title=summary(differences),
        cosines=np.array([d.cosine for d in measured]),
    )


def of_models(diff: ModelDiff, by: str) -> LayerDifferences:
    """Differences of two models by ``tensor``, ``block`` or ``role``, as in ``ace-gui diff``."""
    lines: Mapping[str, Sequence[TensorChange | GroupChange]] = {
        "tensor": diff.tensors,
        "block": diff.by_block,
        "role": diff.by_role,
    }
    rows = lines[by]

    def columns() -> tuple[FigureColumn, ...]:
        tensors = [row for row in rows if isinstance(row, TensorChange)]
        roles = (FigureColumn("role", [tensor.role for tensor in tensors]),)
        figures = {
            "‖B − A‖": ([row.change for row in rows], "Frobenius norm of the difference"),
            "‖A‖": ([row.norm for row in rows], "Frobenius norm in the first model"),
        }
        return (roles if tensors else ()) + tuple(
            FigureColumn(title, np.array(values), tip) for title, (values, tip) in figures.items()
        )

    total = diff.total.relative
    return LayerDifferences(
        names=tuple(row.name for row in rows),
        blocks=tuple(getattr(row, "block", None) for row in rows),
        relative=np.array([np.nan if row.relative is None else row.relative for row in rows]),
        tip=_CHANGE_TIP,
        columns=columns,
        title="" if total is None else f"Relative difference in all: {number_text(total, 3)}",
    )


class DifferencePlot(LayerCurvesPlot):
    """The relative difference of every layer, from the model's input to its output."""

    logarithmic_first = False

    def __init__(
        self,
        *,
        name: str = "Difference of two merges by layer",
        empty: str = "Choose two merges to compare.",
    ) -> None:
        self._differences = _NONE
        self.called = name
        self.empty = empty
        super().__init__()

    def show_differences(self, differences: LayerDifferences) -> None:
        same_names = differences.names == self._names
        self.set_columns(differences.names, differences.blocks)
        self._differences = differences
        self.present(self._spec, zoomed=same_names and self.message() is None)

    def clear(self, message: str = "") -> None:
        self.set_columns((), ())
        self._differences = _NONE
        super().clear(message)

    def _spec(self) -> PlotSpec:
        relative_L = self._differences.relative
        floor = float(np.nanmin(relative_L[relative_L > 0], initial=1.0))
        points = PlotCurve(
            key="difference",
            label="difference",
            x=np.arange(len(self._names), dtype=np.float64),
            y=relative_L,
            colour="accent",
            width=0,
            symbol="o",
            size=symbol_size(len(self._names)),
            floor=floor,
            in_legend=False,
        )
        logarithmic = self.log_box.isChecked()
        return PlotSpec(
            title=self._differences.title,
            curves=[points],
            x=self.across,
            y=PlotAxis(title=RELATIVE, low=None if logarithmic else 0.0, padding=0.08),
            columns=self._columns,
            logarithmic_choice=True,
        )

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per layer."""
        differences = self._differences
        return (
            FigureColumn("layer", self._names),
            FigureColumn(RELATIVE, differences.relative, differences.tip),
            *differences.columns(),
        )

    def _show_caption(self) -> None:
        super()._show_caption()
        self.setAccessibleDescription(f"{self.title.full_text}. {self.caption.full_text}")

    def _said(self) -> str:
        if self._selected is None and self._names:
            relative = np.nan_to_num(self._differences.relative, nan=-1.0)
            return f"Most: {self._describe(int(np.argmax(relative)))}"
        return super()._said()

    def _describe(self, index: int) -> str:
        share = number_text(float(self._differences.relative[index]), 3)
        cosines = self._differences.cosines
        if cosines is None:
            cosine = ""
        else:
            cosine = f", cosine {number_text(float(cosines[index]), 3)}"
        return f"{self._names[index]}: relative difference {share}{cosine}"


def relative(difference: LayerDifference) -> float:
    """‖W₁ − W₂‖ over the mean norm of both changes; 0 if neither changed anything."""
    mean = (difference.first_norm + difference.second_norm) / 2
    if mean > 0:
        return difference.difference_norm / mean
    return 0.0


def summary(differences: Mapping[str, LayerDifference]) -> str:
    """The difference over all layers as text."""
    if not differences:
        return ""
    squares = np.array(
        [[d.difference_norm, d.first_norm, d.second_norm] for d in differences.values()]
    )
    distance, first, second = np.linalg.norm(squares, axis=0)
    if distance == 0:
        return "The two merges are equal."
    relative = distance / ((first + second) / 2)
    return f"Relative difference over the model: {number_text(float(relative), 3)}"
