"""ACE-Merging: a closed-form merge with adaptive covariance estimation.

Bo Xu, Haotian Wu, Hehai Lin, Weiquan Huang, Beier Zhu, Yao Shu, Chengwei Qin, arXiv:2603.02945v2;
equation numbers are theirs. Where the paper leaves a choice (the variance in Eq. 7, guards of
1e-12 on denominators) this follows the authors' published code. B layers of one shape, O outputs,
I inputs, T experts.

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
from dataclasses import dataclass, replace
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.heterogeneity import energy
from ace_gui.linalg.polar import TopPolar, top_polars
from ace_gui.linalg.precision import full_float32
from ace_gui.methods.ace import notes as ace_notes
from ace_gui.methods.ace.by_inputs import Share, ridge_masses, terms
from ace_gui.methods.ace.by_rows import few_experts, stacked_terms
from ace_gui.methods.ace.first_pass import Scan, condition, prior_scale, scan, shares_of
from ace_gui.methods.ace.float32_check import Probes, in_float32
from ace_gui.methods.method import (
    Context,
    Diagnostics,
    Kind,
    Layer,
    Merged,
    MergeMethod,
    parameter,
    scaling_parameter,
)
from ace_gui.methods.shared.weighted_experts import WeightedExperts, stacked


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
    **context: Unpack[Context],
) -> Merged:
    """Merge task vectors, each outputs × inputs, by ACE-Merging (Algorithm 1).

    Expert t takes part as w_t ΔW_t; the reported energies and γ are those of the weighted task
    vectors. Reads every expert twice at most (once more where sums in float32 turn out too coarse),
    on the device they are on; holds one at a time, or all where their rows are fewer than the
    inputs (``ace_stacked``). Computes in float64, but for sums over experts where float32 is enough
    (``ace_probes``).
    ``delta`` and ``preliminary`` are float32 and include ``scaling``; without refinement they are
    equal. Raises MethodError for tensors that are no matrices, differ in shape or are not finite.
    """
    keep_preliminary = context.get("keep_preliminary", False)
    return _merged_together([WeightedExperts(deltas, weights)], parameters, keep_preliminary)[0]


def ace_batch(layers: Sequence[Layer], parameters: AceParameters) -> list[Merged]:
    """Merge several matrices of one shape, each of as many experts, as ``ace`` would merge each.

    They take together what each would take of memory alone. The results are those of ``ace`` to the
    rounding of its sums. Raises MethodError where ``ace`` would for any of them.
    """
    experts = [WeightedExperts(deltas, weights) for deltas, weights in layers]
    return _merged_together(experts, parameters, keep_preliminary=False)


def _merged_together(
    layers: Sequence[WeightedExperts], parameters: AceParameters, keep_preliminary: bool
) -> list[Merged]:
    scans, probes = scan(layers, parameters.epsilon)
    merged: dict[int, Merged] = {}
    alike: dict[tuple[tuple[int, ...], bool, bool], list[int]] = {}
    for b, own in enumerate(scans):
        if own.found.gamma is None:
            merged[b] = _at_most_one(layers[b], own, parameters, keep_preliminary)
        else:
            heterogeneous = own.found.gamma > parameters.tau
            single = own.single and not heterogeneous
            alike.setdefault((own.found.kept, heterogeneous, single), []).append(b)
    for (_, heterogeneous, single), places in alike.items():
        group = _Group(
            layers=[layers[b] for b in places],
            scans=[scans[b] for b in places],
            heterogeneous=heterogeneous,
            parameters=parameters,
        )
        with full_float32():
            solutions = _solved(group, probes.of(places) if single and probes else None)
        for b, solution in zip(places, solutions, strict=True):
            merged[b] = _finished(scans[b], group, solution, keep_preliminary)
    return [merged[b] for b in range(len(layers))]


def _at_most_one(
    experts: WeightedExperts, own: Scan, parameters: AceParameters, keep_preliminary: bool
) -> Merged:
    kept = own.found.kept
    alone_OI = experts.matrix(kept[0]) if kept else experts.matrix(0).zero_()
    diagnostics = Diagnostics(
        energies=own.energies,
        left_out=own.found.left_out,
        notes=tuple(ace_notes.left_out(own.found)),
    )
    return _merged(alone_OI, None, parameters, keep_preliminary, diagnostics)


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Layers that can be summed together: the same experts take part, in the same regime."""

    layers: Sequence[WeightedExperts]
    scans: Sequence[Scan]
    heterogeneous: bool
    parameters: AceParameters

    @property
    def k(self) -> int:
        """How many directions are to be refined."""
        share = self.parameters.k_frac if self.heterogeneous else 0.0
        return math.floor(share * min(self.scans[0].shape) + 1e-9)

    @property
    def shares(self) -> list[Share]:
        return shares_of(self.scans, self.parameters.epsilon, self.heterogeneous)

    def condition(self, own: Scan) -> float:
        return condition(own, self.parameters.epsilon, self.heterogeneous)

    def read(self, t: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return stacked(self.layers, t, dtype)

    def of(self, places: Sequence[int]) -> _Group:
        """Some of the layers."""
        layers, scans = [self.layers[b] for b in places], [self.scans[b] for b in places]
        return replace(self, layers=layers, scans=scans)


@dataclass(frozen=True, kw_only=True)
class _Solution:
    """W_pre of one layer, and how many directions of S it lacks.

    Where k directions are to be refined: the polar factor of the fused matrix, and Σ_t ΔW_t.
    """

    value_OI: Tensor
    cut: int
    polar: TopPolar | None = None
    total_OI: Tensor | None = None


def _solved(group: _Group, probes: Probes | None) -> list[_Solution]:
    """By sums in float32 where there are probes to check them; by sums in float64 otherwise."""
    if probes is None:
        return _in_float64(group)
    pre, good = in_float32(group.read, group.shares, probes)
    found = {
        b: _Solution(value_OI=pre.value_BOI[b], cut=pre.cuts[b])
        for b, fine in enumerate(good)
        if fine
    }
    del pre
    again = [b for b, fine in enumerate(good) if not fine]
    if again:
        found |= zip(again, _in_float64(group.of(again)), strict=True)
    return [found[b] for b in range(len(good))]


def _in_float64(group: _Group) -> list[_Solution]:
    shares, scans = group.shares, group.scans
    find = stacked_terms if few_experts(scans[0].shape, len(shares)) else terms
    scales = [prior_scale(own, group.heterogeneous) for own in scans]
    found = find(group.read, shares, scales, with_residual=group.k > 0)
    pre = found.pre
    if found.residual_BOI is None or found.total_BOI is None:
        return [
            _Solution(value_OI=value_OI, cut=cut)
            for value_OI, cut in zip(pre.value_BOI, pre.cuts, strict=True)
        ]
    fused_BOI = found.residual_BOI.add_(pre.value_BOI)
    unit = torch.finfo(torch.float64).eps
    polars = top_polars(fused_BOI, group.k, [unit * group.condition(own) for own in scans])
    return [
        _Solution(value_OI=value_OI, cut=cut, polar=polar, total_OI=total_OI)
        for value_OI, cut, polar, total_OI in zip(
            pre.value_BOI, pre.cuts, polars, found.total_BOI, strict=True
        )
    ]


def _finished(own: Scan, group: _Group, solution: _Solution, keep_preliminary: bool) -> Merged:
    """What is left to do is done layer by layer: Eqs. 18 and 19, and what there is to say."""
    parameters, k = group.parameters, group.k
    ridge_mass = ridge_masses(shares_of([own], parameters.epsilon, group.heterogeneous))[0]
    largest_condition = group.condition(own)
    notes = ace_notes.left_out(own.found)
    warnings = ace_notes.conditioning(largest_condition, solution.cut)
    if group.heterogeneous:
        warnings += ace_notes.regime(own.found, parameters.tau, ridge_mass)
    if group.heterogeneous and not k:
        notes.append(ace_notes.no_refinement(parameters.k_frac, own.shape))
    refinement_OI = cosine = ratio = None
    polar = solution.polar
    if polar is not None and solution.total_OI is not None:
        refinement_OI = polar.factor_OI.mul_(polar.mean)  # Eq. 18
        cosine = _cosine(refinement_OI, solution.total_OI)
        ratio = math.sqrt(energy(refinement_OI) / (energy(solution.value_OI) or math.inf))
        notes += ace_notes.arbitrary_directions(k, polar)
        warnings += ace_notes.refinement(polar, cosine)
    diagnostics = Diagnostics(
        energies=own.energies,
        left_out=own.found.left_out,
        gamma=own.found.gamma,
        heterogeneous=group.heterogeneous,
        ridge_mass=ridge_mass,
        condition=largest_condition,
        refinement_cosine=cosine,
        refinement_ratio=ratio,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )
    return _merged(solution.value_OI, refinement_OI, parameters, keep_preliminary, diagnostics)


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
    merge_batch=ace_batch,
    kind=Kind.MATRIX,
    heterogeneity=True,
    # Centred over one output nothing is left, and a row's mean over one input is all of it.
    narrowest=2,
)
