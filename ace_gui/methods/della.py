"""DELLA-Merging: drop small entries more often than large ones, then TIES or task arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.selection import order_in_rows
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.draws import required_key, uniform
from ace_gui.methods.shared.election import ElectionParameters, merged_by_election
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry, share_parameter
from ace_gui.methods.shared.sparse import (
    BY_CHANCE,
    Sparse,
    SumParameters,
    merged_by_sum,
    rescale_parameter,
)
from ace_gui.methods.shared.survey import RandomKey, SurveyContext

CITATION: Final = (
    "P. T. Deep, R. Bhardwaj, S. Poria, DELLA-Merging: Reducing Interference in Model Merging "
    "through Magnitude-Based Sampling, 2024, arXiv:2406.11617"
)


ROWS_ENTRIES: Final = 1 << 15
"""Entries sorted at a time, because ranks and chances take far more memory than the entries."""


@dataclass(frozen=True, kw_only=True)
class Chances:
    """``density``: mean chance 1 − p of keeping an entry.

    ``epsilon``: the difference of the chances of a row's smallest and largest entries from it.
    """

    density: float = share_parameter(
        0.5,
        label="Density",
        help=(
            "Mean probability 1 − p of keeping an entry. Each kept entry is divided by its own "
            "probability."
        ),
    )
    epsilon: float = parameter(
        0.15,
        label="Spread ε",
        help=(
            "The probabilities in a row rise evenly by rank from density − ε for its "
            "smallest entry to density + ε for its largest, both clipped to 0 and 1. This ε "
            "is mergekit's, and half of the paper's. 0 gives DARE. A density of 1 keeps everything."
        ),
        low=0.0,
        high=0.5,
    )
    rescale: str = rescale_parameter(BY_CHANCE)


@dataclass(frozen=True, kw_only=True)
class DellaParameters(ElectionParameters, Chances):
    """Parameters of DELLA-Merging."""


@dataclass(frozen=True, kw_only=True)
class DellaLinearParameters(SumParameters, Chances):
    """Parameters of DELLA with task arithmetic."""


def keep_chances(delta: Tensor, density: float, epsilon: float) -> Tensor:
    """The chance with which each entry is kept, float32, in the task vector's shape.

    It is linear in the rank of |entry| within its row. A row spans all dimensions but the first; a
    vector is one row. Equal magnitudes rank in storage order. A row of one entry has chance
    ``density``.
    """
    if delta.ndim > 1:
        rows = delta.flatten(1)
    else:
        rows = delta.reshape(1, -1)
    last = rows.shape[1] - 1
    if last < 1:
        return torch.full_like(delta, density, dtype=torch.float32)
    order = order_in_rows(rows.abs())
    steps = torch.linspace(density - epsilon, density + epsilon, last + 1, dtype=torch.float64)
    chances = torch.empty_like(rows, dtype=torch.float32)
    chances.scatter_(1, order, steps.to(delta.device, torch.float32).expand_as(order))
    return chances.reshape(delta.shape)


def dropped(delta: Tensor, parameters: Chances, random_key: RandomKey, t: int) -> Tensor:
    """The kept entries, divided by their chances if ``rescale`` says so; the others are zero."""
    if parameters.density == 1:
        return delta
    numbers = uniform(random_key, t, delta)
    result = torch.empty_like(delta)
    count = 1  # of rows; a vector is one row
    if delta.ndim > 1:
        count = len(delta)
    at_a_time = max(1, ROWS_ENTRIES * count // max(1, delta.numel()))
    number_parts = torch.split(_as_rows(numbers), at_a_time)
    delta_parts = torch.split(_as_rows(delta), at_a_time)
    result_parts = torch.split(_as_rows(result), at_a_time)
    parts = zip(number_parts, delta_parts, result_parts, strict=True)
    for number_part, delta_part, result_part in parts:
        chances = keep_chances(delta_part, parameters.density, parameters.epsilon)
        if parameters.rescale == BY_CHANCE:
            values = delta_part / chances
        else:
            values = delta_part
        result_part.copy_(torch.where(number_part < chances, values, 0))
    return result


def _as_rows(tensor: Tensor) -> Tensor:
    """The tensor; a vector as one row."""
    if tensor.ndim > 1:
        return tensor
    return tensor.reshape(1, -1)


def check_chances(density: float, epsilon: float) -> None:
    """Raise MethodError if a chance would leave (0, 1]."""
    low = density - epsilon
    high = density + epsilon
    if density < 1 and (low <= 0 or high > 1):
        raise MethodError(
            f"Entries would be kept with chances from {low:g} to {high:g}, but these must be above "
            "0 and at most 1; choose a smaller epsilon, or a density nearer to 0.5."
        )


def sampled(delta: Tensor, t: int, context: SurveyContext) -> Tensor:
    """``dropped`` for expert t. Raises MethodError if a chance would leave (0, 1]."""
    parameters = context.parameters[t]
    check_chances(parameters.density, parameters.epsilon)
    return dropped(delta, parameters, required_key(context.random_key, len(context.parameters)), t)


SAMPLED = Sparse(survivors_of=sampled)


@on_experts
def della(experts: Experts, parameters: DellaParameters, context: Context) -> Merged:
    """λ times the mean of the dropped task vectors that agree in sign, any shape, float32.

    Reads every expert once. Raises MethodError without a random key, if a probability would leave
    (0, 1], and if a task vector is not finite.
    """
    sparse, surveyed = SAMPLED.vectors(experts, parameters, context)
    return merged_by_election(sparse, experts.weights, parameters, surveyed.findings)


@on_experts
def della_linear(experts: Experts, parameters: DellaLinearParameters, context: Context) -> Merged:
    """λ Σ_t w_t τ̂_t, τ̂_t the kept entries of ΔW_t by their chances; otherwise as ``della``."""
    sparse, _ = SAMPLED.vectors(experts, parameters, context)
    return merged_by_sum(sparse, experts.weights, parameters)


DELLA = MergeMethod(
    name="della",
    title="DELLA-Merging",
    summary=(
        "Drops changes at random, small ones more often than large ones, rescales the rest, "
        "and merges it by sign election."
    ),
    formula=(
        "merged matrix: W = W₀ + λ · Σₜ∈A wₜ τ̂ₜ / Σₜ∈A |wₜ|,  entry by entry\n"
        "dropped changes: τ̂ₜ,ᵢ = ΔWₜ,ᵢ / qᵢ with chance qᵢ, else 0\n"
        "chance to stay: qᵢ = density − ε + 2ε · rankᵢ / (n − 1),  rank of |ΔWₜ,ᵢ| in its "
        "row of n, from 0\n"
        "agreeing experts: A = experts whose wₜ τ̂ₜ has the sign of Σₜ wₜ τ̂ₜ"
    ),
    citation=CITATION,
    parameters=DellaParameters,
    merge=della,
    kind=Kind.ROW,
    working_memory=per_entry(8),
    seeded=True,
    for_one_expert=("density", "epsilon"),
    surveys=SAMPLED.all_surveys,
    votes=True,
)

DELLA_LINEAR = MergeMethod(
    name="della_linear",
    title="DELLA with task arithmetic",
    summary=(
        "Drops changes at random, small ones more often than large ones, rescales the rest, "
        "and adds it."
    ),
    formula=(
        "merged matrix: W = W₀ + λ Σₜ wₜ τ̂ₜ,  τ̂ₜ,ᵢ = ΔWₜ,ᵢ / qᵢ with chance qᵢ, else 0\n"
        "chance to stay: qᵢ = density − ε + 2ε · rankᵢ / (n − 1),  rank of |ΔWₜ,ᵢ| in its "
        "row of n, from 0"
    ),
    citation=CITATION,
    parameters=DellaLinearParameters,
    merge=della_linear,
    kind=Kind.ROW,
    working_memory=per_entry(7),
    seeded=True,
    for_one_expert=("density", "epsilon"),
    surveys=SAMPLED.all_surveys,
)
