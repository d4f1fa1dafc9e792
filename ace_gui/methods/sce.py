"""SCE: select entries on which experts differ, calculate coefficients, erase minority signs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.passes import energy
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import (
    Context,
    Deltas,
    Diagnostics,
    Experts,
    Merged,
    Weights,
    on_experts,
)
from ace_gui.methods.shared.kit import per_entry, scaling_parameter, share_parameter
from ace_gui.methods.shared.survey import (
    Findings,
    MethodSurvey,
    RankSurvey,
    Stage,
    SumSurvey,
    SurveyContext,
)

SMALLEST: Final = 1e-6
"""Lower bound of the sum of the agreeing experts' coefficients, as in mergekit."""

VARIANCE: Final = "variance"
SQUARE: Final = "square"
"""Names of findings: the smallest selected variance, the same for all experts; mean squares."""


@dataclass(frozen=True, kw_only=True)
class SceParameters:
    """Parameters of SCE. ``select_topk``: share of entries kept. ``scaling``: factor.

    ``alike_below``: if a tensor's mean squares sum to less, all experts count alike.
    """

    select_topk: float = share_parameter(
        1.0,
        label="Selected share",
        help=(
            "Share kept of the entries that differ between experts, those with the largest "
            "variance. 1, as in mergekit, keeps every entry. Below 1, a tensor keeps the "
            "base's values if all experts agree in every entry."
        ),
    )
    alike_below: float = share_parameter(
        1e-6,
        label="Alike below",
        help=(
            "If the mean squares of all experts' changes to a tensor sum to less than this, "
            "their coefficients are equal, as in mergekit. 0 always weights them by their mean "
            "squares."
        ),
        above_zero=False,
    )
    scaling: float = scaling_parameter()


def least_variance(context: SurveyContext) -> RankSurvey | None:
    """The smallest variance of a selected entry; 0 or infinity if no entry is selected.

    The share counts only entries that vary at all.
    """
    weights = context.weights
    share = context.parameters[0].select_topk
    if share == 1:
        return None

    def values(deltas: Deltas, _: Findings, _start: int) -> Iterator[Tensor]:
        variances = variance(deltas, weights)
        return repeat(variances[variances > 0], len(weights))

    def ranks(entries: int) -> tuple[int, ...]:
        return (entries - math.floor(share * entries + 1e-9) + 1,)

    stage = Stage(names=(VARIANCE,), values=values, ranks=ranks, common=True)
    return RankSurvey(len(weights), stage)


def mean_squares(context: SurveyContext) -> SumSurvey:
    """The mean squares of the experts' selected changes, from which coefficients are computed."""
    weights = context.weights
    findings = context.findings

    def figures(deltas: Deltas, _start: int) -> Iterator[tuple[float, int]]:
        mask = selected(deltas, weights, findings)
        for weight, delta in zip(weights, deltas, strict=True):
            if mask is None:
                survivors = delta
            else:
                survivors = torch.where(mask, delta, 0)
            yield weight**2 * energy(survivors), delta.numel()

    def means(sums: list[list[float]]) -> Findings:
        return {SQUARE: tuple(square / max(1.0, entries) for square, entries in sums)}

    return SumSurvey(len(weights), 2, figures, means)


SURVEYS = (
    MethodSurvey(survey=least_variance, finds=(VARIANCE,)),
    MethodSurvey(survey=mean_squares, finds=(SQUARE,)),
)


@on_experts
def sce(experts: Experts, parameters: SceParameters, context: Context) -> Merged:
    """Σ c_t τ_t / Σ c_t over the experts with the sign of Σ τ_t, τ_t = w_t ΔW_t; float32.

    Any shape. c_t is the mean square of τ_t over the tensor's selected entries, as a share of the
    sum over experts. A sum of 0 counts as positive. Without a selection, surveys read each expert
    once, the merge twice; with one, five and four times. Raises MethodError if one is not finite.
    """
    total = experts.sum()
    notes = []
    findings = experts.surveyed(SURVEYS, parameters, context).findings
    mask = selected(experts.deltas, experts.weights, findings)
    if mask is not None and not 0 < findings[VARIANCE][0] < math.inf:
        notes.append("No entry varies enough to be selected: this tensor stays as in the base.")
    positive = total >= 0
    divisor = torch.zeros_like(total)
    merged = torch.zeros_like(total)
    for t, share in enumerate(_shares(findings[SQUARE], parameters.alike_below)):
        value = experts.weighted(t)
        if mask is None:
            chosen = value
        else:
            chosen = torch.where(mask, value, 0)
        agreeing = torch.where(positive, chosen > 0, chosen < 0)
        merged.add_(torch.where(agreeing, chosen, 0), alpha=share)
        divisor.add_(agreeing, alpha=share)
    return Merged.of(
        merged.div_(divisor.clamp_(min=SMALLEST)),
        parameters.scaling,
        Diagnostics(notes=tuple(notes)),
    )


def _shares(squares: Sequence[float], alike_below: float) -> list[float]:
    """Coefficients that sum to 1."""
    total = sum(squares)
    if total == 0 or total < alike_below:
        return [1 / len(squares)] * len(squares)
    return [square / total for square in squares]


def selected(deltas: Deltas, weights: Weights, findings: Findings) -> Tensor | None:
    """Mask of the entries with the largest variance, ties included; None: all entries."""
    if VARIANCE not in findings:
        return None
    variances = variance(deltas, weights)
    return (variances > 0) & (variances >= findings[VARIANCE][0])


def variance(deltas: Deltas, weights: Weights) -> Tensor:
    """Variance of the τ_t over t, entry by entry, float32; exactly 0 if all are equal."""
    first = deltas[0].to(torch.float64) * weights[0]
    count = len(weights)

    def difference(t: int) -> Tensor:
        return deltas[t].to(torch.float64).mul_(weights[t]).sub_(first)

    mean = torch.zeros_like(first)
    total = torch.zeros_like(first)
    for t in range(1, count):
        mean.add_(difference(t), alpha=1 / count)
    for t in range(count):
        total.add_(difference(t).sub_(mean).square_(), alpha=1 / count)
    return total.to(torch.float32)


SCE = MergeMethod(
    name="sce",
    title="SCE",
    summary=(
        "Weights the experts in each tensor by how much they changed it. Entries in which "
        "experts hardly differ, and signs in the minority, are left out first."
    ),
    formula=(
        "merged matrix: W = W₀ + scaling · Σₜ∈A cₜ τₜ / Σₜ∈A cₜ,  entry by entry,  τₜ = m ⊙ "
        "wₜ ΔWₜ\n"
        "mask and coefficients: m = 1 for the entries with the largest variance over t,  cₜ "
        "= mean τₜ² / Σⱼ mean τⱼ²\n"
        "agreeing experts: A = experts whose τₜ has the sign of Σₜ τₜ"
    ),
    citation=(
        "F. Wan, L. Zhong, Z. Yang, R. Chen, X. Quan, FuseChat: Knowledge Fusion of Chat Models, "
        "2024, arXiv:2408.07990"
    ),
    parameters=SceParameters,
    merge=sce,
    kind=Kind.ENTRY,
    working_memory=per_entry(7),
    surveys=SURVEYS,
)
