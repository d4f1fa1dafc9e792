"""SLERP of whole weights, from the base to one expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.methods.method import Context, Kind, Merged, MergeMethod, parameter, per_entry
from ace_gui.methods.shared.census import finished, task_vector
from ace_gui.methods.shared.weighted_experts import WeightedExperts, require_base, require_one
from ace_gui.methods.slerp import CITATION, NEARLY_PARALLEL, arc


@dataclass(frozen=True, kw_only=True)
class BaseSlerpParameters:
    """Parameters of SLERP from the base. ``t``: how far. ``parallel``: where it is straight."""

    t: float = parameter(
        0.5,
        label="Position t",
        help="0 is the base, 1 the expert. Goes between whole weights, as mergekit's slerp does.",
        low=-10.0,
        high=10.0,
    )
    parallel: float = parameter(
        NEARLY_PARALLEL,
        label="Straight above",
        help="|cosine| above which the way is the straight line; fine-tunes are above 0.9995.",
        low=0.0,
        high=1.0,
    )


def base_slerp(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: BaseSlerpParameters,
    **context: Unpack[Context],
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


BASE_SLERP = MergeMethod(
    name="base_slerp",
    title="SLERP from the base",
    summary="Goes along the arc from the base's weights to those of one expert.",
    formula=(
        "W = [sin((1 − t)θ) W₀ + sin(tθ) W₁] / sin θ,  θ the angle between W₀ and W₁ = W₀ + w ΔW\n"
        "(1 − t) W₀ + t W₁ where |cos θ| > 0.9995"
    ),
    citation=CITATION,
    parameters=BaseSlerpParameters,
    merge=base_slerp,
    kind=Kind.TENSOR,
    working_memory=per_entry(6),
    most=1,
)
