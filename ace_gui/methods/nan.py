"""NAN: task vectors weighted by the inverse of their norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from ace_gui.methods.base import Context, Kind, Merged, MergeMethod, parameter
from ace_gui.methods.census import census, combination, finished
from ace_gui.methods.experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class NanParameters:
    """Parameters of NAN. ``scaling``: factor beside T/2."""

    scaling: float = parameter(
        1.0,
        label="Scaling",
        help=(
            "Factor beside the method's own T/2, where T counts the experts that changed the "
            "tensor; one expert alone is halved."
        ),
        low=-10.0,
        high=10.0,
    )


def nan(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: NanParameters,
    **_: Unpack[Context],
) -> Merged:
    """Scaling · (T/2) Σ w_t c_t ΔW_t, c_t = ‖ΔW_t‖⁻¹ / Σ ‖ΔW_j‖⁻¹, any shape, float32.

    Norms of one tensor of the unweighted task vectors. (The paper derives inverse squares and
    speaks of a softmax; its formula and its results are these.) Experts without a change, or of
    weight zero, are left out. Reads every expert twice. Raises MethodError where one is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    found = census(experts, weights)
    inverses = [abs(weights[t]) / math.sqrt(found.energies[t]) for t in found.kept]
    total = sum(inverses)
    factor = len(found.kept) / 2
    coefficients = [
        factor * inverse / total * weights[t]
        for inverse, t in zip(inverses, found.kept, strict=True)
    ]
    merged = combination(experts, coefficients, found.kept)
    return finished(merged, parameters.scaling, found.diagnostics())


NAN = MergeMethod(
    name="nan",
    title="NAN",
    summary="Adds the experts' changes, each tensor weighted by the inverse of its norm.",
    formula="W = W₀ + scaling · T/2 · Σₜ wₜ cₜ ΔWₜ,  cₜ = ‖ΔWₜ‖⁻¹ / Σⱼ ‖ΔWⱼ‖⁻¹",
    citation=(
        "C. Si, K. Lv, J. Jiang et al., NAN: A Training-Free Solution to Coefficient Estimation in "
        "Model Merging, 2025, arXiv:2505.16148"
    ),
    parameters=NanParameters,
    merge=nan,
    kind=Kind.TENSOR,
)
