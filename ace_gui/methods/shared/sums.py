"""Sums of task vectors, sparse ones too. T experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Unpack

import torch
from torch import Tensor

from ace_gui.methods.method import Context, Deltas, Merged, Weights
from ace_gui.methods.shared.census import combination, finished
from ace_gui.methods.shared.kit import parameter, scaling_parameter
from ace_gui.methods.shared.weighted_experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class SumParameters:
    """``scaling``: λ, factor on the sum. ``normalize``: divide by the sum of the weights."""

    scaling: float = scaling_parameter(
        0.3,
        letter="λ",
        help="Factor on the sum of the task vectors. 1/T for T experts gives their mean.",
    )
    normalize: bool = parameter(
        False,
        label="Divide by the weights",
        help="Divide the sum by the sum of the experts' weights, which gives their mean.",
    )


def divisor(weights: Weights, normalize: bool) -> float:
    """The divisor of a sum: the sum of the weights, or 1 if that is 0 or not wanted."""
    total = sum(weights)
    return total if normalize and abs(total) >= 1e-8 else 1.0


def merged_by_sum(
    sparse: Callable[[int], Tensor], weights: Weights, parameters: SumParameters
) -> Merged:
    """λ Σ_t w_t τ̂_t, any shape, float32. ``sparse``: τ̂_t of expert t, called once for each."""
    total = torch.zeros(())
    for t, weight in enumerate(weights):
        vector = sparse(t)
        if t == 0:
            total = torch.zeros_like(vector, dtype=torch.float64)
        total.add_(vector, alpha=weight)
        del vector
    total.div_(divisor(weights, parameters.normalize))
    return finished(total, parameters.scaling)


class Scaled(Protocol):
    """Parameters with a factor on the sum."""

    @property
    def scaling(self) -> float:
        """The factor."""
        ...


def scaled_sum(
    deltas: Deltas, weights: Weights, parameters: Scaled, **_: Unpack[Context]
) -> Merged:
    """Scaling · Σ w_t ΔW_t, entry by entry, any shape, float32. Reads every expert once.

    Task arithmetic, in float64. Raises MethodError if a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    return finished(combination(experts, weights, range(len(experts))), parameters.scaling)
