"""EMR-Merging: elect a unified task vector, and store a mask and a scale for each expert."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Mask, Masks
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry


@dataclass(frozen=True, kw_only=True)
class EmrParameters:
    """Parameters of EMR-Merging. ``rescaling``: what each expert's scale matches."""

    rescaling: str = parameter(
        "tensors",
        label="Rescaling",
        help=(
            "How each expert's scale is computed. tensors: matches the mean magnitude of "
            "its change, with equal weight per tensor, as in the published code. entries: "
            "the same with equal weight per entry, as in the paper. least squares: comes "
            "nearest to the expert's weights, which may not be best for its task. The "
            "merged weights do not depend on this choice."
        ),
        choices=("tensors", "entries", "least squares"),
    )


@on_experts
def emr(experts: Experts, _: EmrParameters, __: Context) -> Merged:
    """The unified task vector: the elected sign, the largest agreeing magnitude; float32.

    Entry by entry, any shape. Where Σ w_t ΔW_t is 0 the sign is negative. Reads every expert twice.
    Raises MethodError if a task vector is not finite.
    """
    return Merged.of(unified(experts))


def unified(experts: Experts) -> Tensor:
    """γ ⊙ max_t |w_t ΔW_t| over the experts with the sign γ of Σ w_t ΔW_t; float64."""
    sign = experts.sum().gt_(0).mul_(2).sub_(1)
    largest = torch.zeros_like(sign)
    for t in range(len(experts)):
        weighted = experts.weighted(t).mul_(sign)
        torch.maximum(largest, weighted, out=largest)
        del weighted
    return largest.mul_(sign)


def masks(experts: Experts, parameters: EmrParameters, entries: int) -> Iterator[Mask]:
    """M_t = 1 where w_t ΔW_t has the sign of the unified task vector.

    Reads every expert three times. Raises MethodError if a task vector is not finite.
    """
    vector = unified(experts)
    if parameters.rescaling == "tensors":
        count = max(1, entries)
    else:
        count = 1
    for t in range(len(experts)):
        weighted = experts.weighted(t)
        chosen = weighted * vector > 0
        shared = torch.where(chosen, vector, 0)
        if parameters.rescaling == "least squares":
            sums = float((weighted * shared).sum()), float(shared.square().sum())
        else:
            sums = float(weighted.abs_().sum()) / count, float(shared.abs_().sum()) / count
        yield Mask(chosen=chosen, expert_sum=sums[0], merged_sum=sums[1])


def scale(parameters: EmrParameters, expert_size: float, shared: float) -> float:  # noqa: ARG001
    """λ_t, the ratio of the two sums; 1 for an expert whose mask is empty."""
    if shared > 0:
        return expert_size / shared
    return 1.0


EMR = MergeMethod(
    name="emr",
    title="EMR-Merging",
    summary=(
        "Merges the experts into one task vector with elected signs and the largest "
        "magnitudes. It stores a mask and a scale for each expert, from which the expert's "
        "model can be rebuilt."
    ),
    formula=(
        "merged matrix: W = W₀ + τ,  τ = γ ⊙ max{|wₜ ΔWₜ| : sgn(wₜ ΔWₜ) = γ},  γ = sgn(Σₜ wₜ ΔWₜ)\n"
        "expert t: W₀ + λₜ Mₜ ⊙ τ,  Mₜ = 1{wₜ ΔWₜ ⊙ τ > 0},  λₜ = Σ|wₜ ΔWₜ| / Σ|Mₜ ⊙ τ|"
    ),
    citation=(
        "C. Huang, P. Ye, T. Chen, T. He, X. Yue, W. Ouyang, EMR-Merging: Tuning-Free "
        "High-Performance Model Merging, NeurIPS 2024, arXiv:2405.17461"
    ),
    parameters=EmrParameters,
    merge=emr,
    kind=Kind.ENTRY,
    working_memory=per_entry(3.6),
    modules=Masks(masks_of=masks, scale=scale),
)
