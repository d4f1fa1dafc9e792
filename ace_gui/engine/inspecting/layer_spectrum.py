"""The spectra of one matrix: of the experts, and of the merge before and after refinement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ace_gui.engine.array_cache import Arrays
from ace_gui.engine.contract.figures.findings import ExpertSpectra, LayerReport, LayerSpectrum
from ace_gui.engine.contract.figures.spectral_figures import Spectrum
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.inspecting.layer_context import (
    InspectionContext,
    inspect_row,
    report_array,
    report_from,
    require_matrix,
    side_by_side,
)
from ace_gui.engine.inspecting.stored_spectrum import finished_spectrum
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.linalg import side_by_side as decompositions
from ace_gui.linalg.spectra import singular_values


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

    found = yield from side_by_side(expert, range(len(context.names)), context.device)
    experts = {name: each["sigma"] for name, each in zip(context.names, found, strict=True)}
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
    kept = context.cache.get(key)
    if kept is not None:
        return kept
    known = finished_spectrum(store, context)
    if known is None:
        return None
    report, merged = known[1], known[0].cpu().numpy()
    method = context.prepared.method_of(context.row)
    has_preliminary = method.heterogeneity and context.row.disposition == Disposition.MERGED
    entry = _entry(report, merged, merged if has_preliminary else None)
    context.cache.put(key, entry)
    return entry


def _of_merge(context: InspectionContext) -> Arrays:
    merged = context.merged()
    report, reshaped = context.report(merged), merged.diagnostics.reshaped
    unshaped = None if reshaped is None else np.array(reshaped[0])
    if merged.preliminary is None:
        return _entry(report, _values(merged.delta), unshaped=unshaped)
    if torch.equal(merged.preliminary, merged.delta):  # nothing was refined
        sigma = _values(merged.delta)
        return _entry(report, sigma, sigma, unshaped)
    both, entries = (merged.delta, merged.preliminary), merged.delta.numel()
    found = decompositions.side_by_side(_values, both, entries=entries, device=context.device)
    return _entry(report, found[0], found[1], unshaped)


def _entry(
    report: LayerReport,
    merged: Spectrum,
    preliminary: Spectrum | None = None,
    unshaped: Spectrum | None = None,
) -> Arrays:
    values = {"merged": merged, "preliminary": preliminary, "unshaped": unshaped}
    known = {name: sigma for name, sigma in values.items() if sigma is not None}
    return {**known, "report": report_array(report)}


def _values(matrix: Tensor) -> Spectrum:
    return singular_values(matrix).cpu().numpy()
