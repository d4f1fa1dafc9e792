"""The terms of ACE-Merging, equation by equation, summed over experts as they pass by.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2, section 4. T experts,
O outputs, I inputs; everything is float64. With w_t = 1 (homogeneous) or 1/Tr Σ̂_t (heterogeneous)
Eqs. 8-10 are one formula, Σ̂_t,reg = w_t Σ̂_t + ε_t I with ε_t = w_t ε, so that normalisation is a
weight on each expert. Nothing here grows with T: about 3 I² + 6 O·I numbers are alive at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.linalg.centring import centre_
from ace_gui.linalg.solve import right_divide


@dataclass(frozen=True, kw_only=True)
class Share:
    """How one expert enters the sums: ``weight`` w_t and ``ridge`` ε_t (Eqs. 8-10)."""

    expert: int
    weight: float
    ridge: float


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What Eqs. 14 and 17 need of all the experts together.

    ``scaled_II``: Σ_t Σ̃_t. ``ridge_mass``: e = Σ_t ε_t. ``numerator_OI``: Σ_t W̃_t Σ̃_t.
    ``ridge_OI``: Σ_t ε_t W̃_t. ``total_OI``: Σ_t ΔW_t. ``mean_I``: Σ_t Σ̃_t μ_t. ``experts``: T.
    """

    scaled_II: Tensor
    ridge_mass: float
    numerator_OI: Tensor
    ridge_OI: Tensor
    total_OI: Tensor
    mean_I: Tensor
    experts: int

    @property
    def system_II(self) -> Tensor:
        """S = Σ_t Σ̂_t,reg, as a new matrix."""
        system_II = self.scaled_II.clone()
        system_II.diagonal().add_(self.ridge_mass)
        return system_II

    @property
    def condition(self) -> float:
        """An upper bound on the condition number of S, from its trace."""
        return 1.0 + float(self.scaled_II.trace() / self.ridge_mass)


@dataclass(frozen=True, kw_only=True)
class Preliminary:
    """``value_OI``: W_pre (Eq. 14). ``cut``: directions of S lost in rounding, left out of it."""

    value_OI: Tensor
    cut: int


def collect(read: Callable[[int], Tensor], shares: Sequence[Share]) -> Sums:
    """Sum over the experts of ``shares`` (at least one), reading each once.

    ``read(t)`` gives ΔW_t (O × I) as a new float64 matrix, which is overwritten.
    """
    delta_OI = read(shares[0].expert)
    sums = _zeros(delta_OI, shares)
    _add(sums, shares[0], delta_OI)
    del delta_OI
    for share in shares[1:]:
        _add(sums, share, read(share.expert))
    return sums


def _zeros(delta_OI: Tensor, shares: Sequence[Share]) -> Sums:
    outputs, inputs = delta_OI.shape
    return Sums(
        scaled_II=delta_OI.new_zeros(inputs, inputs),
        ridge_mass=math.fsum(share.ridge for share in shares),
        numerator_OI=delta_OI.new_zeros(outputs, inputs),
        ridge_OI=delta_OI.new_zeros(outputs, inputs),
        total_OI=delta_OI.new_zeros(outputs, inputs),
        mean_I=delta_OI.new_zeros(inputs),
        experts=len(shares),
    )


def _add(sums: Sums, share: Share, delta_OI: Tensor) -> None:
    sums.total_OI.add_(delta_OI)
    mean_I = centre_(delta_OI)  # Eq. 5: delta_OI is W̃_t from here on
    sums.ridge_OI.add_(delta_OI, alpha=share.ridge)
    sums.mean_I.addmv_(delta_OI.T, delta_OI @ mean_I, alpha=share.weight)
    outputs, inputs = delta_OI.shape
    if 2 * outputs < inputs:  # W̃ (W̃ᵀW̃) = (W̃ W̃ᵀ) W̃: multiply on the smaller side
        sums.scaled_II.addmm_(delta_OI.T, delta_OI, alpha=share.weight)
        sums.numerator_OI.addmm_(delta_OI @ delta_OI.T, delta_OI, alpha=share.weight)
    else:
        proxy_II = delta_OI.T @ delta_OI  # Eq. 6
        sums.scaled_II.add_(proxy_II, alpha=share.weight)
        sums.numerator_OI.addmm_(delta_OI, proxy_II, alpha=share.weight)


def preliminary(sums: Sums, prior_scale: float) -> Preliminary:
    """W_pre = B (S + 1cᵀ)⁻¹ with B = Σ_t W̃_t Σ̂_t,reg (Eq. 14), without forming an inverse.

    The prior (Eqs. 11-13) is c = κ S₀1/I, S₀ = Σ_t Σ̃_t, where ``prior_scale`` κ is 1 in the
    homogeneous and 1/τ̄ in the heterogeneous regime. With X = B S⁻¹ and q = S⁻¹S₀1,
    Sherman-Morrison gives W_pre = X − (X1) qᵀ · κ / (I + κ 1ᵀq); 1ᵀq lies in [0, I].
    """
    outputs, inputs = sums.numerator_OI.shape
    right_KI = sums.numerator_OI.new_empty(outputs + 1, inputs)
    torch.add(sums.numerator_OI, sums.ridge_OI, out=right_KI[:outputs])  # B
    torch.sum(sums.scaled_II, dim=0, out=right_KI[outputs])  # S₀1
    quotient = right_divide(right_KI, sums.system_II)
    value_OI, q_I = quotient.value_KI[:outputs], quotient.value_KI[outputs]
    prior = prior_scale / (inputs + prior_scale * float(q_I.sum()))
    value_OI.addr_(value_OI.sum(dim=1), q_I, alpha=-prior)
    return Preliminary(value_OI=value_OI, cut=quotient.cut)


def residual(sums: Sums) -> Tensor:
    """Δ_res = Σ_t ΔW_t (Σ̃_t − S/T), with the uncentred ΔW_t on the left (Eqs. 16, 17).

    As ΔW_t = W̃_t + 1μ_tᵀ, the first part is Σ_t W̃_t Σ̃_t + 1 (Σ_t Σ̃_t μ_t)ᵀ: no product of an
    expert with another's matrix is left but the one of the totals.
    """
    share = -1.0 / sums.experts
    first_OI = sums.numerator_OI + sums.mean_I
    first_OI.addmm_(sums.total_OI, sums.scaled_II, alpha=share)
    return first_OI.add_(sums.total_OI, alpha=share * sums.ridge_mass)
