"""Estimates before a merge how far it moves the model, from all of its matrices or some of them.

Plain arithmetic, so that the window can do it itself. The estimate for a matrix uses other matrices
of its role and shape, or else of its role, or else all others. The ratio of its norm to the
experts' norms is assumed to be that of these others.
"""

from __future__ import annotations

import math
import statistics as stats
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ace_gui.engine.contract.figures.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.figures.health import allowed_change
from ace_gui.engine.contract.plan import Disposition, Plan, PlanRow
from ace_gui.recipe.values import Cap

_ROUNDING: Final = 1e-3
"""Tolerance: a change shortened by a cap has the allowed norm except for rounding."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The merged matrices of a model together.

    ``relative_norm``: norm of the merged change divided by the mean norm of the experts' changes.
    ``above``: number of matrices whose change exceeds a cap before it applies; ``delta``: δ of that
    cap, or the usual one if there is none (``capped``: whether there is one), None if matrices have
    different ones. ``known`` of ``total`` matrices were merged for this; the others are estimated.
    """

    relative_norm: float
    above: int
    delta: float | None
    capped: bool
    known: int
    total: int

    @property
    def exact(self) -> bool:
        """Whether nothing is estimated."""
        return self.known == self.total

    @property
    def sentence(self) -> str:
        """The sentence shown before and after a merge."""
        over = f"{self.above} of {self.total} matrices"
        ratio = f"{self.relative_norm:.2f} × the experts' mean norm"
        if not self.exact:
            over, ratio = f"about {over}", f"about {ratio}"
        if self.capped:
            over = f"the cap shortens {over}"
        elif self.delta is None:
            over = f"{over} above their cap"
        else:
            over = f"{over} above a cap of δ = {self.delta:g}"
        change = f"Merged matrices: {ratio}; {over}."
        source = f"Estimated from {self.known} of {self.total} matrices."
        return change if self.exact else f"{change} {source}"


def matrices(plan: Plan) -> tuple[PlanRow, ...]:
    """The matrices that a method merges, tied ones once."""
    return tuple(
        row
        for row in plan.rows
        if row.disposition is Disposition.MERGED
        and len(row.shape) == 2
        and row.in_base
        and row.tied_to is None
        and row.experts
    )


def forecast(
    plan: Plan, statistics: Mapping[str, LayerStatistics], reports: Mapping[str, LayerReport]
) -> Forecast | None:
    """The forecast for all merged matrices; None without a known matrix or the experts' norms.

    ``reports``: of those that were merged under the plan.
    """
    rows = [row for row in matrices(plan) if (s := statistics.get(row.name)) and s.energies]
    known = {
        row.name: report
        for row in rows
        if (report := reports.get(row.name)) and report.delta_norm is not None
    }
    experts = [norm for norm in _expert_norms(statistics[row.name] for row in rows) if norm]
    if not known or not experts:
        return None
    # Before any cap:
    free = {name: (r.delta_norm or 0.0) / (r.cap_factor or 1.0) for name, r in known.items()}
    caps = {plan.delta_of(row) for row in rows}
    deltas = {Cap().delta if cap is None else cap for cap in caps}
    square, above = 0.0, 0
    for row, length in zip(rows, _lengths(rows, statistics, free), strict=True):
        cap = plan.delta_of(row)
        final, over = _limited(length, cap, statistics[row.name], known.get(row.name))
        square, above = square + final**2, above + over
    return Forecast(
        relative_norm=math.sqrt(square) / stats.fmean(experts),
        above=above,
        delta=deltas.pop() if len(deltas) == 1 else None,
        capped=None not in caps,
        known=len(known),
        total=len(rows),
    )


def _limited(
    length: float, cap: float | None, found: LayerStatistics, report: LayerReport | None
) -> tuple[float, bool]:
    """‖ΔW‖_F of a matrix in the merged model, and whether its ``length`` exceeds a cap."""
    allowed = allowed_change(found, Cap().delta if cap is None else cap)
    over = allowed is not None and length > allowed * (1 + _ROUNDING)
    if cap is None or allowed is None:
        return length, over
    if report is not None:  # the report knows the experts' traces
        return report.delta_norm or 0.0, (report.cap_factor or 1.0) < 1
    return min(length, allowed), over


def _expert_norms(found: Iterator[LayerStatistics]) -> list[float]:
    """‖ΔW_t‖_F of every expert over all matrices."""
    squares: defaultdict[str, float] = defaultdict(float)
    for each in found:
        for name, energy in each.energies.items():
            squares[name] += energy
    return [math.sqrt(square) for square in squares.values()]


def _lengths(
    rows: Sequence[PlanRow],
    statistics: Mapping[str, LayerStatistics],
    known: Mapping[str, float],
) -> Iterator[float]:
    """‖ΔW‖_F of every matrix without a cap, estimated if it is not ``known``."""
    squares = {row.name: stats.fmean(statistics[row.name].energies.values()) for row in rows}
    rms = {row.name: math.sqrt(squares[row.name]) * abs(row.after.scale) for row in rows}
    ratios: defaultdict[object, list[float]] = defaultdict(list)
    for row in rows:
        if row.name in known and rms[row.name]:
            for alike in _alike(row):
                ratios[alike].append((known[row.name] / rms[row.name]) ** 2)
    for row in rows:
        found = next((ratios[alike] for alike in _alike(row) if ratios[alike]), [0.0])
        yield known.get(row.name, math.sqrt(stats.fmean(found)) * rms[row.name])


def _alike(row: PlanRow) -> tuple[object, ...]:
    """What a matrix shares with others, the closest relation first."""
    return (row.role, row.shape), row.role, None
