"""Weight averaging: the weighted mean of the experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from ace_gui.methods.base import Context, Kind, Merged, MergeMethod
from ace_gui.methods.census import require_mean
from ace_gui.methods.experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class LinearParameters:
    """Weight averaging has no parameters beyond the experts' weights."""


def linear(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: LinearParameters,  # noqa: ARG001 — one signature for every method
    **_: Unpack[Context],
) -> Merged:
    """Σ_t w_t ΔW_t / Σ_t w_t, elementwise, float32, for tensors of any shape.

    Raises MethodError where the weights sum to zero or a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    total = require_mean(weights)
    return Merged(delta=experts.weighted_sum().div_(total))


LINEAR = MergeMethod(
    name="linear",
    title="Weight averaging",
    summary="Takes the mean of the experts' weights, each counted by its own weight.",
    formula="W = W₀ + Σₜ wₜ ΔWₜ / Σₜ wₜ,  ΔWₜ = Wₜ − W₀",
    citation=(
        "M. Wortsman et al., Model soups: averaging weights of multiple fine-tuned models improves "
        "accuracy without increasing inference time, ICML 2022, arXiv:2203.05482"
    ),
    parameters=LinearParameters,
    merge=linear,
    kind=Kind.ENTRY,
)
