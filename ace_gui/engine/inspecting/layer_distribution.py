"""The distribution of the elements of the experts' changes, computed in parts."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from ace_gui.engine.array_cache import Arrays
from ace_gui.engine.contract.figures.findings import LayerDistribution
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.inspecting.layer_context import InspectionContext, inspect_row
from ace_gui.engine.merging.one_tensor.task_vectors import TaskVectors
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import parts_of

CPU: Final = torch.device("cpu")

BINS: Final = 161
"""An odd number, so that zero elements, which form a peak, share the bin around zero."""

DEVIATIONS: Final = 5.0
"""Largest range of the bins, in standard deviations of the widest expert."""


@dataclass(kw_only=True)
class Moments:
    """Sums over elements x of one expert's change, in float64."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    largest: float = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Add more elements."""
        if not values.size:
            return
        self.count += values.size
        self.total += float(values.sum())
        self.squares += float(np.dot(values, values))
        self.largest = max(self.largest, float(values.max()), -float(values.min()))

    @property
    def mean(self) -> float:
        """Mean of the elements."""
        return self.total / max(self.count, 1)

    @property
    def deviation(self) -> float:
        """Standard deviation of the elements, of the population."""
        return math.sqrt(max(self.squares / max(self.count, 1) - self.mean**2, 0.0))

    def excess(self, fourths: float) -> float:
        """Excess kurtosis, from the sum of (x − mean)⁴; NaN without deviation."""
        variance = self.deviation**2
        return fourths / self.count / variance**2 - 3 if variance > 0 else math.nan


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
    outside, means, deviations, excess = (
        dict(zip(context.names, found[what].tolist(), strict=True))
        for what in ("outside", "means", "deviations", "excess")
    )

    yield LayerDistribution(
        name=context.row.name,
        edges=found["edges"],
        counts=dict(zip(context.names, found["counts"], strict=True)),
        outside=outside,
        means=means,
        deviations=deviations,
        excess=excess,
    )


def _counted(context: InspectionContext) -> Generator[None, None, Arrays]:
    moments = [Moments() for _ in context.names]
    for values_TN in _parts(context):
        for each, values_N in zip(moments, values_TN, strict=True):
            each.add(values_N)
        yield None
    edges = bin_edges(moments)
    counts_TB = np.zeros((len(moments), BINS), np.int64)
    fourths_T = np.zeros(len(moments))
    for values_TN in _parts(context):
        for t, values_N in enumerate(values_TN):
            counts_TB[t] += np.histogram(values_N, BINS, (edges[0], edges[-1]))[0]
            squares_N = (values_N - moments[t].mean) ** 2
            fourths_T[t] += float(np.dot(squares_N, squares_N))
        yield None
    return {
        "edges": edges,
        "counts": counts_TB,
        "outside": np.array([each.count for each in moments]) - counts_TB.sum(axis=1),
        "means": np.array([each.mean for each in moments]),
        "deviations": np.array([each.deviation for each in moments]),
        "excess": np.array(
            [m.excess(fourth) for m, fourth in zip(moments, fourths_T, strict=True)]
        ),
    }


def bin_edges(found: list[Moments]) -> NDArray[np.float64]:
    """``BINS`` + 1 edges of equal bins around zero."""
    largest = max(moments.largest for moments in found)
    reach = min(largest, DEVIATIONS * max(math.hypot(m.mean, m.deviation) for m in found))
    reach = reach or 1.0  # nothing changed
    return reach * np.arange(-BINS, BINS + 1, 2) / BINS  # symmetric to the last digit


def _parts(context: InspectionContext) -> Iterator[list[NDArray[np.float64]]]:
    """The change of every expert, part by part."""
    for part in parts_of(math.prod(context.row.shape)):
        deltas = TaskVectors(context.row, context.readers, CPU, part)
        yield [deltas[t].double().numpy() for t in range(len(deltas))]
