"""ACE's closed form: the sums over experts, W_pre (Eq. 14) and Δ_res (Eq. 17).

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2, section 4. B layers of one
shape, T experts, O outputs, I inputs. With S = Σ_t Σ̂_t,reg = S₀ + e I, B = Σ_t W̃_t Σ̂_t,reg and
the prior 1cᵀ, Eq. 14 is W_pre = B (S + 1cᵀ)⁻¹. There are two ways to compute X = B S⁻¹;
``few_experts`` says which one is shorter.

By inputs, the system has I unknowns. Any matrix R may be subtracted from all experts and added to
the result: X = R + Σ_t (W̃_t − R) Σ̂_t,reg S⁻¹. If R is the first expert, one product is saved. The
memory does not grow with T: the sums need 2 I² + 3 O·I numbers per layer without a residual and
2 I² + 5 O·I with one, the current expert included. With few outputs they need I² + O² and one O·I
less. The later steps work in place.

By rows, the system has N = T·O unknowns. Let M be the stacked √w_t W̃_t (N × I), and C the blocks
√w_t (W̃_t W̃_tᵀ + ε I) side by side (O × N). Then S = MᵀM + e I and B = C M, and as
M (MᵀM + e I)⁻¹ = (M Mᵀ + e I)⁻¹ M,

    X = C (M Mᵀ + e I)⁻¹ M.

M Mᵀ already holds all the products that C is made of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.linalg.passes import centre_, energy, norms
from ace_gui.linalg.products import (
    add_gram_,
    add_product_,
    factor_per_matrix,
    gram,
    mirror_,
    product,
)
from ace_gui.linalg.solve import right_divide_
from ace_gui.methods.ace.problem import Problem, Share, Terms
from ace_gui.methods.shared.measured import covariance


def solve(
    problem: Problem, dtype: torch.dtype = torch.float64, probes_PI: Tensor | None = None
) -> Terms:
    """Eqs. 14 and 17 by the shorter way, computed in ``dtype``; reads each expert once.

    ``probes_PI``: random rows that measure the inverse of the system.
    """
    if problem.measured is None and few_experts(problem.shape, len(problem.shares)):
        return solve_by_rows(problem, dtype, probes_PI)
    return solve_by_inputs(problem, dtype, probes_PI)


def few_experts(shape: tuple[int, int], experts: int) -> bool:
    """Whether there are so few experts of shape (O, I) that the way by rows is shorter.

    Up to three quarters of the inputs, it needs no more memory than the other way.
    """
    outputs, inputs = shape
    return 4 * experts * outputs <= 3 * inputs


@dataclass(frozen=True, kw_only=True)
class ResidualSums:
    """Sums that only Eq. 17 needs.

    ``total_BOI``: Σ_t ΔW_t. ``ridge_BOI``: Σ_t ε_t W̃_t. ``mean_B1I``: Σ_t Σ̃_t μ_t, as a row.
    """

    total_BOI: Tensor
    ridge_BOI: Tensor
    mean_B1I: Tensor


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over all experts for Eqs. 14 and 17.

    ``scaled_BII``: S₀ = Σ_t Σ̃_t. ``few_outputs``: whether products are taken on the outputs' side.
    ``reference_BOI``: R, the first expert's W̃, or None for zero. ``numerator_BOI``: Σ_t (W̃_t − R)
    Σ̂_t,reg = B − R S. ``rest``: for the residual, if it is requested.
    """

    scaled_BII: Tensor
    few_outputs: bool
    reference_BOI: Tensor | None
    numerator_BOI: Tensor
    rest: ResidualSums | None


def solve_by_inputs(
    problem: Problem, dtype: torch.dtype = torch.float64, probes_PI: Tensor | None = None
) -> Terms:
    """Solve with I × I sums over the experts, which are in memory one at a time."""
    sums = collect(problem, dtype)
    if sums.rest is None:
        residual_BOI = None
    else:
        residual_BOI = residual(sums, sums.rest, problem)
    probes_BPI = _copies(probes_PI, sums.scaled_BII)
    value_BOI, cuts = preliminary(sums, problem, probes_BPI)
    return Terms(
        preliminary_BOI=value_BOI,
        cuts=cuts,
        residual_BOI=residual_BOI,
        total_BOI=None if sums.rest is None else sums.rest.total_BOI,
        inverse_size_B=None if probes_BPI is None else _size(probes_BPI),
    )


def collect(problem: Problem, dtype: torch.dtype = torch.float64) -> Sums:
    """Sum over the experts, reading each once."""
    shares = problem.shares
    delta_BOI = problem.read(shares[0].expert, dtype)
    sums = _zeros(delta_BOI, problem)
    _add(sums, shares[0], delta_BOI, problem)
    del delta_BOI
    for share in shares[1:]:
        _add(sums, share, problem.read(share.expert, dtype), problem)
    mirror_(sums.scaled_BII)
    return sums


def _zeros(delta_BOI: Tensor, problem: Problem) -> Sums:
    layers, outputs, inputs = delta_BOI.shape
    by_covariance = problem.measured is not None
    few = not by_covariance and _few_outputs(outputs, inputs, len(problem.shares))
    # If experts have little in common, sums in float32 are more exact without the reference.
    coarse = all(tolerance.rounding for tolerance in problem.tolerances)
    referred = not few and not by_covariance and (delta_BOI.dtype == torch.float64 or coarse)
    residual_sums = None
    if problem.with_residual:
        residual_sums = ResidualSums(
            total_BOI=torch.zeros_like(delta_BOI),
            ridge_BOI=torch.zeros_like(delta_BOI),
            mean_B1I=delta_BOI.new_zeros(layers, 1, inputs),
        )
    return Sums(
        scaled_BII=delta_BOI.new_zeros(layers, inputs, inputs),
        few_outputs=few,
        reference_BOI=delta_BOI if referred else None,
        numerator_BOI=torch.zeros_like(delta_BOI),
        rest=residual_sums,
    )


def _few_outputs(outputs: int, inputs: int, experts: int) -> bool:
    """Whether T products on the outputs' side cost less than T − 1 on the inputs' side.

    Half of a Gram matrix and a product cost 3 O²I. The other side costs 2 O·I² for a product, as
    its Gram matrix is needed in any case.
    """
    return 3 * outputs * experts < 2 * inputs * (experts - 1)


def _add(sums: Sums, share: Share, delta_BOI: Tensor, problem: Problem) -> None:
    residual_sums = sums.rest
    if residual_sums is not None:
        residual_sums.total_BOI.add_(delta_BOI)
    mean_B1I = centre_(delta_BOI)  # Eq. 5: delta_BOI is W̃_t from here on
    if residual_sums is not None:
        residual_sums.ridge_BOI.addcmul_(delta_BOI, factor_per_matrix(share.ridges, delta_BOI))
    if problem.measured is not None:
        size = share.weights[0] * energy(delta_BOI)
        proxy_BII = covariance(problem.measured, share.expert)[None].mul_(size)
        if residual_sums is not None:
            residual_sums.mean_B1I.add_(product(mean_B1I, proxy_BII))
    elif residual_sums is not None:
        on_mean_B1O = product(mean_B1I, delta_BOI.mT)
        add_product_(residual_sums.mean_B1I, on_mean_B1O, delta_BOI, share.weights)
    if sums.few_outputs:  # W̃ (W̃ᵀW̃) = (W̃ W̃ᵀ) W̃: multiply on the smaller side
        add_gram_(sums.scaled_BII, delta_BOI, alpha=share.weights)
        small_BOO = gram(delta_BOI.mT, alpha=share.weights)
        _add_ridge_(small_BOO, share.ridges)
        add_product_(sums.numerator_BOI, small_BOO, delta_BOI)
        return
    if problem.measured is None:
        proxy_BII = gram(delta_BOI, alpha=share.weights)  # Eq. 6
    sums.scaled_BII.add_(proxy_BII)
    if delta_BOI is sums.reference_BOI:
        return
    if sums.reference_BOI is not None:
        delta_BOI.sub_(sums.reference_BOI)
    _add_ridge_(proxy_BII, share.ridges)
    add_product_(sums.numerator_BOI, delta_BOI, proxy_BII)


def residual(sums: Sums, residual_sums: ResidualSums, problem: Problem) -> Tensor:
    """Δ_res = Σ_t ΔW_t (Σ̃_t − S/T), with the uncentred ΔW_t on the left (Eqs. 16, 17).

    As ΔW_t = W̃_t + 1μ_tᵀ, the first part is B − Σ_t ε_t W̃_t + 1 (Σ_t Σ̃_t μ_t)ᵀ. As B − R S is
    known, only the product of R − Σ_t ΔW_t / T with S remains. Overwrites ``ridge_BOI``.
    """
    result_BOI = (
        residual_sums.ridge_BOI.neg_().add_(sums.numerator_BOI).add_(residual_sums.mean_B1I)
    )
    left_BOI = residual_sums.total_BOI * (-1.0 / len(problem.shares))
    if sums.reference_BOI is not None:
        left_BOI.add_(sums.reference_BOI)
    add_product_(result_BOI, left_BOI, sums.scaled_BII)
    return result_BOI.addcmul_(left_BOI, factor_per_matrix(problem.ridge_masses, result_BOI))


def preliminary(
    sums: Sums, problem: Problem, probes_BPI: Tensor | None = None
) -> tuple[Tensor, list[int]]:
    """W_pre (Eq. 14) without an explicit inverse; overwrites the sums, and probes z by z S⁻¹.

    Also, for each layer, how many directions of S were left out.
    """
    system_BII = sums.scaled_BII
    value_BOI = sums.numerator_BOI
    q_B1I = system_BII.sum(dim=1, keepdim=True)
    _add_ridge_(system_BII, problem.ridge_masses)
    numerators = [value_BOI, q_B1I]
    if probes_BPI is not None:
        numerators.append(probes_BPI)
    cuts = right_divide_(system_BII, *numerators)
    if sums.reference_BOI is not None:
        value_BOI.add_(sums.reference_BOI)
    _apply_prior_(value_BOI, q_B1I, problem.prior_scales)
    return value_BOI, cuts


def _copies(probes_PI: Tensor | None, system_BNN: Tensor) -> Tensor | None:
    """The probes' first entries, as many as there are unknowns, for every system (B × P × N)."""
    if probes_PI is None:
        return None
    layers, unknowns, _ = system_BNN.shape
    return probes_PI[:, :unknowns].to(system_BNN.dtype).repeat(layers, 1, 1)


def _size(solved_BPN: Tensor) -> Tensor:
    """‖S⁻¹‖_F/√N of every system (B) from z S⁻¹, float64."""
    return norms(solved_BPN) / math.sqrt(solved_BPN.shape[1] * solved_BPN.shape[2])


def solve_by_rows(
    problem: Problem, dtype: torch.dtype = torch.float64, probes_PI: Tensor | None = None
) -> Terms:
    """Solve with the products between experts, which are all in memory at once."""
    rows_BNI, total_BOI, mean_B1I = _stacked(problem, dtype)
    gram_BNN = gram(rows_BNI.mT)
    residual_BOI = None
    if problem.with_residual:
        # Δ_res = Σ_t ΔW_t Σ̃_t − G (MᵀM + e I)/T, with G = Σ_t ΔW_t (Eqs. 16, 17). The first part
        # is C M without ridges, and 1 (Σ_t Σ̃_t μ_t)ᵀ for the experts' mean rows.
        share = -1.0 / len(problem.shares)
        left_BON = _coefficients(gram_BNN, problem, regularised=False)
        add_product_(left_BON, total_BOI, rows_BNI.mT, share)
        residual_BOI = product(left_BON, rows_BNI).add_(mean_B1I)
        masses_B11 = factor_per_matrix([share * mass for mass in problem.ridge_masses], total_BOI)
        residual_BOI.addcmul_(total_BOI, masses_B11)
        del left_BON
    left_BON = _coefficients(gram_BNN, problem, regularised=True)
    q_B1N = rows_BNI.sum(dim=2)[:, None]
    _add_ridge_(gram_BNN, problem.ridge_masses)
    probes_BPN = _copies(probes_PI, gram_BNN)
    numerators = [left_BON, q_B1N]
    if probes_BPN is not None:
        numerators.append(probes_BPN)
    cuts = right_divide_(gram_BNN, *numerators)
    value_BOI = product(left_BON, rows_BNI)
    _apply_prior_(value_BOI, product(q_B1N, rows_BNI), problem.prior_scales)
    beyond = rows_BNI.shape[2] - rows_BNI.shape[1]  # directions in which S is only e I
    return Terms(
        preliminary_BOI=value_BOI,
        cuts=[cut and cut + beyond for cut in cuts],
        residual_BOI=residual_BOI,
        total_BOI=total_BOI if problem.with_residual else None,
        inverse_size_B=None if probes_BPN is None else _size_by_rows(probes_BPN, problem),
    )


def _size_by_rows(solved_BPN: Tensor, problem: Problem) -> Tensor:
    """‖S⁻¹‖_F/√I, as S⁻¹ has the eigenvalues of (M Mᵀ + e I)⁻¹, and 1/e in all other directions."""
    unknowns = solved_BPN.shape[2]
    inputs = problem.shape[1]
    inverse_masses = [1 / mass for mass in problem.ridge_masses]
    inverse_mass_B = factor_per_matrix(inverse_masses, solved_BPN.double())[:, 0, 0]
    squares_B = (
        unknowns * _size(solved_BPN).square() + (inputs - unknowns) * inverse_mass_B.square()
    )
    return (squares_B / inputs).sqrt()


def _stacked(problem: Problem, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """M (B × N × I), Σ_t ΔW_t (B × O × I) and Σ_t Σ̃_t μ_t (B × 1 × I)."""
    shares = problem.shares
    first_BOI = problem.read(shares[0].expert, dtype)
    layers, outputs, inputs = first_BOI.shape
    rows_BNI = first_BOI.new_empty(layers, len(shares) * outputs, inputs)
    total_BOI = torch.zeros_like(first_BOI)
    mean_B1I = first_BOI.new_zeros(layers, 1, inputs)
    for share, block in zip(shares, _blocks(outputs, len(shares)), strict=True):
        if share is shares[0]:
            delta_BOI = first_BOI
        else:
            delta_BOI = problem.read(share.expert, dtype)
        total_BOI.add_(delta_BOI)
        mu_B1I = centre_(delta_BOI)  # Eq. 5
        roots_B11 = factor_per_matrix(_roots(share), delta_BOI)
        scaled_BOI = rows_BNI[:, block].copy_(delta_BOI).mul_(roots_B11)
        add_product_(mean_B1I, product(mu_B1I, scaled_BOI.mT), scaled_BOI)
    return rows_BNI, total_BOI, mean_B1I


def _coefficients(gram_BNN: Tensor, problem: Problem, *, regularised: bool) -> Tensor:
    """C (B × O × N), with the ridges or without them."""
    layers = len(gram_BNN)
    outputs = problem.shape[0]
    found_BON = gram_BNN.new_empty(layers, outputs, gram_BNN.shape[2])
    for share, block in zip(problem.shares, _blocks(outputs, len(problem.shares)), strict=True):
        block_BOO = found_BON[..., block]
        block_BOO.copy_(gram_BNN[:, block, block])
        if regularised:
            _add_ridge_(block_BOO, share.ridges)
        block_BOO.div_(factor_per_matrix(_roots(share), block_BOO))
    return found_BON


def _blocks(outputs: int, experts: int) -> list[slice]:
    return [slice(t * outputs, (t + 1) * outputs) for t in range(experts)]


def _roots(share: Share) -> list[float]:
    return [math.sqrt(weight) for weight in share.weights]


def _add_ridge_(matrix_BNN: Tensor, ridges: Sequence[float]) -> None:
    """Add each matrix's own ε I to it."""
    diagonal_B1N = matrix_BNN.diagonal(dim1=1, dim2=2)[:, None]
    diagonal_B1N.add_(factor_per_matrix(ridges, matrix_BNN))


def _apply_prior_(value_BOI: Tensor, q_B1I: Tensor, prior_scales: Sequence[float]) -> None:
    """Turn X = B S⁻¹ into W_pre = B (S + 1cᵀ)⁻¹ in place; overwrites q = S⁻¹S₀1.

    The prior (Eqs. 11-13) is c = κ S₀1/I. Sherman-Morrison gives
    W_pre = X − (X1) qᵀ · κ / (I + κ 1ᵀq); 1ᵀq lies in [0, I].
    """
    scales_B11 = factor_per_matrix(prior_scales, q_B1I)
    total_B11 = q_B1I.sum(dim=(1, 2), keepdim=True)
    q_B1I.mul_(scales_B11 / (q_B1I.shape[2] + scales_B11 * total_B11))
    value_BOI.addcmul_(value_BOI.sum(dim=2, keepdim=True), q_B1I, value=-1)
