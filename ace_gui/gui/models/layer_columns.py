"""The columns of the layers table, and their texts."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from PySide6.QtCore import Qt

from ace_gui.engine.contract.checks import Verdict
from ace_gui.engine.contract.figures.health import BY_SCALE
from ace_gui.gui.models.figures_model import GAP

FINE: Final = "✓"
"""The text for a tensor without anything unusual."""
OVERRIDDEN: Final = "◆"
"""Marks a tensor that an override of the recipe applies to."""


class Column(IntEnum):
    """The columns, from left to right."""

    TENSOR = 0
    ROLE = 1
    SHAPE = 2
    OUTCOME = 3
    GAMMA = 4
    LOG_VARIANCE = 5
    REGIME = 6
    HEALTH = 7
    STATE = 8


class GammaFigure(NamedTuple):
    """γ of a tensor (NaN: unknown), its τ (infinite: none), and whether γ is unreliable."""

    gamma: float
    tau: float
    unsure: bool

    @property
    def is_above(self) -> bool:
        """Whether the tensor is heterogeneous."""
        return self.gamma > self.tau


_FIGURES: Final = frozenset({Column.SHAPE, Column.LOG_VARIANCE})
_ALIGNMENTS: Final = (  # for texts, for numbers
    Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
    Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter,
)


def alignment(column: int) -> Qt.AlignmentFlag:
    """Numbers are right-aligned, texts left-aligned."""
    return _ALIGNMENTS[column in _FIGURES]


HEADERS: Final = (
    "Tensor",
    "Role",
    "Shape",
    "Outcome",
    "γ",
    f"Var ln E{GAP}",
    "Regime",
    "Health",
    "State",
)
HEADER_TIPS: Final = (
    "Name of the tensor in the base model's files.",
    "The tensor's role in the model.",
    "Shape as stored in the files.",
    (
        "How the tensor is treated; hover over a row for the reason. ◆ marks an override; the "
        "menu of the selected rows makes one."
    ),
    (
        "Heterogeneity: how much the experts' energies differ in this layer "
        "(variance of the logarithms by their squared mean). With a question mark: γ is unreliable "
        "here, because that mean is near zero."
    ),
    (
        "Variance of the logarithms of the experts' energies. Unlike γ it does not depend on the "
        "scale of the weights."
    ),
    (
        "Heterogeneous where γ is above the threshold τ: there ACE refines its solution. "
        "By scale alone: γ is above τ only because the changes have norms near 1, not because "
        "the experts disagree."
    ),
    "Number of findings; hover over a row for explanations and advice.",
    "Whether the tensor is merged, and with the parameters chosen now.",
)


class LayerState(IntEnum):
    """Progress of a tensor's merge, in sorting order."""

    NONE = 0
    WAITING = 1
    EARLIER = 2
    DONE = 3


STATE_TEXT: Final = {
    LayerState.NONE: "–",
    LayerState.WAITING: "◌ waiting",
    LayerState.EARLIER: "↺ outdated",
    LayerState.DONE: "✓ done",
}
REGIME_TEXT: Final = {
    "heterogeneous": "heterogeneous",
    BY_SCALE: "by scale alone",
    "homogeneous": "homogeneous",
    "–": "–",
}
HEALTH_ICONS: Final = {
    Verdict.ERROR: "error",
    Verdict.WARNING: "warning",
    Verdict.NOTE: "info",
}
STATE_TIPS: Final = {
    LayerState.NONE: "Not merged yet.",
    LayerState.WAITING: "Waiting for its turn in the merge.",
    LayerState.EARLIER: "Settings changed since this tensor was merged; merge again to apply them.",
    LayerState.DONE: "Merged with the current parameters.",
}
