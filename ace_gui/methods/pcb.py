"""PCB-Merging: entries compete by their size and by whether other experts agree with them.

T experts. τ̄_t is sgn(τ_t) times its winsorised magnitude, mapped onto [0, 1] within the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Unpack

import torch
from torch import Tensor

from ace_gui.methods.base import Context, Kind, Merged, MergeMethod, parameter
from ace_gui.methods.census import Census, census, finished
from ace_gui.methods.experts import WeightedExperts
from ace_gui.methods.trimming import kept_count, smallest

WINSORISED: Final = 0.01
"""Share of entries at either end whose magnitude is moved to that of the next, as published."""


@dataclass(frozen=True, kw_only=True)
class PcbParameters:
    """Parameters of PCB-Merging. ``density``: ρ. ``scaling``: λ."""

    density: float = parameter(
        0.05,
        label="Density ρ",
        help=(
            "Share of entries of each expert that compete successfully. Chosen within each tensor; "
            "the paper chooses over the whole model, which keeps more of some tensors than others."
        ),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    scaling: float = parameter(
        1.2,
        label="Scaling λ",
        help="Factor on the merged task vector; the paper searches 0.8 to 1.3 on validation data.",
        low=-10.0,
        high=10.0,
    )


def pcb(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: PcbParameters,
    **_: Unpack[Context],
) -> Merged:
    """λ Σ ŝ_t w_t τ_t / Σ ŝ_t entry by entry, any shape, float32, 0 where all ŝ_t are.

    Of the published variants the one for vision models. τ_t are winsorised as for the scores;
    experts without a change are left out. Holds two experts at a time; reads each 2 + T times.
    Raises MethodError where one is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    found = census(experts, weights)
    bounds = {t: _bounds(experts.delta(t).abs()) for t in found.kept}
    merged = torch.zeros_like(experts.delta(0), dtype=torch.float64)
    shares = torch.zeros_like(merged)
    for t in found.kept:
        score = _score(experts, found, bounds, t)
        share = success(score, parameters.density)
        del score
        value = experts.delta(t).to(torch.float64)
        value = value.sign() * value.abs().clamp(*bounds[t])
        merged.add_(value.mul_(share), alpha=weights[t])
        shares.add_(share)
    result = torch.where(shares > 0, merged / shares, 0)
    return finished(result, parameters.scaling, found.diagnostics())


def _bounds(magnitudes: Tensor) -> tuple[float, float]:
    """The smallest and the largest magnitude that winsorising leaves."""
    cut = math.floor(WINSORISED * magnitudes.numel())
    low = smallest(magnitudes, cut + 1)
    return float(low), float(smallest(magnitudes, magnitudes.numel() - cut))


def _unit(delta: Tensor, bounds: tuple[float, float]) -> Tensor:
    """τ̄_t; where all magnitudes are equal they are 1."""
    low, high = bounds
    values = delta.to(torch.float64)
    if low == high:
        return values.sign()
    return values.sign() * (values.abs().clamp(low, high) - low) / (high - low)


def _score(
    experts: WeightedExperts, found: Census, bounds: dict[int, tuple[float, float]], t: int
) -> Tensor:
    """exp(T τ̄_t²) · Σ_j tanh(τ̄_t τ̄_j): size within the expert, times agreement with all."""
    own = _unit(experts.delta(t), bounds[t])
    agreement = torch.zeros_like(own)
    for j in found.kept:
        agreement.add_(torch.tanh(own * _unit(experts.delta(j), bounds[j])))
    return agreement.mul_(own.square_().mul_(len(found.kept)).exp_())


def success(score: Tensor, density: float) -> Tensor:
    """ŝ: the largest scores mapped onto (0, 1] from the largest one that loses; the others 0."""
    kept = kept_count(density, score.numel())
    threshold = smallest(score, max(1, score.numel() - kept))
    top = score.max()
    if not bool(top > threshold):
        return (score == top).to(score.dtype)
    return ((score - threshold) / (top - threshold)).clamp_(min=0)


PCB = MergeMethod(
    name="pcb",
    title="PCB-Merging",
    summary=(
        "Scores every entry of every expert by its size and by how far the others agree with it, "
        "and averages the winners by their scores."
    ),
    formula=(
        "W = W₀ + λ Σₜ ŝₜ wₜ ΔWₜ / Σₜ ŝₜ,  entry by entry\n"
        "sₜ = exp(T τ̄ₜ²) · Σⱼ tanh(τ̄ₜ τ̄ⱼ),  τ̄ₜ = sgn(ΔWₜ) · |ΔWₜ| mapped onto [0, 1]\n"
        "ŝₜ = the largest ρ of sₜ mapped onto (0, 1], the others 0"
    ),
    citation=(
        "G. Du, J. Lee, J. Li et al., Parameter Competition Balancing for Model Merging, NeurIPS "
        "2024, arXiv:2410.02396"
    ),
    parameters=PcbParameters,
    merge=pcb,
    kind=Kind.TENSOR,
)
