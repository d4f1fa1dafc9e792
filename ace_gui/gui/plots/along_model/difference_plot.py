"""The difference between two merges, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.figures.findings import LayerDifference
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.layer_plot import LayerCurvesPlot, block_of, symbol_size
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Choose two merges to compare."
RELATIVE_TIP: Final = (
    "‖W₁ − W₂‖ over the mean of ‖W₁ − W₀‖ and ‖W₂ − W₀‖, Frobenius norms: 0: equal, 2: opposite "
    "changes of the same size"
)


class DifferencePlot(LayerCurvesPlot):
    """The relative difference of every layer, from the model's input to its output."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._differences: dict[str, LayerDifference] = {}
        super().__init__(
            name="Difference of two merges by layer",
            empty=EMPTY,
            logarithmic=False,
            parent=parent,
        )

    def show_differences(
        self, names: Sequence[str], differences: Mapping[str, LayerDifference]
    ) -> None:
        """Show those layers of ``names`` whose difference is known."""
        known = tuple(name for name in names if name in differences)
        same = known == self._names
        self.set_columns(known, [block_of(name) for name in known])
        self._differences = dict(differences)
        self.present(self._spec, zoomed=same and self.message() is None)

    def clear(self, message: str = "") -> None:
        self.set_columns((), ())
        self._differences = {}
        super().clear(message)

    def _spec(self, theme: Tokens) -> PlotSpec:
        relative_L = self._relative()
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
            title=summary(self._differences),
            curves=[points],
            x=self.across,
            y=Axis(
                titles=("relative difference", "difference"),
                low=None if logarithmic else 0.0,
                padding=0.08,
            ),
            columns=self._columns,
            logarithmic_choice=True,
        )

    def _columns(self) -> tuple[FigureColumn, ...]:
        """One row per layer."""
        found = [self._differences[name] for name in self._names]
        figures: dict[str, tuple[list[float], str]] = {
            "relative difference": (self._relative().tolist(), RELATIVE_TIP),
            "cosine": ([d.cosine for d in found], "Cosine of the two changes W₁ − W₀, W₂ − W₀"),
            "‖first‖": ([d.first_norm for d in found], "Frobenius norm ‖W₁ − W₀‖"),
            "‖second‖": ([d.second_norm for d in found], "Frobenius norm ‖W₂ − W₀‖"),
            "‖difference‖": ([d.difference_norm for d in found], "Frobenius norm ‖W₁ − W₂‖"),
        }
        return (
            FigureColumn(title="layer", values=self._names),
            *(
                FigureColumn(title=title, values=np.array(values), tip=tip)
                for title, (values, tip) in figures.items()
            ),
        )

    def _show_caption(self) -> None:
        index = self._selected
        if index is None and self._names:
            most = self._describe(int(np.argmax(self._relative())))
            self.caption.set_full_text(f"Most: {most}")
        else:
            self.caption.set_full_text("" if index is None else self._describe(index))
        self.caption.setVisible(self.message() is None)
        self.setAccessibleDescription(f"{self.title.whole}. {self.caption.whole}")

    def _relative(self) -> NDArray[np.float64]:
        return np.array([relative(self._differences[name]) for name in self._names])

    def _describe(self, index: int) -> str:
        difference = self._differences[self._names[index]]
        share, cosine = number_text(relative(difference), 3), number_text(difference.cosine, 3)
        return f"{difference.name}: relative difference {share}, cosine {cosine}"


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
