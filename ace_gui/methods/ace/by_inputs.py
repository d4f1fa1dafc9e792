"""The terms of ACE-Merging, equation by equation, summed over experts as they pass by.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2, section 4. B layers of one
shape, T experts, O outputs, I inputs. With w_t = 1 (homogeneous) or 1/Tr Σ̂_t (heterogeneous)
Eqs. 8-10 are one formula, Σ̂_t,reg = w_t Σ̂_t + ε_t I with ε_t = w_t ε, so that normalisation is a
weight on each expert.

The layers have nothing to do with each other: they go together so that they keep a GPU busy, and
one alone is a batch of one.

As Σ_t Σ̂_t,reg = S, any matrix R may be taken from all of the experts and added to the result:
B S⁻¹ = R + Σ_t (W̃_t − R) Σ̂_t,reg S⁻¹. With the first expert for R one product less is left to do;
not in float32, which would not be as exact as without it where experts have little in common.

Nothing here grows with T. While summing, 2 I² + 3 O·I numbers a layer are alive in the homogeneous
and 2 I² + 5 O·I in the heterogeneous regime, the expert in hand included; where outputs are few,
I² + O² and one O·I less. The steps after it work in place and need less, but for the eigenvectors
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
from ace_gui.linalg.products import add_product_, one_each, product
from ace_gui.linalg.solve import right_divide_


@dataclass(frozen=True, kw_only=True)
class Share:
    """How one expert enters the sums of each layer: weights w_t and ridges ε_t (Eqs. 8-10)."""

    expert: int
    weights: tuple[float, ...]
    ridges: tuple[float, ...]


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
        """The same in float64, without what only Eq. 17 needs."""
        return replace(
            self,
            scaled_BII=self.scaled_BII.double(),
            numerator_BOI=self.numerator_BOI.double(),
            rest=None,
        )


@dataclass(frozen=True, kw_only=True)
class Preliminary:
    """``value_BOI``: W_pre (Eq. 14). ``cuts``: directions of S lost in rounding, left out of it."""

    value_BOI: Tensor
    cuts: list[int]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """``pre``: W_pre. Where a residual was wanted, Δ_res (Eq. 17) and Σ_t ΔW_t (B × O × I)."""

    pre: Preliminary
    residual_BOI: Tensor | None
    total_BOI: Tensor | None


def ridge_masses(shares: Sequence[Share]) -> tuple[float, ...]:
    """Σ_t ε_t of each layer."""
    return tuple(map(math.fsum, zip(*(share.ridges for share in shares), strict=True)))


def terms(
    read: Callable[[int], Tensor],
    shares: Sequence[Share],
    prior_scales: Sequence[float],
    *,
    with_residual: bool,
) -> Terms:
    """All terms, in float64; for ``read`` and ``shares`` see ``collect``, else ``preliminary``."""
    sums = collect(read, shares, with_residual=with_residual)
    rest = sums.rest
    residual_BOI = None if rest is None else residual(sums, rest)
    return Terms(
        pre=preliminary(sums, prior_scales),
        residual_BOI=residual_BOI,
        total_BOI=None if rest is None else rest.total_BOI,
    )


def collect(read: Callable[[int], Tensor], shares: Sequence[Share], *, with_residual: bool) -> Sums:
    """Sum over the experts of ``shares`` (at least one), reading each once.

    ``read(t)`` gives ΔW_t (B × O × I) as a new tensor, which is overwritten; the sums have its
    dtype.
    """
    delta_BOI = read(shares[0].expert)
    sums = _zeros(delta_BOI, shares, with_residual)
    _add(sums, shares[0], delta_BOI)
    del delta_BOI
    for share in shares[1:]:
        _add(sums, share, read(share.expert))
    mirror_(sums.scaled_BII)
    return sums


def _zeros(delta_BOI: Tensor, shares: Sequence[Share], with_residual: bool) -> Sums:
    layers, outputs, inputs = delta_BOI.shape
    few = _few_outputs(outputs, inputs, len(shares))
    referred = not few and delta_BOI.dtype == torch.float64
    rest = None
    if with_residual:
        rest = ResidualSums(
            total_BOI=delta_BOI.new_zeros(delta_BOI.shape),
            ridge_BOI=delta_BOI.new_zeros(delta_BOI.shape),
            mean_B1I=delta_BOI.new_zeros(layers, 1, inputs),
        )
    return Sums(
        scaled_BII=delta_BOI.new_zeros(layers, inputs, inputs),
        ridge_masses=ridge_masses(shares),
        few_outputs=few,
        reference_BOI=delta_BOI if referred else None,
        numerator_BOI=delta_BOI.new_zeros(delta_BOI.shape),
        experts=len(shares),
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


def add_ridge_(matrix_BNN: Tensor, ridges: Sequence[float]) -> None:
    """Add ε I to every matrix of the batch, ε being its own."""
    diagonal_B1N = matrix_BNN.diagonal(dim1=1, dim2=2)[:, None]
    diagonal_B1N.add_(one_each(ridges, matrix_BNN))


def residual(sums: Sums, rest: ResidualSums) -> Tensor:
    """Δ_res = Σ_t ΔW_t (Σ̃_t − S/T), with the uncentred ΔW_t on the left (Eqs. 16, 17).

    As ΔW_t = W̃_t + 1μ_tᵀ, the first part is B − Σ_t ε_t W̃_t + 1 (Σ_t Σ̃_t μ_t)ᵀ: with B − R S at
    hand, no product is left but the one of R − Σ_t ΔW_t / T with S. Takes the place of
    ``ridge_BOI``.
    """
    result_BOI = rest.ridge_BOI.neg_().add_(sums.numerator_BOI).add_(rest.mean_B1I)
    left_BOI = rest.total_BOI * (-1.0 / sums.experts)
    if sums.reference_BOI is not None:
        left_BOI.add_(sums.reference_BOI)
    add_product_(result_BOI, left_BOI, sums.scaled_BII)
    return result_BOI.addcmul_(left_BOI, one_each(sums.ridge_masses, result_BOI))


def preliminary(sums: Sums, prior_scales: Sequence[float]) -> Preliminary:
    """W_pre = B (S + 1cᵀ)⁻¹ (Eq. 14), without forming an inverse; uses up the sums, float64.

    The prior (Eqs. 11-13) is c = κ S₀1/I, where κ, one of ``prior_scales`` a layer, is 1 in the
    homogeneous and 1/τ̄ in the heterogeneous regime. With X = B S⁻¹ and q = S⁻¹S₀1,
    Sherman-Morrison gives W_pre = X − (X1) qᵀ · κ / (I + κ 1ᵀq); 1ᵀq lies in [0, I].
    """
    system_BII, value_BOI = sums.scaled_BII, sums.numerator_BOI
    q_B1I = system_BII.sum(dim=1, keepdim=True)
    add_ridge_(system_BII, sums.ridge_masses)
    cuts = right_divide_(system_BII, value_BOI, q_B1I)
    if sums.reference_BOI is not None:
        value_BOI.add_(sums.reference_BOI)
    apply_prior_(value_BOI, q_B1I, prior_scales)
    return Preliminary(value_BOI=value_BOI, cuts=cuts)


def apply_prior_(value_BOI: Tensor, q_B1I: Tensor, prior_scales: Sequence[float]) -> None:
    """Turn X = B S⁻¹ into W_pre, in place, as ``preliminary`` says; q is used up."""
    priors = [
        scale / (q_B1I.shape[2] + scale * total)
        for scale, total in zip(prior_scales, q_B1I.sum(dim=(1, 2)).tolist(), strict=True)
    ]
    q_B1I.mul_(one_each(priors, q_B1I))
    value_BOI.addcmul_(value_BOI.sum(dim=2, keepdim=True), q_B1I, value=-1)
