"""Models put together from tensors of others, or extended by heads or rows of new tokens.

A base is extended by what the experts have and it lacks. Such rows have no value in the base. They
are read as the weighted mean of the experts that have them. An expert without them therefore counts
as unchanged, and the mean of the experts equals the mean of those that have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import DerivedInfo, TensorReader, require_finite

_BLOCK = 1 << 22
"""Elements in memory at a time for a mean."""

NOWHERE = -1
"""Marks a row that a model lacks."""

Rows = NDArray[np.int64]
Shares = NDArray[np.float64]


def compose(
    model: Checkpoint, sources: Mapping[str, tuple[Checkpoint, str]], **changed: Any
) -> Checkpoint:
    """A checkpoint whose tensors are those of others, by its names: each of which, and its name.

    All else is that of ``model``, but for what is ``changed``. ``tensors`` has their formats in the
    output; a base with an adapter is read in a wider one.
    """
    files = {stamp.path: stamp for other, _ in sources.values() for stamp in other.files}
    tensors = {
        name: replace(other.tensors[own], name=name) for name, (other, own) in sources.items()
    }
    made = {"tensors": tensors, "files": tuple(files.values()), "adapter": None, **changed}
    return replace(model, **made)


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """The rows of a tensor in one model; ``rows``: by row of the tensor, or ``NOWHERE``.

    Rows are equal parts of a tensor in the order of its elements. ``weight``: in the mean.
    """

    owner: str
    checkpoint: Checkpoint = field(repr=False)
    name: str
    rows: Rows = field(repr=False)
    weight: float = 1.0

    @property
    def info(self) -> TensorInfo:
        """The tensor in its model."""
        return self.checkpoint.tensors[self.name]


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtendedInfo(DerivedInfo):
    """A tensor made of rows of the base (``own``, None if it has none) and of other models.

    It is float32, or float64 if a model has that. ``padding``: number of last rows that are the
    mean of all others. ``merged``: rows that the base lacks and the method merges nevertheless,
    since the experts' differ.
    """

    own: Source | None
    sources: tuple[Source, ...]
    padding: int = 0
    merged: tuple[int, ...] = ()

    @property
    def rows(self) -> Rows:
        """The rows of one source, as many as the tensor has."""
        return (self.own or self.sources[0]).rows

    @property
    def width(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape) // max(1, len(self.rows))

    @property
    def new_parts(self) -> Iterator[tuple[int, int]]:
        """The ranges of elements that are rows the base lacks and no method merges."""
        if self.own is None:
            return
        numbers = np.arange(len(self.rows))
        added = (self.own.rows == NOWHERE) & ~np.isin(numbers, self.merged)
        for start, _, count in runs(np.where(added, numbers, NOWHERE)):
            yield start * self.width, (start + count) * self.width

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the tensor. Raises NonFiniteError if a source has NaN or Inf in them."""
        width = self.width
        if start >= stop or not width:
            return torch.empty(0)
        first, last = start // width, -(-stop // width)
        rows = self._rows_of_tokens(reader, first, last)
        count = len(self.rows) - self.padding
        if self.padding and last > count:
            step = max(1, _BLOCK // width)
            total = torch.zeros(width, dtype=torch.float64)
            for at in range(0, count, step):
                block = self._rows_of_tokens(reader, at, min(at + step, count))
                total += block.double().sum(0)
            rows[max(count - first, 0) :] = (total / count).to(rows.dtype)
        return rows.reshape(-1)[start - first * width : stop - first * width]

    def _rows_of_tokens(self, reader: TensorReader, first: int, last: int) -> Tensor:
        total = torch.zeros(last - first, self.width)
        added = np.full(last - first, True)
        if self.own is not None:
            rows = self.own.rows[first:last]
            added = rows == NOWHERE
            total = self._plus(reader, total, self.own, rows, np.ones(last - first))
        if not added.any():
            return total
        placed = [np.where(added, source.rows[first:last], NOWHERE) for source in self.sources]
        shares = _shares(placed, [source.weight for source in self.sources])
        for source, rows, share in zip(self.sources, placed, shares, strict=True):
            total = self._plus(reader, total, source, rows, share)
        return total

    def _plus(
        self, reader: TensorReader, total: Tensor, source: Source, rows: Rows, shares: Shares
    ) -> Tensor:
        width = total.shape[1]
        for index, row, count in runs(rows):
            values = reader.elements(source.info, row * width, (row + count) * width)
            if source is not self.own:
                require_finite(values, source.name, source.owner, source.checkpoint.path)
            total = total.to(torch.promote_types(total.dtype, values.dtype))
            share = torch.from_numpy(shares[index : index + count, None]).to(total.dtype)
            total[index : index + count] += values.reshape(count, width).to(total.dtype) * share
        return total


def extend(
    checkpoint: Checkpoint,
    extensions: Mapping[str, ExtendedInfo],
    changes: Mapping[str, Mapping[str, object]],
    output_files: Mapping[str, Path] | None = None,
) -> Checkpoint:
    """A checkpoint that has these tensors, too, or instead of its own, and the models' files."""
    sources = [source for info in extensions.values() for source in info.sources]
    files = dict.fromkeys(stamp for s in sources for stamp in s.checkpoint.files)
    before = checkpoint.changes
    return replace(
        checkpoint,
        tensors={**checkpoint.tensors, **extensions},
        files=tuple(dict.fromkeys((*checkpoint.files, *files))),
        changes={
            file: {**before.get(file, {}), **changes.get(file, {})}
            for file in {**before, **changes}
        },
        output_files=checkpoint.output_files if output_files is None else output_files,
    )


def runs(rows: Rows) -> Iterator[tuple[int, int, int]]:
    """Runs of rows that are consecutive in both: index in ``rows``, row there, count."""
    if not len(rows):
        return
    breaks = np.flatnonzero((np.diff(rows) != 1) | (rows[:-1] == NOWHERE)) + 1
    starts = [0, *breaks.tolist()]
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        if rows[start] != NOWHERE:
            yield start, int(rows[start]), stop - start


def _shares(placed: Sequence[Rows], weights: Sequence[float]) -> Sequence[Shares]:
    """The share of each source in each row; equal shares if the weights of a row cancel out."""
    has = np.stack([rows != NOWHERE for rows in placed]).astype(np.float64)
    given = has * np.array(weights)[:, None]
    given = np.where(given.sum(axis=0) == 0, has, given)
    total = given.sum(axis=0)
    return list(given / np.where(total == 0, 1, total))
