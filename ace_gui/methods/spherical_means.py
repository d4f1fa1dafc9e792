"""Means on the sphere: the Karcher mean, and multi-SLERP's mean of directions.

The means are of the experts' changes, or of whole weights with or without the base's. T experts.
The Karcher mean stays in the span of the directions u_t, so only their cosines C are needed: a
point is x = Σ b_t u_t, and its inner products with the u_t are C b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import (
    Census,
    Context,
    Experts,
    Merged,
    on_experts,
    require_mean,
)
from ace_gui.methods.shared.inner_products import (
    COEFFICIENT,
    ENERGY,
    OF_BASE,
    combined,
    inner_product_survey,
    parts_memory,
    weighted_energies,
)
from ace_gui.methods.shared.kit import parameter, share_parameter
from ace_gui.methods.shared.survey import Findings, MethodSurvey, SumSurvey, SurveyContext

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


Mean = Callable[[Tensor, Sequence[float]], Sequence[float]]
"""Maps the inner products of points (P × P) and their weights to the coefficients of their mean."""


def mean_survey(context: SurveyContext, mean: Mean) -> SumSurvey:
    """How much of each expert's change and of W₀ a mean of changes or of whole weights adds to W₀.

    Among whole weights, the base is the first point if it has a weight.
    """
    parameters: PointsParameters = context.parameters[0]
    experts = len(context.parameters)
    of_changes = parameters.points == CHANGES
    points = torch.eye(experts, experts if of_changes else experts + 1, dtype=torch.float64)
    weights = list(context.weights)
    if not of_changes:
        points[:, -1] = 1  # W₀ + ΔW
        if parameters.base_weight:
            base = torch.zeros(1, experts + 1, dtype=torch.float64)
            base[0, -1] = 1
            points = torch.cat([base, points])
            weights = [parameters.base_weight, *weights]

    def findings_of(products: Tensor) -> Findings:
        energies = weighted_energies(products, context)
        Census.of(energies)  # names an expert with NaN, before the others' points have it too
        shares = torch.tensor(mean(points @ products @ points.T, weights), dtype=torch.float64)
        coefficients = (shares @ points).tolist()
        if of_changes:
            of_base = 0.0
        else:
            of_base = coefficients.pop() - 1
        return {
            COEFFICIENT: tuple(coefficients),
            OF_BASE: (of_base,) * experts,
            ENERGY: energies,
        }

    return inner_product_survey(context, findings_of, with_base=not of_changes)


def merged_mean(
    experts: Experts,
    surveys: Sequence[MethodSurvey],
    parameters: PointsParameters,
    context: Context,
) -> tuple[Tensor, Findings]:
    """The mean of changes or of whole weights, as a change of the base, and the survey's findings.

    Float64. Raises MethodError if whole weights are requested and there is no base.
    """
    findings = experts.surveyed(surveys, parameters, context).findings
    if parameters.points == CHANGES:
        base = None
    else:
        base = context.required_base()
    return combined(experts, findings, base), findings


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


def karcher_coefficients(context: SurveyContext) -> SumSurvey:
    """The survey for the Karcher mean. Raises MethodError for negative weights."""
    return mean_survey(context, partial(_karcher_mean, context.parameters[0]))


KARCHER_SURVEYS: Final = (
    MethodSurvey(survey=karcher_coefficients, finds=(COEFFICIENT, OF_BASE, ENERGY)),
)


@on_experts
def karcher(experts: Experts, parameters: KarcherParameters, context: Context) -> Merged:
    """The weighted spherical mean of the directions, times the weighted mean norm; float32.

    Any shape, each tensor as one vector. Weights are normalised. Experts without a change, or of
    weight zero, are left out. Raises MethodError if one is not finite, for negative weights, and if
    directions cancel.
    """
    merged, findings = merged_mean(experts, KARCHER_SURVEYS, parameters, context)
    if parameters.points == WEIGHTS:
        return Merged.of(merged)
    return Merged.of(merged, diagnostics=Census.of(findings[ENERGY]).diagnostics())


def _karcher_mean(
    parameters: KarcherParameters, products: Tensor, weights: Sequence[float]
) -> list[float]:
    """The coefficients of the points in the mean; 0 for those without a direction."""
    if any(weight < 0 for weight in weights):
        raise MethodError(
            "A mean of directions needs weights of at least 0; change the negative ones."
        )
    squares = products.diagonal().tolist()
    pairs = zip(weights, squares, strict=True)
    counted = list(Census.of([weight * weight * square for weight, square in pairs]).counted)
    coefficients = [0.0] * len(weights)
    if not counted:
        return coefficients
    norms = products.diagonal()[counted].sqrt()
    shares = torch.tensor([weights[t] for t in counted], dtype=torch.float64)
    shares /= shares.sum()
    cosines_TT = products[counted][:, counted] / norms / norms[:, None]
    point_T = spherical_mean(cosines_TT.clamp(-1, 1), shares, parameters)
    for t, coefficient in zip(counted, point_T / norms * float(shares @ norms), strict=True):
        coefficients[t] = float(coefficient)
    return coefficients


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
    kind=Kind.ENTRY,
    surveys=KARCHER_SURVEYS,
    working_memory=parts_memory(numbers_per_element=3),
)


SHORTEST: Final = 1e-8
"""Is added to norms, as in mergekit."""


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


def multislerp_coefficients(context: SurveyContext) -> SumSurvey:
    """The survey for multi-SLERP."""
    return mean_survey(context, partial(_multislerp_mean, context.parameters[0]))


MULTISLERP_SURVEYS: Final = (
    MethodSurvey(survey=multislerp_coefficients, finds=(COEFFICIENT, OF_BASE, ENERGY)),
)


@on_experts
def multislerp(experts: Experts, parameters: MultislerpParameters, context: Context) -> Merged:
    """The normalised weighted mean of the directions, times the weighted mean norm; float32.

    multi-SLERP computes this, as its step in the tangent space at that mean is zero. Any shape,
    each tensor as one vector. An expert without a change has no direction, and norm 0. A single
    expert is returned unchanged. If the directions of two experts cancel, their mean is returned.
    Raises MethodError if one is not finite, if the weights sum to zero, and if the directions of
    more than two cancel.
    """
    merged, _ = merged_mean(experts, MULTISLERP_SURVEYS, parameters, context)
    return Merged.of(merged)


def _multislerp_mean(
    parameters: MultislerpParameters, products: Tensor, weights: Sequence[float]
) -> list[float]:
    """The coefficients of the points in the mean."""
    count = len(weights)
    if count == 1:
        return [1.0]
    if parameters.normalize:
        total = require_mean(weights)
    else:
        total = 1.0
    shares = torch.tensor(weights, dtype=torch.float64) / total
    norms = products.diagonal().clamp(min=0).sqrt()
    units = shares / (norms + SHORTEST)
    length = math.sqrt(max(0.0, float(units @ products @ units)))
    # Inner products tell lengths apart from rounding only above this.
    if length >= VANISHING * float((units.abs() * norms).sum()) and length > 0:
        return list((units * (float(shares @ norms) / length)).tolist())
    if count == 2 or not bool(norms.any()):
        return list(shares.tolist())
    raise MethodError(_CANCELLED_OUT)


MULTISLERP = MergeMethod(
    name="multislerp",
    title="Multi-SLERP",
    summary="Takes the mean of the experts' directions, with their mean norm.",
    formula="W = W₀ + (Σₜ aₜ ‖ΔWₜ‖) · x / ‖x‖,  x = Σₜ aₜ ΔWₜ / ‖ΔWₜ‖,  aₜ = wₜ / Σⱼ wⱼ",
    citation="C. Goddard et al., Arcee's MergeKit, 2024, arXiv:2403.13257",
    parameters=MultislerpParameters,
    merge=multislerp,
    kind=Kind.ENTRY,
    surveys=MULTISLERP_SURVEYS,
    working_memory=parts_memory(numbers_per_element=3),
)
