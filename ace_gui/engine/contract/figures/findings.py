"""Findings on one tensor: its task vectors, its merge, its spectra and distributions.

Plain values and NumPy arrays, without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # an empty window does not need it
    import numpy as np
    from numpy.typing import NDArray


class Regime(StrEnum):
    """ACE's two branches."""

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


@dataclass(frozen=True, kw_only=True)
class LayerStatistics:
    """Statistics of the experts' task vectors of one tensor.

    ``energies``: ‖ΔW_t‖²_F by expert. ``gamma``: heterogeneity of the experts, known for every
    method; None for tensors that are not merged, or that fewer than two experts changed.
    ``log_variance``: Var ln E of the energies; a common factor on the task vectors changes γ, but
    not this. ``left_out``: experts with numerically no change. ``base_energy``: ‖W₀‖²_F, None if
    only the merge's own report is known. ``cosines``: T × T, of the task vectors in the order of
    ``energies``; NaN for one without change.
    """

    name: str
    energies: Mapping[str, float]
    base_energy: float | None = None
    gamma: float | None = None
    mean_log_energy: float | None = None
    log_variance: float | None = None
    left_out: tuple[str, ...] = ()
    cosines: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """What the merge did to one tensor.

    The figures are those of ``Diagnostics``, None if the method has none. ``effective_ranks``: of
    the change before and after its singular values were reshaped; None if they were not.
    ``precision``: the number format of the computation, and why it is exact enough. ``notes``:
    departures from the published procedure here; ``warnings``: possible problems with the result,
    and remedies; one sentence each. ``non_finite``: the experts with NaN or Inf here.
    """

    name: str
    gamma: float | None = None
    log_variance: float | None = None
    regime: Regime | None = None
    ridge_mass: float | None = None
    condition: float | None = None
    refinement_cosine: float | None = None
    refinement_ratio: float | None = None
    energies: Mapping[str, float] | None = None
    delta_norm: float | None = None
    cap_factor: float | None = None
    effective_ranks: tuple[float, float] | None = None
    precision: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    non_finite: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExpertSpectra:
    """Singular values of every expert's ΔW of one matrix, largest first.

    They depend on the models alone.
    """

    name: str
    experts: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class LayerSpectrum:
    """Singular values of one matrix, largest first.

    ``experts``: of every expert's ΔW. ``preliminary``: of W_pre, before refinement (None for
    methods without one). ``unshaped``: of the method's result, if the recipe then reshapes its
    singular values, else None. ``merged``: of the final merged change.
    """

    name: str
    experts: Mapping[str, NDArray[np.float64]]
    preliminary: NDArray[np.float64] | None
    merged: NDArray[np.float64]
    report: LayerReport
    unshaped: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class LayerSubspaces:
    """Directions of one matrix, before and after refinement, and between the experts.

    ``alignment``: |cosine| of the i-th left singular vectors of W_pre and of the merged change, and
    ``alignment_right`` of the right ones, leading first (ACE, Fig. 2 right); None for methods
    without a preliminary solution. ``overlap``: T × T in the order of ``experts``: ‖U_aᵀU_b‖²_F /
    ``rank`` of two experts' leading left subspaces of ``rank`` directions each.
    """

    name: str
    experts: tuple[str, ...]
    alignment: NDArray[np.float64] | None
    alignment_right: NDArray[np.float64] | None
    overlap: NDArray[np.float64]
    rank: int


@dataclass(frozen=True, kw_only=True)
class LayerDistribution:
    """Histograms of the elements of one tensor's ΔW by expert, over common bins.

    ``edges``: B + 1 bin edges, symmetric around zero; ``counts``: B by expert; ``outside``: number
    of elements beyond the edges. ``means``, ``deviations`` and ``excess``, the excess kurtosis (0
    for a Gaussian, NaN without change): of all elements.
    """

    name: str
    edges: NDArray[np.float64]
    counts: Mapping[str, NDArray[np.int64]]
    outside: Mapping[str, int]
    means: Mapping[str, float]
    deviations: Mapping[str, float]
    excess: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """One tensor in two finished merges of the same base.

    ``first_norm``, ``second_norm``: ‖W − W₀‖_F in each; ``difference_norm``: ‖W₁ − W₂‖_F;
    ``cosine``: of the two changes, NaN if one merge left the tensor unchanged. ``first``,
    ``second``: singular values of the changes, largest first; None unless they were requested for a
    matrix.
    """

    name: str
    first_norm: float
    second_norm: float
    difference_norm: float
    cosine: float
    first: NDArray[np.float64] | None = None
    second: NDArray[np.float64] | None = None
