"""Compares ACE's data-free covariances with measured ones, on the user's own models.

O outputs, I inputs, T experts, K leading directions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Final

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from ace_gui.engine.calibrating.calibrate import measure, recall
from ace_gui.engine.contract.events import CovariancesCompared, PassProgress
from ace_gui.engine.contract.findings import CovarianceMatch, LayerCovariances
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.layer_context import (
    InspectionCache,
    InspectionContext,
    inspect_row,
    side_by_side,
)
from ace_gui.engine.kept_files import Arrays, text_array, text_of
from ace_gui.engine.merging.task_vectors import measured_of
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.passes import centre_
from ace_gui.linalg.products import gram, times
from ace_gui.methods.shared.measured import Measured, Need, covariance
from ace_gui.recipe import Recipe

SHARE: Final = 8
"""One in this many directions counts as leading."""

_MATCHES: Final = TypeAdapter(tuple[CovarianceMatch, ...])


def as_ace_merges(recipe: Recipe) -> Recipe:
    """The recipe whose plan has the matrices for which ACE estimates covariances."""
    return replace(recipe, merge_method="ace", parameters={}, overrides=())


def compare_covariances(
    prepared: Prepared, device: torch.device, cache: InspectionCache, first: str = ""
) -> Iterator[PassProgress | CovariancesCompared | None]:
    """Measure the experts' inputs, then compare matrix by matrix, beginning with ``first``.

    ``prepared``: of ``as_ace_merges``. Earlier comparisons are cached. Raises the errors of
    ``measure`` and ``inspect_row``.
    """
    yield from measure(prepared, Need.INPUTS, device)
    rows = sorted(filter(_compares, prepared.plan.rows), key=lambda row: row.name != first)
    for done, row in enumerate(rows, 1):
        layer = None
        for step in inspect_row(prepared, row, device, cache, _compared):
            layer = step
            if step is None:
                yield None
        yield CovariancesCompared(layer=layer, done=done, total=len(rows))


def layer_covariances(
    prepared: Prepared, row: PlanRow, device: torch.device, cache: InspectionCache
) -> Iterator[LayerCovariances | None]:
    """Compare one matrix, if the experts' inputs were measured before; otherwise yield nothing."""
    if _compares(row) and (yield from recall(prepared, Need.INPUTS, device)):
        yield from inspect_row(prepared, row, device, cache, _compared)


def _compares(row: PlanRow) -> bool:
    return row.is_merged and bool(row.experts) and row.tied_to is None


def _compared(context: InspectionContext) -> Iterator[LayerCovariances | None]:
    statistics = context.prepared.groundwork.measurements[Need.INPUTS]
    key = context.key(f"covariances by {[statistics[t].key for t in context.row.experts]}")
    stored = context.cache.get(key)
    if stored is None:
        measured = measured_of(context.row, context.prepared, context.deltas, Need.INPUTS)
        if measured is None:
            return
        pairs = yield from side_by_side(
            lambda t: _pair(context, measured, t), range(len(context.names)), context.device
        )
        stored = _entry([pair for pair in pairs if pair is not None])
        context.cache.put(key, stored)
    matches = _MATCHES.validate_json(text_of(stored["matches"]))
    if not matches:
        return
    yield LayerCovariances(
        name=context.row.name,
        experts=tuple(match.expert for match in matches),
        matches=matches,
        centred_TT=stored["centred"],
    )


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The agreement of expert t's Σ̂ and C."""

    t: int
    match: CovarianceMatch
    centred_T: list[float]


def _pair(context: InspectionContext, measured: Measured, t: int) -> _Pair | None:
    """The agreement; None for an expert that does not change the matrix."""
    delta_OI = context.deltas[t].to(torch.float64)
    centre_(delta_OI)
    proxy_II = gram(delta_OI)  # Eq. 6
    del delta_OI
    trace = float(proxy_II.diagonal().sum())
    if not trace:
        return None
    proxy_II.div_(trace)
    measured_II = covariance(measured, t)
    proxies_II = eigenvectors(proxy_II).vectors
    inputs_II = eigenvectors(measured_II).vectors
    k = max(1, len(measured_II) // SHARE)
    centred_T = []
    for second in range(len(context.names)):
        centred_T.append(cosine(proxy_II, covariance(measured, second), centred=True))
    of_others = [*centred_T[:t], *centred_T[t + 1 :]]
    return _Pair(
        t=t,
        match=CovarianceMatch(
            name=context.row.name,
            role=context.row.role,
            expert=context.names[t],
            cosine=cosine(proxy_II, measured_II),
            centred=centred_T[t],
            others=fmean(of_others) if of_others else None,
            overlap=overlap(proxies_II[:, -k:], inputs_II[:, -k:]),
            chance=k / len(measured_II),
        ),
        centred_T=centred_T,
    )


def _entry(pairs: list[_Pair]) -> Arrays:
    """The cache entry for the experts that change the matrix."""
    changing = [pair.t for pair in pairs]
    return {
        "matches": text_array(json.dumps([asdict(pair.match) for pair in pairs])),
        "centred": np.array([[pair.centred_T[t] for t in changing] for pair in pairs]),
    }


def cosine(one_NN: Tensor, other_NN: Tensor, *, centred: bool = False) -> float:
    """⟨A, B⟩ / (‖A‖ ‖B‖), Frobenius, for symmetric float64 matrices (N × N); 0 where one is zero.

    ``centred``: of A − (Tr A / N) I and B − (Tr B / N) I, which are not computed.
    """
    size = one_NN.shape[0]
    product = float(torch.sum(one_NN * other_NN))
    squares = [float(torch.linalg.vector_norm(matrix) ** 2) for matrix in (one_NN, other_NN)]
    if centred:
        traces = [float(matrix.diagonal().sum()) for matrix in (one_NN, other_NN)]
        product -= traces[0] * traces[1] / size
        squares = [s - trace**2 / size for s, trace in zip(squares, traces, strict=True)]
    denominator = max(squares[0], 0.0) * max(squares[1], 0.0)
    return product / denominator**0.5 if denominator > 0 else 0.0


def overlap(one_NK: Tensor, other_NK: Tensor) -> float:
    """‖UᵀV‖² / K of two orthonormal bases: 1 for the same subspace, 0 for orthogonal ones."""
    square = torch.linalg.vector_norm(times(one_NK.T, other_NK)) ** 2
    return float(square) / one_NK.shape[1]
