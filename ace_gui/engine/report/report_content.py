"""The content of a report."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import GpuPeak, MethodInfo
from ace_gui.engine.contract.figure_content import FigureContent
from ace_gui.engine.contract.findings import LayerReport, LayerSpectrum, LayerStatistics, Regime
from ace_gui.engine.contract.health import LayerHealth, ModelHealth, layer_health, model_health
from ace_gui.engine.contract.plan import Check, Plan, PlanRow
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.formatting import number_text

NONE: Final = "–"


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a report."""

    plan: Plan
    """Of the merge."""
    method: MethodInfo
    """Its method."""
    label: str
    """What the merge is called."""
    statistics: Mapping[str, LayerStatistics]
    """Of the experts, by the rows' names."""
    reports: Mapping[str, LayerReport]
    """Of the merge, by the rows' names."""
    spectra: tuple[LayerSpectrum, ...]
    """Of the matrices of note."""
    recipe_text: str
    """The recipe as YAML."""
    program: str
    """The program's version."""
    created: str
    """Date for display."""
    checks: tuple[Check, ...] = ()
    """Worst first."""
    scores: tuple[TaskScore, ...] = ()
    """On the recipe's tasks."""
    distilled: Distilled | None = None
    """What aligning the merge with its experts gave."""

    sanity: SanityResult | None = None
    """What trying a merged language model on usual text gave."""

    gpu_peak: GpuPeak | None = None
    """Set if a GPU merged."""

    @cached_property
    def figures(self) -> FigureContent:
        """What figures show of it."""
        return FigureContent(
            plan=self.plan,
            statistics=self.statistics,
            reports=self.reports,
            spectra=self.spectra,
            scores=self.scores,
        )

    @property
    def merged_rows(self) -> tuple[PlanRow, ...]:
        """The rows that the method merged, in the model's order."""
        return tuple(row for row in self.plan.rows if row.is_merged)

    @property
    def known_rows(self) -> tuple[PlanRow, ...]:
        """The rows with statistics: all merged or averaged ones."""
        return tuple(row for row in self.plan.rows if row.name in self.statistics)

    @cached_property
    def health(self) -> Mapping[str, LayerHealth]:
        """The health of every row with statistics or a report."""
        health = {}
        for row in self.known_rows:
            parameters = self.plan.parameters
            if row.override is not None:
                parameters = row.override.parameters
            health[row.name] = layer_health(
                self.statistics.get(row.name), self.reports.get(row.name), parameters
            )
        return health

    @cached_property
    def model_health(self) -> ModelHealth:
        """The health of all rows together."""
        return model_health(self.health.values())

    def gamma(self, row: PlanRow) -> float | None:
        """γ of a row."""
        layer = self.statistics.get(row.name)
        if layer is None:
            return None
        return layer.gamma

    def gamma_unsure(self, row: PlanRow) -> bool:
        """Whether γ of a row is unreliable, and marked."""
        return self.figures.is_unreliable(row)

    @property
    def has_unsure(self) -> bool:
        """Whether a γ is marked."""
        return any(map(self.gamma_unsure, self.plan.rows))

    def regime(self, row: PlanRow) -> Regime | None:
        """The regime in which a row was merged."""
        report = self.reports.get(row.name)
        if report is None:
            return None
        return report.regime


def number(value: float | None) -> str:
    """Four digits: 0.1234, 1234, 1.234×10⁻⁵; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return NONE
    return number_text(value, 4)


def share(value: float | None) -> str:
    """A share as a percentage."""
    if value is None or math.isnan(value):
        return NONE
    return f"{value:.2%}"


def gammas_by_role(content: Content) -> Mapping[str, list[float]]:
    """γ of the merged tensors, in the order in which roles first occur."""
    by_role = defaultdict(list)
    for row, gamma in content.figures.rows_with_gamma():
        by_role[row.role].append(gamma)
    return dict(by_role)
