"""Model Breadcrumbs: leave out the largest and smallest changes, then task arithmetic or TIES."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.election import ElectionParameters, merged_by_election
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import per_entry, scaling_parameter, share_parameter
from ace_gui.methods.shared.sparse import Sparse, SumParameters, merged_by_sum, rescale_parameter
from ace_gui.methods.shared.survey import (
    MethodSurvey,
    RanksOfCount,
    RankSurvey,
    Stage,
    SurveyContext,
    magnitudes,
)
from ace_gui.methods.shared.trimming import kept_count

CITATION: Final = (
    "M. Davari, E. Belilovsky, Model Breadcrumbs: Scaling Multi-Task Model Merging with Sparse "
    "Masks, ECCV 2024, arXiv:2312.06795"
)

LOW: Final = "low"
HIGH: Final = "high"
"""Names of findings: the smallest and the largest magnitude that each expert keeps."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """``density``: share of entries kept. ``gamma``: share of the largest entries left out.

    The smallest 1 − density − gamma are left out as well.
    """

    density: float = share_parameter(
        0.14,
        label="Density",
        help=(
            "Share of each tensor's entries to keep. The name is mergekit's, whose default "
            "of 1 keeps all. The paper removes the smallest 85 %."
        ),
    )
    gamma: float = share_parameter(
        0.01,
        label="Outliers",
        help=(
            "Share of each tensor's largest entries to remove, at most 1 − density. 0 keeps them."
        ),
        above_zero=False,
    )
    rescale: str = rescale_parameter()


@dataclass(frozen=True, kw_only=True)
class BreadcrumbsParameters(SumParameters, Ends):
    """Parameters of Model Breadcrumbs."""

    scaling: float = scaling_parameter(
        0.3,
        symbol="λ",
        help=(
            "Factor on the sum of the kept entries. The paper's text has an average, its "
            "formula a sum."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class BreadcrumbsTiesParameters(ElectionParameters, Ends):
    """Parameters of Model Breadcrumbs with TIES."""


def bounds(context: SurveyContext) -> RankSurvey:
    """The smallest and the largest magnitude that each expert keeps in a tensor."""

    def ranks(ends: Ends) -> RanksOfCount:
        return lambda entries: kept_ranks(ends, entries)

    stage = Stage(names=(LOW, HIGH), values=magnitudes, ranks=tuple(map(ranks, context.parameters)))
    return RankSurvey(len(context.parameters), stage)


def kept_ranks(ends: Ends, entries: int) -> tuple[int, int]:
    """The first and last rank kept, with 1 for the smallest entry.

    Removes the floor(gamma · n) largest entries, or fewer if ``density`` keeps more, and then the
    smallest until ``density`` of all n remain, at least one.
    """
    count = kept_count(ends.density, entries)
    largest = min(math.floor(ends.gamma * entries + 1e-9), entries - count)
    return max(0, entries - count - largest) + 1, entries - largest


def crumbs(delta: Tensor, t: int, context: SurveyContext) -> Tensor:
    """The task vector with only its entries of medium magnitude; the others are zero.

    Magnitudes are compared in float32. Entries equal to a bound are kept.
    """
    magnitudes = delta.abs().to(torch.float32)
    inside = (magnitudes >= context.findings[LOW][t]) & (magnitudes <= context.findings[HIGH][t])
    return torch.where(inside, delta, 0)


MIDDLING = Sparse(survivors_of=crumbs, surveys=(MethodSurvey(survey=bounds, finds=(LOW, HIGH)),))


@on_experts
def breadcrumbs(experts: Experts, parameters: BreadcrumbsParameters, context: Context) -> Merged:
    """λ Σ_t w_t (mask_t ⊙ ΔW_t), any shape, float32. Reads every expert once.

    Raises MethodError if a task vector is not finite.
    """
    sparse, surveyed = MIDDLING.vectors(experts, parameters, context)
    return _noted(merged_by_sum(sparse, experts.weights, parameters), surveyed.parameters)


@on_experts
def breadcrumbs_ties(
    experts: Experts, parameters: BreadcrumbsTiesParameters, context: Context
) -> Merged:
    """TIES on mask_t ⊙ ΔW_t, any shape, float32. Reads every expert once.

    Raises MethodError if a task vector is not finite.
    """
    sparse, surveyed = MIDDLING.vectors(experts, parameters, context)
    merged = merged_by_election(sparse, experts.weights, parameters, surveyed.findings)
    return _noted(merged, surveyed.parameters)


def _noted(merged: Merged, ends_T: Sequence[Ends]) -> Merged:
    """Add a note if mergekit would keep no entry, which happens if it removes no outlier."""
    entries = merged.delta.numel()
    shares: list[float] = []
    for ends in ends_T:
        if ends.density < 1:
            shares += (ends.density, ends.gamma)
    if not entries or all(math.floor(share * entries + 1e-9) for share in shares):
        return merged
    note = "The tensor is so small that mergekit would keep no entry of it."
    diagnostics = replace(merged.diagnostics, notes=(*merged.diagnostics.notes, note))
    return replace(merged, diagnostics=diagnostics)


BREADCRUMBS = MergeMethod(
    name="breadcrumbs",
    title="Model Breadcrumbs",
    summary=(
        "Removes each tensor's largest changes as outliers and its smallest as noise, and "
        "adds up what remains of every expert."
    ),
    formula=(
        "merged matrix: W = W₀ + λ Σₜ wₜ mₜ ⊙ ΔWₜ\n"
        "mask: mₜ = 0 for the largest γ and the smallest 1 − density − γ of the entries by "
        "|ΔWₜ|, else 1"
    ),
    citation=CITATION,
    parameters=BreadcrumbsParameters,
    merge=breadcrumbs,
    kind=Kind.ENTRY,
    for_one_expert=("density", "gamma"),
    surveys=MIDDLING.all_surveys,
    working_memory=per_entry(4),
)

BREADCRUMBS_TIES = MergeMethod(
    name="breadcrumbs_ties",
    title="Model Breadcrumbs with TIES",
    summary=(
        "Removes each tensor's largest and smallest changes, and merges what remains of "
        "every expert by sign election, as in TIES."
    ),
    formula=(
        "merged matrix: W = W₀ + λ · Σₜ∈A wₜ τ̂ₜ / Σₜ∈A |wₜ|,  entry by entry,  τ̂ₜ = mₜ ⊙ ΔWₜ\n"
        "mask: mₜ = 0 for the largest γ and the smallest 1 − density − γ of the entries of "
        "ΔWₜ, else 1\n"
        "agreeing experts: A = experts whose wₜ τ̂ₜ has the sign of Σₜ wₜ τ̂ₜ"
    ),
    citation=CITATION + "; P. Yadav et al., NeurIPS 2023, arXiv:2306.01708",
    parameters=BreadcrumbsTiesParameters,
    merge=breadcrumbs_ties,
    kind=Kind.ENTRY,
    working_memory=per_entry(8),
    for_one_expert=("density", "gamma"),
    surveys=MIDDLING.all_surveys,
    votes=True,
)
