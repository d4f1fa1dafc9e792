"""SCE: select entries on which experts differ, calculate coefficients, erase minority signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.methods.base import Context, Kind, Merged, MergeMethod, parameter, scaling_parameter
from ace_gui.methods.census import finished, summed
from ace_gui.methods.experts import WeightedExperts
from ace_gui.methods.trimming import kept_count, smallest


@dataclass(frozen=True, kw_only=True)
class SceParameters:
    """Parameters of SCE. ``select_topk``: share of entries kept. ``scaling``: factor."""

    select_topk: float = parameter(
        1.0,
        label="Selected share",
        help=(
            "Share of the entries that differ at all between experts that is kept, those of the "
            "largest variance; 1, as in mergekit, keeps every entry."
        ),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    scaling: float = scaling_parameter(
        help="Factor on the merged task vector.",
    )


def sce(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: SceParameters,
    **_: Unpack[Context],
) -> Merged:
    """Σ c_t τ_t / Σ c_t over the experts with the sign of Σ τ_t, τ_t = w_t ΔW_t; float32.

    Any shape. c_t is the mean square of τ_t over the tensor, of selected entries alone. A sum of 0
    counts as positive. Experts without a change are left out. Reads every expert three times, or
    five with a selection.
    Raises MethodError where one is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    found, total = summed(experts, weights)

    def value(t: int) -> Tensor:
        return experts.delta(t).to(torch.float64) * weights[t]

    mask = torch.ones_like(total, dtype=torch.bool)
    if parameters.select_topk < 1 and found.kept:
        mask = _most_varying(value, found.kept, total, parameters.select_topk)
    positive = total >= 0
    merged, shares = torch.zeros_like(total), torch.zeros_like(total)
    for t in found.kept:
        selected = torch.where(mask, value(t), 0)
        share = float(selected.square().mean())
        agreeing = torch.where(positive, selected > 0, selected < 0)
        merged.add_(torch.where(agreeing, selected, 0), alpha=share)
        shares.add_(agreeing, alpha=share)
    result = torch.where(shares > 0, merged / shares, 0)
    return finished(result, parameters.scaling, found.diagnostics())


def _most_varying(
    value: Callable[[int], Tensor], kept: Sequence[int], total: Tensor, share: float
) -> Tensor:
    """Where the variance over the experts is among the largest; equals of the last one stay."""
    mean = total / len(kept)
    variance = torch.zeros_like(total)
    for t in kept:
        variance.add_((value(t) - mean).square_(), alpha=1 / len(kept))
    varying = int(torch.count_nonzero(variance))
    if not varying:
        return torch.ones_like(variance, dtype=torch.bool)
    threshold = smallest(variance, variance.numel() - kept_count(share, varying) + 1)
    return variance >= threshold


SCE = MergeMethod(
    name="sce",
    title="SCE",
    summary=(
        "Weights the experts, tensor by tensor, by how much they changed, after leaving out "
        "entries in which they hardly differ and signs in the minority."
    ),
    formula=(
        "W = W₀ + scaling · Σₜ∈A cₜ τₜ / Σₜ∈A cₜ,  entry by entry,  τₜ = m ⊙ wₜ ΔWₜ\n"
        "m = 1 for the entries with the largest variance over t,  cₜ = mean of τₜ²\n"
        "A = experts whose τₜ has the sign of Σₜ τₜ"
    ),
    citation=(
        "F. Wan, L. Zhong, Z. Yang, R. Chen, X. Quan, FuseChat: Knowledge Fusion of Chat Models, "
        "2024, arXiv:2408.07990"
    ),
    parameters=SceParameters,
    merge=sce,
    kind=Kind.TENSOR,
)
