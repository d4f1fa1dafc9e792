"""ACE-Merging: a closed-form merge with adaptive covariance estimation (Algorithm 1).

Bo Xu, Haotian Wu, Hehai Lin, Weiquan Huang, Beier Zhu, Yao Shu, Chengwei Qin, arXiv:2603.02945v2;
equation numbers are theirs. Where the paper leaves a choice (the variance in Eq. 7, guards of
1e-12 on denominators), this follows the authors' published code. B layers of one shape, O outputs,
I inputs, T experts.

Departures from the published procedure, each reported in the notes of the result:

- An expert that numerically does not change a tensor is ignored there. As published, its log energy
  would dominate γ, and dividing by its trace would let the ridge outweigh all other experts.
- If one expert remains, the result is its task vector. As published, centring and the prior would
  change even that. If none remains, the result is zero.
- There is no refinement if floor(k_frac · min(O, I)) is 0. As published, it would be the mean of no
  singular values.
- There is no refinement along directions in which the fused matrix is numerically zero. Eq. 18 does
  not define them, and a decomposition returns arbitrary ones.

The automatic variant is not the paper's. It normalises every layer, uses a ridge of α times the
mean eigenvalue of a normalised Gram matrix (1/I), does not refine, and caps the change. Its result
is therefore equivariant to the scale of the experts. The measured variant is not the paper's
either. It uses the covariances of the experts' inputs instead of Σ̂_t.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ace_gui.ace_variants import AUTOMATIC, MEASURED
from ace_gui.errors import MethodError
from ace_gui.linalg.heterogeneity import GUARD
from ace_gui.linalg.passes import energy, is_finite, norms
from ace_gui.linalg.polar import TopPolar, top_polars
from ace_gui.linalg.products import full_float32, widest_block
from ace_gui.methods.ace import closed_form, notes
from ace_gui.methods.ace.energies import measure
from ace_gui.methods.ace.float32_check import (
    ProbedSums,
    exact_enough,
    promising,
    refined_exactly_enough,
)
from ace_gui.methods.ace.parameters import AceParameters
from ace_gui.methods.ace.probes import Probes
from ace_gui.methods.ace.problem import (
    LayerEnergies,
    Precision,
    Problem,
    Refinement,
    Rule,
    Share,
    Solution,
    Terms,
)
from ace_gui.methods.method import MethodInput
from ace_gui.methods.shared.after import cap_, largest_change
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.measured import required_measured
from ace_gui.methods.shared.tolerance import Tolerance


@on_experts
def ace(experts: Experts, parameters: AceParameters, context: Context) -> Merged:
    """Merge task vectors, each outputs × inputs, by ACE-Merging (Algorithm 1).

    Expert t enters as w_t ΔW_t; energies and γ are those of the weighted task vectors. The
    automatic variant needs ``base`` in the context, as its cap depends on the norm of W₀. Reads
    every expert at most twice, and once more if sums in float32 turn out too coarse. Holds one
    expert at a time, or all if they have few rows in all (``closed_form``). Computes in float64, or
    in float32 if that is exact enough for the context's ``tolerance`` (``float32_check``).
    ``delta`` and ``preliminary`` are float32 and include ``scaling``; without refinement they are
    equal. Raises MethodError for tensors that are not matrices, differ in shape or are not finite.
    """
    layer = MethodInput(
        experts.deltas,
        experts.weights,
        context.base,
        context.tolerance,
        outputs=context.outputs,
    )
    if parameters.variant == MEASURED:
        layer = layer._replace(measured=required_measured(context.measured, len(experts)))
    return _merged([layer], parameters, context.keep_preliminary)[0]


def ace_batch(layers: Sequence[MethodInput], parameters: AceParameters) -> list[Merged]:
    """Merge several matrices of one shape and one number of experts, each as ``ace`` would.

    The memory is the sum of what each needs alone. The results differ from those of ``ace`` only by
    the rounding of sums. Raises MethodError if ``ace`` would for any of them.
    """
    return _merged(layers, parameters, keep_preliminary=False)


def _merged(
    layers: Sequence[MethodInput], parameters: AceParameters, keep_preliminary: bool
) -> list[Merged]:
    """Algorithm 1: measure, choose a rule by γ, weigh the experts, solve, refine."""
    experts = [Experts(layer.deltas, layer.weights) for layer in layers]
    tolerances = [layer.tolerance.scaled(parameters.scaling) for layer in layers]
    measured, probes = measure(experts, parameters, tolerances, outputs=layers[0].outputs)
    solutions: dict[int, Solution] = {}
    for rule, indices in _alike(measured, parameters):
        group = [measured[b] for b in indices]
        limits = [tolerances[b] for b in indices]
        problem = weighed([experts[b] for b in indices], group, rule, parameters, limits)
        problem = replace(problem, measured=layers[indices[0]].measured)
        with full_float32():
            solved = _solved(problem, group, parameters, probes, indices)
            solutions |= zip(indices, solved, strict=True)
    merged = []
    for b, figures in enumerate(measured):
        solution = solutions.pop(b, None) or _at_most_one(experts[b], figures)
        merged.append(_finished(figures, solution, parameters, layers[b], keep_preliminary))
    return merged


def _alike(
    measured: Sequence[LayerEnergies], parameters: AceParameters
) -> Iterator[tuple[Rule, list[int]]]:
    """Groups of layers that can be solved together, with the same experts and the same rule.

    Each comes with its rule. Layers with fewer than two experts are left out.
    """
    groups: dict[tuple[tuple[int, ...], Rule], list[int]] = {}
    for b, figures in enumerate(measured):
        if figures.gamma is not None:
            rule = _rule(figures.gamma, parameters)
            groups.setdefault((figures.counted, rule), []).append(b)
    for (_, rule), indices in groups.items():
        yield rule, indices


def _rule(gamma: float, parameters: AceParameters) -> Rule:
    if parameters.variant == AUTOMATIC:
        return Rule.AUTOMATIC
    if gamma > parameters.tau:
        return Rule.HETEROGENEOUS
    return Rule.HOMOGENEOUS


def weighed(
    layers: Sequence[Experts],
    group: Sequence[LayerEnergies],
    rule: Rule,
    parameters: AceParameters,
    tolerances: Sequence[Tolerance],
) -> Problem:
    """The system to solve: weights of experts (Eqs. 8-10) and scale of the prior (Eqs. 12, 13)."""
    return Problem(
        layers=layers,
        shape=(group[0].rows, group[0].shape[1]),
        shares=_shares(group, rule, parameters),
        prior_scales=[_prior_scale(figures, rule) for figures in group],
        with_residual=_directions(group[0], rule, parameters) > 0,
        rule=rule,
        tolerances=tolerances,
        sizes=[math.sqrt(math.fsum(figures.traces)) for figures in group],
    )


def _shares(group: Sequence[LayerEnergies], rule: Rule, parameters: AceParameters) -> list[Share]:
    """Eqs. 8 and 9 in the heterogeneous regime, Eq. 10 in the homogeneous one.

    If all experts count equally whatever their size, the smallest comes first. It is subtracted
    from all experts, so it must be small compared with them.
    """

    def size(t: int) -> float:
        return sum(figures.traces[t] / (math.fsum(figures.traces) + GUARD) for figures in group)

    counted = group[0].counted
    shares = []
    for t in counted if rule is Rule.HOMOGENEOUS else sorted(counted, key=size):
        weights = tuple(_weight(figures.traces[t], rule) for figures in group)
        if rule is Rule.AUTOMATIC:
            ridges = tuple(parameters.alpha / figures.shape[1] for figures in group)
        else:
            ridges = tuple(weight * parameters.epsilon for weight in weights)
        shares.append(Share(expert=t, weights=weights, ridges=ridges))
    return shares


def _weight(trace: float, rule: Rule) -> float:
    """w_t: 1 in the homogeneous regime, else 1/Tr Σ̂_t."""
    if rule is Rule.HOMOGENEOUS:
        return 1.0
    if rule is Rule.HETEROGENEOUS:
        return 1 / (trace + GUARD)
    return 1 / (trace or math.inf)


def _prior_scale(figures: LayerEnergies, rule: Rule) -> float:
    """κ, the factor on the collective structural prior: 1, or 1/τ̄ (Eqs. 12, 13)."""
    if rule is not Rule.HETEROGENEOUS:
        return 1.0
    return 1 / (statistics.fmean(figures.energies[t] for t in figures.counted) + GUARD)


def _directions(figures: LayerEnergies, rule: Rule, parameters: AceParameters) -> int:
    """k, the number of singular directions to refine (Eq. 18)."""
    if rule is Rule.HETEROGENEOUS:
        share = parameters.k_frac
    else:
        share = 0.0
    return math.floor(share * min(figures.shape) + 1e-9)


def _solved(
    problem: Problem,
    group: Sequence[LayerEnergies],
    parameters: AceParameters,
    probes: Probes | None,
    indices: Sequence[int],
) -> list[Solution]:
    """W_pre (Eq. 14), Δ_res (Eq. 17) and ΔW_refine (Eq. 18), in float32 if it is exact enough.

    ``probes``: None if float32 is not exact enough; ``indices``: of the problem's layers in them.
    """
    solved: dict[int, Solution] = {}
    if probes is not None:
        solved = _solved_in_float32(problem, group, parameters, probes, indices)
    in_float64 = [b for b in range(len(group)) if b not in solved]
    if in_float64:
        part = problem.of(in_float64)
        layers = [group[b] for b in in_float64]
        solutions = _refined(part, closed_form.solve(part), layers, parameters)
        solved |= zip(in_float64, solutions, strict=True)
    return [solved[b] for b in range(len(group))]


def _solved_in_float32(
    problem: Problem,
    group: Sequence[LayerEnergies],
    parameters: AceParameters,
    probes: Probes,
    indices: Sequence[int],
) -> dict[int, Solution]:
    """The solutions for which float32 is exact enough, by the layer's position in the problem.

    It is tried where it promises to be, and checked before and after the refinement.
    """
    tried = promising(probes, problem, group, indices)
    if not tried:
        return {}
    part = problem.of(tried)
    terms = closed_form.solve(part, torch.float32, probes.probes_PI)
    sums = ProbedSums.of(probes, part, [indices[b] for b in tried])
    checked = list(zip(sums.precisions(terms, part), terms.cuts, part.tolerances, strict=True))
    passed = [number for number, check in enumerate(checked) if exact_enough(*check)]
    if not passed:
        return {}
    positions = [tried[number] for number in passed]
    precisions = [checked[number][0] for number in passed]
    layers = [group[b] for b in positions]
    solutions = _refined(part.of(passed), terms.of(passed), layers, parameters, precisions)
    exact_solutions = {}
    for b, solution, precision in zip(positions, solutions, precisions, strict=True):
        if refined_exactly_enough(precision, solution.refinement, problem.tolerances[b]):
            exact_solutions[b] = solution
    return exact_solutions


def _refined(
    problem: Problem,
    terms: Terms,
    group: Sequence[LayerEnergies],
    parameters: AceParameters,
    precisions: Sequence[Precision] = (),
) -> list[Solution]:
    """W_pre of each layer, and ΔW_refine if there is a residual (Eqs. 17, 18).

    ``precisions``: the errors of float32; empty for float64.
    """
    k = _directions(group[0], problem.rule, parameters)
    count = min(k, *problem.shape)  # in coordinates of few outputs, the others are zero
    conditions = _conditions(problem, group)
    polars = _polars(terms, count, conditions)
    refinements = [_refinement(k, count, polar) for polar in polars]
    sizes: list[float]  # ‖W_pre‖ of each layer, from where it is known already
    if polars:
        sizes = [polar.figures[1] for polar in polars]
    elif precisions:
        sizes = [precision.size for precision in precisions]
    else:
        sizes = norms(terms.preliminary_BOI).tolist()
    solutions = []
    for b, mass in enumerate(problem.ridge_masses):
        solution = Solution(
            value_OI=terms.preliminary_BOI[b],
            size=sizes[b],
            rule=problem.rule,
            ridge_mass=mass,
            condition=conditions[b],
            cut=terms.cuts[b],
            refinement=refinements[b] if refinements else None,
            precision=precisions[b] if precisions else Precision(size=sizes[b]),
        )
        solutions.append(solution)
    return solutions


def _polars(terms: Terms, k: int, conditions: Sequence[float]) -> Sequence[TopPolar]:
    """The leading polar factors of W_pre + Δ_res (Eq. 17); empty without a residual.

    Their figures are the inner product with Σ_t ΔW_t, and the norms of W_pre and of that sum.
    Overwrites Δ_res.
    """
    if terms.residual_BOI is None or terms.total_BOI is None:
        return []
    value_BOI = terms.preliminary_BOI
    total_BOI = terms.total_BOI
    fused_BOI = terms.residual_BOI.add_(value_BOI).to(torch.float64)
    relative_errors = [torch.finfo(torch.float64).eps * condition for condition in conditions]
    norms_B2 = torch.stack((norms(value_BOI), norms(total_BOI)), dim=1)

    def figures(factor_BOI: Tensor, indices: Sequence[int]) -> Tensor:
        rows = []
        for factor_OI, b in zip(factor_BOI, indices, strict=True):
            rows.append(torch.cat((_inner(factor_OI, total_BOI[b]), norms_B2[b])))
        return torch.stack(rows)

    return top_polars(fused_BOI, k, relative_errors, figures)


def _refinement(k: int, count: int, polar: TopPolar) -> Refinement:
    """ΔW_refine = σ_iso U_k V_kᵀ (Eq. 18), where no more than ``count`` of the k are not zero."""
    mean = polar.mean * count / k  # σ_iso
    inner, preliminary, total = polar.figures
    size = math.sqrt(polar.rank)  # of U_k V_kᵀ
    norms_product = size * total
    return Refinement(
        matrix_OI=polar.factor_OI.mul_(mean),
        k=k,
        rank=polar.rank,
        weakest=polar.weakest,
        sensitivity=mean * polar.sensitivity,
        cosine=inner / norms_product if norms_product else 0.0,
        size=mean * size,
        ratio=mean * size / (preliminary or math.inf),
    )


def _conditions(problem: Problem, group: Sequence[LayerEnergies]) -> list[float]:
    """Upper bounds on the condition numbers of S = Σ_t w_t Σ̂_t + e I, from its trace."""
    conditions = []
    for b, (figures, mass) in enumerate(zip(group, problem.ridge_masses, strict=True)):
        traces = [share.weights[b] * figures.traces[share.expert] for share in problem.shares]
        conditions.append(1.0 + math.fsum(traces) / mass)
    return conditions


def _at_most_one(experts: Experts, figures: LayerEnergies) -> Solution:
    """The task vector of the only expert that changed the layer, or zero."""
    if figures.counted:
        alone_OI = experts.matrix(figures.counted[0])
    else:
        alone_OI = experts.matrix(0).zero_()
    return Solution(value_OI=alone_OI)


def _finished(
    figures: LayerEnergies,
    solution: Solution,
    parameters: AceParameters,
    layer: MethodInput,
    keep_preliminary: bool,
) -> Merged:
    """W_pre + ΔW_refine (Eq. 19) or the capped W_pre, times the scaling."""
    value_OI = solution.value_OI
    refinement = solution.refinement
    size = solution.size
    cap_factor = None
    if solution.rule is Rule.AUTOMATIC:
        traces = [figures.traces[t] for t in figures.counted]
        if layer.base is None:
            norm = None
        else:
            norm = math.sqrt(energy(layer.base))
        cap_factor = cap_(value_OI, largest_change(traces, norm, parameters.delta), size)
    if keep_preliminary:
        preliminary = _rounded(value_OI, parameters.scaling, size)
    else:
        preliminary = None
    if refinement is not None and refinement.refines(parameters.refine):
        value_OI.add_(refinement.matrix_OI)
        size += refinement.size
    return Merged(
        delta=_rounded(value_OI, parameters.scaling, size),
        diagnostics=notes.diagnostics(figures, solution, parameters, cap_factor, layer.tolerance),
        preliminary=preliminary,
    )


def _inner(one_OI: Tensor, other_OI: Tensor) -> Tensor:
    """The inner product of two matrices, shape (1), float64."""
    return torch.dot(one_OI.reshape(-1).double(), other_OI.reshape(-1).double())[None]


def _rounded(value_OI: Tensor, scaling: float, size: float) -> Tensor:
    """``scaling`` times the value in float32; ``size``: an upper bound of its norm."""
    rounded_OI = value_OI.new_empty(value_OI.shape, dtype=torch.float32)
    torch.mul(value_OI, scaling, out=rounded_OI)
    # Only values this large, or NaN, need a check.
    surely = abs(scaling) * size < torch.finfo(torch.float32).max / 2
    if not surely and not is_finite(rounded_OI):
        raise MethodError("The merged matrix leaves the range of float32; raise epsilon.")
    return rounded_OI


def working_memory(shape: tuple[int, ...], experts: int) -> float:
    """The largest number of float64 numbers alive at once, over all stages.

    The stages are the sums over experts (with those for the refinement), the solution, and the
    polar factor with its fallback.
    """
    outputs, inputs = shape
    entries = outputs * inputs
    small = min(shape)
    rows = experts * outputs
    if closed_form.few_experts((outputs, inputs), experts):
        summing = rows * inputs + rows**2 + outputs * rows + 4 * entries
        solving = 4 * entries + 5 * widest_block(rows) * rows + rows**2 + rows * inputs
    else:
        summing = 2 * inputs**2 + 5 * entries
        solving = inputs**2 + 4 * entries + 5 * widest_block(inputs) * inputs
    refining = max(3 * entries + 4 * small**2, 5 * entries + 2 * small**2)
    return max(summing, solving, refining)


def flops(shape: tuple[int, ...], experts: int, _parameters: AceParameters) -> float:
    """Operations of the sums, the solution and the refinement, which not every matrix needs."""
    outputs, inputs = shape
    small = min(shape)
    entries = outputs * inputs
    rows = experts * outputs
    refining = 4.0 * entries * small + 10.0 * small**3
    if closed_form.few_experts((outputs, inputs), experts):
        return 3.0 * rows**2 * inputs + rows**3 / 3 + 2.0 * rows * entries + refining
    summing = experts * min(3.0 * outputs * inputs**2, inputs * entries + 4.0 * outputs * entries)
    return summing + inputs**3 / 3 + 4.0 * entries * inputs + refining
