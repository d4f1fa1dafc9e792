"""Texts of the layer cells: displayed, for screen readers, and tooltips."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from PySide6.QtGui import QIcon

from ace_gui.engine.contract.checks import WORST_FIRST
from ace_gui.engine.contract.figures.health import (
    BY_SCALE,
    UNRELIABLE,
    WHY_BY_SCALE,
    LayerHealth,
    gamma_unreliable,
    near_pole,
)
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.formatting import shape_text
from ace_gui.gui.models.figures_model import GAP
from ace_gui.gui.models.layer_columns import (
    FINE,
    HEALTH_ICONS,
    OVERRIDDEN,
    REGIME_TEXT,
    STATE_TEXT,
    STATE_TIPS,
    Column,
    GammaFigure,
    LayerState,
)
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import icon


class LayerFact(NamedTuple):
    """A tensor of the plan, its γ (NaN: unknown), and the progress of its merge."""

    row: PlanRow
    gamma: float
    state: LayerState


class LayerWords:
    """Texts for facts. ``prefix`` is the common start of all block names, which is omitted."""

    def __init__(self, session: Session, healths: Healths) -> None:
        self._session = session
        self._healths = healths
        self.prefix = ""

    def cell(self, fact: LayerFact, column: int) -> str:
        """The displayed text."""
        row = fact.row
        match column:
            case Column.TENSOR:
                return plain(self._short(row.name))
            case Column.ROLE:
                return row.role
            case Column.SHAPE:
                return shape_text(row.shape)
            case Column.OUTCOME:
                return self._outcome(row)
            case Column.GAMMA:
                return self._gamma_text(fact)
            case Column.LOG_VARIANCE:
                value = self.log_variance(row)
                return f"–{GAP}" if value is None else f"{value:.3g}{GAP}"
            case Column.REGIME:
                return REGIME_TEXT[self._regime(fact)]
            case Column.HEALTH:
                return self._health_text(row)
            case _:
                return STATE_TEXT[fact.state]

    def _outcome(self, row: PlanRow) -> str:
        """The disposition; if overridden, a mark and the method instead."""
        if row.override is None:
            return row.disposition.value
        titles = {method.name: method.title for method in self._session.draft.methods}
        merged = row.disposition is Disposition.MERGED
        title = titles.get(row.override.method, row.override.method).removesuffix("-Merging")
        what = title if merged else row.disposition.value.removeprefix("kept ")
        return f"{OVERRIDDEN} {what}"

    def _gamma_text(self, fact: LayerFact) -> str:
        gamma = fact.gamma
        if math.isnan(gamma):
            return f"–{GAP}"
        unsure = " ?" if self._is_unsure(fact) else ""
        return (f"{gamma:.3f}" if gamma < 100 else f"{gamma:.3g}") + unsure + GAP

    def figure(self, fact: LayerFact, column: int) -> Any:
        """The value of a drawn cell: γ with τ and its reliability, or the regime."""
        if column == Column.GAMMA:
            row, plan = fact.row, self._session.draft.plan
            has_tau = plan is not None and plan.tau_of(row) is not None
            tau = self._session.draft.tau_of(row) if has_tau else math.inf
            return GammaFigure(fact.gamma, tau, self._is_unsure(fact))
        return self._regime(fact) if column == Column.REGIME else None

    def _is_unsure(self, fact: LayerFact) -> bool:
        """Whether γ is unreliable here."""
        row = fact.row
        known, plan = self._session.layers.statistics.get(row.name), self._session.draft.plan
        if known is None or plan is None:
            return False
        has_tau = plan.tau_of(row) is not None
        return gamma_unreliable(known, self._session.draft.tau_of(row) if has_tau else None)

    def log_variance(self, row: PlanRow) -> float | None:
        """Log variance of the experts' energies, if known."""
        known = self._session.layers.statistics.get(row.name)
        return None if known is None else known.log_variance

    def spoken(self, fact: LayerFact, column: int) -> str:
        """The text for screen readers."""
        if column == Column.TENSOR:
            return plain(fact.row.name)
        if column == Column.HEALTH:
            return self._health_spoken(fact.row)
        if column == Column.GAMMA and self._is_unsure(fact):
            return f"{f'{fact.gamma:.4g}'}, {UNRELIABLE}"
        return self._regime(fact) if column == Column.REGIME else self.cell(fact, column)

    def _health_text(self, row: PlanRow) -> str:
        health = self._healths.of(row.name)
        if health is None:
            return "–"
        return str(len(health.findings)) if health.findings else FINE

    def _health_spoken(self, row: PlanRow) -> str:
        health = self._healths.of(row.name)
        if health is None:
            return "not known"
        return f"{health.verdict.value} {sentences(health)}".strip()

    def health_rank(self, row: PlanRow) -> float:
        """Sorts the worst first, then by the number of findings; unknown comes last."""
        health = self._healths.of(row.name)
        if health is None:
            return math.nan
        return WORST_FIRST.index(health.verdict) - len(health.findings) / 1000

    def icon(self, row: PlanRow) -> QIcon | None:
        """The icon for the worst finding; None if all is well."""
        health = self._healths.of(row.name)
        name = HEALTH_ICONS.get(health.verdict) if health is not None else None
        return icon(name) if name is not None else None

    def _short(self, name: str) -> str:
        """Without the common prefix of all blocks, so that the block's number shows."""
        if self.prefix and name.startswith(self.prefix):
            return "…" + name.removeprefix(self.prefix)
        return name

    def _regime(self, fact: LayerFact) -> str:
        row, gamma, plan = fact.row, fact.gamma, self._session.draft.plan
        if math.isnan(gamma) or plan is None or plan.tau_of(row) is None:
            return "–"
        if not gamma > self._session.draft.tau_of(row):
            return "homogeneous"
        statistics = self._session.layers.statistics.get(row.name)
        pole = statistics is not None and near_pole(statistics, self._session.draft.tau)
        return BY_SCALE if pole else "heterogeneous"

    def tip(self, fact: LayerFact, column: int) -> str:
        """The tooltip: all that is known of the tensor."""
        row = fact.row
        lines = [row.name, f"{row.disposition.value}: {row.reason}"]
        if not math.isnan(fact.gamma):
            lines.append(f"γ = {f'{fact.gamma:.4g}'}: {self._regime(fact)}")
            if self._is_unsure(fact):
                lines.append(f"{UNRELIABLE}: {WHY_BY_SCALE}. Var ln E has no such scale.")
        if column == Column.STATE:
            lines.append(STATE_TIPS[fact.state])
        health = self._healths.of(row.name)
        if health is not None:
            lines += [f"• {finding.sentence}" for finding in health.findings]
        return tooltip("\n".join(lines))


def sentences(health: LayerHealth) -> str:
    """The unusual findings, one per line."""
    return "\n".join(finding.sentence for finding in health.findings)
