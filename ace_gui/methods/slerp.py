"""SLERP along the arc between two task vectors, NuSLERP, and SLERP from the base to one expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Unpack

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Context, Deltas, Kind, Merged, MergeMethod, Weights
from ace_gui.methods.shared.census import finished, require_mean, task_vector
from ace_gui.methods.shared.kit import parameter, per_entry, share_parameter
from ace_gui.methods.shared.weighted_experts import WeightedExperts, require_base, require_one

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

    ``column_wise``: for every column.
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
    """Parameters of SLERP from the base. ``t``: how far. ``parallel``: where it is straight."""

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


def slerp(
    deltas: Deltas, weights: Weights, parameters: SlerpParameters, **_: Unpack[Context]
) -> Merged:
    """From w_1 ΔW_1 to w_2 ΔW_2 of any shape, as one vector each; float32.

    Angles are those of the vectors, lengths are not normalised. Straight where |cos| > 0.9995; a
    vector of zeros is at a right angle to any other. Raises MethodError for other than two experts,
    and where one is not finite.
    """
    one, other = _pair(deltas, weights)
    straight = (1 - NEARLY_PARALLEL**2) ** 0.5
    merged = arc(one.reshape(-1), other.reshape(-1), parameters.t, straight=straight)
    return finished(merged.reshape(one.shape))


def nuslerp(
    deltas: Deltas, weights: Weights, parameters: NuslerpParameters, **_: Unpack[Context]
) -> Merged:
    """From ΔW_1 to ΔW_2 by t = w_2 / (w_1 + w_2), any shape, as one vector or row by row; float32.

    Raises MethodError for other than two experts, weights that sum to zero, and where one is not
    finite.
    """
    WeightedExperts(deltas, weights)  # refuses what does not fit together
    one, other = _pair(deltas, [1.0] * len(weights))
    t = weights[1] / require_mean(weights)
    if parameters.column_wise and one.ndim:
        merged = arc(one.movedim(0, -1), other.movedim(0, -1), t, straight=NO_ANGLE).movedim(-1, 0)
    elif parameters.row_wise and one.ndim:
        merged = arc(one, other, t, straight=NO_ANGLE)
    else:
        merged = arc(one.reshape(-1), other.reshape(-1), t, straight=NO_ANGLE)
    return finished(merged.reshape(one.shape))


def base_slerp(
    deltas: Deltas, weights: Weights, parameters: BaseSlerpParameters, **context: Unpack[Context]
) -> Merged:
    """From W₀ to W₀ + w ΔW, any shape, as one vector each; float32.

    Raises MethodError for other than one expert, without a base, and where the expert is not
    finite.
    """
    experts = WeightedExperts(deltas, weights)
    require_one(experts)
    base = require_base(context.get("base")).to(torch.float64).reshape(-1)
    other = base + task_vector(experts, 0).to(torch.float64).reshape(-1) * weights[0]
    straight = max(0.0, 1 - parameters.parallel**2) ** 0.5
    merged = arc(base, other, parameters.t, straight=straight) - base
    return finished(merged.reshape(experts.delta(0).shape))


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


def _pair(deltas: Deltas, weights: Weights) -> tuple[Tensor, Tensor]:
    experts = WeightedExperts(deltas, weights)
    if len(experts) != 2:
        raise MethodError(
            f"This method goes from one expert to another, but there are {len(experts)}; choose "
            "two, or merge more with karcher."
        )
    first, second = (task_vector(experts, t).to(torch.float64) * weights[t] for t in range(2))
    return first, second


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
