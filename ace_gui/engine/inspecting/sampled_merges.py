"""Merges a few matrices to estimate how far the whole merge will move the model.

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

from ace_gui.engine.contract.events import MatrixTimed
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.model_figures import matrices
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.layer_context import (
    InspectionCache,
    InspectionContext,
    inspect_row,
    report_array,
    report_from,
)
from ace_gui.engine.merging.surveying import waits
from ace_gui.engine.merging.tensor_merge import merge_deltas
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import MethodError, NonFiniteError
from ace_gui.methods.shared.costs import products_with_itself

TOTAL_SECONDS: Final = 4.0
ONE_SECONDS: Final = 1.5
"""Seconds for all of them, and for one, so that nobody has to wait."""

_FIRST_RATES: Final = {"cpu": 2e10}
_FAST: Final = 1e12
"""FLOPs per second assumed before the first merge was timed; the second is for GPUs."""

_GOLDEN: Final = (sqrt(5) - 1) / 2


def sampled(
    prepared: Prepared, device: torch.device, cache: InspectionCache
) -> Iterator[LayerReport | MatrixTimed | None]:
    """Merge matrices of every role and shape, the smallest first, as far as time allows.

    Matrices that cannot be merged are skipped; the merge itself reports them. Methods that survey
    the whole model first or need data are not tried. Nothing is written except to the cache.
    """
    rate, left = _FIRST_RATES.get(device.type, _FAST), TOTAL_SECONDS
    every = matrices(prepared.plan)
    whole = sum(map(work, every))
    for row in in_order([row for row in every if not waits(row, prepared)]):
        started, report, seconds = time.monotonic(), None, 0.0
        context = InspectionContext(prepared, row, device, cache)
        known = cache.get(context.merge_key("report"))
        if known is not None:
            report = report_from(known["report"])
        elif work(row) / rate < min(left, ONE_SECONDS):
            report = _merged(context)
            seconds = max(time.monotonic() - started, 1e-6)
            rate = work(row) / seconds
        left -= time.monotonic() - started
        yield report
        if seconds:
            yield MatrixTimed(share=work(row) / whole, seconds=seconds)
        if left < 0:
            return


def in_order(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """One of each role and shape, least work first, then another of each, and so on.

    Matrices of one role and shape are taken from the whole depth of the model.
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
    """Estimated FLOPs of merging a matrix: those of T products with its own transpose."""
    return products_with_itself(row.shape, len(row.experts))


def _merged(context: InspectionContext) -> LayerReport | None:
    """The report of a merge of the matrix; None if it cannot be merged."""

    def report(of: InspectionContext) -> Iterator[LayerReport]:
        made = of.report(merge_deltas(of.row, of.prepared, of.deltas))
        of.cache.put(of.merge_key("report"), {"report": report_array(made)})
        yield made

    with contextlib.suppress(MethodError, NonFiniteError):
        return next(
            inspect_row(context.prepared, context.row, context.device, context.cache, report)
        )
    return None
