"""Figures of the whole model from those of its layers: the experts' distances, the merge's size.

Plain arithmetic, so that the window can do it itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.health import allowed_change
from ace_gui.engine.contract.plan import Check, CheckVerdict, Disposition, Plan, PlanRow
from ace_gui.formatting import counted
from ace_gui.recipe.values import Cap

LARGE_CHANGE: Final = 0.5
"""‖ΔW‖/‖W₀‖ over a model that no fine-tune reaches; unrelated models of one size have about √2."""

OUTLYING: Final = 5.0
"""A change this many times the median change counts as an outlier."""

_TITLE: Final = "Distance from the base"


def relative_changes(
    layers: Iterable[LayerStatistics], weights: Mapping[str, float]
) -> dict[str, float]:
    """‖ΔW_t‖/‖W₀‖ of every expert over all its layers, without its weight in the recipe.

    Experts of weight zero are left out, as their statistics do not show their change. Experts
    without any known layer are left out, too. Infinite if the base is zero in all layers and the
    expert is not.
    """
    changed: dict[str, float] = defaultdict(float)
    base: dict[str, float] = defaultdict(float)
    for layer in layers:
        if layer.base_energy is None:
            continue
        for name, energy in layer.energies.items():
            if weights.get(name):
                changed[name] += energy / weights[name] ** 2
                base[name] += layer.base_energy
    return {name: _ratio(changed[name], base[name]) for name in weights if name in base}


def plan_changes(plan: Plan, statistics: Mapping[str, LayerStatistics]) -> dict[str, float]:
    """``relative_changes`` over the layers in which the experts have the recipe's weights."""
    weights = plan.recipe.weights
    overridden = {row.name for row in plan.rows if row.override and row.override.weights != weights}
    layers = (layer for name, layer in statistics.items() if name not in overridden)
    return relative_changes(layers, dict(zip(plan.recipe.expert_names, weights, strict=True)))


def fit_checks(changes: Mapping[str, float]) -> tuple[Check, ...]:
    """The distance of each expert from the base, from ``relative_changes``.

    A warning for each outlier, or one line if there is none. No checks without experts.
    """
    if not changes:
        return ()
    fine = Check(
        _TITLE,
        f"Fine-tunes of this base: ‖ΔW‖ is {_range(changes)} of ‖W‖.",
        details="\n".join(f"{name}: {change:.2%}" for name, change in changes.items()),
    )
    return _worries(changes) or (fine,)


def far_experts(changes: Mapping[str, float]) -> tuple[Check, ...]:
    """A warning for each expert that is too far from the base, by the limits of ``fit_checks``.

    ``changes`` may be estimates, among which a change of zero means nothing.
    """
    return _worries({name: change for name, change in changes.items() if change > 0})


def estimate_checks(changes: Mapping[str, float], sampled: int, matrices: int) -> tuple[Check, ...]:
    """What an estimate without far experts tells, and from what. No checks without experts.

    ``sampled``: the number of matrices of which a block was read.
    """
    if not changes:
        return ()
    sources = f"{sampled} of {counted(matrices, 'matrix', 'matrices')}"
    sentence = (
        f"Estimated from a block of each of {sources}: ‖ΔW‖ is {_range(changes)} of ‖W‖. To read "
        "all, compare the experts in the window or with ace-gui inspect."
    )
    return (Check(_TITLE, sentence),)


def _worries(changes: Mapping[str, float]) -> tuple[Check, ...]:
    if changes:
        middle = median(changes.values())
    else:
        middle = 0.0
    checks = (_worry(name, change, middle) for name, change in changes.items())
    return tuple(check for check in checks if check is not None)


def _worry(name: str, change: float, middle: float) -> Check | None:
    if change == 0:
        sentence = "Equal to the base in every tensor that is merged; remove it from the list."
    elif change > LARGE_CHANGE:
        sentence = (
            f"Its task vector has {_share(change)}, too far for a fine-tune; "
            "probably it was tuned from another base."
        )
    elif change > OUTLYING * middle:
        sentence = (
            f"Its task vector has {_share(change)}, the median expert's "
            f"{_percent(middle)}; check that it was tuned from this base, or give it less weight."
        )
    else:
        return None
    return Check(_TITLE, sentence, CheckVerdict.WARNING, subject=name)


def _range(changes: Mapping[str, float]) -> str:
    low = _percent(min(changes.values()))
    high = _percent(max(changes.values()))
    if low == high:
        return low
    return f"from {low} to {high}"


def _percent(change: float) -> str:
    percent = 100 * change
    if percent < 10:
        return f"{percent:.2g} %"
    return f"{percent:.0f} %"


def _share(change: float) -> str:
    if change < 1:
        return f"{_percent(change)} of the base's norm"
    return f"{change:.2g} times the base's norm"


def _ratio(change: float, base: float) -> float:
    if base > 0:
        return math.sqrt(change / base)
    if change > 0:
        return math.inf
    return 0.0


def norms(
    plan: Plan, statistics: Mapping[str, LayerStatistics], reports: Mapping[str, LayerReport]
) -> tuple[float, dict[str, float]]:
    """The norms of the change of all tensors, tied ones once, and of each expert's with any.

    That of an averaged tensor is known without its report, and so before the merge.
    """
    squares: dict[str, float] = defaultdict(float)
    total = 0.0
    for row in plan.rows:
        layer = statistics.get(row.name)
        if layer is None or row.tied_to is not None:
            continue
        report = reports.get(row.name)
        if report is not None and report.delta_norm is not None:
            total += report.delta_norm**2
        elif row.disposition is Disposition.AVERAGED and layer.cosines is not None:
            total += _average_energy(plan, layer)
        else:
            continue
        for expert, energy in layer.energies.items():
            squares[expert] += energy
    of_experts = {name: math.sqrt(square) for name, square in squares.items() if square > 0}
    return math.sqrt(total), of_experts


def _average_energy(plan: Plan, layer: LayerStatistics) -> float:
    """‖Σ w ΔW‖² / (Σ w)² of an averaged tensor, from the experts' energies and cosines."""
    weights = dict(zip(plan.recipe.expert_names, plan.recipe.weights, strict=True))
    signed = [
        math.copysign(math.sqrt(energy), weights[name]) for name, energy in layer.energies.items()
    ]
    whole = sum(weights[name] for name in layer.energies)
    if layer.cosines is None or not whole:
        return 0.0
    products = []
    for first, cosines in zip(signed, layer.cosines.tolist(), strict=True):
        for second, cosine in zip(signed, cosines, strict=True):
            if not math.isnan(cosine):  # of experts without a change
                products.append(first * second * cosine)
    return max(math.fsum(products), 0.0) / whole**2


def relative_norm(
    plan: Plan, statistics: Mapping[str, LayerStatistics], reports: Mapping[str, LayerReport]
) -> float | None:
    """The norm of the change of all tensors over the experts' mean; None if not known."""
    merged, of_experts = norms(plan, statistics, reports)
    if of_experts:
        return merged / fmean(of_experts.values())
    return None


def length_text(ratio: float) -> str:
    """How long the change of a merge is, by ``relative_norm``: the one wording everywhere."""
    return f"{ratio:.2f} × an expert's"


_ROUNDING: Final = 1e-3
"""Tolerance: a change scaled down by a cap has the allowed norm except for rounding."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The merge of a model as a whole."""

    relative_norm: float
    """Norm of the merged change divided by the mean norm of the experts' changes: of all tensors,
    or of the merged matrices as long as something is estimated."""
    above: int
    """Number of matrices whose change exceeds a cap before it applies."""
    delta: float | None
    """δ of that cap, or the usual one if there is none; None if matrices have different ones."""
    capped: bool
    """Whether there is a cap."""
    known: int
    """Number of matrices that were merged for this; the others are estimated."""
    total: int
    """Number of matrices."""

    @property
    def exact(self) -> bool:
        """Whether nothing is estimated."""
        return self.known == self.total

    @property
    def sentence(self) -> str:
        """The sentence shown before and after a merge."""
        over = f"{self.above} of {self.total} matrices"
        ratio = f"{length_text(self.relative_norm)} on average"
        if not self.exact:
            over = f"about {over}"
            ratio = f"about {ratio}"
        if self.capped:
            over = f"the cap scales down {over}"
        elif self.delta is None:
            over = f"{over} above their cap"
        else:
            over = f"{over} above a cap of δ = {self.delta:g}"
        change = f"The change is {ratio}; {over}."
        source = f"Estimated from {self.known} of {self.total} matrices."
        if self.exact:
            return change
        return f"{change} {source}"


def matrices(plan: Plan) -> tuple[PlanRow, ...]:
    """The matrices that a method merges, tied ones once."""
    merged = []
    for row in plan.rows:
        is_matrix = row.is_merged and len(row.shape) == 2
        if is_matrix and row.in_base and row.tied_to is None and row.experts:
            merged.append(row)
    return tuple(merged)


def forecast(
    plan: Plan, statistics: Mapping[str, LayerStatistics], reports: Mapping[str, LayerReport]
) -> Forecast | None:
    """The forecast for all merged matrices; None without a known matrix or the experts' norms.

    ``reports``: of the matrices that were merged under the plan.
    """
    rows = [row for row in matrices(plan) if (s := statistics.get(row.name)) and s.energies]
    merged_reports = {}
    free = {}  # norms before any cap
    for row in rows:
        report = reports.get(row.name)
        if report is not None and report.delta_norm is not None:
            merged_reports[row.name] = report
            free[row.name] = report.delta_norm / (report.cap_factor or 1.0)
    experts = [norm for norm in _expert_norms(statistics[row.name] for row in rows) if norm]
    if not merged_reports or not experts:
        return None
    caps = {plan.delta_of(row) for row in rows}
    deltas = {Cap().delta if cap is None else cap for cap in caps}
    square = 0.0
    above = 0
    for row, length in zip(rows, _lengths(rows, statistics, free), strict=True):
        cap = plan.delta_of(row)
        final, over = _limited(length, cap, statistics[row.name], merged_reports.get(row.name))
        square = square + final**2
        above = above + over
    if len(merged_reports) == len(rows):
        whole = relative_norm(plan, statistics, reports)
    else:
        whole = None
    return Forecast(
        relative_norm=whole or math.sqrt(square) / fmean(experts),
        above=above,
        delta=deltas.pop() if len(deltas) == 1 else None,
        capped=None not in caps,
        known=len(merged_reports),
        total=len(rows),
    )


def _limited(
    length: float, cap: float | None, statistics: LayerStatistics, report: LayerReport | None
) -> tuple[float, bool]:
    """‖ΔW‖_F of a matrix in the merged model, and whether its ``length`` exceeds a cap."""
    allowed = allowed_change(statistics, Cap().delta if cap is None else cap)
    over = allowed is not None and length > allowed * (1 + _ROUNDING)
    if cap is None or allowed is None:
        return length, over
    if report is not None:  # the report knows the experts' traces
        return report.delta_norm or 0.0, (report.cap_factor or 1.0) < 1
    return min(length, allowed), over


def _expert_norms(layers: Iterator[LayerStatistics]) -> list[float]:
    """‖ΔW_t‖_F of every expert over all matrices."""
    squares: defaultdict[str, float] = defaultdict(float)
    for layer in layers:
        for name, energy in layer.energies.items():
            squares[name] += energy
    return [math.sqrt(square) for square in squares.values()]


def _lengths(
    rows: Sequence[PlanRow],
    statistics: Mapping[str, LayerStatistics],
    measured_norms: Mapping[str, float],
) -> Iterator[float]:
    """‖ΔW‖_F of every matrix without a cap, estimated if it is not ``measured_norms``."""
    squares = {row.name: fmean(statistics[row.name].energies.values()) for row in rows}
    rms = {row.name: math.sqrt(squares[row.name]) * abs(row.after.scale) for row in rows}
    ratios: defaultdict[object, list[float]] = defaultdict(list)
    for row in rows:
        if row.name in measured_norms and rms[row.name]:
            for alike in _alike(row):
                ratios[alike].append((measured_norms[row.name] / rms[row.name]) ** 2)
    for row in rows:
        squared_ratios = next((ratios[alike] for alike in _alike(row) if ratios[alike]), [0.0])
        yield measured_norms.get(row.name, math.sqrt(fmean(squared_ratios)) * rms[row.name])


def _alike(row: PlanRow) -> tuple[object, ...]:
    """The groups of similar matrices that a matrix belongs to, the most similar first."""
    return (row.role, row.shape), row.role, None
