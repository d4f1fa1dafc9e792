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
from ace_gui.linalg.products import matrices_at
from ace_gui.methods.ace.stacked_layers import stacked
from ace_gui.methods.shared.experts import Experts
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

    rows: int
    """Rows of the task vectors: O, or fewer coordinates of the outputs."""

    double: bool
    """Whether a task vector is float64, so that float32 would lose some of it."""

    heterogeneity: Heterogeneity
    """γ of the energies, and which experts count."""

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
    """Layers with the same experts and the same rule."""

    layers: Sequence[Experts]
    """The experts' task vectors, layer by layer."""
    shape: tuple[int, int]
    """(O, I), where the outputs are those of the task vectors."""
    shares: Sequence[Share]
    """At least one expert's share."""
    prior_scales: Sequence[float]
    """κ of each layer (Eqs. 12, 13)."""
    with_residual: bool
    """Whether Eq. 17 is needed."""
    rule: Rule
    """Homogeneous or heterogeneous."""
    tolerances: Sequence[Tolerance]
    """Required accuracy of each layer."""
    sizes: Sequence[float]
    """Approximate upper bound of ‖W_pre‖_F of each layer, from the experts' norms."""
    measured: Measured | None = None
    """For a single layer, the covariances that replace Σ̂_t; None: the estimate."""

    def read(self, t: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """ΔW_t of every layer (B × O × I) as a new tensor that may be overwritten."""
        return stacked(self.layers, t, dtype)

    @property
    def ridge_masses(self) -> tuple[float, ...]:
        """e = Σ_t ε_t of each layer."""
        return tuple(map(math.fsum, zip(*(share.ridges for share in self.shares), strict=True)))

    def of(self, indices: Sequence[int]) -> Problem:
        """The problem of only these layers."""
        shares = []
        for share in self.shares:
            weights = tuple(share.weights[b] for b in indices)
            ridges = tuple(share.ridges[b] for b in indices)
            shares.append(replace(share, weights=weights, ridges=ridges))
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
            return matrices_at(matrices_BOI, indices)

        return Terms(
            preliminary_BOI=matrices_at(self.preliminary_BOI, indices),
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
    """ΔW_refine of one layer (Eq. 18), float64."""

    matrix_OI: Tensor
    """ΔW_refine."""
    k: int
    """Number of requested directions."""
    rank: int
    """Number of those above rounding; only these are used."""
    weakest: float
    """The last of these singular values as a share of the first."""
    sensitivity: float
    """Factor by which an error of W_pre + Δ_res is amplified."""
    cosine: float
    """Of the angle to Σ_t ΔW_t."""
    size: float
    """Its Frobenius norm."""
    ratio: float
    """That norm divided by the norm of W_pre."""

    def refines(self, refine: str) -> bool:
        """Whether the parameter ``refine`` lets it be added to W_pre."""
        return refine != "agreeing" or self.cosine >= 0


@dataclass(frozen=True, kw_only=True)
class Solution:
    """W_pre of one layer, and how it was found."""

    value_OI: Tensor
    """W_pre."""
    size: float = math.nan
    """Its Frobenius norm; NaN: not known."""
    rule: Rule | None = None
    """None if fewer than two experts changed the layer."""
    ridge_mass: float | None = None
    """e = Σ_t ε_t; None if no system was solved."""
    condition: float | None = None
    """Upper bound on the condition number of S; None if it was not bounded."""
    cut: int = 0
    """Directions left out of S because of rounding."""
    refinement: Refinement | None = None
    """ΔW_refine; None without one."""
    precision: Precision | None = None
    """The number format and its error; None if no system was solved."""
