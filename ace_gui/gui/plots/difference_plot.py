"""The difference between two merges or two models, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.findings import GroupChange, LayerDifference, ModelDiff, TensorChange
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.plots.layers_plot import LayerCurvesPlot, block_of, symbol_size
from ace_gui.gui.theme import Tokens

RELATIVE: Final = "relative difference"
_RELATIVE_TIP: Final = (
    "‖W₁ − W₂‖ over the mean of ‖W₁ − W₀‖ and ‖W₂ − W₀‖, Frobenius norms: 0: equal, 2: opposite "
    "changes of the same size"
)
_CHANGE_TIP: Final = "‖B − A‖ over ‖A‖, Frobenius norms"


@dataclass(frozen=True, kw_only=True)
class Differences:
    """One relative difference per name, NaN if undefined. ``columns``: of the table, without the
    names and these. ``cosines``: of merges' changes.
    """

    names: tuple[str, ...]
    blocks: tuple[int | None, ...]
    relative: NDArray[np.float64]
    tip: str
    columns: Callable[[], tuple[FigureColumn, ...]]
    title: str
    cosines: NDArray[np.float64] | None = None


_NONE: Final = Differences(
    names=(), blocks=(), relative=np.zeros(0), tip="", columns=tuple, title=""
)


def of_merges(names: Sequence[str], differences: Mapping[str, LayerDifference]) -> Differences:
    """The layers of ``names`` whose difference is known."""
    found = [differences[name] for name in names if name in differences]

    def columns() -> tuple[FigureColumn, ...]:
        figures = {
            "cosine": ([d.cosine for d in found], "Cosine of the two changes W₁ − W₀, W₂ − W₀"),
            "‖first‖": ([d.first_norm for d in found], "Frobenius norm ‖W₁ − W₀‖"),
            "‖second‖": ([d.second_norm for d in found], "Frobenius norm ‖W₂ − W₀‖"),
            "‖difference‖": ([d.difference_norm for d in found], "Frobenius norm ‖W₁ − W₂‖"),
        }
        return tuple(
            FigureColumn(title, np.array(values), tip) for title, (values, tip) in figures.items()
        )

    return Differences(
        names=tuple(d.name for d in found),
        blocks=tuple(block_of(d.name) for d in found),
        relative=np.array([relative(d) for d in found]),
        tip=_RELATIVE_TIP,
        columns=columns,
        title=summary(differences),
        cosines=np.array([d.cosine for d in found]),
    )


def of_models(found: ModelDiff, by: str) -> Differences:
    """Two models by ``tensor``, ``block`` or ``role``, as ``ace-gui diff`` prints them."""
    lines: Mapping[str, Sequence[TensorChange | GroupChange]] = {
        "tensor": found.tensors,
        "block": found.by_block,
        "role": found.by_role,
    }
    rows = lines[by]

    def columns() -> tuple[FigureColumn, ...]:
        tensors = [each for each in rows if isinstance(each, TensorChange)]
        roles = (FigureColumn("role", [each.role for each in tensors]),)
        figures = {
            "‖B − A‖": ([each.change for each in rows], "Frobenius norm of the difference"),
            "‖A‖": ([each.norm for each in rows], "Frobenius norm in the first model"),
        }
        return (roles if tensors else ()) + tuple(
            FigureColumn(title, np.array(values), tip) for title, (values, tip) in figures.items()
        )

    total = found.total.relative
    return Differences(
        names=tuple(each.name for each in rows),
        blocks=tuple(getattr(each, "block", None) for each in rows),
        relative=np.array([np.nan if each.relative is None else each.relative for each in rows]),
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
        self._shown = _NONE
        self.called, self.empty = name, empty
        super().__init__()

    def show_differences(self, shown: Differences) -> None:
        same = shown.names == self._names
        self.set_columns(shown.names, shown.blocks)
        self._shown = shown
        self.present(self._spec, zoomed=same and self.message() is None)

    def clear(self, message: str = "") -> None:
        self.set_columns((), ())
        self._shown = _NONE
        super().clear(message)

    def _spec(self, theme: Tokens) -> PlotSpec:
        relative_L = self._shown.relative
        floor = float(np.nanmin(relative_L[relative_L > 0], initial=1.0))
        points = Curve(
            key="difference",
            label="difference",
            x=np.arange(len(self._names), dtype=np.float64),
            y=relative_L,
            colour=theme.accent,
            width=0,
            symbol="o",
            size=symbol_size(len(self._names)),
            floor=floor,
            in_legend=False,
        )
        logarithmic = self.log_box.isChecked()
        return PlotSpec(
            title=self._shown.title,
            curves=[points],
            x=self.across,
            y=Axis(title=RELATIVE, low=None if logarithmic else 0.0, padding=0.08),
            columns=self._columns,
            logarithmic_choice=True,
        )

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per layer."""
        shown = self._shown
        return (
            FigureColumn("layer", self._names),
            FigureColumn(RELATIVE, shown.relative, shown.tip),
            *shown.columns(),
        )

    def _show_caption(self) -> None:
        super()._show_caption()
        self.setAccessibleDescription(f"{self.title.whole}. {self.caption.whole}")

    def _said(self) -> str:
        if self._selected is None and self._names:
            known = np.nan_to_num(self._shown.relative, nan=-1.0)
            return f"Most: {self._describe(int(np.argmax(known)))}"
        return super()._said()

    def _describe(self, index: int) -> str:
        share = number_text(float(self._shown.relative[index]), 3)
        cosines = self._shown.cosines
        more = "" if cosines is None else f", cosine {number_text(float(cosines[index]), 3)}"
        return f"{self._names[index]}: relative difference {share}{more}"


def relative(difference: LayerDifference) -> float:
    """‖W₁ − W₂‖ over the mean norm of both changes; 0 if neither changed anything."""
    mean = (difference.first_norm + difference.second_norm) / 2
    return difference.difference_norm / mean if mean > 0 else 0.0


def summary(differences: Mapping[str, LayerDifference]) -> str:
    """The difference over all layers."""
    if not differences:
        return ""
    squares = np.array(
        [[d.difference_norm, d.first_norm, d.second_norm] for d in differences.values()]
    )
    distance, first, second = np.linalg.norm(squares, axis=0)
    if distance == 0:
        return "The two merges are equal."
    whole = distance / ((first + second) / 2)
    return f"Relative difference over the model: {number_text(float(whole), 3)}"
