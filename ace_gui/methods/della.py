"""DELLA-Merging: drop small entries more often than large ones, then elect signs as TIES does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import (
    Context,
    Kind,
    Merged,
    MergeMethod,
    Place,
    for_each,
    parameter,
    per_entry,
    scaling_parameter,
)
from ace_gui.methods.shared.census import finished, task_vector
from ace_gui.methods.shared.draws import required, uniform
from ace_gui.methods.shared.election import Election, balanced_parameter, combine_parameter
from ace_gui.methods.shared.weighted_experts import WeightedExperts


def density_parameter() -> float:
    """The mean chance of keeping an entry."""
    density: float = parameter(
        0.5,
        label="Density",
        help="Mean chance 1 − p with which an entry is kept; kept ones are divided by their own.",
        low=0.0,
        high=1.0,
        low_open=True,
    )
    return density


def spread_parameter() -> float:
    """How far the chances lie from their mean."""
    epsilon: float = parameter(
        0.15,
        label="Spread ε",
        help=(
            "The chances of a row rise evenly by rank from density − ε for its smallest entry to "
            "density + ε for its largest, both within 0 and 1. This is half of the paper's ε, and "
            "mergekit's. 0 gives DARE, and a density of 1 keeps everything."
        ),
        low=0.0,
        high=0.5,
    )
    return epsilon


@dataclass(frozen=True, kw_only=True)
class DellaParameters:
    """Parameters of DELLA-Merging.

    ``density``: mean chance 1 − p of keeping an entry. ``epsilon``: how far the chances of a row's
    smallest and largest entries lie from it. ``scaling``: λ. ``combine``: mean or sum.
    ``balanced``: the sign where both weigh the same.
    """

    density: float = density_parameter()
    epsilon: float = spread_parameter()
    scaling: float = scaling_parameter(
        letter="λ",
        help="Factor on the merged task vector.",
    )
    combine: str = combine_parameter()
    balanced: str = balanced_parameter()


def keep_chances(delta: Tensor, density: float, epsilon: float) -> Tensor:
    """The chance with which each entry is kept, float32, in the task vector's shape.

    Linear in the rank of |entry| within its row (of all but the first dimension; a vector is one
    row); equal magnitudes rank in storage order. A row of one entry has chance ``density``.
    """
    rows = delta.flatten(1) if delta.ndim > 1 else delta.reshape(1, -1)
    last = rows.shape[1] - 1
    if last < 1:
        return torch.full_like(delta, density, dtype=torch.float32)
    order = rows.abs().argsort(dim=1, stable=True)
    steps = torch.linspace(density - epsilon, density + epsilon, last + 1, dtype=torch.float64)
    chances = torch.empty_like(rows, dtype=torch.float32)
    chances.scatter_(1, order, steps.to(delta.device, torch.float32).expand_as(order))
    return chances.reshape(delta.shape)


def dropped(delta: Tensor, density: float, epsilon: float, place: Place, t: int) -> Tensor:
    """The kept entries, each divided by its own chance, the others zero."""
    if density == 1:
        return delta
    chances = keep_chances(delta, density, epsilon)
    return torch.where(uniform(place, t, delta) < chances, delta / chances, 0)


def check_chances(density: float, epsilon: float) -> None:
    """Raises MethodError where a chance would leave (0, 1]."""
    low, high = density - epsilon, density + epsilon
    if density < 1 and (low <= 0 or high > 1):
        raise MethodError(
            f"Entries would be kept with chances from {low:g} to {high:g}, but these must be above "
            "0 and at most 1; choose a smaller epsilon, or a density nearer to 0.5."
        )


def della(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: DellaParameters,
    **context: Unpack[Context],
) -> Merged:
    """λ times the mean of the dropped task vectors that agree in sign, any shape, float32.

    Reads every expert once. Raises MethodError without a place, where a chance would leave (0, 1],
    and where a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    each = for_each(parameters, context, len(experts))
    for own in each:
        check_chances(own.density, own.epsilon)
    here = required(context.get("place"), len(experts))
    election = Election(experts.delta(0))
    for t, weight in enumerate(weights):
        own = each[t]
        sparse = dropped(task_vector(experts, t), own.density, own.epsilon, here, t)
        election.add(sparse, weight)
    return finished(election.result(parameters.combine, parameters.balanced), parameters.scaling)


DELLA = MergeMethod(
    name="della",
    title="DELLA-Merging",
    summary=(
        "Drops changes at random, small ones more often than large ones, scales up what is left, "
        "and merges it by sign election."
    ),
    formula=(
        "W = W₀ + λ · Σₜ∈A wₜ τ̂ₜ / Σₜ∈A |wₜ|,  entry by entry\n"
        "τ̂ₜ,ᵢ = ΔWₜ,ᵢ / qᵢ with chance qᵢ, else 0\n"
        "qᵢ = density − ε + 2ε · rankᵢ / (n − 1),  rank of |ΔWₜ,ᵢ| in its row of n, from 0\n"
        "A = experts whose wₜ τ̂ₜ has the sign of Σₜ wₜ τ̂ₜ"
    ),
    citation=(
        "P. T. Deep, R. Bhardwaj, S. Poria, DELLA-Merging: Reducing Interference in Model Merging "
        "through Magnitude-Based Sampling, 2024, arXiv:2406.11617"
    ),
    parameters=DellaParameters,
    merge=della,
    kind=Kind.TENSOR,
    working_memory=per_entry(7),
    seeded=True,
    for_one_expert=("density", "epsilon"),
)
