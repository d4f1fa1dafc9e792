"""TALL masks: which entries of the summed task vectors each expert relies on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

from ace_gui.methods.consensus import mask_threshold_parameter, relies
from ace_gui.methods.method import Context, Deltas, Kind, Merged, MergeMethod, Weights
from ace_gui.methods.shared.census import combination, finished, task_vector
from ace_gui.methods.shared.costs import per_entry
from ace_gui.methods.shared.declaring import parameter
from ace_gui.methods.shared.expert_modules import Mask, Masks
from ace_gui.methods.shared.weighted_experts import WeightedExperts


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


def tall_masks(
    deltas: Deltas, weights: Weights, parameters: TallParameters, **_: Unpack[Context]
) -> Merged:
    """α Σ w_t ΔW_t, entry by entry, any shape, float32. Reads every expert once.

    Raises MethodError if a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    return finished(combination(experts, weights, range(len(experts))), parameters.scaling)


def masks(
    deltas: Deltas,
    weights: Weights,
    parameters: TallParameters,
    entries: int,  # noqa: ARG001 — one signature for every mask
) -> Iterator[Mask]:
    """m_t = 1 where expert t relies on the sum. Reads every expert twice.

    Raises MethodError if a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    total = combination(experts, weights, range(len(experts)))
    for t, weight in enumerate(weights):
        own = task_vector(experts, t)
        yield Mask(chosen=relies(own, weight, total, parameters.mask_threshold))


def scale(parameters: TallParameters, own: float, shared: float) -> float:  # noqa: ARG001
    """1 / α, which gives the sum of the task vectors back."""
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
    citation=(
        "K. Wang, N. Dimitriadis, G. Ortiz-Jiménez, F. Fleuret, P. Frossard, Localizing Task "
        "Information for Improved Model Merging and Compression, ICML 2024, arXiv:2405.07813"
    ),
    parameters=TallParameters,
    merge=tall_masks,
    kind=Kind.ENTRY,
    working_memory=per_entry(1.5),
    modules=Masks(of=masks, scale=scale),
)
