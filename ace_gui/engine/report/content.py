"""The content of a report, and the format of its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ace_gui.engine.contract.events import GpuPeak, MethodInfo
from ace_gui.engine.contract.findings import (
    LayerReport,
    LayerSpectrum,
    LayerStatistics,
    Regime,
)
from ace_gui.engine.contract.health import (
    LayerHealth,
    ModelHealth,
    gamma_unreliable,
    layer_health,
    model_health,
)
from ace_gui.engine.contract.plan import Check, Disposition, Plan, PlanRow
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.formatting import number_text

NONE: Final = "–"


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a report. ``statistics`` and ``reports`` are by the rows' names.

    ``recipe_text``: the recipe as YAML. ``gpu_peak``: set if a GPU merged. ``program``: its
    version. ``created``: date for display.
    """

    plan: Plan
    method: MethodInfo
    statistics: Mapping[str, LayerStatistics]
    reports: Mapping[str, LayerReport]
    spectra: tuple[LayerSpectrum, ...]
    recipe_text: str
    program: str
    created: str
    checks: tuple[Check, ...] = ()
    scores: tuple[TaskScore, ...] = ()
    gpu_peak: GpuPeak | None = None

    @property
    def merged_rows(self) -> tuple[PlanRow, ...]:
        """The rows that the method merged, in the model's order."""
        return tuple(row for row in self.plan.rows if row.disposition == Disposition.MERGED)

    @property
    def known_rows(self) -> tuple[PlanRow, ...]:
        """The rows with statistics: all merged or averaged ones."""
        return tuple(row for row in self.plan.rows if row.name in self.statistics)

    @cached_property
    def health(self) -> Mapping[str, LayerHealth]:
        """The health of every row with statistics or a report."""
        return {
            row.name: layer_health(
                self.statistics.get(row.name),
                self.reports.get(row.name),
                self.plan.parameters if row.override is None else row.override.parameters,
            )
            for row in self.known_rows
        }

    @cached_property
    def model_health(self) -> ModelHealth:
        """The health of all rows together."""
        return model_health(self.health.values())

    def gamma(self, row: PlanRow) -> float | None:
        """γ of a row."""
        found = self.statistics.get(row.name)
        return None if found is None else found.gamma

    def gamma_unsure(self, row: PlanRow) -> bool:
        """Whether γ of a row is unreliable, and marked."""
        found = self.statistics.get(row.name)
        return found is not None and gamma_unreliable(found, self.plan.tau_of(row))

    @property
    def has_unsure(self) -> bool:
        """Whether a γ is marked."""
        return any(map(self.gamma_unsure, self.plan.rows))

    def regime(self, row: PlanRow) -> Regime | None:
        """The regime in which a row was merged."""
        report = self.reports.get(row.name)
        return None if report is None else report.regime


def number(value: float | None) -> str:
    """Four digits: 0.1234, 1234, 1.234×10⁻⁵; a dash for None and NaN."""
    return NONE if value is None or math.isnan(value) else number_text(value, 4)


def share(value: float | None) -> str:
    """A share as a percentage."""
    return NONE if value is None or math.isnan(value) else f"{value:.2%}"
