"""Model Breadcrumbs: leave out the largest and the smallest changes, add the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.methods.method import (
    Context,
    Kind,
    Merged,
    MergeMethod,
    for_each,
    parameter,
    per_entry,
    scaling_parameter,
)
from ace_gui.methods.shared.census import divisor, finished, normalize_parameter, task_vector
from ace_gui.methods.shared.trimming import kept_count, smallest
from ace_gui.methods.shared.weighted_experts import WeightedExperts


def density_parameter() -> float:
    """The parameter that says what share of the entries is kept."""
    density: float = parameter(
        0.14,
        label="Density",
        help=(
            "Share of each tensor's entries that are kept; named as in mergekit, whose default of "
            "1 keeps all. The paper leaves out the smallest 85 %."
        ),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    return density


def outliers_parameter() -> float:
    """The parameter that says what share of the largest entries is left out."""
    gamma: float = parameter(
        0.01,
        label="Outliers",
        help=(
            "Share of each tensor's largest entries that are left out; 0 keeps them. No more than "
            "1 − density are."
        ),
        low=0.0,
        high=1.0,
    )
    return gamma


@dataclass(frozen=True, kw_only=True)
class BreadcrumbsParameters:
    """Parameters of Model Breadcrumbs.

    ``density``: share of entries kept. ``gamma``: share of the largest entries left out; the
    smallest 1 − density − gamma are left out as well. ``scaling``: factor on the sum.
    ``normalize``: divide by the sum of the weights.
    """

    density: float = density_parameter()
    gamma: float = outliers_parameter()
    scaling: float = scaling_parameter(
        0.3,
        letter="λ",
        help="Factor on the sum of what is kept. The paper's text says average, its formula sum.",
    )
    normalize: bool = normalize_parameter()


def crumbs(delta: Tensor, density: float, gamma: float) -> Tensor:
    """The task vector with its entries of middling magnitude; the others are zero.

    Leaves out the floor(gamma · n) largest, or fewer where ``density`` asks for more, and then the
    smallest until ``density`` of all n are left, never fewer than one. Entries as large as the last
    one kept on either side stay.
    """
    entries = delta.numel()
    if not entries:
        return delta
    kept = kept_count(density, entries)
    largest = min(math.floor(gamma * entries + 1e-9), entries - kept)
    least = max(0, entries - kept - largest)
    magnitudes = delta.abs()
    low = smallest(magnitudes, least + 1)
    high = smallest(magnitudes, entries - largest)
    return torch.where((magnitudes >= low) & (magnitudes <= high), delta, 0)


def breadcrumbs(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: BreadcrumbsParameters,
    **context: Unpack[Context],
) -> Merged:
    """λ Σ_t w_t (mask_t ⊙ ΔW_t), any shape, float32. Reads every expert once.

    Raises MethodError where a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    each = for_each(parameters, context, len(experts))
    total = torch.zeros_like(experts.delta(0), dtype=torch.float64)
    for t, weight in enumerate(weights):
        kept = crumbs(task_vector(experts, t), each[t].density, each[t].gamma)
        total.add_(kept, alpha=weight)
    total.div_(divisor(weights, parameters.normalize))
    return finished(total, parameters.scaling)


BREADCRUMBS = MergeMethod(
    name="breadcrumbs",
    title="Model Breadcrumbs",
    summary=(
        "Leaves out each tensor's largest changes, which are outliers, and its smallest, which are "
        "noise, and adds what every expert has in between."
    ),
    formula=(
        "W = W₀ + λ Σₜ wₜ mₜ ⊙ ΔWₜ\n"
        "mₜ = 0 for the largest γ and the smallest 1 − density − γ of the entries by |ΔWₜ|, else 1"
    ),
    citation=(
        "M. Davari, E. Belilovsky, Model Breadcrumbs: Scaling Multi-Task Model Merging with Sparse "
        "Masks, ECCV 2024, arXiv:2312.06795"
    ),
    parameters=BreadcrumbsParameters,
    merge=breadcrumbs,
    kind=Kind.TENSOR,
    for_one_expert=("density", "gamma"),
    working_memory=per_entry(4),
)
