"""SLERP along the arc between two task vectors, NuSLERP, and SLERP from the base to one expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import (
    Context,
    Experts,
    Merged,
    on_experts,
    require_mean,
    require_one_expert,
)
from ace_gui.methods.shared.inner_products import (
    COEFFICIENT,
    OF_BASE,
    combined,
    inner_product_survey,
    parts_memory,
)
from ace_gui.methods.shared.kit import parameter, per_entry, share_parameter
from ace_gui.methods.shared.survey import Findings, MethodSurvey, SumSurvey, SurveyContext

CITATION: Final = (
    "K. Shoemake, Animating rotation with quaternion curves, SIGGRAPH 1985; for models: C. Goddard "
    "et al., Arcee's MergeKit, 2024, arXiv:2403.13257"
)

NEARLY_PARALLEL: Final = 0.9995
"""|cosine| above which SLERP is linear, as in mergekit."""

NO_ANGLE: Final = 1e-8
"""Sine up to which NuSLERP is linear."""

SHORTEST: Final = 1e-7
"""Norm below which a vector has no direction: its cosine with any other is nearly 0."""


@dataclass(frozen=True, kw_only=True)
class SlerpParameters:
    """Parameters of SLERP. ``t``: how far from the first expert (0) to the second (1)."""

    t: float = share_parameter(
        0.5,
        label="Position t",
        help=(
            "0 is the first expert, 1 the second. Interpolates the experts' changes from the "
            "base, where mergekit interpolates whole weights. Nearly parallel changes are "
            "interpolated linearly."
        ),
        above_zero=False,
    )


@dataclass(frozen=True, kw_only=True)
class NuslerpParameters:
    """Parameters of NuSLERP. ``row_wise``: an angle for every row instead of one for the tensor.

    ``column_wise``: an angle for every column.
    """

    row_wise: bool = parameter(
        False,
        label="Row by row",
        help=(
            "Interpolate each row, a vector along the last dimension, by its own angle. "
            "Otherwise the tensor is one vector."
        ),
    )
    column_wise: bool = parameter(
        False,
        label="Column by column",
        help=(
            "Interpolate each column, a vector along the first dimension, by its own angle. "
            "This takes precedence over Row by row."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class BaseSlerpParameters:
    """Parameters of SLERP from the base. ``t``: how far. ``parallel``: |cosine| limit."""

    t: float = parameter(
        0.5,
        label="Position t",
        help="0 is the base, 1 the expert. Interpolates whole weights, as mergekit's slerp does.",
        low=-10.0,
        high=10.0,
    )
    parallel: float = share_parameter(
        NEARLY_PARALLEL,
        label="Straight above",
        help=(
            "|cosine| above which interpolation is linear. Fine-tuned models are usually above "
            "0.9995."
        ),
        above_zero=False,
    )


def slerp_coefficients(context: SurveyContext) -> SumSurvey:
    """How much of each of two experts the point on the arc between them has."""
    require_pair(len(context.parameters))
    weights = torch.tensor(context.weights, dtype=torch.float64)
    straight = (1 - NEARLY_PARALLEL**2) ** 0.5

    def findings_of(products: Tensor) -> Findings:
        products = products * weights * weights[:, None]
        shares = shares_of(products, context.parameters[0].t, straight=straight)
        return {COEFFICIENT: tuple((shares * weights).tolist())}

    return inner_product_survey(context, findings_of)


def nuslerp_coefficients(context: SurveyContext) -> SumSurvey | None:
    """The same by the experts' weights; None if every row or column has its own angle."""
    require_pair(len(context.parameters))
    if angles_of_parts(context.parameters[0]):
        return None
    t = context.weights[1] / require_mean(context.weights)

    def findings_of(products: Tensor) -> Findings:
        return {COEFFICIENT: tuple(shares_of(products, t, straight=NO_ANGLE).tolist())}

    return inner_product_survey(context, findings_of)


def base_slerp_coefficients(context: SurveyContext) -> SumSurvey:
    """How much of the expert's change and of W₀ the point between W₀ and the expert adds to W₀."""
    require_one_expert(len(context.parameters))
    parameters = context.parameters[0]
    (weight,) = context.weights
    straight = max(0.0, 1 - parameters.parallel**2) ** 0.5
    # W₀ and W₀ + w ΔW, of ΔW and W₀
    points = torch.tensor([[0.0, 1.0], [weight, 1.0]], dtype=torch.float64)

    def findings_of(products: Tensor) -> Findings:
        shares = shares_of(points @ products @ points.T, parameters.t, straight=straight)
        of_change, of_base = (shares @ points).tolist()
        return {COEFFICIENT: (of_change,), OF_BASE: (of_base - 1,)}

    return inner_product_survey(context, findings_of, with_base=True)


SLERP_SURVEYS: Final = (MethodSurvey(survey=slerp_coefficients, finds=(COEFFICIENT,)),)
NUSLERP_SURVEYS: Final = (MethodSurvey(survey=nuslerp_coefficients, finds=(COEFFICIENT,)),)
BASE_SURVEYS: Final = (MethodSurvey(survey=base_slerp_coefficients, finds=(COEFFICIENT, OF_BASE)),)


@on_experts
def slerp(experts: Experts, parameters: SlerpParameters, context: Context) -> Merged:
    """From w_1 ΔW_1 to w_2 ΔW_2 of any shape, as one vector each; float32.

    The angle is that of the vectors; lengths are not normalised. Linear if |cos| > 0.9995. A vector
    of zeros is at a right angle to any other. Raises MethodError if there are not exactly two
    experts, and if one is not finite.
    """
    surveyed = experts.surveyed(SLERP_SURVEYS, parameters, context)
    return Merged.of(combined(experts, surveyed.findings))


@on_experts
def nuslerp(experts: Experts, parameters: NuslerpParameters, context: Context) -> Merged:
    """From ΔW_1 to ΔW_2 by t = w_2 / (w_1 + w_2), any shape, as one vector or row by row; float32.

    Raises MethodError if there are not exactly two experts, for weights that sum to zero, and if an
    expert is not finite.
    """
    surveyed = experts.surveyed(NUSLERP_SURVEYS, parameters, context)
    if not angles_of_parts(parameters):
        return Merged.of(combined(experts, surveyed.findings))
    t = experts.weights[1] / experts.total_weight
    first = experts.unweighted().weighted(0)
    second = experts.unweighted().weighted(1)
    if parameters.column_wise and first.ndim:
        merged = arc(first.movedim(0, -1), second.movedim(0, -1), t).movedim(-1, 0)
    elif first.ndim:
        merged = arc(first, second, t)
    else:
        merged = arc(first.reshape(1), second.reshape(1), t)
    return Merged.of(merged.reshape(first.shape))


@on_experts
def base_slerp(experts: Experts, parameters: BaseSlerpParameters, context: Context) -> Merged:
    """From W₀ to W₀ + w ΔW, any shape, as one vector each; float32.

    Raises MethodError unless there is exactly one expert, which is finite, and a base.
    """
    require_one_expert(len(experts))
    surveyed = experts.surveyed(BASE_SURVEYS, parameters, context)
    return Merged.of(combined(experts, surveyed.findings, context.required_base()))


def angles_of_parts(parameters: NuslerpParameters) -> bool:
    """Whether every row or column has an angle of its own."""
    return parameters.row_wise or parameters.column_wise


def arc(start: Tensor, end: Tensor, t: float) -> Tensor:
    """[sin((1 − t) θ) a + sin(t θ) b] / sin θ, θ the angle between a and b, float64.

    For vectors along the last dimension. Linear where they are parallel or opposite.
    """
    norms = start.norm(dim=-1, keepdim=True).clamp(min=SHORTEST)
    norms = norms * end.norm(dim=-1, keepdim=True).clamp(min=SHORTEST)
    cosine = (start * end).sum(dim=-1, keepdim=True) / norms
    first, second = positions(cosine, t, straight=NO_ANGLE)
    return first * start + second * end


def shares_of(products: Tensor, t: float, *, straight: float) -> Tensor:
    """The shares of two vectors in the point on the arc, from their inner products (2 × 2).

    One root of both squares makes the cosine of equal vectors exactly 1.
    """
    squares = products.diagonal().clamp(min=SHORTEST**2)
    cosine = products[0, 1] / squares.prod().sqrt()
    return torch.stack(positions(cosine, t, straight=straight))


def positions(cosine: Tensor, t: float, *, straight: float) -> tuple[Tensor, Tensor]:
    """sin((1 − t) θ) / sin θ and sin(t θ) / sin θ; linear where sin θ is up to ``straight``."""
    cosine = cosine.clamp(-1, 1)
    curved = (1 - cosine.square()) > straight**2
    angle = torch.where(curved, cosine, 0).acos()
    first = torch.where(curved, ((1 - t) * angle).sin() / angle.sin(), 1 - t)
    second = torch.where(curved, (t * angle).sin() / angle.sin(), t)
    return first, second


def require_pair(experts: int) -> None:
    """Raise MethodError for another number of experts."""
    if experts != 2:
        raise MethodError(
            f"This method goes from one expert to another, but there are {experts}; choose "
            "two, or merge more with karcher."
        )


SLERP = MergeMethod(
    name="slerp",
    title="SLERP",
    summary="Interpolates between the changes of two experts along the arc between them.",
    formula=(
        "merged matrix: W = W₀ + [sin((1 − t)θ) ΔW₁ + sin(tθ) ΔW₂] / sin θ,  θ the angle "
        "between ΔW₁ and ΔW₂, each times its weight\n"
        "nearly parallel: (1 − t) ΔW₁ + t ΔW₂ where |cos θ| > 0.9995"
    ),
    citation=CITATION,
    parameters=SlerpParameters,
    merge=slerp,
    kind=Kind.ENTRY,
    surveys=SLERP_SURVEYS,
    working_memory=parts_memory(numbers_per_element=3),
    least=2,
    most=2,
)

NUSLERP = MergeMethod(
    name="nuslerp",
    title="NuSLERP",
    summary="SLERP with a position that follows from the experts' weights, optionally row by row.",
    formula=(
        "merged matrix: W = W₀ + [sin((1 − t)θ) ΔW₁ + sin(tθ) ΔW₂] / sin θ,  t = w₂ / (w₁ + w₂)\n"
        "angle: θ between ΔW₁ and ΔW₂, of the tensor or of each row; a right "
        "angle where one of them is zero; (1 − t) ΔW₁ + t ΔW₂ where they are parallel or opposite"
    ),
    citation=CITATION,
    parameters=NuslerpParameters,
    merge=nuslerp,
    kind=Kind.ENTRY,
    whole=angles_of_parts,
    surveys=NUSLERP_SURVEYS,
    working_memory=per_entry(5.5),
    least=2,
    most=2,
)

BASE_SLERP = MergeMethod(
    name="base_slerp",
    title="SLERP from the base",
    summary=(
        "Interpolates from the base's weights to those of one expert along the arc between them."
    ),
    formula=(
        "merged matrix: W = [sin((1 − t)θ) W₀ + sin(tθ) W₁] / sin θ,  θ the angle between W₀ "
        "and W₁ = W₀ + w ΔW\n"
        "nearly parallel: (1 − t) W₀ + t W₁ where |cos θ| > 0.9995"
    ),
    citation=CITATION,
    parameters=BaseSlerpParameters,
    merge=base_slerp,
    kind=Kind.ENTRY,
    surveys=BASE_SURVEYS,
    working_memory=parts_memory(numbers_per_element=3),
    most=1,
)
