"""TALL masks: which entries of the summed task vectors each expert relies on.

Consensus task arithmetic keeps the entries of the sum that enough experts rely on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Mask, Masks
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry, scaling_parameter
from ace_gui.methods.shared.sparse import scaled_sum

CITATION: Final = (
    "K. Wang, N. Dimitriadis, G. Ortiz-Jiménez, F. Fleuret, P. Frossard, Localizing Task "
    "Information for Improved Model Merging and Compression, ICML 2024, arXiv:2405.07813"
)


def mask_threshold_parameter() -> Any:
    """The parameter λ of the masks."""
    return parameter(
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
        0.3, symbol="α", help="Factor on the sum of the task vectors."
    )


@on_experts
def consensus(experts: Experts, parameters: ConsensusParameters, _: Context) -> Merged:
    """α · mask ⊙ Σ w_t ΔW_t, entrywise, any shape, float32. Reads every expert twice.

    Raises MethodError if a task vector is not finite.
    """
    total = experts.sum()
    relying = torch.zeros_like(total, dtype=torch.int16)
    for t in range(len(experts)):
        relying += relies(experts.weighted(t), total, parameters.mask_threshold)
    return Merged.of(total.masked_fill_(relying < parameters.agreeing, 0), parameters.scaling)


def relies(vector: Tensor, total: Tensor, threshold: float) -> Tensor:
    """The TALL mask |w ΔW| > λ |τ − w ΔW|, bool; ``vector``: w ΔW, which is overwritten.

    The inequality is strict, so all-zero entries are false.
    """
    others_scaled = (total - vector).abs_().mul_(threshold)
    return vector.abs_() > others_scaled


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
    citation=CITATION,
    parameters=ConsensusParameters,
    merge=consensus,
    kind=Kind.ENTRY,
    working_memory=per_entry(4.2),
)


@dataclass(frozen=True, kw_only=True)
class TallParameters:
    """Parameters of TALL masks. ``mask_threshold``: λ of the masks. ``scaling``: α > 0."""

    mask_threshold: float = mask_threshold_parameter()
    scaling: float = parameter(
        0.3,
        label="Scaling α",
        help=(
            "Factor on the sum of the task vectors in the merged model, which by itself is "
            "task arithmetic. Except for rounding, the experts' models do not depend on it. "
            "They are most exact with 1 and a float32 output."
        ),
        low=0.0,
        low_open=True,
        high=10.0,
        presets=(("merged model", 0.3), ("experts' models", 1.0)),
    )


def masks(
    experts: Experts,
    parameters: TallParameters,
    entries: int,  # noqa: ARG001 — one signature for every mask
) -> Iterator[Mask]:
    """m_t = 1 where expert t relies on the sum. Reads every expert twice.

    Raises MethodError if a task vector is not finite.
    """
    total = experts.sum()
    for t in range(len(experts)):
        yield Mask(chosen=relies(experts.weighted(t), total, parameters.mask_threshold))


def scale(parameters: TallParameters, expert_size: float, shared: float) -> float:  # noqa: ARG001
    """1 / α, which restores the sum of the task vectors."""
    return 1 / parameters.scaling


TALL_MASKS = MergeMethod(
    name="tall_masks",
    title="TALL masks",
    summary=(
        "Adds the experts' changes, and stores a mask of the entries on which each expert "
        "relies. The expert's model can be rebuilt from it."
    ),
    formula=(
        "merged matrix: W = W₀ + α τ,  τ = Σₜ wₜ ΔWₜ\n"
        "expert t: W₀ + mₜ ⊙ τ,  mₜ = 1{|wₜ ΔWₜ| > λ |τ − wₜ ΔWₜ|},  entry by entry"
    ),
    citation=CITATION,
    parameters=TallParameters,
    merge=scaled_sum,
    kind=Kind.ENTRY,
    working_memory=per_entry(1.5),
    modules=Masks(masks_of=masks, scale=scale),
)
