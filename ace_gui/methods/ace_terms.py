"""The terms of ACE-Merging, equation by equation, summed over experts as they pass by.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2, section 4. T experts,
O outputs, I inputs. With w_t = 1 (homogeneous) or 1/Tr Σ̂_t (heterogeneous) Eqs. 8-10 are one
formula, Σ̂_t,reg = w_t Σ̂_t + ε_t I with ε_t = w_t ε, so that normalisation is a weight on each
expert.

Nothing here grows with T. While summing, 2 I² + 2 O·I numbers are alive in the homogeneous and
2 I² + 4 O·I in the heterogeneous regime, the expert in hand included; where O < 2/3 I, O² of them
take the place of one I². The steps after it work in place and need less, but for the eigenvectors
of the refinement: 3 O·I + 4 min(O, I)².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ace_gui.linalg.blocks import add_gram_, gram, mirror_
from ace_gui.linalg.centring import centre_
from ace_gui.linalg.solve import right_divide_


@dataclass(frozen=True, kw_only=True)
class Share:
    """How one expert enters the sums: ``weight`` w_t and ``ridge`` ε_t (Eqs. 8-10)."""

    expert: int
    weight: float
    ridge: float


@dataclass(frozen=True, kw_only=True)
class ResidualSums:
    """What only Eq. 17 needs.

    ``total_OI``: Σ_t ΔW_t. ``ridge_OI``: Σ_t ε_t W̃_t. ``mean_I``: Σ_t Σ̃_t μ_t.
    """

    total_OI: Tensor
    ridge_OI: Tensor
    mean_I: Tensor


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What Eqs. 14 and 17 need of all the experts together.

    ``scaled_II``: S₀ = Σ_t Σ̃_t. ``ridge_mass``: e = Σ_t ε_t, so that S = S₀ + e I.
    ``numerator_OI``: B = Σ_t W̃_t Σ̂_t,reg. ``experts``: T. ``rest``: for the residual, if wanted.
    """

    scaled_II: Tensor
    ridge_mass: float
    numerator_OI: Tensor
    experts: int
    rest: ResidualSums | None

    def double(self) -> Sums:
        """The same in float64, without what only Eq. 17 needs."""
        return replace(
            self,
            scaled_II=self.scaled_II.double(),
            numerator_OI=self.numerator_OI.double(),
            rest=None,
        )


@dataclass(frozen=True, kw_only=True)
class Preliminary:
    """``value_OI``: W_pre (Eq. 14). ``cut``: directions of S lost in rounding, left out of it."""

    value_OI: Tensor
    cut: int


def collect(read: Callable[[int], Tensor], shares: Sequence[Share], *, with_residual: bool) -> Sums:
    """Sum over the experts of ``shares`` (at least one), reading each once.

    ``read(t)`` gives ΔW_t (O × I) as a new matrix, which is overwritten; the sums have its dtype.
    """
    delta_OI = read(shares[0].expert)
    sums = _zeros(delta_OI, shares, with_residual)
    _add(sums, shares[0], delta_OI)
    del delta_OI
    for share in shares[1:]:
        _add(sums, share, read(share.expert))
    mirror_(sums.scaled_II)
    return sums


def _zeros(delta_OI: Tensor, shares: Sequence[Share], with_residual: bool) -> Sums:
    inputs = delta_OI.shape[1]
    rest = ResidualSums(
        total_OI=torch.zeros_like(delta_OI),
        ridge_OI=torch.zeros_like(delta_OI),
        mean_I=delta_OI.new_zeros(inputs),
    )
    return Sums(
        scaled_II=delta_OI.new_zeros(inputs, inputs),
        ridge_mass=math.fsum(share.ridge for share in shares),
        numerator_OI=torch.zeros_like(delta_OI),
        experts=len(shares),
        rest=rest if with_residual else None,
    )


def _add(sums: Sums, share: Share, delta_OI: Tensor) -> None:
    if sums.rest is not None:
        sums.rest.total_OI.add_(delta_OI)
    mean_I = centre_(delta_OI)  # Eq. 5: delta_OI is W̃_t from here on
    if sums.rest is not None:
        sums.rest.ridge_OI.add_(delta_OI, alpha=share.ridge)
        sums.rest.mean_I.addmv_(delta_OI.T, delta_OI @ mean_I, alpha=share.weight)
    outputs, inputs = delta_OI.shape
    if 3 * outputs < 2 * inputs:  # W̃ (W̃ᵀW̃) = (W̃ W̃ᵀ) W̃: multiply on the smaller side
        add_gram_(sums.scaled_II, delta_OI, alpha=share.weight)
        small_OO = gram(delta_OI.T, alpha=share.weight)
        small_OO.diagonal().add_(share.ridge)
        sums.numerator_OI.addmm_(small_OO, delta_OI)
    else:
        proxy_II = gram(delta_OI, alpha=share.weight)  # Eq. 6
        sums.scaled_II.add_(proxy_II)
        proxy_II.diagonal().add_(share.ridge)
        sums.numerator_OI.addmm_(delta_OI, proxy_II)


def residual(sums: Sums, rest: ResidualSums) -> Tensor:
    """Δ_res = Σ_t ΔW_t (Σ̃_t − S/T), with the uncentred ΔW_t on the left (Eqs. 16, 17).

    As ΔW_t = W̃_t + 1μ_tᵀ, the first part is B − Σ_t ε_t W̃_t + 1 (Σ_t Σ̃_t μ_t)ᵀ: no product of an
    expert with another's matrix is left but the one of the totals. Takes the place of ``ridge_OI``.
    """
    share = -1.0 / sums.experts
    result_OI = rest.ridge_OI.neg_().add_(sums.numerator_OI).add_(rest.mean_I)
    result_OI.addmm_(rest.total_OI, sums.scaled_II, alpha=share)
    return result_OI.add_(rest.total_OI, alpha=share * sums.ridge_mass)


def preliminary(sums: Sums, prior_scale: float) -> Preliminary:
    """W_pre = B (S + 1cᵀ)⁻¹ (Eq. 14), without forming an inverse; uses up the sums, float64.

    The prior (Eqs. 11-13) is c = κ S₀1/I, where ``prior_scale`` κ is 1 in the homogeneous and 1/τ̄
    in the heterogeneous regime. With X = B S⁻¹ and q = S⁻¹S₀1, Sherman-Morrison gives
    W_pre = X − (X1) qᵀ · κ / (I + κ 1ᵀq); 1ᵀq lies in [0, I].
    """
    system_II, value_OI = sums.scaled_II, sums.numerator_OI
    q_I = system_II.sum(dim=0)
    system_II.diagonal().add_(sums.ridge_mass)
    cut = right_divide_(system_II, value_OI, q_I[None])
    prior = prior_scale / (len(q_I) + prior_scale * float(q_I.sum()))
    value_OI.addr_(value_OI.sum(dim=1), q_I, alpha=-prior)
    return Preliminary(value_OI=value_OI, cut=cut)
