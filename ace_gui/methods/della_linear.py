"""DELLA without sign election: drop small entries more often than large ones, and add the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.methods.della import (
    DELLA,
    check_chances,
    density_parameter,
    dropped,
    spread_parameter,
)
from ace_gui.methods.method import (
    Context,
    Kind,
    Merged,
    MergeMethod,
    for_each,
    per_entry,
    scaling_parameter,
)
from ace_gui.methods.shared.census import divisor, finished, normalize_parameter, task_vector
from ace_gui.methods.shared.draws import required
from ace_gui.methods.shared.weighted_experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class DellaLinearParameters:
    """Parameters of DELLA with task arithmetic.

    ``density``, ``epsilon``: as DELLA's. ``scaling``: λ. ``normalize``: divide by the weights.
    """

    density: float = density_parameter()
    epsilon: float = spread_parameter()
    scaling: float = scaling_parameter(
        0.3,
        letter="λ",
        help="Factor on the sum of the task vectors; 1/T for T experts gives their mean.",
    )
    normalize: bool = normalize_parameter()


def della_linear(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: DellaLinearParameters,
    **context: Unpack[Context],
) -> Merged:
    """λ Σ_t w_t τ̂_t, τ̂_t the kept entries of ΔW_t by their chances, any shape, float32.

    Reads every expert once. Raises MethodError without a place, where a chance would leave (0, 1],
    and where a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    each = for_each(parameters, context, len(experts))
    for own in each:
        check_chances(own.density, own.epsilon)
    here = required(context.get("place"), len(experts))
    total = torch.zeros_like(experts.delta(0), dtype=torch.float64)
    for t, weight in enumerate(weights):
        own = each[t]
        sparse = dropped(task_vector(experts, t), own.density, own.epsilon, here, t)
        total.add_(sparse, alpha=weight)
    total.div_(divisor(weights, parameters.normalize))
    return finished(total, parameters.scaling)


DELLA_LINEAR = MergeMethod(
    name="della_linear",
    title="DELLA with task arithmetic",
    summary=(
        "Drops changes at random, small ones more often than large ones, scales up what is left, "
        "and adds it."
    ),
    formula=(
        "W = W₀ + λ Σₜ wₜ τ̂ₜ,  τ̂ₜ,ᵢ = ΔWₜ,ᵢ / qᵢ with chance qᵢ, else 0\n"
        "qᵢ = density − ε + 2ε · rankᵢ / (n − 1),  rank of |ΔWₜ,ᵢ| in its row of n, from 0"
    ),
    citation=DELLA.citation,
    parameters=DellaLinearParameters,
    merge=della_linear,
    kind=Kind.TENSOR,
    working_memory=per_entry(7),
    seeded=True,
    for_one_expert=("density", "epsilon"),
)
