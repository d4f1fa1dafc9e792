"""Groups rows of a plan that a GPU merges together.

The groups depend on the plan alone. Rounding depends on the batch, and a merge that is resumed must
give the same bits as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.one_tensor.measured_rows import need_of
from ace_gui.engine.planning.prepare import Prepared

FULL: Final = 1 << 23
"""Elements of the matrices of a batch: enough work for a large GPU, in about half a gigabyte."""

AHEAD: Final = 1 << 25
"""Elements within which matrices of the same shape are searched.

Results may have to wait for the result of the first one: 128 MiB of host memory.
"""

Batch = tuple[PlanRow, ...]
"""Rows that are merged together."""


def alone(rows: Sequence[PlanRow], prepared: Prepared) -> list[Batch]:
    """Batches of one row each, for all rows that are merged in one piece."""
    return [(row,) for row in rows if prepared.is_whole(row)]


def batches(rows: Sequence[PlanRow], prepared: Prepared) -> list[Batch]:
    """Batches of rows that can be merged together, in the order of their first rows."""
    found: list[Batch] = []
    for window in _windows([row for row in rows if prepared.is_whole(row)]):
        alike: dict[Any, list[PlanRow]] = {}
        for row in window:
            alike.setdefault(_what_must_agree(row, prepared), []).append(row)
        indices = {row.name: index for index, row in enumerate(window)}
        together = [batch for group in alike.values() for batch in _even(group)]
        found += sorted(together, key=lambda batch: indices[batch[0].name])
    return found


def _windows(rows: Sequence[PlanRow]) -> Iterator[list[PlanRow]]:
    """Windows of at most ``AHEAD`` elements, or of a single larger row."""
    window: list[PlanRow] = []
    entries = 0
    for row in rows:
        entries += prod(row.shape)
        if window and entries > AHEAD:
            yield window
            window, entries = [], prod(row.shape)
        window.append(row)
    yield window


def _what_must_agree(row: PlanRow, prepared: Prepared) -> Any:
    """A key equal for rows that can be merged together; the row's name if it is merged alone."""
    method = prepared.method_of(row)
    if method.merge_batch is None or not row.experts or need_of(row, prepared) is not None:
        return row.name
    kind = (row.shape, row.transposed, row.dtype, row.experts)
    return (*kind, method.name, prepared.parameters_of(row))


def _even(alike: list[PlanRow]) -> Iterator[Batch]:
    """Split rows into as few batches as ``FULL`` admits, of about the same size."""
    most = max(1, FULL // max(1, prod(alike[0].shape)))
    count = -(-len(alike) // most)
    for number in range(count):
        start, stop = (len(alike) * each // count for each in (number, number + 1))
        yield tuple(alike[start:stop])
