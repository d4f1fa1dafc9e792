"""ACE-Merging: a closed-form merge with adaptive covariance estimation.

Bo Xu, Haotian Wu, Hehai Lin, Weiquan Huang, Beier Zhu, Yao Shu, Chengwei Qin, arXiv:2603.02945v2;
equation numbers are theirs. Where the paper leaves a choice (the variance in Eq. 7, guards of
1e-12 on denominators) this follows the authors' published code. O outputs, I inputs, T experts.

Departures from the published procedure, each reported in the notes of the result:

- An expert with numerically no change in a tensor is left out of it. Published, its log energy
  would drive γ, and dividing by its trace would let the ridge drown all the others.
- With one expert left the result is its task vector; published, centring and the prior would
  change even that. With none left the result is zero.
- No refinement where floor(k_frac · min(O, I)) is 0; published, the mean of no singular values.
- No refinement along directions in which the fused matrix is numerically zero: Eq. 18 does not
  define them, and a decomposition returns arbitrary ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.heterogeneity import energy
from ace_gui.linalg.polar import top_polar
from ace_gui.linalg.precision import full_float32
from ace_gui.methods import ace_notes
from ace_gui.methods.ace_probes import in_float32
from ace_gui.methods.ace_scan import Scan, condition, prior_scale, scan, shares_of
from ace_gui.methods.ace_terms import Preliminary, Share, collect, preliminary, residual
from ace_gui.methods.base import (
    Diagnostics,
    Kind,
    Merged,
    MergeMethod,
    Place,
    parameter,
    scaling_parameter,
)
from ace_gui.methods.experts import WeightedExperts
from ace_gui.methods.survey import Findings


@dataclass(frozen=True, kw_only=True)
class AceParameters:
    """Parameters of ACE-Merging.

    ``epsilon``: ridge ε added to every expert's Gram matrix; absolute, so that task vectors s times
    as large need s² times as much. ``tau``: threshold τ on γ. ``k_frac``: share of singular
    directions that the refinement raises. ``scaling``: factor on the merged task vector.
    """

    epsilon: float = parameter(
        1e-5,
        label="Ridge ε",
        help="Stabilises the solve; the sensitive parameter. The paper sets it by model family.",
        low=0.0,
        high=1.0,
        low_open=True,
        logarithmic=True,
        presets=(
            ("GPT-2", 4e-2),
            ("RoBERTa-base", 2e-4),
            ("other models", 1e-5),
            ("published script", 1e-2),
        ),
    )
    tau: float = parameter(
        0.3,
        label="Threshold τ",
        help="Tensors with γ above it count as heterogeneous: normalised and refined.",
        low=0.0,
        high=100.0,
    )
    k_frac: float = parameter(
        0.3,
        label="Refined fraction",
        help="Share of singular directions raised in heterogeneous tensors; 0 turns it off.",
        low=0.0,
        high=1.0,
    )
    scaling: float = scaling_parameter(
        help="Factor on the merged task vector before it is added to the base.",
    )


def ace(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: AceParameters,
    *,
    keep_preliminary: bool = False,
    place: Place | None = None,  # noqa: ARG001 — nothing is random here
    findings: Findings | None = None,  # noqa: ARG001 — nor of the whole model
) -> Merged:
    """Merge task vectors, each outputs × inputs, by ACE-Merging (Algorithm 1).

    Expert t takes part as w_t ΔW_t; the reported energies and γ are those of the weighted task
    vectors. Reads every expert twice at most (once more where sums in float32 turn out too coarse),
    holds one at a time, on the device they are on. Computes in float64, but for sums over experts
    where float32 is enough (``ace_probes``).
    ``delta`` and ``preliminary`` are float32 and include ``scaling``; without refinement they are
    equal. Raises MethodError for tensors that are no matrices, differ in shape or are not finite.
    """
    experts = WeightedExperts(deltas, weights)
    first = scan(experts, parameters.epsilon)
    if first.found.gamma is None:
        return _at_most_one(experts, first, parameters, keep_preliminary)
    with full_float32():
        return _two_or_more(experts, first, first.found.gamma, parameters, keep_preliminary)


def _at_most_one(
    experts: WeightedExperts, first: Scan, parameters: AceParameters, keep_preliminary: bool
) -> Merged:
    kept = first.found.kept
    alone_OI = experts.matrix(kept[0]) if kept else experts.matrix(0).zero_()
    diagnostics = Diagnostics(
        energies=first.energies,
        left_out=first.found.left_out,
        notes=tuple(ace_notes.left_out(first.found)),
    )
    return _merged(alone_OI, None, parameters, keep_preliminary, diagnostics)


def _two_or_more(
    experts: WeightedExperts,
    first: Scan,
    gamma: float,
    parameters: AceParameters,
    keep_preliminary: bool,
) -> Merged:
    heterogeneous = gamma > parameters.tau
    k = math.floor(parameters.k_frac * min(first.shape) + 1e-9) if heterogeneous else 0
    shares = shares_of(first, parameters.epsilon, heterogeneous)
    pre, residual_OI, total_OI = _solved(experts, first, shares, heterogeneous, k)
    ridge_mass = math.fsum(share.ridge for share in shares)
    largest_condition = condition(first, shares)

    notes = ace_notes.left_out(first.found)
    warnings = ace_notes.conditioning(largest_condition, pre.cut)
    if heterogeneous:
        warnings += ace_notes.regime(first.found, parameters.tau, ridge_mass)
    if heterogeneous and not k:
        notes.append(ace_notes.no_refinement(parameters.k_frac, first.shape))
    refinement_OI = cosine = ratio = None
    if residual_OI is not None and total_OI is not None:
        fused_OI = residual_OI.add_(pre.value_OI)
        polar = top_polar(fused_OI, k, noise=torch.finfo(torch.float64).eps * largest_condition)
        refinement_OI = polar.factor_OI.mul_(polar.mean)  # Eq. 18
        cosine = _cosine(refinement_OI, total_OI)
        ratio = math.sqrt(energy(refinement_OI) / (energy(pre.value_OI) or math.inf))
        notes += ace_notes.arbitrary_directions(k, polar)
        warnings += ace_notes.refinement(polar, cosine)
    diagnostics = Diagnostics(
        energies=first.energies,
        left_out=first.found.left_out,
        gamma=gamma,
        heterogeneous=heterogeneous,
        ridge_mass=ridge_mass,
        condition=largest_condition,
        refinement_cosine=cosine,
        refinement_ratio=ratio,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )
    return _merged(pre.value_OI, refinement_OI, parameters, keep_preliminary, diagnostics)


def _solved(
    experts: WeightedExperts, first: Scan, shares: list[Share], heterogeneous: bool, k: int
) -> tuple[Preliminary, Tensor | None, Tensor | None]:
    """W_pre; and where k directions are to be refined, Δ_res and Σ_t ΔW_t."""
    if not heterogeneous and first.probes is not None:
        pre = in_float32(experts.matrix, shares, first.probes)
        if pre is not None:
            return pre, None, None
    sums = collect(experts.matrix, shares, with_residual=k > 0)
    residual_OI = None if sums.rest is None else residual(sums, sums.rest)
    pre = preliminary(sums, prior_scale(first, heterogeneous))
    return pre, residual_OI, None if sums.rest is None else sums.rest.total_OI


def _cosine(one: Tensor, other: Tensor) -> float:
    product = float(torch.dot(one.reshape(-1), other.reshape(-1)))
    norms = math.sqrt(energy(one) * energy(other))
    return product / norms if norms else 0.0


def _merged(
    preliminary_OI: Tensor,
    refinement_OI: Tensor | None,
    parameters: AceParameters,
    keep_preliminary: bool,
    diagnostics: Diagnostics,
) -> Merged:
    """Eq. 19, scaled and rounded to float32."""
    kept = _rounded(preliminary_OI, parameters.scaling) if keep_preliminary else None
    if refinement_OI is not None:
        preliminary_OI.add_(refinement_OI)
    delta = _rounded(preliminary_OI, parameters.scaling)
    return Merged(delta=delta, diagnostics=diagnostics, preliminary=kept)


def _rounded(value_OI: Tensor, scaling: float) -> Tensor:
    rounded_OI = value_OI.new_empty(value_OI.shape, dtype=torch.float32)
    torch.mul(value_OI, scaling, out=rounded_OI)
    if not bool(torch.isfinite(rounded_OI).all()):
        raise MethodError("The merged matrix leaves the range of float32; raise epsilon.")
    return rounded_OI


def family_epsilon(family: str | None, hidden_size: int | None) -> tuple[float, str]:
    """The paper's ε for a model family, and a sentence that says where it comes from.

    ``family``: a config's ``model_type``. ``hidden_size`` 768 tells RoBERTa-base from large.
    """
    if family == "gpt2":
        return 4e-2, "The paper's value for GPT-2."
    if family == "roberta" and hidden_size == 768:
        return 2e-4, "The paper's value for RoBERTa-base."
    return 1e-5, "The paper's value for models other than GPT-2 and RoBERTa-base."


ACE = MergeMethod(
    name="ace",
    title="ACE-Merging",
    summary=(
        "Estimates from the experts' weight changes which inputs each expert relies on, and solves "
        "for the one matrix that serves all of them; needs no data."
    ),
    formula=(
        "W = W₀ + scaling · (W_pre + ΔW_refine)\n"
        "W_pre = (Σₜ W̃ₜ Σ̂ₜ,reg) (Σₜ Σ̂ₜ,reg + 1cᵀ)⁻¹\n"
        "W̃ₜ = ΔWₜ − 1μₜᵀ,  Σ̂ₜ = W̃ₜᵀW̃ₜ,  Σ̂ₜ,reg = Σ̂ₜ + εI\n"
        "γ = Var(ln ‖ΔWₜ‖²) / mean(ln ‖ΔWₜ‖²)²\n"
        "if γ > τ:  Σ̂ₜ,reg = (Σ̂ₜ + εI) / Tr Σ̂ₜ,  ΔW_refine = σ_iso U_k V_kᵀ"
    ),
    citation=(
        "B. Xu, H. Wu, H. Lin, W. Huang, B. Zhu, Y. Shu, C. Qin, ACE-Merging: Data-Free Model "
        "Merging with Adaptive Covariance Estimation, CVPR 2026, arXiv:2603.02945"
    ),
    parameters=AceParameters,
    merge=ace,
    kind=Kind.MATRIX,
    heterogeneity=True,
)
