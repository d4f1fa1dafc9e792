"""Centring over outputs (ACE paper, Eq. 5). O outputs, I inputs."""

from __future__ import annotations

from torch import Tensor


def centre_(delta_OI: Tensor) -> Tensor:
    """Subtract from every row the mean row μ, in place; return μ (1 × I). Also for a batch.

    Turns ΔW into W̃ = ΔW − 1μᵀ, whose columns sum to zero.
    """
    mean_1I = delta_OI.mean(dim=-2, keepdim=True)
    delta_OI.sub_(mean_1I)
    return mean_1I
