"""Means on the sphere: the Karcher mean, and multi-SLERP's mean of directions.

The means are of the experts' changes, or of whole weights with or without the base's. T experts.
The Karcher mean stays in the span of the directions u_t, so only their cosines C are needed: a
point is x = Σ b_t u_t, and its inner products with the u_t are C b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import (
    Census,
    Computed,
    Context,
    Experts,
    Merged,
    on_experts,
    require_mean,
)
from ace_gui.methods.shared.kit import parameter, per_entry, share_parameter

CHANGES: Final = "changes"
WEIGHTS: Final = "weights"

_CANCELLED_OUT: Final = (
    "The experts' changes to this tensor cancel, so they have no mean direction; change the "
    "weights or leave one out."
)


@dataclass(frozen=True, kw_only=True)
class PointsParameters:
    """``points``: changes or whole weights. ``base_weight``: the base's weight among the latter."""

    points: str = parameter(
        CHANGES,
        label="Mean of",
        help=(
            "changes: of what each expert changes in the base. weights: of whole weights, as "
            "mergekit does where a file names no base."
        ),
        choices=(CHANGES, WEIGHTS),
    )
    base_weight: float = parameter(
        1.0,
        label="Weight of the base",
        help="Weight of the base in a mean of whole weights. 0 leaves it out.",
        low=-1000.0,
        high=1000.0,
    )


def merged_points(
    merge: Callable[[Experts], Merged],
    experts: Experts,
    parameters: PointsParameters,
    context: Context,
) -> Merged:
    """The mean of changes or of whole weights by ``merge``, as a change of the base.

    Raises MethodError if whole weights are requested and there is no base.
    """
    if parameters.points == CHANGES:
        return merge(experts)
    base, base_weights = (
        context.required_base(),
        [parameters.base_weight] if parameters.base_weight else [],
    )
    first, deltas = len(base_weights), experts.deltas
    points = Computed(
        first + len(deltas), lambda t: base if t < first else deltas[t - first] + base
    )
    merged = merge(Experts(points, [*base_weights, *experts.weights]))
    return Merged(delta=merged.delta.sub_(base))


VANISHING: Final = 1e-7
"""Norm of a mean of directions that counts as zero: the directions cancel."""


@dataclass(frozen=True, kw_only=True)
class KarcherParameters(PointsParameters):
    """Parameters of the Karcher mean. ``iterations``: maximum; ``tolerance``: step to stop at."""

    iterations: int = parameter(
        10,
        label="Iterations",
        help="Maximum number of steps. 0 gives the normalised mean of the directions.",
        low=0,
        high=1000,
    )
    tolerance: float = share_parameter(
        1e-5,
        label="Tolerance",
        help="Stops when a step turns the mean by at most this angle, in radians.",
        logarithmic=True,
    )


@on_experts
def karcher(experts: Experts, parameters: KarcherParameters, context: Context) -> Merged:
    """The weighted spherical mean of the directions, times the weighted mean norm; float32.

    Any shape, each tensor as one vector. Weights are normalised. Experts without a change, or of
    weight zero, are left out. Reads every expert as often as there are experts, and twice more.
    Raises MethodError if one is not finite, for negative weights, and if directions cancel.
    """
    return merged_points(partial(_mean, parameters), experts, parameters, context)


def _mean(parameters: KarcherParameters, experts: Experts) -> Merged:
    weights = experts.weights
    if any(weight < 0 for weight in weights):
        raise MethodError(
            "A mean of directions needs weights of at least 0; change the negative ones."
        )
    census = experts.census()
    if not census.kept:
        return Merged.of(experts.combination((), ()), diagnostics=census.diagnostics())
    shares = torch.tensor([weights[t] for t in census.kept], dtype=torch.float64)
    norms = _norms(census, shares)
    shares /= shares.sum()
    point_T = spherical_mean(cosines(experts, census), shares, parameters)
    coefficients = point_T / norms * float(shares @ norms)
    merged = experts.combination(coefficients.tolist(), census.kept)
    return Merged.of(merged, diagnostics=census.diagnostics())


def _norms(census: Census, shares: Tensor) -> Tensor:
    """‖ΔW_t‖ of the kept experts, unweighted."""
    weighted = [math.sqrt(census.energies[t]) for t in census.kept]
    return torch.tensor(weighted, dtype=torch.float64) / shares


def cosines(experts: Experts, census: Census) -> Tensor:
    """Cosines between the experts that changed the tensor, float64, on the CPU.

    Each tensor is one vector. Holds two experts at a time; reads each as often as there are others.
    """
    size = len(census.kept)
    cosines_TT = torch.eye(size, dtype=torch.float64)
    for i, t in enumerate(census.kept[:-1]):
        one = _unit(experts.raw(t))
        for j in range(i + 1, size):
            other = _unit(experts.raw(census.kept[j]))
            cosines_TT[i, j] = cosines_TT[j, i] = float(one @ other)
    return cosines_TT.clamp_(-1, 1)


def _unit(delta: Tensor) -> Tensor:
    flat = delta.reshape(-1).to(torch.float64)
    unit: Tensor = flat / flat.norm()
    return unit


def spherical_mean(cosines_TT: Tensor, shares_T: Tensor, parameters: KarcherParameters) -> Tensor:
    """Coefficients b of the mean direction Σ b_t u_t; ``shares_T`` sum to 1.

    Starts at the normalised mean, then steps by the mean of the logarithms at the current point.
    Raises MethodError if the directions cancel.
    """
    point_T = _normalised(shares_T, cosines_TT)
    for _ in range(parameters.iterations):
        products_T = (cosines_TT @ point_T).clamp(-1, 1)
        angles_T = products_T.acos()
        sines_T = angles_T.sin()
        stretch_T = torch.where(sines_T > VANISHING, angles_T / sines_T, 1)
        # log_x(u_t) = (θ / sin θ)(u_t − cos θ · x), summed over experts
        step_T = shares_T * stretch_T
        step_T = step_T - float(step_T @ products_T) * point_T
        turn = math.sqrt(max(0.0, float(step_T @ cosines_TT @ step_T)))
        if turn <= parameters.tolerance:
            break
        moved_T = math.cos(turn) * point_T + math.sin(turn) / turn * step_T
        point_T = _normalised(moved_T, cosines_TT)
    return point_T


def _normalised(point_T: Tensor, cosines_TT: Tensor) -> Tensor:
    norm = math.sqrt(max(0.0, float(point_T @ cosines_TT @ point_T)))
    if norm < VANISHING:
        raise MethodError(_CANCELLED_OUT)
    return point_T / norm


KARCHER = MergeMethod(
    name="karcher",
    title="Karcher mean",
    summary="Finds the direction nearest to those of all experts, and gives it their mean norm.",
    formula=("W = W₀ + (Σₜ aₜ ‖ΔWₜ‖) · argmin_x Σₜ aₜ ∠(x, ΔWₜ)²,  ‖x‖ = 1,  aₜ = wₜ / Σⱼ wⱼ"),
    citation=(
        "H. Karcher, Riemannian center of mass and mollifier smoothing, 1977; for models: C. "
        "Goddard et al., Arcee's MergeKit, 2024, arXiv:2403.13257"
    ),
    parameters=KarcherParameters,
    merge=karcher,
    kind=Kind.TENSOR,
    working_memory=per_entry(5),
)


CANCELLED: Final = 1e-8
"""Norm of a mean of directions that counts as zero; also added to norms, as in mergekit."""


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


@on_experts
def multislerp(experts: Experts, parameters: MultislerpParameters, context: Context) -> Merged:
    """The normalised weighted mean of the directions, times the weighted mean norm; float32.

    multi-SLERP computes this, as its step in the tangent space at that mean is zero. Any shape,
    each tensor as one vector. An expert without a change has no direction, and norm 0. A single
    expert is returned unchanged. If the directions of two experts cancel, their mean is returned.
    Reads every expert twice. Raises MethodError if one is not finite, if the weights sum to zero,
    and if the directions of more than two cancel.
    """
    return merged_points(partial(_multislerp, parameters), experts, parameters, context)


def _multislerp(parameters: MultislerpParameters, experts: Experts) -> Merged:
    count, weights = len(experts), experts.weights
    if count == 1:
        return Merged.of(experts.combination([1.0], [0]))
    total = require_mean(weights) if parameters.normalize else 1.0
    shares = [weight / total for weight in weights]
    norms = [float(experts.delta(t).to(torch.float64).norm()) for t in range(count)]
    units = [share / (norm + CANCELLED) for share, norm in zip(shares, norms, strict=True)]
    mean = experts.combination(units, range(count))
    length = float(mean.norm())
    if length >= CANCELLED:
        mean_norm = sum(share * norm for share, norm in zip(shares, norms, strict=True))
        return Merged.of(mean, mean_norm / length)
    if count == 2 or not any(norms):
        return Merged.of(experts.combination(shares, range(count)))
    raise MethodError(_CANCELLED_OUT)


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
