"""Merges of a few matrices, to tell beforehand how far the whole merge will move the model.

O outputs, I inputs, T experts.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from math import sqrt
from typing import Final

import torch

from ace_gui.engine.contract.events import MatrixSampled
from ace_gui.engine.contract.figures.findings import LayerReport
from ace_gui.engine.contract.figures.forecast import matrices
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.inspecting.layer_context import (
    InspectionContext,
    inspect_row,
    report_array,
    report_from,
)
from ace_gui.engine.merging.one_tensor.tensor_merge import merge_deltas
from ace_gui.engine.merging.whole_model.surveying import waits
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.errors import MethodError, NonFiniteError
from ace_gui.methods.method import products_with_itself

TOTAL_SECONDS: Final = 4.0
ONE_SECONDS: Final = 1.5
"""What all of them may take, and what one may: nobody is to wait for the end of it."""

_FIRST_RATES: Final = {"cpu": 2e10}
_FAST: Final = 1e12
"""FLOPs a second until the first merge has shown what they are; elsewhere than on a processor."""

_GOLDEN: Final = (sqrt(5) - 1) / 2


def sampled(
    prepared: Prepared, device: torch.device, cache: InspectionCache
) -> Iterator[MatrixSampled | None]:
    """Merge matrices of every role and shape, the smallest first, as far as time allows.

    One that cannot be merged is left to the merge itself to tell. Methods that look at the whole
    model first, or at data, are not tried. Nothing is written but to the cache.
    """
    rate, left = _FIRST_RATES.get(device.type, _FAST), TOTAL_SECONDS
    for row in in_order([row for row in matrices(prepared.plan) if not waits(row, prepared)]):
        started, report = time.monotonic(), None
        context = InspectionContext(prepared, row, device, cache)
        known = cache.get(context.merge_key("report"))
        if known is not None:
            report = report_from(known["report"])
        elif work(row) / rate < min(left, ONE_SECONDS):
            report = _merged(context)
            rate = work(row) / max(time.monotonic() - started, 1e-6)
        left -= time.monotonic() - started
        yield None if report is None else MatrixSampled(report=report)
        if left < 0:
            return


def in_order(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """One of each role and shape, the least work first, then another of each, and so on.

    Those of one role and shape are taken from all over the depth of the model.
    """
    alike: defaultdict[object, list[PlanRow]] = defaultdict(list)
    for row in rows:
        alike[row.role, row.shape].append(row)
    groups = [
        [group[index] for index in sorted(range(len(group)), key=lambda n: (n + 0.5) * _GOLDEN % 1)]
        for group in sorted(alike.values(), key=lambda group: work(group[0]))
    ]
    return [row for row in chain.from_iterable(zip_longest(*groups)) if row is not None]


def work(row: PlanRow) -> float:
    """FLOPs of merging a matrix, about: those of T products with its own transpose."""
    return products_with_itself(row.shape, len(row.experts))


def _merged(context: InspectionContext) -> LayerReport | None:
    """What a merge of the matrix reports; None where it cannot be merged."""

    def report(of: InspectionContext) -> Iterator[LayerReport]:
        made = of.report(merge_deltas(of.row, of.prepared, of.deltas))
        of.cache.put(of.merge_key("report"), {"report": report_array(made)})
        yield made

    with contextlib.suppress(MethodError, NonFiniteError):
        return next(
            inspect_row(context.prepared, context.row, context.device, context.cache, report)
        )
    return None
