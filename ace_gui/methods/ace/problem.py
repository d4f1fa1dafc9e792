"""Inputs and results of ACE's solvers.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2, section 4. B layers of one
shape, T experts, O outputs, I inputs. Each expert enters with a weight w_t and a ridge ε_t,
Σ̂_t,reg = w_t Σ̂_t + ε_t I, so that Eqs. 8-10 are one formula.

The layers have nothing to do with each other: they go together so that they keep a GPU busy, and
one alone is a batch of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor

from ace_gui.linalg.products import one_each, some
from ace_gui.methods.shared.measured import Measured
from ace_gui.methods.shared.tolerance import Tolerance
from ace_gui.methods.shared.weighted_experts import WeightedExperts, stacked


class Rule(Enum):
    """By what rule the experts of a layer count."""

    HOMOGENEOUS = "as they are"
    HETEROGENEOUS = "by their traces"
    AUTOMATIC = "by their traces, with a ridge of the layer's own scale"


@dataclass(frozen=True, kw_only=True)
class Share:
    """How one expert enters the sums of each layer: weights w_t and ridges ε_t (Eqs. 8-10)."""

    expert: int
    weights: tuple[float, ...]
    ridges: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Layers with the same experts and the same rule.

    ``shape``: (O, I). ``shares``: at least one expert's share. ``prior_scales``: κ of each layer
    (Eqs. 12, 13). ``with_residual``: whether Eq. 17 is needed. ``tolerances``: required accuracy of
    each layer. ``sizes``: approximate upper bound of ‖W_pre‖_F, from the experts' norms.
    ``measured``: for a single layer, the covariances that replace Σ̂_t.
    """

    layers: Sequence[WeightedExperts]
    shape: tuple[int, int]
    shares: Sequence[Share]
    prior_scales: Sequence[float]
    with_residual: bool
    rule: Rule
    tolerances: Sequence[Tolerance]
    sizes: Sequence[float]
    measured: Measured | None = None

    def read(self, t: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """ΔW_t of every layer (B × O × I) as a new tensor, free to be overwritten."""
        return stacked(self.layers, t, dtype)

    @property
    def ridge_masses(self) -> tuple[float, ...]:
        """e = Σ_t ε_t of each layer."""
        return tuple(map(math.fsum, zip(*(share.ridges for share in self.shares), strict=True)))

    def of(self, indices: Sequence[int]) -> Problem:
        """Some of the layers."""
        shares = [
            replace(
                share,
                weights=tuple(share.weights[b] for b in indices),
                ridges=tuple(share.ridges[b] for b in indices),
            )
            for share in self.shares
        ]
        return replace(
            self,
            layers=[self.layers[b] for b in indices],
            shares=shares,
            prior_scales=[self.prior_scales[b] for b in indices],
            tolerances=[self.tolerances[b] for b in indices],
            sizes=[self.sizes[b] for b in indices],
        )


@dataclass(frozen=True, kw_only=True)
class Precision:
    """In which numbers a layer was computed, in words, and about what that has left.

    ``error``: of W_pre, as a share of it. ``fused_error``: of W_pre + Δ_res, Frobenius. Both are 0
    in float64.
    """

    numbers: str = "float64"
    error: float = 0.0
    fused_error: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The result of a solver, in float64 or, where that is exact enough, in float32.

    ``preliminary_BOI``: W_pre (Eq. 14). ``cuts``: how many directions of S were lost in rounding
    and left out of it, one a layer; ``precisions`` likewise, and ``sizes``: ‖W_pre‖_F, empty where
    not known yet. Where a residual was wanted, ``residual_BOI``: Δ_res (Eq. 17), and ``total_BOI``:
    Σ_t ΔW_t.
    """

    preliminary_BOI: Tensor
    cuts: list[int]
    precisions: Sequence[Precision]
    sizes: Sequence[float] = ()
    residual_BOI: Tensor | None = None
    total_BOI: Tensor | None = None

    def of(self, indices: Sequence[int]) -> Terms:
        """Those of some of the layers."""
        if len(indices) == len(self.cuts):
            return self
        return Terms(
            preliminary_BOI=some(self.preliminary_BOI, indices),
            cuts=[self.cuts[b] for b in indices],
            precisions=[self.precisions[b] for b in indices],
            sizes=[self.sizes[b] for b in indices if self.sizes],
            residual_BOI=None if self.residual_BOI is None else some(self.residual_BOI, indices),
            total_BOI=None if self.total_BOI is None else some(self.total_BOI, indices),
        )


def joined(parts: Sequence[tuple[Sequence[int], Terms]]) -> Terms:
    """The terms of all layers, from those of some and their indices among all."""
    if len(parts) == 1:
        return parts[0][1]
    order = [(own, terms, b) for indices, terms in parts for b, own in enumerate(indices)]
    each = [terms.of([b]) for _, terms, b in sorted(order, key=lambda found: found[0])]

    def stack(values: Sequence[Tensor | None]) -> Tensor | None:
        found = [value.double() for value in values if value is not None]
        return torch.cat(found) if found else None

    values_BOI = stack([terms.preliminary_BOI for terms in each])
    assert values_BOI is not None
    return Terms(
        preliminary_BOI=values_BOI,
        cuts=[terms.cuts[0] for terms in each],
        precisions=[terms.precisions[0] for terms in each],
        residual_BOI=stack([terms.residual_BOI for terms in each]),
        total_BOI=stack([terms.total_BOI for terms in each]),
    )


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """ΔW_refine of one layer (Eq. 18), float64.

    ``k``: number of requested directions. ``rank``: number of those above rounding; only these are
    used. ``weakest``: singular value of the last of these as a share of the first. ``sensitivity``:
    factor by which an error of W_pre + Δ_res is amplified. ``cosine``: with Σ_t ΔW_t. ``size``: its
    Frobenius norm. ``ratio``: that norm divided by the norm of W_pre.
    """

    matrix_OI: Tensor
    k: int
    rank: int
    weakest: float
    sensitivity: float
    cosine: float
    size: float
    ratio: float

    def wanted(self, refine: str) -> bool:
        """Whether it is added to W_pre, by the parameter ``refine``."""
        return refine != "agreeing" or self.cosine >= 0


@dataclass(frozen=True, kw_only=True)
class Solution:
    """W_pre of one layer and its Frobenius norm ``size`` (NaN: not known), and how it was found.

    ``rule`` None: fewer than two experts changed the layer. ``condition``: upper bound on the
    condition number of S; ``cut``: directions left out of S because of rounding. ``precision``:
    None where nothing was solved.
    """

    value_OI: Tensor
    size: float = math.nan
    rule: Rule | None = None
    ridge_mass: float | None = None
    condition: float | None = None
    cut: int = 0
    refinement: Refinement | None = None
    precision: Precision | None = None


def add_ridge_(matrix_BNN: Tensor, ridges: Sequence[float]) -> None:
    """Add ε I to every matrix of the batch, ε being its own."""
    diagonal_B1N = matrix_BNN.diagonal(dim1=1, dim2=2)[:, None]
    diagonal_B1N.add_(one_each(ridges, matrix_BNN))


def apply_prior_(value_BOI: Tensor, q_B1I: Tensor, prior_scales: Sequence[float]) -> None:
    """Turn X = B S⁻¹ into W_pre = B (S + 1cᵀ)⁻¹, in place; q = S⁻¹S₀1 is used up.

    The prior (Eqs. 11-13) is c = κ S₀1/I. Sherman-Morrison gives
    W_pre = X − (X1) qᵀ · κ / (I + κ 1ᵀq); 1ᵀq lies in [0, I].
    """
    scales_B11 = one_each(prior_scales, q_B1I)
    total_B11 = q_B1I.sum(dim=(1, 2), keepdim=True)
    q_B1I.mul_(scales_B11 / (q_B1I.shape[2] + scales_B11 * total_B11))
    value_BOI.addcmul_(value_BOI.sum(dim=2, keepdim=True), q_B1I, value=-1)
