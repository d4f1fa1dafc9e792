"""Estimates the work of a merge from the plan alone: arithmetic, bytes and memory.

A matrix is O outputs × I inputs; T experts.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from ace_gui.engine.contract.plan import COMBINED, Disposition, PlanRow
from ace_gui.engine.merging.units import Unit
from ace_gui.engine.planning.memory import with_freed, working_set
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.linalg.shaping import shaping_flops
from ace_gui.methods.method import Kind
from ace_gui.stored_formats import FORMATS

SOME_FLOPS: Final = 2e10
SOME_BYTES: Final = 5e8
"""FLOPs per second assumed for an unknown worker."""

ENTRY_FLOPS: Final = 4.0
"""Operations per element of each expert: widen, subtract, weight, add."""


def row_flops(row: PlanRow, prepared: Prepared) -> float:
    """Estimated arithmetic operations for merging a row."""
    if row.disposition not in COMBINED:
        return 0.0
    experts, entries = len(row.experts), prod(row.shape)
    method = prepared.method_of(row)
    read = ENTRY_FLOPS * experts * entries
    if row.after.reshapes:
        read += shaping_flops(row.shape)
    if row.disposition is Disposition.AVERAGED or method.kind is not Kind.MATRIX:
        return read
    shape = tuple(reversed(row.shape)) if row.transposed else row.shape
    return read + method.flops(shape, experts, prepared.parameters_of(row))


def row_bytes(row: PlanRow, prepared: Prepared) -> int:
    """Bytes that merging a row reads, and writes in the number format of the output."""
    entries, models = prod(row.shape), 1
    if row.disposition in COMBINED:
        models += len(row.experts)
    output = row.output_dtype(prepared.plan.recipe.out_dtype)
    return entries * (models * FORMATS[row.dtype].bits + FORMATS[output].bits) // 8


def some_seconds(row: PlanRow, prepared: Prepared) -> float:
    """Estimated seconds for merging a row on an unknown worker."""
    return row_flops(row, prepared) / SOME_FLOPS + row_bytes(row, prepared) / SOME_BYTES


def largest_first(units: Iterable[Unit], prepared: Prepared) -> list[Unit]:
    """The units in the order in which workers get them: most work first."""

    def seconds(unit: Unit) -> float:
        return sum(some_seconds(row, prepared) for row in unit)

    return sorted(units, key=seconds, reverse=True)


def unit_bytes(rows: Iterable[PlanRow], prepared: Prepared) -> int:
    """Memory for merging the rows of a unit: that of the largest one, and all results."""
    found = list(rows)
    results = sum(prod(row.shape) * FORMATS[row.store_dtype].bits // 8 for row in found)
    return with_freed(max(working_set(row, prepared.method) for row in found) + results)
