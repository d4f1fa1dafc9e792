"""Multi-SLERP: the mean of the experts' directions, at their mean norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Unpack

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Context, Kind, Merged, MergeMethod, parameter, per_entry
from ace_gui.methods.shared.census import combination, finished, require_mean, task_vector
from ace_gui.methods.shared.weighted_experts import WeightedExperts
from ace_gui.methods.shared.whole_weights import PointsParameters, merged_points

VANISHING: Final = 1e-8
"""Norm of a mean of directions that counts as zero, and what is added to norms; as in mergekit."""


@dataclass(frozen=True, kw_only=True)
class MultislerpParameters(PointsParameters):
    """Parameters of multi-SLERP. ``normalize``: have the weights sum to 1."""

    normalize: bool = parameter(
        True,
        label="Divide by the weights",
        help=(
            "Scale the weights so that they sum to 1. Otherwise they also scale the length of the "
            "result."
        ),
    )


def multislerp(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: MultislerpParameters,
    **context: Unpack[Context],
) -> Merged:
    """The normalised weighted mean of the directions, times the weighted mean norm; float32.

    What multi-SLERP computes: its step in the tangent space at that mean is zero. Any shape, each
    tensor as one vector. An expert that changed nothing has no direction, and norm 0. One expert
    is returned as it is; where the directions of two cancel, their mean is. Reads every expert
    twice. Raises MethodError if one is not finite, where the weights sum to zero, and where the
    directions of more than two cancel.
    """
    return merged_points(partial(_mean, parameters), deltas, weights, parameters, context)


def _mean(
    parameters: MultislerpParameters, deltas: Sequence[Tensor], weights: Sequence[float]
) -> Merged:
    experts = WeightedExperts(deltas, weights)
    count = len(experts)
    if count == 1:
        return finished(combination(experts, [1.0], [0]))
    total = require_mean(weights) if parameters.normalize else 1.0
    shares = [weight / total for weight in weights]
    norms = [float(task_vector(experts, t).to(torch.float64).norm()) for t in range(count)]
    units = [share / (norm + VANISHING) for share, norm in zip(shares, norms, strict=True)]
    mean = combination(experts, units, range(count))
    length = float(mean.norm())
    if length >= VANISHING:
        mean_norm = sum(share * norm for share, norm in zip(shares, norms, strict=True))
        return finished(mean, mean_norm / length)
    if count == 2 or not any(norms):
        return finished(combination(experts, shares, range(count)))
    raise MethodError(
        "The experts' changes to this tensor cancel, so they have no mean direction; change the "
        "weights or leave one out."
    )


MULTISLERP = MergeMethod(
    name="multislerp",
    title="Multi-SLERP",
    summary="Takes the mean of the experts' directions, with their mean norm.",
    formula="W = W₀ + (Σₜ aₜ ‖ΔWₜ‖) · x / ‖x‖,  x = Σₜ aₜ ΔWₜ / ‖ΔWₜ‖,  aₜ = wₜ / Σⱼ wⱼ",
    citation="C. Goddard et al., Arcee's MergeKit, 2024, arXiv:2403.13257",
    parameters=MultislerpParameters,
    merge=multislerp,
    kind=Kind.TENSOR,
    working_memory=per_entry(5),
)
