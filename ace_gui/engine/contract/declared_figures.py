"""The figures of a layer. Each is declared once, and every place that shows figures reads it here.

A figure is one number of a tensor. The places are the window's table with its tooltips and its
CSV, the output of ``inspect`` with the library's frame, and the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.health import norm_ratio
from ace_gui.formatting import number_text


class Place(StrEnum):
    """A place that shows figures of layers."""

    WINDOW = "window"
    """The layers table, the tooltips of its headings and rows, its CSV, and *What if*."""
    INSPECT = "inspect"
    """Terminal, CSV and JSON (under ``scales``) of the command, and the library's frame."""
    REPORT = "report"
    """The report's table of all tensors."""


EVERYWHERE: Final = frozenset(Place)


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredFigure:
    """One number of a layer: its name, its words, and how it is read.

    It is read from what is known before a merge, or from what the merge reported: exactly one of
    ``of_statistics`` and ``of_report`` is set.
    """

    name: str
    """Its key in JSON, and its column in the CSV of ``inspect`` and in frames."""
    title: str
    """Its heading in the window and in the terminal."""
    meaning: str
    """Its tooltip: a sentence or two."""
    of_statistics: Callable[[LayerStatistics], float | None] | None = None
    """Reads it from the experts' task vectors; None if it is unknown."""
    of_report: Callable[[LayerReport], float | None] | None = None
    """Reads it from the merge; None if the method has no such figure. ``inspect`` merges nothing,
    and does not show it."""
    report_heading: str = ""
    """Its heading in the report; empty: the title."""
    csv_heading: str = ""
    """Its heading in the window's CSV; empty: the title."""
    decimals: int | None = None
    """Decimals in the terminal; None: four significant digits, as ``text`` writes them."""
    text: Callable[[float, int], str] = number_text
    """Writes a value with a number of significant digits."""
    needs_regimes: bool = False
    """Whether ``inspect`` leaves it out where the tensor's method does not distinguish regimes."""
    places: frozenset[Place] = EVERYWHERE
    """Where it is shown."""
    only_if_known: bool = False
    """Whether the report has no column of it where no tensor has it."""

    def value(
        self, statistics: LayerStatistics | None, report: LayerReport | None = None
    ) -> float | None:
        """The figure of a layer; None if it is unknown or not a number."""
        value = None
        if self.of_statistics is not None and statistics is not None:
            value = self.of_statistics(statistics)
        if self.of_report is not None and report is not None:
            value = self.of_report(report)
        if value is None or math.isnan(value):
            return None
        return value

    def terminal_text(self, value: float | None) -> str:
        """A value in the terminal; empty if it is unknown."""
        if value is None:
            return ""
        if self.decimals is None:
            return self.text(value, 4)
        return f"{value:.{self.decimals}f}"


GAMMA: Final = DeclaredFigure(
    name="gamma",
    title="γ",
    meaning="Heterogeneity: how much the experts' energies differ in this layer. With a question "
    "mark, it is unreliable: the changes have norms near 1.",
    of_statistics=lambda statistics: statistics.gamma,
    decimals=4,
    needs_regimes=True,
)
LOG_VARIANCE: Final = DeclaredFigure(
    name="log_variance",
    title="Var ln E",
    meaning="Variance of the logarithms of the experts' energies. Unlike γ it does not depend on "
    "the scale of the weights.",
    of_statistics=lambda statistics: statistics.log_variance,
    decimals=4,
    needs_regimes=True,
    places=frozenset({Place.WINDOW, Place.INSPECT}),
)
DELTA_NORM: Final = DeclaredFigure(
    name="delta_norm",
    title="Change ‖ΔW‖",
    meaning="Frobenius norm of the merged change",
    of_report=lambda report: report.delta_norm,
    report_heading="‖ΔW‖",
    csv_heading="merged change ‖ΔW‖",
)
NORM_RATIO: Final = DeclaredFigure(
    name="norm_ratio",
    title="Change by experts' mean",
    meaning="Norm of the merged change over the experts' mean norm",
    of_report=norm_ratio,
    report_heading="by experts' mean",
    places=frozenset({Place.REPORT}),
)
RIDGE_MASS: Final = DeclaredFigure(
    name="ridge_mass",
    title="Ridge mass Σε",
    meaning="The ridge's share in the solution",
    of_report=lambda report: report.ridge_mass,
    report_heading="Σ εₜ",
    csv_heading="ridge mass Σε",
)
CONDITION: Final = DeclaredFigure(
    name="condition",
    title="Condition number",
    meaning="Bound on the condition number of the solved system",
    of_report=lambda report: report.condition,
    report_heading="condition number",
    places=frozenset({Place.REPORT}),
)
REFINEMENT_COSINE: Final = DeclaredFigure(
    name="refinement_cosine",
    title="Refinement cosine",
    meaning="Between refinement and sum of task vectors",
    of_report=lambda report: report.refinement_cosine,
    report_heading="refinement cosine",
    places=frozenset({Place.REPORT}),
)
REFINEMENT_RATIO: Final = DeclaredFigure(
    name="refinement_ratio",
    title="Refinement ratio",
    meaning="Norm of the refinement over that of W_pre",
    of_report=lambda report: report.refinement_ratio,
    report_heading="refinement ratio",
    places=frozenset({Place.REPORT}),
)

QUANTISATION_NOISE: Final = DeclaredFigure(
    name="quantisation_noise",
    title="Quantisation noise",
    meaning="Share of the experts' changes that is rounding of quantised models, by their steps",
    of_report=lambda report: report.quantisation_noise,
    report_heading="quantisation noise",
    places=frozenset({Place.REPORT}),
    only_if_known=True,
)

FIGURES: tuple[DeclaredFigure, ...] = (
    GAMMA,
    LOG_VARIANCE,
    DELTA_NORM,
    NORM_RATIO,
    RIDGE_MASS,
    CONDITION,
    REFINEMENT_COSINE,
    REFINEMENT_RATIO,
    QUANTISATION_NOISE,
)
"""All figures, in the order of their columns. A new one is a member of this tuple."""


def figures_in(place: Place) -> tuple[DeclaredFigure, ...]:
    """The figures that a place shows besides γ, which has a mark of its own, in their order."""
    figures = []
    for figure in FIGURES:
        is_readable = place is not Place.INSPECT or figure.of_statistics is not None
        if is_readable and place in figure.places and figure is not GAMMA:
            figures.append(figure)
    return tuple(figures)
