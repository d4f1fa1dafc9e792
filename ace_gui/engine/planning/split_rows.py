"""Splits a stored tensor that holds several matrices into a row of the plan for each.

O outputs and I inputs of one matrix, E experts of a Mixture of Experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

from ace_gui.architecture.traits import Fusion, Role, TensorTraits
from ace_gui.engine.contract.plan import MatrixPart, PlanRow

LABELS: Final = {Role.MLP_GATE: "gate", Role.MLP_UP: "up"}


def split_row(row: PlanRow, traits: TensorTraits, *, split_fused: bool) -> tuple[PlanRow, ...]:
    """One row for every matrix of a tensor, in stored order; the row itself if there is only one.

    Stacks are always split, fused projections only if ``split_fused`` is set.
    """
    rows = _unstacked(row) if traits.stack else (row,)
    if split_fused and traits.fusion is not None:
        parts: list[PlanRow] = []
        for matrix_row in rows:
            parts += _unfused(matrix_row, traits.fusion, transposed=traits.transposed)
        return tuple(parts)
    return rows


def _unstacked(row: PlanRow) -> tuple[PlanRow, ...]:
    """Split E × O × I or E × I × O into its matrices."""
    count, *shape = row.shape
    size = prod(shape)
    matrices = []
    for index in range(count):
        part = MatrixPart(
            tensor=row.name,
            tensor_shape=row.shape,
            start=index * size,
            stop=(index + 1) * size,
            period=size,
            first=0,
            last=size,
        )
        matrices.append(
            replace(
                row,
                name=f"{row.name}[{index}]",
                shape=tuple(shape),
                reason=f"{row.reason}; matrix {index + 1} of {count} in its tensor",
                part=part,
            )
        )
    return tuple(matrices)


def _unfused(row: PlanRow, fusion: Fusion, *, transposed: bool) -> Iterator[PlanRow]:
    """Split a fused matrix along its outputs, which are rows of the file, or else its columns."""
    outputs, inputs = reversed(row.shape) if transposed else row.shape
    origin = row.part.start if row.part is not None else 0
    unit = 1 if transposed else row.shape[1]
    before = 0
    for role, share in fusion.shares:
        label = LABELS.get(role, role.value)
        shape = (outputs // fusion.period * share, inputs)
        start = origin
        stop = origin + prod(row.shape)
        period = fusion.period * unit
        first = before * unit
        last = (before + share) * unit
        if stop - start == period:  # contiguous: can be read and written alone
            start, stop = start + first, start + last
            first = 0
            last = share * unit
            period = share * unit
        yield replace(
            row,
            name=f"{row.name}[{label}]",
            role=role.value,
            shape=shape[::-1] if transposed else shape,
            reason=f"{row.reason}; the {label} part of a fused projection",
            part=MatrixPart(
                tensor=row.tensor,
                tensor_shape=row.tensor_shape,
                start=start,
                stop=stop,
                period=period,
                first=first,
                last=last,
            ),
        )
        before += share
