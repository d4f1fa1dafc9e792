"""ACE's equations by way of the products between experts: for few experts on many inputs.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one shape,
T experts, O outputs, I inputs, N = T·O rows.

Let M be the √w_t W̃_t under one another (N × I), and C the blocks √w_t (W̃_t W̃_tᵀ + ε I) side by
side (O × N). Then S = MᵀM + e I and B = C M, and as M (MᵀM + e I)⁻¹ = (M Mᵀ + e I)⁻¹ M,

    B S⁻¹ = C (M Mᵀ + e I)⁻¹ M.

The system has N unknowns instead of I, and M Mᵀ already holds all the products that C is made of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.linalg.blocks import gram
from ace_gui.linalg.centring import centre_
from ace_gui.linalg.products import add_product_, one_each, product
from ace_gui.linalg.solve import right_divide_
from ace_gui.methods.ace.problem import Precision, Problem, Share, Terms, add_ridge_, apply_prior_


def few_experts(shape: tuple[int, int], experts: int) -> bool:
    """Whether the experts of that shape, (O, I), are so few that this way is the shorter one.

    It needs no more memory than the other up to three quarters of the inputs.
    """
    outputs, inputs = shape
    return 4 * experts * outputs <= 3 * inputs


@dataclass(frozen=True, kw_only=True)
class _Stack:
    """``rows_BNI``: M. ``gram_BNN``: M Mᵀ. ``total_BOI``: Σ_t ΔW_t. ``mean_B1I``: Σ_t Σ̃_t μ_t."""

    shares: Sequence[Share]
    ridge_masses: Sequence[float]
    rows_BNI: Tensor
    gram_BNN: Tensor
    total_BOI: Tensor
    mean_B1I: Tensor

    def coefficients(self, *, regularised: bool) -> Tensor:
        """C (B × O × N), with the ridges or without them."""
        layers, outputs, _ = self.total_BOI.shape
        found_BON = self.gram_BNN.new_empty(layers, outputs, self.gram_BNN.shape[2])
        for share, own in zip(self.shares, _blocks(outputs, len(self.shares)), strict=True):
            block_BOO = found_BON[..., own]
            block_BOO.copy_(self.gram_BNN[:, own, own])
            if regularised:
                add_ridge_(block_BOO, share.ridges)
            block_BOO.div_(one_each(_roots(share), block_BOO))
        return found_BON


def solve(problem: Problem, dtype: torch.dtype = torch.float64, *, widened: bool = False) -> Terms:
    """As ``by_inputs.solve``, with all of the experts in memory at once.

    ``widened``: the system is solved in float64 whatever the ``dtype`` of the sums.
    """
    stack = _stacked(problem, dtype)
    residual_BOI = _residual(stack) if problem.with_residual else None
    value_BOI, cuts = _preliminary(stack, problem.prior_scales, widened)
    return Terms(
        preliminary_BOI=value_BOI,
        cuts=cuts,
        precisions=[Precision()] * len(cuts),
        residual_BOI=residual_BOI,
        total_BOI=stack.total_BOI if problem.with_residual else None,
    )


def _stacked(problem: Problem, dtype: torch.dtype) -> _Stack:
    shares = problem.shares
    first_BOI = problem.read(shares[0].expert, dtype)
    layers, outputs, inputs = first_BOI.shape
    rows_BNI = first_BOI.new_empty(layers, len(shares) * outputs, inputs)
    total_BOI = first_BOI.new_zeros(first_BOI.shape)
    mean_B1I = first_BOI.new_zeros(layers, 1, inputs)
    for share, own in zip(shares, _blocks(outputs, len(shares)), strict=True):
        delta_BOI = first_BOI if share is shares[0] else problem.read(share.expert, dtype)
        total_BOI.add_(delta_BOI)
        mu_B1I = centre_(delta_BOI)  # Eq. 5
        scaled_BOI = rows_BNI[:, own].copy_(delta_BOI).mul_(one_each(_roots(share), delta_BOI))
        add_product_(mean_B1I, product(mu_B1I, scaled_BOI.mT), scaled_BOI)
    del first_BOI, delta_BOI
    return _Stack(
        shares=shares,
        ridge_masses=problem.ridge_masses,
        rows_BNI=rows_BNI,
        gram_BNN=gram(rows_BNI.mT),
        total_BOI=total_BOI,
        mean_B1I=mean_B1I,
    )


def _residual(stack: _Stack) -> Tensor:
    """Δ_res = Σ_t ΔW_t Σ̃_t − G (MᵀM + e I)/T, with G = Σ_t ΔW_t (Eqs. 16, 17).

    The first part is C M without ridges, and 1 (Σ_t Σ̃_t μ_t)ᵀ for the experts' mean rows.
    """
    share = -1.0 / len(stack.shares)
    left_BON = stack.coefficients(regularised=False)
    add_product_(left_BON, stack.total_BOI, stack.rows_BNI.mT, share)
    result_BOI = product(left_BON, stack.rows_BNI).add_(stack.mean_B1I)
    masses_B11 = one_each([share * mass for mass in stack.ridge_masses], result_BOI)
    return result_BOI.addcmul_(stack.total_BOI, masses_B11)


def _preliminary(
    stack: _Stack, prior_scales: Sequence[float], widened: bool
) -> tuple[Tensor, list[int]]:
    """W_pre (Eq. 14), and how many directions it lacks; uses up M Mᵀ."""
    rows_BNI = stack.rows_BNI
    dtype = torch.float64 if widened else rows_BNI.dtype
    left_BON = stack.coefficients(regularised=True).to(dtype)
    system_BNN = stack.gram_BNN.to(dtype)
    q_B1N = rows_BNI.sum(dim=2)[:, None].to(dtype)
    add_ridge_(system_BNN, stack.ridge_masses)
    cuts = right_divide_(system_BNN, left_BON, q_B1N)
    value_BOI = product(left_BON.to(rows_BNI.dtype), rows_BNI)
    apply_prior_(value_BOI, product(q_B1N.to(rows_BNI.dtype), rows_BNI), prior_scales)
    beyond = rows_BNI.shape[2] - rows_BNI.shape[1]  # inputs in which S is e I alone
    return value_BOI, [cut and cut + beyond for cut in cuts]


def _blocks(outputs: int, experts: int) -> list[slice]:
    return [slice(t * outputs, (t + 1) * outputs) for t in range(experts)]


def _roots(share: Share) -> list[float]:
    return [math.sqrt(weight) for weight in share.weights]
