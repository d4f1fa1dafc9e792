"""Inputs and results of ACE's solvers.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2, section 4. B layers of one
shape, T experts, O outputs, I inputs. Each expert enters with a weight w_t and a ridge ε_t,
Σ̂_t,reg = w_t Σ̂_t + ε_t I, so that Eqs. 8-10 are one formula.

The layers are independent. Solving them together only keeps a GPU busy; a single layer is a batch
of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor

from ace_gui.linalg.heterogeneity import Heterogeneity
from ace_gui.linalg.products import some
from ace_gui.methods.shared.experts import Experts, stacked
from ace_gui.methods.shared.measured import Measured
from ace_gui.methods.shared.tolerance import Tolerance


@dataclass(frozen=True, kw_only=True)
class LayerEnergies:
    """Figures of one layer."""

    energies: tuple[float, ...]
    """E_t = ‖ΔW_t‖²_F of each expert."""

    traces: tuple[float, ...]
    """Tr Σ̂_t of each expert."""

    shape: tuple[int, int]
    """(O, I)."""

    double: bool
    """Whether a task vector is float64, so that float32 would lose some of it."""

    heterogeneity: Heterogeneity

    @property
    def counted(self) -> tuple[int, ...]:
        """The experts that changed the layer, by index."""
        return self.heterogeneity.counted

    @property
    def gamma(self) -> float | None:
        """γ (Eq. 7); None if fewer than two experts changed the layer."""
        return self.heterogeneity.gamma


class Rule(Enum):
    """The rule that weights the experts of a layer."""

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

    layers: Sequence[Experts]
    shape: tuple[int, int]
    shares: Sequence[Share]
    prior_scales: Sequence[float]
    with_residual: bool
    rule: Rule
    tolerances: Sequence[Tolerance]
    sizes: Sequence[float]
    measured: Measured | None = None

    def read(self, t: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """ΔW_t of every layer (B × O × I) as a new tensor that may be overwritten."""
        return stacked(self.layers, t, dtype)

    @property
    def ridge_masses(self) -> tuple[float, ...]:
        """e = Σ_t ε_t of each layer."""
        return tuple(map(math.fsum, zip(*(share.ridges for share in self.shares), strict=True)))

    def of(self, indices: Sequence[int]) -> Problem:
        """The problem of only these layers."""
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
class Terms:
    """The result of a solver, in the dtype of its computation.

    ``preliminary_BOI``: W_pre (Eq. 14). ``cuts``: for each layer, how many directions of S were
    lost in rounding and left out. If a residual was requested, ``residual_BOI`` is Δ_res (Eq. 17)
    and ``total_BOI`` is Σ_t ΔW_t. ``inverse_size_B``: ‖A⁻¹‖_F/√I of each layer, float64, if probes
    were given.
    """

    preliminary_BOI: Tensor
    cuts: list[int]
    residual_BOI: Tensor | None = None
    total_BOI: Tensor | None = None
    inverse_size_B: Tensor | None = None

    def of(self, indices: Sequence[int]) -> Terms:
        """The terms of only these layers, without the inverse's size."""

        def chosen(matrices_BOI: Tensor | None) -> Tensor | None:
            if matrices_BOI is None:
                return None
            return some(matrices_BOI, indices)

        return Terms(
            preliminary_BOI=some(self.preliminary_BOI, indices),
            cuts=[self.cuts[b] for b in indices],
            residual_BOI=chosen(self.residual_BOI),
            total_BOI=chosen(self.total_BOI),
        )


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Estimated errors of float32 in one layer, as Frobenius norms; 0 for float64.

    ``size``: ‖W_pre‖. ``error``: that of W_pre. ``residual_error``: that of Δ_res.
    """

    size: float
    error: float = 0.0
    residual_error: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """ΔW_refine of one layer (Eq. 18), float64.

    ``k``: number of requested directions. ``rank``: number of those above rounding; only these are
    used. ``weakest``: the last of these singular values as a share of the first. ``sensitivity``:
    factor by which an error of W_pre + Δ_res is amplified. ``cosine``: of the angle to Σ_t ΔW_t.
    ``size``: its Frobenius norm. ``ratio``: that norm divided by the norm of W_pre.
    """

    matrix_OI: Tensor
    k: int
    rank: int
    weakest: float
    sensitivity: float
    cosine: float
    size: float
    ratio: float

    def refines(self, refine: str) -> bool:
        """Whether the parameter ``refine`` lets it be added to W_pre."""
        return refine != "agreeing" or self.cosine >= 0


@dataclass(frozen=True, kw_only=True)
class Solution:
    """W_pre of one layer and its Frobenius norm ``size`` (NaN: not known), and how it was found.

    ``rule``: None if fewer than two experts changed the layer. ``condition``: upper bound on the
    condition number of S; ``cut``: directions left out of S because of rounding. ``precision``:
    None if no system was solved.
    """

    value_OI: Tensor
    size: float = math.nan
    rule: Rule | None = None
    ridge_mass: float | None = None
    condition: float | None = None
    cut: int = 0
    refinement: Refinement | None = None
    precision: Precision | None = None
