"""Findings on tensors: their task vectors, merges, spectra, and how two models differ.

Plain values and NumPy arrays, without torch. T experts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ace_gui.method_figures import MethodFigures

if TYPE_CHECKING:  # an empty window does not need it
    import numpy as np
    from numpy.typing import NDArray


class Regime(StrEnum):
    """ACE's two branches."""

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


@dataclass(frozen=True, kw_only=True)
class LayerStatistics:
    """Statistics of the experts' task vectors of one tensor."""

    name: str
    """The row's name in the plan."""
    energies: Mapping[str, float]
    """‖ΔW_t‖²_F by expert."""
    base_energy: float | None = None
    """‖W₀‖²_F; None if only the merge's own report is known."""
    gamma: float | None = None
    """Heterogeneity of the experts, known for every method; None for tensors that are not merged,
    or that fewer than two experts changed.
    """
    mean_log_energy: float | None = None
    """Mean of ln E over the experts that changed the tensor; None as ``gamma``."""
    log_variance: float | None = None
    """Var ln E of the energies. A common factor on the task vectors changes γ, but not this."""
    left_out: tuple[str, ...] = ()
    """Experts with numerically no change."""
    cosines: NDArray[np.float64] | None = None
    """T × T, of the task vectors in the order of ``energies``; NaN for one without change. None if
    not computed.
    """

    @property
    def is_unchanged(self) -> bool:
        """Whether no expert changes the tensor, such as with adapters elsewhere."""
        return not any(self.energies.values())


@dataclass(frozen=True, kw_only=True)
class LayerReport(MethodFigures):
    """What the merge did to one tensor: the method's figures, and more."""

    name: str
    """The row's name in the plan."""
    regime: Regime | None = None
    """None if the method has none."""
    energies: Mapping[str, float] | None = None
    """‖ΔW_t‖²_F by expert; None if the method does not report it."""
    delta_norm: float | None = None
    """‖ΔW‖_F of the merged change; None if the tensor was not merged."""
    effective_ranks: tuple[float, float] | None = None
    """Of the change before and after its singular values were reshaped; None if they were not."""
    precision: str = ""
    """The number format of the computation, and why it is exact enough."""
    notes: tuple[str, ...] = ()
    """Departures from the published procedure here, one sentence each."""
    warnings: tuple[str, ...] = ()
    """Possible problems with the result, and remedies, one sentence each."""
    non_finite: tuple[str, ...] = ()
    """The experts with NaN or Inf here."""
    quantisation_noise: float | None = None
    """Estimated share of the rounding of quantised inputs in the energy of the experts' changes, at
    most 1; None if no input is quantised here, or only the base below adapters."""


@dataclass(frozen=True, kw_only=True)
class ExpertSpectra:
    """Singular values of every expert's ΔW of one matrix, largest first.

    They depend only on the models.
    """

    name: str
    experts: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class LayerSpectrum:
    """Singular values of one matrix, largest first."""

    name: str
    """The row's name in the plan."""
    experts: Mapping[str, NDArray[np.float64]]
    """Those of every expert's ΔW."""
    preliminary: NDArray[np.float64] | None
    """Those of W_pre, before refinement; None for methods without one."""
    merged: NDArray[np.float64]
    """Those of the final merged change."""
    report: LayerReport
    """What the merge did to the matrix."""
    unshaped: NDArray[np.float64] | None = None
    """Those of the method's result, if the recipe then reshapes its singular values, else None."""


@dataclass(frozen=True, kw_only=True)
class LayerSubspaces:
    """Directions of one matrix, before and after refinement, and between the experts."""

    name: str
    """The row's name in the plan."""
    experts: tuple[str, ...]
    """Their names."""
    alignment: NDArray[np.float64] | None
    """|cosine| of the i-th left singular vectors of W_pre and of the merged change, leading first
    (ACE, Fig. 2 right); None for methods without a preliminary solution.
    """
    alignment_right: NDArray[np.float64] | None
    """The same of the right ones."""
    overlap: NDArray[np.float64]
    """T × T in the order of ``experts``: ‖U_aᵀU_b‖²_F / ``rank`` of two experts' leading left
    subspaces.
    """
    rank: int
    """Number of directions of these subspaces."""


@dataclass(frozen=True, kw_only=True)
class LayerDistribution:
    """Histograms of the elements of one tensor's ΔW by expert, over common bins."""

    name: str
    """The row's name in the plan."""
    edges: NDArray[np.float64]
    """B + 1 bin edges, symmetric around zero."""
    counts: Mapping[str, NDArray[np.int64]]
    """B by expert."""
    outside: Mapping[str, int]
    """By expert, the number of elements beyond the edges."""
    means: Mapping[str, float]
    """By expert, of all elements."""
    deviations: Mapping[str, float]
    """By expert, the standard deviation of all elements."""
    excess: Mapping[str, float]
    """By expert, the excess kurtosis of all elements: 0 for a Gaussian, NaN without change."""


@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """One tensor in two finished merges of the same base."""

    name: str
    """The row's name in the plan."""
    first_norm: float
    """‖W₁ − W₀‖_F of the first merge."""
    second_norm: float
    """‖W₂ − W₀‖_F of the second."""
    difference_norm: float
    """‖W₁ − W₂‖_F."""
    cosine: float
    """Of the two changes; NaN if one merge left the tensor unchanged."""
    first: NDArray[np.float64] | None = None
    """Singular values of the first change, largest first; None unless they were requested for a
    matrix.
    """
    second: NDArray[np.float64] | None = None
    """Singular values of the second change, as ``first``."""


@dataclass(frozen=True, kw_only=True)
class CovarianceMatch:
    """How well ACE's estimate Σ̂_t = W̃_tᵀW̃_t agrees with C_t, the covariance of the inputs.

    For one matrix and expert, or means over several.
    """

    name: str
    """The row's name in the plan; empty for a mean."""
    role: str
    """What the matrix does."""
    expert: str
    """The expert's name; empty for a mean."""
    cosine: float
    """⟨Σ̂, C⟩ / (‖Σ̂‖ ‖C‖), Frobenius."""
    centred: float
    """The same after subtracting the mean eigenvalue from each diagonal, which removes what both
    share with the identity.
    """
    others: float | None
    """Mean of ``centred`` with the other experts' C instead of its own; None with one expert."""
    overlap: float
    """‖U_kᵀV_k‖² / k of the leading k eigenvectors of both."""
    chance: float
    """k / I, the mean overlap of two unrelated subspaces."""


@dataclass(frozen=True, kw_only=True)
class LayerCovariances:
    """Both covariances of one matrix, for the ``experts`` that change it.

    ``centred_TT``: Σ̂ of the row's expert against C of the column's, as
    ``CovarianceMatch.centred``.
    """

    name: str
    experts: tuple[str, ...]
    matches: tuple[CovarianceMatch, ...]
    centred_TT: NDArray[np.float64]


def mean_match(matches: Sequence[CovarianceMatch], name: str, role: str) -> CovarianceMatch:
    """The mean of at least one match, under this name and role."""
    of_others = [match.others for match in matches if match.others is not None]
    return CovarianceMatch(
        name=name,
        role=role,
        expert="mean",
        cosine=fmean(match.cosine for match in matches),
        centred=fmean(match.centred for match in matches),
        others=fmean(of_others) if of_others else None,
        overlap=fmean(match.overlap for match in matches),
        chance=fmean(match.chance for match in matches),
    )


def by_role(matches: Iterable[CovarianceMatch]) -> tuple[CovarianceMatch, ...]:
    """The mean match of each role, in the order of first appearance."""
    matches_by_role: dict[str, list[CovarianceMatch]] = {}
    for match in matches:
        matches_by_role.setdefault(match.role, []).append(match)
    return tuple(mean_match(members, "", role) for role, members in matches_by_role.items())


class Change:
    """``norm``: ‖A‖_F; ``change``: ‖B − A‖_F, in float64. NaN where a value is NaN or infinite."""

    norm: float
    change: float

    @property
    def relative(self) -> float | None:
        """‖B − A‖ / ‖A‖; None where it is undefined."""
        if math.isnan(self.change) or math.isnan(self.norm):
            return None
        if not self.norm:
            if self.change:
                return None
            return 0.0
        return self.change / self.norm


@dataclass(frozen=True, kw_only=True)
class TensorChange(Change):
    """One tensor of both models."""

    name: str
    """In the first model."""
    role: str
    """What the tensor does."""
    block: int | None
    """Its transformer block; None outside blocks."""
    shape: tuple[int, ...]
    """In both models."""
    dtype: str
    """In the first model, a safetensors tag."""
    second_dtype: str
    """In the second model."""
    second_name: str
    """In the second model, where it has another name or is tied to that tensor."""
    norm: float
    """‖W‖_F in the first model."""
    change: float
    """‖W₂ − W‖_F."""


@dataclass(frozen=True, kw_only=True)
class GroupChange(Change):
    """The tensors of one block or role together, as one vector."""

    name: str
    tensors: int
    norm: float
    change: float


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelDiff:
    """The change from one model to another. ``tensors``: those of both, with equal shapes.

    ``missing``: tensors only in the first; ``extra``: only in the second; ``other_shape``: name,
    shape in the first and in the second.
    """

    tensors: tuple[TensorChange, ...]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    other_shape: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()

    def __repr__(self) -> str:
        changed = sum(change.change != 0 for change in self.tensors)
        relative = self.total.relative
        if relative is None:
            size = ""
        else:
            size = f", {relative:.3g} of the first's norm"
        return f"<ModelDiff: {changed} of {len(self.tensors)} tensors changed{size}>"

    @property
    def total(self) -> GroupChange:
        """All tensors of both models."""
        return _group("all", self.tensors)

    @property
    def by_block(self) -> tuple[GroupChange, ...]:
        """Each block, in order; the tensors outside the blocks come last, as ``outside``."""
        by_block = defaultdict[int, list[TensorChange]](list)
        outside = []
        for change in self.tensors:
            if change.block is None:
                outside.append(change)
            else:
                by_block[change.block].append(change)
        changes = [_group(str(block), by_block[block]) for block in sorted(by_block)]
        if outside:
            changes.append(_group("outside", outside))
        return tuple(changes)

    @property
    def by_role(self) -> tuple[GroupChange, ...]:
        """Each role, in the order of its first tensor."""
        by_role = defaultdict[str, list[TensorChange]](list)
        for change in self.tensors:
            by_role[change.role].append(change)
        return tuple(_group(role, changes) for role, changes in by_role.items())

    def to_frame(self) -> Any:
        """One row per tensor of both models, as a pandas DataFrame. Raises ImportError."""
        import pandas as pd

        records = [asdict(change) | {"relative": change.relative} for change in self.tensors]
        return pd.DataFrame(records)


def _group(name: str, changes: Iterable[TensorChange]) -> GroupChange:
    members = list(changes)
    norm = math.sqrt(math.fsum(tensor_change.norm**2 for tensor_change in members))
    change = math.sqrt(math.fsum(tensor_change.change**2 for tensor_change in members))
    return GroupChange(name=name, tensors=len(members), norm=norm, change=change)
