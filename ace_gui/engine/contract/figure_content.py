"""What is known of a merge that figures show, and what they say when nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ace_gui.engine.contract.findings import (
    LayerReport,
    LayerSpectrum,
    LayerStatistics,
    LayerSubspaces,
    Regime,
)
from ace_gui.engine.contract.health import gamma_unreliable
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.engine.contract.scored import TaskScore, finite_or_none
from ace_gui.errors import RecipeError
from ace_gui.formatting import counted


@dataclass(frozen=True, kw_only=True)
class FigureContent:
    """What panels are made of."""

    plan: Plan
    """The plan of the merge."""

    statistics: Mapping[str, LayerStatistics] = field(default_factory=dict)
    """By the rows' names."""

    reports: Mapping[str, LayerReport] = field(default_factory=dict)
    """Of a finished merge, by the rows' names."""

    spectra: Sequence[LayerSpectrum] = ()
    """Of the chosen matrices."""

    subspaces: Sequence[LayerSubspaces] = ()
    """Of the chosen matrices."""

    scores: Sequence[TaskScore] = ()
    """On the recipe's tasks."""

    def merged_rows(self) -> list[PlanRow]:
        """The rows that the method merges, in the model's order."""
        return [row for row in self.plan.rows if row.is_merged and row.in_base]

    def changed_rows(self) -> list[PlanRow]:
        """The merged rows without those that no expert changed, such as of adapters elsewhere."""
        rows = []
        for row in self.merged_rows():
            layer = self.statistics.get(row.name)
            if layer is None or not layer.is_unchanged:
                rows.append(row)
        return rows

    def rows_with_gamma(self) -> list[tuple[PlanRow, float]]:
        """The merged rows that have γ."""
        rows = []
        for row in self.merged_rows():
            statistics = self.statistics.get(row.name)
            if statistics is not None and statistics.gamma is not None:
                rows.append((row, statistics.gamma))
        return rows

    def is_unreliable(self, row: PlanRow) -> bool:
        """Whether γ of a row depends more on the units of the weights than on the experts."""
        statistics = self.statistics.get(row.name)
        return statistics is not None and gamma_unreliable(statistics, self.plan.tau_of(row))

    def is_heterogeneous(self, row: PlanRow, gamma: float) -> bool:
        """Whether a row is merged in the heterogeneous regime, or will be."""
        report = self.reports.get(row.name)
        if report is not None and report.regime is not None:
            return report.regime is Regime.HETEROGENEOUS
        tau = self.plan.tau_of(row)
        return tau is not None and gamma > tau

    @property
    def tau(self) -> float | None:
        """The one threshold of the merged rows; None if there is none, or several."""
        thresholds = {self.plan.tau_of(row) for row in self.merged_rows()} - {None}
        if len(thresholds) != 1:
            return None
        (tau,) = thresholds
        return finite_or_none(tau)

    @property
    def experts(self) -> Sequence[str]:
        """The experts' names."""
        return self.plan.recipe.expert_names


def nothing_to_show(sentence: str) -> RecipeError:
    """The error of a panel without anything to show."""
    return RecipeError(sentence, key="panels")


def merged_text(content: FigureContent, count: int) -> str:
    """How many merged tensors of how many experts."""
    tensors = counted(count, "merged tensor", "merged tensors")
    return f"{tensors} of {counted(len(content.experts), 'expert', 'experts')}"
