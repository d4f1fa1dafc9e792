"""FREE-Merging: FR-Merging, the largest entries of each expert, and a router that selects one
expert.

O outputs, I inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from ace_gui.methods.fr import FR_MERGING, FrParameters, fr_merging, high_pass
from ace_gui.methods.method import Deltas, MergeMethod, Weights
from ace_gui.methods.shared.declaring import parameter
from ace_gui.methods.shared.expert_modules import Cut, Differences, ModuleKind
from ace_gui.methods.shared.trimming import kept_count
from ace_gui.methods.shared.weighted_experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class FreeParameters(FrParameters):
    """Of FR-Merging, and ``density``: d of what each expert keeps."""

    density: float = parameter(
        0.01,
        label="Density d",
        help="Share of each matrix row that an expert keeps, its largest entries.",
        differs=(
            "As in the paper, except that μ is computed for each matrix and the kept entries "
            "are added to the merged matrix. The published code uses one μ per expert and "
            "replaces entries."
        ),
        low=0.0,
        low_open=True,
        high=1.0,
        logarithmic=True,
    )


def sparse_experts(
    deltas: Deltas, weights: Weights, parameters: FreeParameters
) -> Iterator[Tensor]:
    """μ_t w_t ΔW_t, of which the share d of each row is kept; float64, reads each expert once."""
    experts = WeightedExperts(deltas, weights)
    for t in range(len(experts)):
        own_OI = experts.matrix(t)
        yield own_OI.mul_(rescaling(own_OI, parameters))


def rescaling(own_OI: Tensor, parameters: FreeParameters) -> float:
    """μ_t = −log₁₀ d · mean|M(ΔW, d)| / mean|G|, the first mean over the kept entries.

    At d = 1, where that is 0, and where there is nothing to compare, 1: the entries as they are.
    """
    count = kept_count(parameters.density, own_OI.shape[1])
    kept = float(own_OI.abs().topk(count, dim=1).values.mean())
    left = float(high_pass(own_OI, parameters.cutoff).abs().mean())
    if parameters.density == 1 or not left or not kept:
        return 1.0
    return -math.log10(parameters.density) * kept / left


FREE_MERGING = MergeMethod(
    name="free_merging",
    title="FREE-Merging",
    summary=(
        "FR-Merging that also stores the largest entries of each expert, rescaled. A router "
        "adds them for the examples it assigns to that expert."
    ),
    formula=(
        "merged matrix: W = W₀ + scaling · Σₜ λₜ Gₜ,  Gₜ the high frequencies of wₜ ΔWₜ\n"
        "for x: W + μₜ M(wₜ ΔWₜ),  t = argmax(A h(x) + b),  M: the share d of each row\n"
        "rescaling: μₜ = −log₁₀ d · mean|M(wₜ ΔWₜ)| / mean|Gₜ|"
    ),
    citation=FR_MERGING.citation,
    parameters=FreeParameters,
    merge=fr_merging,
    working_memory=FR_MERGING.working_memory,
    least=2,
    modules=Differences(
        of=sparse_experts,
        cut=lambda parameters: Cut(in_rows=parameters.density),
        kind=ModuleKind.CHOICE,
    ),
)
