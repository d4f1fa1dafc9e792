"""Spectra and leading directions of a matrix; the distribution of the elements of the changes.

The spectrum of the merge may come from a finished merge of the same recipe. Its store holds
W = W₀ + ΔW (O outputs × I inputs) rounded to its dtype with unit roundoff u. Rounding adds noise to
ΔW of at most u·‖W‖_F/√(OI) per element. The spectral norm of such noise would be
N = u·‖W‖_F·(1/√O + 1/√I); in fact it is about a quarter. By Weyl's inequality no singular value
moves by more; most move by a hundredth of it. R = min(O, I), K directions, T experts.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.contract.findings import (
    ExpertSpectra,
    LayerDistribution,
    LayerReport,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.engine.contract.matrix_figures import Spectrum, leading
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.layer_context import (
    InspectionCache,
    InspectionContext,
    inspect_row,
    report_array,
    report_from,
    require_matrix,
    side_by_side,
)
from ace_gui.engine.kept_files import Arrays
from ace_gui.engine.merging.merge_manifest import InputFile
from ace_gui.engine.merging.store import MODEL, read_finished, reports
from ace_gui.engine.merging.task_vectors import CPU, TaskVectors
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import of_row, parts_of, read_row
from ace_gui.errors import WorkbenchError
from ace_gui.linalg.side_by_side import matrices_side_by_side
from ace_gui.linalg.singular import leading_triplets, singular_values
from ace_gui.methods import added_sources
from ace_gui.versions import COMPUTING, code_digest, library_versions

CLEAR: Final = 8.0
"""Singular values above this multiple of N are accurate to 3 %, a pixel of a logarithmic plot."""

HIDDEN: Final = 0.5
"""Singular values up to this multiple of N may be rounding alone."""


def spectrum(
    prepared: Prepared,
    row: PlanRow,
    device: torch.device,
    cache: InspectionCache,
    store: Path | None = None,
) -> Iterator[ExpertSpectra | LayerSpectrum | None]:
    """Singular values of every expert's task vector, then of W_pre and of the merged change.

    The experts' spectra are cached separately, so that another recipe computes only those of the
    merge; they are yielded first if the merge takes a while. ``store``: of a finished merge, used
    for the merge's spectrum if it is accurate enough. Raises MethodError for a tensor that is not a
    matrix or that no expert has, NonFiniteError if a merge would stop.
    """
    require_matrix(row)
    return inspect_row(prepared, row, device, cache, lambda context: _spectrum(context, store))


def _spectrum(
    context: InspectionContext, store: Path | None
) -> Iterator[ExpertSpectra | LayerSpectrum | None]:
    def expert(t: int) -> Arrays:
        key = context.key("spectrum", t)
        return context.remembered(key, lambda: {"sigma": _values(context.deltas[t])})

    spectra = yield from side_by_side(expert, range(len(context.names)), context.device)
    experts = {}
    for name, arrays in zip(context.names, spectra, strict=True):
        experts[name] = arrays["sigma"]
    merged = context.cache.get(context.merge_key("spectrum"))
    if merged is None:
        yield ExpertSpectra(name=context.row.name, experts=experts)
        merged = _of_store(context, store)
    if merged is None:
        yield from context.surveyed()
        merged = context.remembered(context.merge_key("spectrum"), lambda: _of_merge(context))
    yield LayerSpectrum(
        name=context.row.name,
        experts=experts,
        preliminary=merged.get("preliminary"),
        merged=merged["merged"],
        unshaped=merged.get("unshaped"),
        report=report_from(merged["report"]),
    )


def _of_store(context: InspectionContext, store: Path | None) -> Arrays | None:
    """The cache entry of a finished merge, separate from exactly computed ones."""
    if store is None or context.row.after.reshapes:
        return None
    key = context.merge_key("spectrum of a finished merge")
    cached = context.cache.get(key)
    if cached is not None:
        return cached
    finished = finished_spectrum(store, context)
    if finished is None:
        return None
    report = finished[1]
    merged = finished[0].cpu().numpy()
    method = context.prepared.method_of(context.row)
    has_preliminary = method.heterogeneity and context.row.is_merged
    entry = _entry(report, merged, merged if has_preliminary else None)
    context.cache.put(key, entry)
    return entry


def _of_merge(context: InspectionContext) -> Arrays:
    merged = context.merged()
    report = context.report(merged)
    reshaped = merged.diagnostics.reshaped
    if reshaped is None:
        unshaped = None
    else:
        unshaped = np.array(reshaped[0])
    if merged.preliminary is None:
        return _entry(report, _values(merged.delta), unshaped=unshaped)
    if torch.equal(merged.preliminary, merged.delta):  # nothing was refined
        sigma = _values(merged.delta)
        return _entry(report, sigma, sigma, unshaped)
    stages = (merged.delta, merged.preliminary)
    entries = merged.delta.numel()
    sigmas = matrices_side_by_side(_values, stages, entries=entries, device=context.device)
    return _entry(report, sigmas[0], sigmas[1], unshaped)


def _entry(
    report: LayerReport,
    merged: Spectrum,
    preliminary: Spectrum | None = None,
    unshaped: Spectrum | None = None,
) -> Arrays:
    values = {"merged": merged, "preliminary": preliminary, "unshaped": unshaped}
    present = {name: sigma for name, sigma in values.items() if sigma is not None}
    return {**present, "report": report_array(report)}


def _values(matrix: Tensor) -> Spectrum:
    return singular_values(matrix).cpu().numpy()


def finished_spectrum(store: Path, context: InspectionContext) -> tuple[Tensor, LayerReport] | None:
    """Singular values (R,) of ΔW in a finished merge, largest first, float64, and its report.

    Directions that are empty except for rounding have 0. None if the merge had another recipe,
    other files or another version, if it refined the tensor, or if rounding may show.
    """
    row = context.row
    try:
        report = _report(store, context.prepared, row)
        if report is None or report.refinement_ratio is not None:
            return None
        weights = TensorReader(open_checkpoint(store / MODEL))
        merged_OI = read_row(weights, row)
        base_OI = of_row(row, None, partial(context.readers.base.read, row.tensor))
    except WorkbenchError:  # the store is being removed or damaged: merge instead
        return None
    wide_OI = merged_OI.to(context.device, torch.float64)
    noise = torch.finfo(merged_OI.dtype).eps / 2 * float(torch.linalg.matrix_norm(wide_OI))
    noise *= sum(1 / sqrt(size) for size in row.shape)
    sigma_R = singular_values(wide_OI.sub_(base_OI.to(context.device)))
    hidden_R = sigma_R <= HIDDEN * noise
    if bool(((sigma_R < CLEAR * noise) & ~hidden_R).any()) or bool(hidden_R.all()):
        return None
    return sigma_R.masked_fill(hidden_R, 0.0), report


def _report(store: Path, prepared: Prepared, row: PlanRow) -> LayerReport | None:
    """The report of the row in the store, None if the store belongs to another merge."""
    manifest = read_finished(store)
    same = (
        manifest.recipe == prepared.recipe
        and manifest.inputs == tuple(map(InputFile.of, prepared.files))
        and manifest.code == code_digest(*COMPUTING)
        and manifest.added_methods == added_sources(manifest.recipe.methods)
        and manifest.libraries == library_versions()
        and row in manifest.rows
    )
    if same:
        return reports(store).get(row.name)
    return None


COMPARED: Final = 100
"""Most directions of W_pre that are compared with the merged ones."""


def subspaces(
    prepared: Prepared, row: PlanRow, device: torch.device, cache: InspectionCache
) -> Iterator[LayerSubspaces | None]:
    """Alignment of W_pre with the merged change, and the overlap of the experts' subspaces.

    The subspaces have the leading 5 % of the directions, or fewer if an expert has fewer above
    rounding. Raises MethodError for a tensor that is not a matrix or that no expert has,
    NonFiniteError if a merge would stop.
    """
    require_matrix(row)
    return inspect_row(prepared, row, device, cache, _subspaces)


def _subspaces(context: InspectionContext) -> Iterator[LayerSubspaces | None]:
    count = leading(min(context.row.shape))
    key = context.key(f"overlap of {count}")
    overlaps = context.cache.get(key)
    if overlaps is None:
        bases = yield from side_by_side(
            lambda t: leading_triplets(context.deltas[t].double(), count).u_OK,
            range(len(context.names)),
            context.device,
        )
        overlap_TT, rank = overlap(bases)
        overlaps = {"overlap": overlap_TT, "rank": np.array(rank)}
        context.cache.put(key, overlaps)
        yield None
    yield from context.surveyed()
    alignments = context.remembered(context.merge_key("alignment"), lambda: _aligned(context))
    yield LayerSubspaces(
        name=context.row.name,
        experts=context.names,
        alignment=alignments.get("left"),
        alignment_right=alignments.get("right"),
        overlap=overlaps["overlap"],
        rank=int(overlaps["rank"]),
    )


def _aligned(context: InspectionContext) -> Arrays:
    merged = context.merged()
    if merged.preliminary is None:
        return {}
    left_K, right_K = alignment(merged.preliminary.double(), merged.delta.double())
    return {"left": left_K, "right": right_K}


def overlap(bases: list[Tensor]) -> tuple[NDArray[np.float64], int]:
    """‖U_aᵀU_b‖²_F / K of orthonormal bases (O × K_t each), T × T, and the common K.

    K is the least positive K_t, so that every subspace overlaps with itself by 1; the rows and
    columns of a basis without directions are NaN.
    """
    rank = min((basis.shape[1] for basis in bases if basis.shape[1]), default=0)
    overlap_TT = np.full((len(bases), len(bases)), np.nan)
    for a, first in enumerate(bases):
        for b, second in enumerate(bases[: a + 1]):
            if first.shape[1] and second.shape[1]:
                shared = torch.linalg.matrix_norm(first[:, :rank].T @ second[:, :rank])
                overlap_TT[a, b] = overlap_TT[b, a] = min(float(shared) ** 2 / rank, 1.0)
    return overlap_TT, rank


def alignment(
    before_OI: Tensor, after_OI: Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """|cosine| of the i-th left, and of the i-th right, singular vectors of two matrices.

    At most ``COMPARED`` of them, and none that rounding alone determines.
    """
    k = min(COMPARED, *before_OI.shape)
    before = leading_triplets(before_OI, k)
    # Without refinement both are equal.
    if torch.equal(before_OI, after_OI):
        after = before
    else:
        after = leading_triplets(after_OI, k)
    count = min(len(before.s_K), len(after.s_K))
    left_K = (before.u_OK[:, :count] * after.u_OK[:, :count]).sum(dim=0).abs()
    right_K = (before.vh_KI[:count] * after.vh_KI[:count]).sum(dim=1).abs()
    return left_K.clamp(max=1).cpu().numpy(), right_K.clamp(max=1).cpu().numpy()


BINS: Final = 161
"""An odd number, so that zero elements, which form a peak, share the bin around zero."""

DEVIATIONS: Final = 5.0
"""Largest range of the bins, in standard deviations of the widest expert."""


def distribution(
    prepared: Prepared, row: PlanRow, cache: InspectionCache
) -> Iterator[LayerDistribution | None]:
    """Histograms of ΔW_t over common bins; reads every expert twice.

    The bins are symmetric around zero and reach to ``DEVIATIONS`` deviations of the expert with the
    largest one, or to the largest element. Raises MethodError for a tensor that no expert has,
    NonFiniteError if a merge would stop.
    """
    return inspect_row(prepared, row, CPU, cache, _distribution)


def _distribution(context: InspectionContext) -> Iterator[LayerDistribution | None]:
    key = context.key(f"distribution and excess in {BINS} bins to {DEVIATIONS} deviations")
    arrays = context.cache.get(key)
    if arrays is None:
        arrays = yield from _counted(context)
        context.cache.put(key, arrays)
    figures = {}
    for name in ("outside", "means", "deviations", "excess"):
        figures[name] = dict(zip(context.names, arrays[name].tolist(), strict=True))
    yield LayerDistribution(
        name=context.row.name,
        edges=arrays["edges"],
        counts=dict(zip(context.names, arrays["counts"], strict=True)),
        **figures,
    )


def _counted(context: InspectionContext) -> Generator[None, None, Arrays]:
    elements = max(math.prod(context.row.shape), 1)
    total_T, squares_T, largest_T, fourths_T = np.zeros((4, len(context.names)))
    for values_TN in _parts(context):
        for t, values_N in enumerate(values_TN):
            total_T[t] += values_N.sum()
            squares_T[t] += np.dot(values_N, values_N)
            largest_T[t] = np.abs(values_N).max(initial=largest_T[t])
        yield None
    mean_T = total_T / elements
    deviation_T = np.sqrt(np.maximum(squares_T / elements - mean_T**2, 0.0))
    reach = min(largest_T.max(), DEVIATIONS * np.hypot(mean_T, deviation_T).max())
    reach = reach or 1.0  # nothing changed
    edges = reach * np.arange(-BINS, BINS + 1, 2) / BINS  # symmetric to the last digit
    counts_TB = np.zeros((len(context.names), BINS), np.int64)
    for values_TN in _parts(context):
        for t, values_N in enumerate(values_TN):
            counts_TB[t] += np.histogram(values_N, BINS, (edges[0], edges[-1]))[0]
            centred_N = (values_N - mean_T[t]) ** 2
            fourths_T[t] += np.dot(centred_N, centred_N)
        yield None
    with np.errstate(divide="ignore", invalid="ignore"):
        excess_T = fourths_T / elements / deviation_T**4 - 3
    return {
        "edges": edges,
        "counts": counts_TB,
        "outside": math.prod(context.row.shape) - counts_TB.sum(axis=1),
        "means": mean_T,
        "deviations": deviation_T,
        "excess": np.where(deviation_T > 0, excess_T, np.nan),
    }


def _parts(context: InspectionContext) -> Iterator[list[NDArray[np.float64]]]:
    """The change of every expert, part by part."""
    for part in parts_of(math.prod(context.row.shape)):
        deltas = TaskVectors(context.row, context.readers, CPU, part)
        yield [deltas[t].double().numpy() for t in range(len(deltas))]
