"""A base model that was given what its experts have and it lacks: heads, rows of new tokens.

What is added has no value in the base. It is read as the mean of the experts that have it, so that
an expert without it counts as unchanged, and the mean of the experts is the mean of what they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import TensorReader, require_finite
from ace_gui.checkpoints.witness import Witness

NOWHERE = -1
"""For a row that a model lacks."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where one model has the rows of a tensor; ``rows``: by row of the tensor, or ``NOWHERE``."""

    owner: str
    checkpoint: Checkpoint
    name: str
    rows: Rows


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A tensor that is made of rows of the base (``own``, None where it has none) and of others."""

    own: Source | None
    donors: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class GrownCheckpoint(Checkpoint):
    """A base with ``growths``, by name; ``tensors`` has their new shapes.

    ``changes``: what they change in config.json, by key.
    """

    base: Checkpoint
    growths: Mapping[str, Growth]
    changes: Mapping[str, object]


def runs(rows: Rows) -> Iterator[tuple[int, int, int]]:
    """Rows that follow one another in both: place in ``rows``, row there, how many."""
    if not len(rows):
        return
    breaks = np.flatnonzero((np.diff(rows) != 1) | (rows[:-1] == NOWHERE)) + 1
    starts = [0, *breaks.tolist()]
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        if rows[start] != NOWHERE:
            yield start, int(rows[start]), stop - start


class GrownReader(TensorReader):
    """Reads a grown base; what has grown in float32, or float64 where a model has that."""

    def __init__(
        self,
        checkpoint: GrownCheckpoint,
        readers: Mapping[int, TensorReader],
        witness: Witness | None = None,
    ) -> None:
        """``readers``: of the donors' checkpoints, by ``id``."""
        super().__init__(checkpoint.base, witness)
        self._grown = checkpoint
        self._readers = readers

    def read(self, name: str) -> Tensor:
        """The tensor ``name`` in its shape. Raises as ``TensorReader.read``, and as below."""
        shape = self._grown.tensors[name].shape
        return self.read_part(name, 0, math.prod(shape)).reshape(shape)

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements of a tensor. Raises NonFiniteError where a donor has NaN or Inf in them."""
        growth = self._grown.growths.get(name)
        if growth is None:
            return super().read_part(name, start, stop)
        width = math.prod(self._grown.tensors[name].shape[1:])
        if start >= stop or not width:
            return torch.empty(0)
        first, last = start // width, -(-stop // width)
        rows = self._rows(growth, first, last, width)
        return rows.reshape(-1)[start - first * width : stop - first * width]

    def will_read(self, name: str) -> None:
        """Have the system fetch a tensor from the disk already; a grown one is read as it comes."""
        if name not in self._grown.growths:
            super().will_read(name)

    def _rows(self, growth: Growth, first: int, last: int, width: int) -> Tensor:
        total = torch.zeros(last - first, width)
        found = torch.zeros(last - first, 1)
        added = np.full(last - first, True)
        if growth.own is not None:
            rows = growth.own.rows[first:last]
            added = rows == NOWHERE
            total, found = self._added(growth.own, rows, total, found)
        for donor in growth.donors if added.any() else ():
            rows = np.where(added, donor.rows[first:last], NOWHERE)
            total, found = self._added(donor, rows, total, found)
        return total.div_(found.clamp_(min=1))

    def _added(
        self, source: Source, rows: Rows, total: Tensor, found: Tensor
    ) -> tuple[Tensor, Tensor]:
        width = total.shape[1]
        reader = self._readers.get(id(source.checkpoint))
        for place, row, count in runs(rows):
            part = row * width, (row + count) * width
            # The base's own rows are in this reader's files.
            read = super().read_part if reader is None else reader.read_part
            values = read(source.name, *part)
            if reader is not None:
                require_finite(values, source.name, source.owner, source.checkpoint.path)
            total = total.to(torch.promote_types(total.dtype, values.dtype))
            total[place : place + count] += values.reshape(count, width)
            found[place : place + count] += 1
        return total, found
