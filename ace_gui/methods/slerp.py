"""SLERP along the arc between two task vectors, NuSLERP, and SLERP from the base to one expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry, share_parameter

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


@on_experts
def slerp(experts: Experts, parameters: SlerpParameters, _: Context) -> Merged:
    """From w_1 ΔW_1 to w_2 ΔW_2 of any shape, as one vector each; float32.

    The angle is that of the vectors; lengths are not normalised. Linear if |cos| > 0.9995. A vector
    of zeros is at a right angle to any other. Raises MethodError if there are not exactly two
    experts, and if one is not finite.
    """
    one, other = _pair(experts)
    straight = (1 - NEARLY_PARALLEL**2) ** 0.5
    merged = arc(one.reshape(-1), other.reshape(-1), parameters.t, straight=straight)
    return Merged.of(merged.reshape(one.shape))


@on_experts
def nuslerp(experts: Experts, parameters: NuslerpParameters, _: Context) -> Merged:
    """From ΔW_1 to ΔW_2 by t = w_2 / (w_1 + w_2), any shape, as one vector or row by row; float32.

    Raises MethodError if there are not exactly two experts, for weights that sum to zero, and if an
    expert is not finite.
    """
    one, other = _pair(experts.unweighted())
    t = experts.weights[1] / experts.total_weight
    if parameters.column_wise and one.ndim:
        merged = arc(one.movedim(0, -1), other.movedim(0, -1), t, straight=NO_ANGLE).movedim(-1, 0)
    elif parameters.row_wise and one.ndim:
        merged = arc(one, other, t, straight=NO_ANGLE)
    else:
        merged = arc(one.reshape(-1), other.reshape(-1), t, straight=NO_ANGLE)
    return Merged.of(merged.reshape(one.shape))


@on_experts
def base_slerp(experts: Experts, parameters: BaseSlerpParameters, context: Context) -> Merged:
    """From W₀ to W₀ + w ΔW, any shape, as one vector each; float32.

    Raises MethodError unless there is exactly one expert, which is finite, and a base.
    """
    change = experts.only()
    base = context.required_base().to(torch.float64).reshape(-1)
    other = base + change.reshape(-1)
    straight = max(0.0, 1 - parameters.parallel**2) ** 0.5
    merged = arc(base, other, parameters.t, straight=straight) - base
    return Merged.of(merged.reshape(change.shape))


def arc(one: Tensor, other: Tensor, t: float, *, straight: float) -> Tensor:
    """[sin((1 − t) θ) a + sin(t θ) b] / sin θ, θ the angle between a and b, float64.

    For vectors along the last dimension. Linear where sin θ does not exceed ``straight``.
    """
    norms = one.norm(dim=-1, keepdim=True).clamp(min=SHORTEST)
    norms = norms * other.norm(dim=-1, keepdim=True).clamp(min=SHORTEST)
    cosine = ((one * other).sum(dim=-1, keepdim=True) / norms).clamp(-1, 1)
    curved = (1 - cosine.square()) > straight**2
    angle = torch.where(curved, cosine, 0).acos()
    first = torch.where(curved, ((1 - t) * angle).sin() / angle.sin(), 1 - t)
    second = torch.where(curved, (t * angle).sin() / angle.sin(), t)
    return first * one + second * other


def _pair(experts: Experts) -> tuple[Tensor, Tensor]:
    if len(experts) != 2:
        raise MethodError(
            f"This method goes from one expert to another, but there are {len(experts)}; choose "
            "two, or merge more with karcher."
        )
    return experts.weighted(0), experts.weighted(1)


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
    kind=Kind.TENSOR,
    working_memory=per_entry(5.5),
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
    kind=Kind.TENSOR,
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
    kind=Kind.TENSOR,
    working_memory=per_entry(6),
    most=1,
)
