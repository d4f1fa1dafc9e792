"""Stored tensors that hold several matrices: the position of each, and how to extract it.

O outputs and I inputs of one matrix, E experts of a Mixture of Experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Final, TypeVar

import torch
from torch import Tensor

from ace_gui.architecture.traits import Fusion, Role, TensorTraits
from ace_gui.checkpoints import TensorReader
from ace_gui.engine.contract.plan import MatrixPart, PlanRow
from ace_gui.engine.streaming import Part

LABELS: Final = {Role.MLP_GATE: "gate", Role.MLP_UP: "up"}


def split_row(row: PlanRow, traits: TensorTraits, *, split_fused: bool) -> tuple[PlanRow, ...]:
    """One row for every matrix of a tensor, in stored order; the row itself if there is only one.

    Stacks are always split, fused projections only if ``split_fused`` is set.
    """
    rows = _unstacked(row) if traits.stack else (row,)
    if split_fused and traits.fusion is not None:
        return tuple(
            part
            for each in rows
            for part in _unfused(each, traits.fusion, transposed=traits.transposed)
        )
    return rows


def _unstacked(row: PlanRow) -> tuple[PlanRow, ...]:
    """Split E × O × I or E × I × O into its matrices."""
    count, *shape = row.shape
    size = prod(shape)
    return tuple(
        replace(
            row,
            name=f"{row.name}[{index}]",
            shape=tuple(shape),
            reason=f"{row.reason}; matrix {index + 1} of {count} in its tensor",
            part=MatrixPart(
                tensor=row.name,
                tensor_shape=row.shape,
                start=index * size,
                stop=(index + 1) * size,
                period=size,
                first=0,
                last=size,
            ),
        )
        for index in range(count)
    )


def _unfused(row: PlanRow, fusion: Fusion, *, transposed: bool) -> Iterator[PlanRow]:
    """Split a fused matrix along its outputs, which are rows of the file, or else its columns."""
    outputs, inputs = reversed(row.shape) if transposed else row.shape
    origin = row.part.start if row.part is not None else 0
    unit, before = 1 if transposed else row.shape[1], 0
    for role, share in fusion.shares:
        label = LABELS.get(role, role.value)
        shape = (outputs // fusion.period * share, inputs)
        start, stop, period = origin, origin + prod(row.shape), fusion.period * unit
        first, last = before * unit, (before + share) * unit
        if stop - start == period:  # contiguous: can be read and written alone
            start, stop = start + first, start + last
            first, last, period = 0, share * unit, share * unit
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


Found = TypeVar("Found", Tensor, Tensor | None)


def of_row(row: PlanRow, wanted: Part | None, read: Callable[[Part | None], Found]) -> Found:
    """Read a row's part of its stored tensor.

    ``read`` takes the first and last element of the flattened tensor and gives these flat; None:
    the whole tensor in its shape. ``wanted`` is such a range of the row. For a range, only the
    repetitions that contain it are read.
    """
    part = row.part
    if part is None:
        return read(wanted)
    start, stop = wanted or (0, prod(row.shape))
    width = part.last - part.first
    if part.in_one_piece:
        flat = read((part.start + start, part.start + stop))
    else:
        first, last = start // width, -(-stop // width)
        stretch = read((part.start + first * part.period, part.start + last * part.period))
        if stretch is None:
            return stretch
        mine = stretch.reshape(-1, part.period)[:, part.first : part.last].reshape(-1)
        flat = mine[start - first * width : stop - first * width]
    return flat if wanted is not None or flat is None else flat.reshape(row.shape)


def read_row(reader: TensorReader, row: PlanRow, wanted: Part | None = None) -> Tensor:
    """A row's part of a model with the base's names, in its shape or, for a range, flat."""

    def read(part: Part | None) -> Tensor:
        return reader.read(row.tensor) if part is None else reader.read_part(row.tensor, *part)

    return of_row(row, wanted, read)


def elements_of(flat: Tensor, part: MatrixPart) -> Tensor:
    """A view of a matrix's elements in its flattened tensor: repetitions × elements of each."""
    return flat[part.start : part.stop].view(-1, part.period)[:, part.first : part.last]


class Assembly:
    """Puts the parts of a tensor, which come in order, together as they are stored."""

    def __init__(self) -> None:
        self._stretch: Tensor | None = None

    def add(self, part: MatrixPart, values: Tensor) -> Tensor | None:
        """Add the elements of a part.

        Gives the elements from ``part.start`` on once all of them are there.
        """
        if part.in_one_piece:
            return values
        if self._stretch is None:
            self._stretch = torch.empty(part.stop - part.start, dtype=values.dtype)
        own = self._stretch.view(-1, part.period)[:, part.first : part.last]
        own.copy_(values.view(own.shape))
        if not part.fills_stretch:
            return None
        complete, self._stretch = self._stretch, None
        return complete
