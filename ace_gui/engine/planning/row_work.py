"""Estimates the work of merging a row of the plan, before anything is measured.

A matrix is O outputs × I inputs.
"""

from __future__ import annotations

from math import prod
from typing import Final

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.low_rank_rows import coordinates_of
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.linalg.singular import matrix_shape, shaping_flops
from ace_gui.methods.method import Kind
from ace_gui.stored_formats import FORMATS

ASSUMED_FLOPS: Final = 2e10
"""Operations per second assumed for an unknown worker."""

ASSUMED_BYTES: Final = 5e8
"""Bytes per second that an unknown worker is assumed to read or write."""

ENTRY_FLOPS: Final = 4.0
"""Operations per element of each expert: widen, subtract, weight, add."""


def row_flops(row: PlanRow, prepared: Prepared) -> float:
    """Estimated arithmetic operations for merging a row."""
    if not row.is_combined:
        return 0.0
    experts = len(row.experts)
    entries = prod(row.shape)
    if row.transposed:
        shape = tuple(reversed(row.shape))
    else:
        shape = row.shape
    flops = ENTRY_FLOPS * experts * entries
    count = coordinates_of(row, prepared)
    if count is not None:
        shape = (count, shape[1])
        flops = 2.0 * entries * count  # only the result has all outputs
    if row.after.reshapes:
        flops += shaping_flops(matrix_shape(shape))
    method = prepared.method_of(row)
    if row.disposition is Disposition.AVERAGED or method.kind is not Kind.MATRIX:
        return flops
    return flops + method.flops(shape, experts, prepared.parameters_of(row))


def row_bytes(row: PlanRow, prepared: Prepared) -> int:
    """Bytes that merging a row reads, and writes in the number format of the output."""
    entries = prod(row.shape)
    models = 1
    if row.is_combined:
        models += len(row.experts)
    output = row.output_dtype(prepared.recipe.out_dtype)
    return entries * (models * FORMATS[row.dtype].bits + FORMATS[output].bits) // 8


def assumed_seconds(row: PlanRow, prepared: Prepared) -> float:
    """Estimated seconds for merging a row on an unknown worker."""
    return row_flops(row, prepared) / ASSUMED_FLOPS + row_bytes(row, prepared) / ASSUMED_BYTES
