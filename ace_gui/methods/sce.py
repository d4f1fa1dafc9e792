"""SCE: select entries on which experts differ, calculate coefficients, erase minority signs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Unpack

import torch
from torch import Tensor

from ace_gui.methods.method import (
    Context,
    Diagnostics,
    Kind,
    Merged,
    MergeMethod,
    parameter,
    per_entry,
    scaling_parameter,
)
from ace_gui.methods.shared.census import combination, finished
from ace_gui.methods.shared.trimming import smallest
from ace_gui.methods.shared.weighted_experts import WeightedExperts

SMALLEST: Final = 1e-6
"""What the coefficients of the agreeing experts sum to at least, as in mergekit."""


@dataclass(frozen=True, kw_only=True)
class SceParameters:
    """Parameters of SCE. ``select_topk``: share of entries kept. ``scaling``: factor.

    ``alike_below``: mean square of a tensor's changes below which all experts count alike.
    """

    select_topk: float = parameter(
        1.0,
        label="Selected share",
        help=(
            "Share of the entries that differ at all between experts that is kept, those of the "
            "largest variance; 1, as in mergekit, keeps every entry. Below 1, experts that agree "
            "in every entry of a tensor leave it as in the base."
        ),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    alike_below: float = parameter(
        1e-6,
        label="Alike below",
        help=(
            "Where the mean squares of all experts' changes to a tensor sum to less than this, "
            "their coefficients are equal, as in mergekit; 0 weights them by their mean squares "
            "however small these are."
        ),
        low=0.0,
        high=1.0,
    )
    scaling: float = scaling_parameter()


def sce(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: SceParameters,
    **_: Unpack[Context],
) -> Merged:
    """Σ c_t τ_t / Σ c_t over the experts with the sign of Σ τ_t, τ_t = w_t ΔW_t; float32.

    Any shape. c_t is the mean square of τ_t over the tensor, of selected entries alone, in shares
    of their sum. A sum of 0 counts as positive. Reads every expert three times, or five with a
    selection. Raises MethodError where one is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    total = combination(experts, weights, range(len(experts)))

    def value(t: int) -> Tensor:
        return experts.delta(t).to(torch.float64) * weights[t]

    mask, notes = torch.ones_like(total, dtype=torch.bool), []
    if parameters.select_topk < 1:
        mask = _most_varying(value, total, len(experts), parameters.select_topk)
        if not bool(mask.any()):
            notes.append("No entry varies enough to be selected: this tensor stays as in the base.")
    squares = [float(_selected(value(t), mask).square().mean()) for t in range(len(experts))]
    positive, divisor = total >= 0, torch.zeros_like(total)
    merged = torch.zeros_like(total)
    for t, share in enumerate(_shares(squares, parameters.alike_below)):
        selected = _selected(value(t), mask)
        agreeing = torch.where(positive, selected > 0, selected < 0)
        merged.add_(torch.where(agreeing, selected, 0), alpha=share)
        divisor.add_(agreeing, alpha=share)
    return finished(
        merged.div_(divisor.clamp_(min=SMALLEST)),
        parameters.scaling,
        Diagnostics(notes=tuple(notes)),
    )


def _selected(value: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, value, 0)


def _shares(squares: Sequence[float], alike_below: float) -> list[float]:
    """Coefficients that sum to 1."""
    total = sum(squares)
    if total == 0 or total < alike_below:
        return [1 / len(squares)] * len(squares)
    return [square / total for square in squares]


def _most_varying(
    value: Callable[[int], Tensor], total: Tensor, count: int, share: float
) -> Tensor:
    """Where the variance over the experts is among the largest; equals of the last one stay.

    The share is of the entries that vary at all; where it is less than one entry, none is left.
    """
    first = value(0)  # from which differences are taken: that of equal experts is exactly zero
    mean = total / count - first if count > 1 else torch.zeros_like(total)
    variance = torch.zeros_like(total)
    for t in range(count):
        variance.add_((value(t) - first - mean).square_(), alpha=1 / count)
    kept = math.floor(share * int(torch.count_nonzero(variance)) + 1e-9)
    if not kept:
        return torch.zeros_like(variance, dtype=torch.bool)
    return variance >= smallest(variance, variance.numel() - kept + 1)


SCE = MergeMethod(
    name="sce",
    title="SCE",
    summary=(
        "Weights the experts, tensor by tensor, by how much they changed, after leaving out "
        "entries in which they hardly differ and signs in the minority."
    ),
    formula=(
        "W = W₀ + scaling · Σₜ∈A cₜ τₜ / Σₜ∈A cₜ,  entry by entry,  τₜ = m ⊙ wₜ ΔWₜ\n"
        "m = 1 for the entries with the largest variance over t,  cₜ = mean τₜ² / Σⱼ mean τⱼ²\n"
        "A = experts whose τₜ has the sign of Σₜ τₜ"
    ),
    citation=(
        "F. Wan, L. Zhong, Z. Yang, R. Chen, X. Quan, FuseChat: Knowledge Fusion of Chat Models, "
        "2024, arXiv:2408.07990"
    ),
    parameters=SceParameters,
    merge=sce,
    kind=Kind.TENSOR,
    working_memory=per_entry(7),
)
