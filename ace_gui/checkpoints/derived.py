"""Models put together from tensors of others, or extended by heads or rows of new tokens.

A base is extended by what the experts have and it lacks. Such rows have no value in the base. They
are read as the weighted mean of the experts that have them. An expert without them therefore counts
as unchanged, and the mean of the experts equals the mean of those that have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import ReadChecksums, TensorReader, require_finite

_BLOCK = 1 << 22
"""Elements in memory at a time for a mean."""

NOWHERE = -1
"""Marks a row that a model lacks."""

Rows = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The rows of a tensor in one model; ``rows``: by row of the tensor, or ``NOWHERE``.

    Rows are equal parts of a tensor in the order of its elements. ``weight``: in the mean.
    """

    owner: str
    checkpoint: Checkpoint
    name: str
    rows: Rows
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Extension:
    """A tensor made of rows of the base (``own``, None if it has none) and of other models.

    ``padding``: number of last rows that are the mean of all others. ``merged``: rows that the base
    lacks and the method merges nevertheless, since the experts' differ.
    """

    own: Source | None
    sources: tuple[Source, ...]
    padding: int = 0
    merged: tuple[int, ...] = ()

    @property
    def rows(self) -> Rows:
        """The rows of one source, as many as the tensor has."""
        return (self.own or self.sources[0]).rows


@dataclass(frozen=True, kw_only=True)
class ExtendedCheckpoint(Checkpoint):
    """A base with ``extensions``, by name; ``tensors`` has their new shapes."""

    base: Checkpoint
    extensions: Mapping[str, Extension]


def grow(
    checkpoint: Checkpoint,
    tensors: Mapping[str, TensorInfo],
    extensions: Mapping[str, Extension],
    changes: Mapping[str, Mapping[str, object]],
    output_files: Mapping[str, Path] | None = None,
) -> ExtendedCheckpoint:
    """A checkpoint that also has these tensors. An extended checkpoint can be extended further."""
    known = checkpoint if isinstance(checkpoint, ExtendedCheckpoint) else None
    kept = {each.name: getattr(checkpoint, each.name) for each in fields(Checkpoint)}
    before = checkpoint.changes
    made: dict[str, Any] = {
        **kept,
        "tensors": {**checkpoint.tensors, **tensors},
        "changes": {
            file: {**before.get(file, {}), **changes.get(file, {})}
            for file in {**before, **changes}
        },
        "output_files": checkpoint.output_files if output_files is None else output_files,
    }
    return ExtendedCheckpoint(
        **made,
        base=checkpoint if known is None else known.base,
        extensions={**({} if known is None else known.extensions), **extensions},
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
    """The ranges of a tensor's elements that are rows its base lacks and no method merges."""
    extension = (
        checkpoint.extensions.get(name) if isinstance(checkpoint, ExtendedCheckpoint) else None
    )
    if extension is None or extension.own is None:
        return
    width = math.prod(checkpoint.tensors[name].shape) // max(1, len(extension.rows))
    numbers = np.arange(len(extension.rows))
    added = (extension.own.rows == NOWHERE) & ~np.isin(numbers, extension.merged)
    for start, _, count in runs(np.where(added, numbers, NOWHERE)):
        yield start * width, (start + count) * width


class ExtendedReader(TensorReader):
    """Reads an extended base. Extended tensors are float32, or float64 if a model has that."""

    def __init__(
        self,
        checkpoint: ExtendedCheckpoint,
        readers: Mapping[int, TensorReader],
        checksums: ReadChecksums | None = None,
    ) -> None:
        """``readers``: of the base and the sources' checkpoints, by ``id``."""
        super().__init__(checkpoint, checksums)
        self._extended = checkpoint
        self._readers = readers
        self._own = readers[id(checkpoint.base)]

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements of a tensor. Raises NonFiniteError if a source has NaN or Inf in them."""
        extension = self._extended.extensions.get(name)
        if extension is None:
            return self._own.read_part(name, start, stop)
        width = math.prod(self._tensors[name].shape) // max(1, len(extension.rows))
        if start >= stop or not width:
            return torch.empty(0)
        first, last = start // width, -(-stop // width)
        rows = self._rows(extension, first, last, width)
        return rows.reshape(-1)[start - first * width : stop - first * width]

    def will_read(self, name: str) -> None:
        """Ask the system to prefetch a tensor; does nothing for an extended one."""
        if name not in self._extended.extensions:
            self._own.will_read(name)

    def _rows(self, extension: Extension, first: int, last: int, width: int) -> Tensor:
        rows = self._rows_of_tokens(extension, first, last, width)
        count = len(extension.rows) - extension.padding
        if extension.padding and last > count:
            step = max(1, _BLOCK // width)
            blocks = ((at, min(at + step, count)) for at in range(0, count, step))
            total = torch.zeros(width, dtype=torch.float64)
            for a, b in blocks:
                total += self._rows_of_tokens(extension, a, b, width).double().sum(0)
            rows[max(count - first, 0) :] = (total / count).to(rows.dtype)
        return rows

    def _rows_of_tokens(self, extension: Extension, first: int, last: int, width: int) -> Tensor:
        total = torch.zeros(last - first, width)
        added = np.full(last - first, True)
        if extension.own is not None:
            rows = extension.own.rows[first:last]
            added = rows == NOWHERE
            total = self._plus(total, extension.own, rows, np.ones(last - first))
        if not added.any():
            return total
        placed = [np.where(added, source.rows[first:last], NOWHERE) for source in extension.sources]
        shares = _shares(placed, [source.weight for source in extension.sources])
        for source, rows, share in zip(extension.sources, placed, shares, strict=True):
            total = self._plus(total, source, rows, share)
        return total

    def _plus(self, total: Tensor, source: Source, rows: Rows, shares: Shares) -> Tensor:
        width = total.shape[1]
        reader = self._readers[id(source.checkpoint)]
        for index, row, count in runs(rows):
            values = reader.read_part(source.name, row * width, (row + count) * width)
            if reader is not self._own:
                require_finite(values, source.name, source.owner, source.checkpoint.path)
            total = total.to(torch.promote_types(total.dtype, values.dtype))
            share = torch.from_numpy(shares[index : index + count, None]).to(total.dtype)
            total[index : index + count] += values.reshape(count, width).to(total.dtype) * share
        return total


def _shares(placed: Sequence[Rows], weights: Sequence[float]) -> Sequence[Shares]:
    """The share of each source in each row; equal shares if the weights of a row cancel out."""
    has = np.stack([rows != NOWHERE for rows in placed]).astype(np.float64)
    given = has * np.array(weights)[:, None]
    given = np.where(given.sum(axis=0) == 0, has, given)
    total = given.sum(axis=0)
    return list(given / np.where(total == 0, 1, total))


@dataclass(frozen=True, kw_only=True)
class ComposedTensor:
    """The tensor ``name`` of ``checkpoint``."""

    checkpoint: Checkpoint
    name: str


@dataclass(frozen=True, kw_only=True)
class ComposedCheckpoint(Checkpoint):
    """A model whose tensors are ``sources``, by name, of any kind of checkpoint.

    ``tensors`` has their formats in the output; a base with an adapter is read in a wider one.
    """

    sources: Mapping[str, ComposedTensor]


def compose(
    model: Checkpoint, sources: Mapping[str, ComposedTensor], **changed: Any
) -> ComposedCheckpoint:
    """A checkpoint of these tensors; all else is that of ``model``, but for what is ``changed``."""
    kept = {each.name: getattr(model, each.name) for each in fields(Checkpoint)}
    files = {f.path: f for source in sources.values() for f in source.checkpoint.files}
    tensors: dict[str, TensorInfo] = {
        name: replace(source.checkpoint.tensors[source.name], name=name)
        for name, source in sources.items()
    }
    made = {**kept, "tensors": tensors, "files": tuple(files.values()), **changed}
    return ComposedCheckpoint(**made, sources=sources)


class ComposedReader(TensorReader):
    """Reads each tensor from the model that has it."""

    def __init__(
        self,
        checkpoint: ComposedCheckpoint,
        readers: Mapping[int, TensorReader],
        checksums: ReadChecksums | None = None,
    ) -> None:
        """``readers``: of the sources' checkpoints, by ``id``."""
        super().__init__(checkpoint, checksums)
        self._sources = checkpoint.sources
        self._readers = readers

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements of a tensor, as the reader of its source gives them."""
        source = self._sources[name]
        return self._readers[id(source.checkpoint)].read_part(source.name, start, stop)

    def will_read(self, name: str) -> None:
        """Ask the system to prefetch a tensor."""
        source = self._sources[name]
        self._readers[id(source.checkpoint)].will_read(source.name)
