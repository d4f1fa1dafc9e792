"""Consensus task arithmetic: the sum of the task vectors, where enough experts rely on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.methods.method import Context, Deltas, Kind, Merged, MergeMethod, Weights
from ace_gui.methods.shared.census import combination, finished, task_vector
from ace_gui.methods.shared.costs import per_entry
from ace_gui.methods.shared.declaring import parameter, scaling_parameter
from ace_gui.methods.shared.weighted_experts import WeightedExperts


def mask_threshold_parameter() -> float:
    """The parameter λ of the masks."""
    threshold: float = parameter(
        0.4,
        label="Mask threshold",
        help=(
            "An expert relies on an entry if its change exceeds this factor times the sum "
            "of the other experts' changes."
        ),
        differs=(
            "The paper validates it for each expert, between 0.2 and 0.6. Without data, all "
            "experts use the middle of that range."
        ),
        low=0.0,
        high=100.0,
        presets=(("STAR's comparison", 0.4), ("FusionBench", 0.6)),
    )
    return threshold


@dataclass(frozen=True, kw_only=True)
class ConsensusParameters:
    """Parameters of Consensus TA. ``mask_threshold``: λ of the masks, ``agreeing``: k experts."""

    agreeing: int = parameter(
        2,
        label="Agreeing experts",
        help=(
            "Number of experts that must rely on an entry for it to be kept. 0 keeps every "
            "entry. A value above the number of experts keeps none."
        ),
        low=0,
        high=1000,
    )
    mask_threshold: float = mask_threshold_parameter()
    scaling: float = scaling_parameter(
        0.3,
        letter="α",
        help="Factor on the sum of the task vectors.",
    )


def consensus(
    deltas: Deltas, weights: Weights, parameters: ConsensusParameters, **_: Unpack[Context]
) -> Merged:
    """α · mask ⊙ Σ w_t ΔW_t, entrywise, any shape, float32. Reads every expert twice.

    Raises MethodError if a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    total = combination(experts, weights, range(len(experts)))
    relying = torch.zeros_like(total, dtype=torch.int16)
    for t, weight in enumerate(weights):
        relying += relies(task_vector(experts, t), weight, total, parameters.mask_threshold)
    return finished(total.masked_fill_(relying < parameters.agreeing, 0), parameters.scaling)


def relies(delta: Tensor, weight: float, total: Tensor, threshold: float) -> Tensor:
    """The TALL mask |w ΔW| > λ |τ − w ΔW|, bool. The inequality is strict, so all-zero entries are
    false.
    """
    own = delta.to(torch.float64, copy=True).mul_(weight)
    others = (total - own).abs_().mul_(threshold)
    return own.abs_() > others


CONSENSUS_TA = MergeMethod(
    name="consensus_ta",
    title="Consensus TA",
    summary=(
        "Adds the experts' changes, and keeps only those entries of the sum on which at "
        "least two experts rely."
    ),
    formula=(
        "merged matrix: W = W₀ + α · 1{Σₜ mₜ ≥ k} ⊙ τ,  τ = Σₜ wₜ ΔWₜ,  entry by entry\n"
        "mask: mₜ = 1{|wₜ ΔWₜ| > λ |τ − wₜ ΔWₜ|}"
    ),
    citation=(
        "K. Wang, N. Dimitriadis, G. Ortiz-Jiménez, F. Fleuret, P. Frossard, Localizing Task "
        "Information for Improved Model Merging and Compression, ICML 2024, arXiv:2405.07813"
    ),
    parameters=ConsensusParameters,
    merge=consensus,
    kind=Kind.ENTRY,
    working_memory=per_entry(4.2),
)
