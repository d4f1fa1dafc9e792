"""How much work a merge is, estimated from the plan alone: arithmetic, bytes and memory.

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
"""A second, of a worker of which nothing is known."""

ENTRY_FLOPS: Final = 4.0
"""For each entry of each expert: widened, subtracted, weighted, added."""


def row_flops(row: PlanRow, prepared: Prepared) -> float:
    """Arithmetic operations of merging a row, about."""
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


def row_bytes(row: PlanRow, output: str) -> int:
    """Bytes that merging a row reads and writes; ``output``: the dtype tag in which it is kept."""
    entries, models = prod(row.shape), 1
    if row.disposition in COMBINED:
        models += len(row.experts)
    return entries * (models * FORMATS[row.dtype].bits + FORMATS[output].bits) // 8


def some_seconds(row: PlanRow, prepared: Prepared) -> float:
    """Of merging a row by a worker of which nothing is known."""
    return row_flops(row, prepared) / SOME_FLOPS + row_bytes(row, row.store_dtype) / SOME_BYTES


def largest_first(units: Iterable[Unit], prepared: Prepared) -> list[Unit]:
    """The units in the order in which they are given to workers: those with most work first."""

    def seconds(unit: Unit) -> float:
        return sum(some_seconds(row, prepared) for row in unit)

    return sorted(units, key=seconds, reverse=True)


def unit_bytes(rows: Iterable[PlanRow], prepared: Prepared) -> int:
    """Memory that merging rows in one place takes: the largest one's, and what comes of all."""
    found = list(rows)
    results = sum(prod(row.shape) * FORMATS[row.store_dtype].bits // 8 for row in found)
    return with_freed(max(working_set(row, prepared.method) for row in found) + results)
