"""The distribution of the elements of the experts' changes, computed in parts."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.findings import LayerDistribution
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.layer_context import InspectionCache, InspectionContext, inspect_row
from ace_gui.engine.kept_files import Arrays
from ace_gui.engine.merging.task_vectors import CPU, TaskVectors
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import parts_of

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
    found = context.cache.get(key)
    if found is None:
        found = yield from _counted(context)
        context.cache.put(key, found)
    figures = {
        name: dict(zip(context.names, found[name].tolist(), strict=True))
        for name in ("outside", "means", "deviations", "excess")
    }
    yield LayerDistribution(
        name=context.row.name,
        edges=found["edges"],
        counts=dict(zip(context.names, found["counts"], strict=True)),
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
