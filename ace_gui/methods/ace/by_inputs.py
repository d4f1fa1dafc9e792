"""ACE's equations with I × I sums over experts: the general solver.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2, section 4. B layers of one
shape, T experts, O outputs, I inputs. As Σ_t Σ̂_t,reg = S, any matrix R may be subtracted from all
experts and added to the result: B S⁻¹ = R + Σ_t (W̃_t − R) Σ̂_t,reg S⁻¹. With the first expert as R
one product is saved. No memory here grows with T. While summing, 2 I² + 3 O·I numbers per layer are
in memory without a residual and 2 I² + 5 O·I with one, including the current expert. With few
outputs it is I² + O² and one O·I less. The later steps work in place and need less, except for the
eigenvectors of the refinement: 3 O·I + 4 min(O, I)².
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ace_gui.linalg.blocks import add_gram_, gram, mirror_
from ace_gui.linalg.centring import centre_
from ace_gui.linalg.products import add_product_, one_each, product
from ace_gui.linalg.solve import right_divide_
from ace_gui.methods.ace.problem import Precision, Problem, Share, Terms, add_ridge_, apply_prior_


@dataclass(frozen=True, kw_only=True)
class ResidualSums:
    """What only Eq. 17 needs.

    ``total_BOI``: Σ_t ΔW_t. ``ridge_BOI``: Σ_t ε_t W̃_t. ``mean_B1I``: Σ_t Σ̃_t μ_t, as a row.
    """

    total_BOI: Tensor
    ridge_BOI: Tensor
    mean_B1I: Tensor


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What Eqs. 14 and 17 need of all the experts together.

    ``scaled_BII``: S₀ = Σ_t Σ̃_t. ``ridge_masses``: e = Σ_t ε_t of each layer, so that
    S = S₀ + e I. ``few_outputs``: whether products are taken on the outputs' side.
    ``reference_BOI``: R, which is W̃ of the first expert, or None for zero.
    ``numerator_BOI``: Σ_t (W̃_t − R) Σ̂_t,reg = B − R S. ``experts``: T. ``rest``: for the residual,
    if wanted.
    """

    scaled_BII: Tensor
    ridge_masses: tuple[float, ...]
    few_outputs: bool
    reference_BOI: Tensor | None
    numerator_BOI: Tensor
    experts: int
    rest: ResidualSums | None

    def double(self) -> Sums:
        """The same in float64, but for what only Eq. 17 needs."""
        reference_BOI = self.reference_BOI
        return replace(
            self,
            scaled_BII=self.scaled_BII.double(),
            reference_BOI=None if reference_BOI is None else reference_BOI.double(),
            numerator_BOI=self.numerator_BOI.double(),
        )


def solve(problem: Problem) -> Terms:
    """Sum over the experts in float64, then solve."""
    return solved(collect(problem), problem)


def solved(sums: Sums, problem: Problem, *, widened: bool = False) -> Terms:
    """Eqs. 14 and 17 from the sums, which are used up; ``widened``: the first in float64."""
    residual_BOI = None if sums.rest is None else residual(sums, sums.rest)
    total_BOI = None if sums.rest is None else sums.rest.total_BOI
    value_BOI, cuts = preliminary(sums.double() if widened else sums, problem)
    return Terms(
        preliminary_BOI=value_BOI,
        cuts=cuts,
        precisions=[Precision()] * len(cuts),
        residual_BOI=residual_BOI,
        total_BOI=total_BOI,
    )


def collect(problem: Problem, dtype: torch.dtype = torch.float64, *, referred: bool = True) -> Sums:
    """Sum over the experts, reading each once; ``referred``: R is the first, not zero."""
    shares = problem.shares
    delta_BOI = problem.read(shares[0].expert, dtype)
    sums = _zeros(delta_BOI, problem, referred)
    _add(sums, shares[0], delta_BOI)
    del delta_BOI
    for share in shares[1:]:
        _add(sums, share, problem.read(share.expert, dtype))
    mirror_(sums.scaled_BII)
    return sums


def _zeros(delta_BOI: Tensor, problem: Problem, referred: bool) -> Sums:
    layers, outputs, inputs = delta_BOI.shape
    few = _few_outputs(outputs, inputs, len(problem.shares))
    rest = None
    if problem.with_residual:
        rest = ResidualSums(
            total_BOI=delta_BOI.new_zeros(delta_BOI.shape),
            ridge_BOI=delta_BOI.new_zeros(delta_BOI.shape),
            mean_B1I=delta_BOI.new_zeros(layers, 1, inputs),
        )
    return Sums(
        scaled_BII=delta_BOI.new_zeros(layers, inputs, inputs),
        ridge_masses=problem.ridge_masses,
        few_outputs=few,
        reference_BOI=delta_BOI if referred and not few else None,
        numerator_BOI=delta_BOI.new_zeros(delta_BOI.shape),
        experts=len(problem.shares),
        rest=rest,
    )


def _add(sums: Sums, share: Share, delta_BOI: Tensor) -> None:
    if sums.rest is not None:
        sums.rest.total_BOI.add_(delta_BOI)
    mean_B1I = centre_(delta_BOI)  # Eq. 5: delta_BOI is W̃_t from here on
    ridges_B11 = one_each(share.ridges, delta_BOI)
    if sums.rest is not None:
        sums.rest.ridge_BOI.addcmul_(delta_BOI, ridges_B11)
        on_mean_B1O = product(mean_B1I, delta_BOI.mT)
        add_product_(sums.rest.mean_B1I, on_mean_B1O, delta_BOI, share.weights)
    if sums.few_outputs:  # W̃ (W̃ᵀW̃) = (W̃ W̃ᵀ) W̃: multiply on the smaller side
        add_gram_(sums.scaled_BII, delta_BOI, alpha=share.weights)
        small_BOO = gram(delta_BOI.mT, alpha=share.weights)
        add_ridge_(small_BOO, share.ridges)
        add_product_(sums.numerator_BOI, small_BOO, delta_BOI)
        return
    proxy_BII = gram(delta_BOI, alpha=share.weights)  # Eq. 6
    sums.scaled_BII.add_(proxy_BII)
    if delta_BOI is sums.reference_BOI:
        return
    if sums.reference_BOI is not None:
        delta_BOI.sub_(sums.reference_BOI)
    add_ridge_(proxy_BII, share.ridges)
    add_product_(sums.numerator_BOI, delta_BOI, proxy_BII)


def _few_outputs(outputs: int, inputs: int, experts: int) -> bool:
    """Whether T products on the outputs' side cost less than T − 1 on the inputs' side.

    Half of a Gram matrix and a product are 3 O²I, against 2 O·I² for a product where the Gram
    matrix is needed in any case.
    """
    return 3 * outputs * experts < 2 * inputs * (experts - 1)


def residual(sums: Sums, rest: ResidualSums) -> Tensor:
    """Δ_res = Σ_t ΔW_t (Σ̃_t − S/T), with the uncentred ΔW_t on the left (Eqs. 16, 17).

    As ΔW_t = W̃_t + 1μ_tᵀ, the first part is B − Σ_t ε_t W̃_t + 1 (Σ_t Σ̃_t μ_t)ᵀ. With B − R S
    available, only the product of R − Σ_t ΔW_t / T with S remains. Overwrites ``ridge_BOI``.
    """
    result_BOI = rest.ridge_BOI.neg_().add_(sums.numerator_BOI).add_(rest.mean_B1I)
    left_BOI = rest.total_BOI * (-1.0 / sums.experts)
    if sums.reference_BOI is not None:
        left_BOI.add_(sums.reference_BOI)
    add_product_(result_BOI, left_BOI, sums.scaled_BII)
    return result_BOI.addcmul_(left_BOI, one_each(sums.ridge_masses, result_BOI))


def preliminary(sums: Sums, problem: Problem) -> tuple[Tensor, list[int]]:
    """W_pre = B (S + 1cᵀ)⁻¹ (Eq. 14), without forming an inverse; uses up the sums.

    Also how many directions of S were left out, one a layer.
    """
    system_BII, value_BOI = sums.scaled_BII, sums.numerator_BOI
    q_B1I = system_BII.sum(dim=1, keepdim=True)
    add_ridge_(system_BII, sums.ridge_masses)
    cuts = right_divide_(system_BII, value_BOI, q_B1I)
    if sums.reference_BOI is not None:
        value_BOI.add_(sums.reference_BOI)
    apply_prior_(value_BOI, q_B1I, problem.prior_scales)
    return value_BOI, cuts
