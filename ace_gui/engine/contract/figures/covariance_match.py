"""Compares ACE's covariance estimates with those measured on the experts' own data. Plain values.

T experts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from ace_gui.engine.contract.events import JobProgress

if TYPE_CHECKING:  # an empty window does not need it
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class CovarianceMatch:
    """How well ACE's estimate Σ̂_t = W̃_tᵀW̃_t agrees with C_t, the covariance of the inputs.

    For one matrix and expert, or means over several. ``cosine``: ⟨Σ̂, C⟩ / (‖Σ̂‖ ‖C‖), Frobenius.
    ``centred``: the same after subtracting the mean eigenvalue from each diagonal, which removes
    what both share with the identity. ``others``: mean of ``centred`` with the other experts' C
    instead of its own; None with one expert. ``overlap``: ‖U_kᵀV_k‖² / k of the leading k
    eigenvectors of both; ``chance``: k / I, the mean overlap of two unrelated subspaces.
    """

    name: str
    role: str
    expert: str
    cosine: float
    centred: float
    others: float | None
    overlap: float
    chance: float


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


@dataclass(frozen=True, kw_only=True)
class CovariancesCompared(JobProgress):
    """``done`` of ``total`` matrices are compared; ``layer`` is the latest.

    None if the matrix had no inputs in one of the experts, or no expert changes it.
    """

    layer: LayerCovariances | None


def mean_match(matches: Sequence[CovarianceMatch], name: str, role: str) -> CovarianceMatch:
    """The mean of at least one match, under this name and role."""
    others = [each.others for each in matches if each.others is not None]
    return CovarianceMatch(
        name=name,
        role=role,
        expert="mean",
        cosine=fmean(each.cosine for each in matches),
        centred=fmean(each.centred for each in matches),
        others=fmean(others) if others else None,
        overlap=fmean(each.overlap for each in matches),
        chance=fmean(each.chance for each in matches),
    )


def by_role(matches: Iterable[CovarianceMatch]) -> tuple[CovarianceMatch, ...]:
    """The mean match of each role, in the order of first appearance."""
    found: dict[str, list[CovarianceMatch]] = {}
    for each in matches:
        found.setdefault(each.role, []).append(each)
    return tuple(mean_match(own, "", role) for role, own in found.items())
