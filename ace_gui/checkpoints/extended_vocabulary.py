"""A base model that was given what its experts have and it lacks: heads, rows of new tokens.

What is added has no value in the base. It is read as the weighted mean of the experts that have it,
so that an expert without it counts as unchanged, and the mean of the experts is that of what they
have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.read_checksums import ReadChecksums
from ace_gui.checkpoints.reader import TensorReader, require_finite

NOWHERE = -1
"""For a row that a model lacks."""

Rows = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where one model has the rows of a tensor; ``rows``: by row of the tensor, or ``NOWHERE``.

    Rows are equal parts of a tensor in the order of its elements. ``weight``: in the mean.
    """

    owner: str
    checkpoint: Checkpoint
    name: str
    rows: Rows
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Extension:
    """A tensor that is made of rows of the base (``own``, None where it has none) and of others."""

    own: Source | None
    sources: tuple[Source, ...]

    @property
    def rows(self) -> Rows:
        """The rows of one of them, of as many as the tensor has."""
        return (self.own or self.sources[0]).rows


@dataclass(frozen=True, kw_only=True)
class ExtendedCheckpoint(Checkpoint):
    """A base with ``growths``, by name; ``tensors`` has their new shapes.

    ``changes``: what they change in JSON files beside it, by file and key. ``beside``: the files
    that an output has beside its weights, by place.
    """

    base: Checkpoint
    growths: Mapping[str, Extension]
    changes: Mapping[str, Mapping[str, object]]
    beside: Mapping[str, Path] = field(default_factory=dict)


def grow(
    checkpoint: Checkpoint,
    tensors: Mapping[str, TensorInfo],
    growths: Mapping[str, Extension],
    changes: Mapping[str, Mapping[str, object]],
    beside: Mapping[str, Path] | None = None,
) -> ExtendedCheckpoint:
    """A checkpoint that has also these tensors; one that has grown before grows further."""
    given = vars(checkpoint)
    before: Mapping[str, Mapping[str, object]] = given.get("changes", {})
    return ExtendedCheckpoint(
        **{
            **given,
            "tensors": {**checkpoint.tensors, **tensors},
            "base": given.get("base", checkpoint),
            "growths": {**given.get("growths", {}), **growths},
            "changes": {
                file: {**before.get(file, {}), **changes.get(file, {})}
                for file in {**before, **changes}
            },
            "beside": given.get("beside", checkpoint.side_files) if beside is None else beside,
        }
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


def new_parts(checkpoint: Checkpoint, name: str) -> Iterator[tuple[int, int]]:
    """The stretches of a tensor, from element to element, that are rows which its base lacks."""
    growth = checkpoint.growths.get(name) if isinstance(checkpoint, ExtendedCheckpoint) else None
    if growth is None or growth.own is None:
        return
    width = math.prod(checkpoint.tensors[name].shape) // max(1, len(growth.rows))
    numbers = np.arange(len(growth.rows))
    for start, _, count in runs(np.where(growth.own.rows == NOWHERE, numbers, NOWHERE)):
        yield start * width, (start + count) * width


class ExtendedReader(TensorReader):
    """Reads a grown base; what has grown in float32, or float64 where a model has that."""

    def __init__(
        self,
        checkpoint: ExtendedCheckpoint,
        readers: Mapping[int, TensorReader],
        checksums: ReadChecksums | None = None,
    ) -> None:
        """``readers``: of the donors' checkpoints, by ``id``."""
        super().__init__(checkpoint.base, checksums)
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
        width = math.prod(self._grown.tensors[name].shape) // max(1, len(growth.rows))
        if start >= stop or not width:
            return torch.empty(0)
        first, last = start // width, -(-stop // width)
        rows = self._rows(growth, first, last, width)
        return rows.reshape(-1)[start - first * width : stop - first * width]

    def will_read(self, name: str) -> None:
        """Ask the system to prefetch a tensor; does nothing for an extended one."""
        if name not in self._grown.growths:
            super().will_read(name)

    def _rows(self, growth: Extension, first: int, last: int, width: int) -> Tensor:
        total = torch.zeros(last - first, width)
        added = np.full(last - first, True)
        if growth.own is not None:
            rows = growth.own.rows[first:last]
            added = rows == NOWHERE
            total = self._plus(total, growth.own, rows, np.ones(last - first))
        if not added.any():
            return total
        placed = [np.where(added, source.rows[first:last], NOWHERE) for source in growth.sources]
        shares = _shares(placed, [source.weight for source in growth.sources])
        for source, rows, share in zip(growth.sources, placed, shares, strict=True):
            total = self._plus(total, source, rows, share)
        return total

    def _plus(self, total: Tensor, source: Source, rows: Rows, shares: Shares) -> Tensor:
        width = total.shape[1]
        reader = self._readers.get(id(source.checkpoint))
        for index, row, count in runs(rows):
            part = row * width, (row + count) * width
            # The base's own rows are in this reader's files.
            read = super().read_part if reader is None else reader.read_part
            values = read(source.name, *part)
            if reader is not None:
                require_finite(values, source.name, source.owner, source.checkpoint.path)
            total = total.to(torch.promote_types(total.dtype, values.dtype))
            share = torch.from_numpy(shares[index : index + count, None]).to(total.dtype)
            total[index : index + count] += values.reshape(count, width).to(total.dtype) * share
        return total


def _shares(placed: Sequence[Rows], weights: Sequence[float]) -> Sequence[Shares]:
    """The share of each donor in each row; equal ones where the weights of a row cancel out."""
    has = np.stack([rows != NOWHERE for rows in placed]).astype(np.float64)
    given = has * np.array(weights)[:, None]
    given = np.where(given.sum(axis=0) == 0, has, given)
    total = given.sum(axis=0)
    return list(given / np.where(total == 0, 1, total))
