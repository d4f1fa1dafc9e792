"""Reads the changes of an adapter, one tensor at a time.

O outputs, I inputs, R rank, as in ``adapters``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ace_gui.checkpoints.adapters.lora import Adapter, ExpandedCheckpoint, LowRank
from ace_gui.checkpoints.dtypes import torch_dtype
from ace_gui.checkpoints.extended_vocabulary import ExtendedCheckpoint, ExtendedReader
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.read_checksums import ReadChecksums
from ace_gui.checkpoints.reader import TensorReader, require_finite


class AdapterReader:
    """Computes the change of one weight from its two factors. Safe to use from several threads."""

    def __init__(self, adapter: Adapter, checksums: ReadChecksums | None = None) -> None:
        self._adapter = adapter
        self._reader = TensorReader(adapter.stored, checksums)

    def delta(self, target: str) -> Tensor:
        """scale·B·A of the weight ``target``, float32, in the shape in which it is stored.

        Raises KeyError if the adapter does not change it, NonFiniteError if a factor holds NaN
        or Inf, and as ``TensorReader.read`` does.
        """
        low_rank = self._adapter.deltas[target]
        return self.product(low_rank, 0, math.prod(low_rank.shape)).reshape(low_rank.shape)

    def full(self, name: str) -> Tensor:
        """A tensor that replaces the base's, as stored. Raises as ``TensorReader.read`` does."""
        return self._reader.read(self._adapter.full[name].name)

    def product(self, low_rank: LowRank, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened change; only their rows are computed."""
        a_RI, b_OR = self._factor(low_rank.a.name), self._factor(low_rank.b.name)
        left, right = (a_RI.T, b_OR.T) if low_rank.turned else (b_OR, a_RI)
        columns = right.shape[1]
        if start >= stop or columns == 0:
            return torch.empty(0)
        first, last = start // columns, -(-stop // columns)
        rows = (left[first:last] @ right).mul_(low_rank.scale).reshape(-1)
        return rows[start - first * columns : stop - first * columns]

    def will_read(self, low_rank: LowRank) -> None:
        """Ask the system to prefetch the factors."""
        self._reader.will_read(low_rank.a.name)
        self._reader.will_read(low_rank.b.name)

    def _factor(self, name: str) -> Tensor:
        """A factor as a float32 matrix; a kernel's positions count as inputs."""
        stored = self._reader.read(name)
        require_finite(stored, name, self._adapter.path.name, self._adapter.path)
        return stored.to(torch.float32).flatten(1)


class ExpandedReader(TensorReader):
    """Reads a base with an adapter on it: W₀ + scale·B·A, one tensor at a time."""

    def __init__(
        self, checkpoint: ExpandedCheckpoint, checksums: ReadChecksums | None = None
    ) -> None:
        super().__init__(checkpoint, checksums)
        self._deltas = checkpoint.deltas
        self._base = TensorReader(checkpoint.base, checksums)
        self._products = AdapterReader(checkpoint.adapter, checksums)
        self._beneath = checkpoint.beneath
        self._brought = TensorReader(checkpoint.adapter.stored, checksums)

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements of a tensor; those of a changed one in float32, or float64 on such a base."""
        delta = self._delta(name, start, stop)
        if delta is None:
            return super().read_part(name, start, stop)
        if name in self._beneath:
            stored = self._brought.read_part(self._beneath[name].name, start, stop)
        else:
            stored = self._base.read_part(name, start, stop)
        return stored.to(self.dtype(name)).add_(delta)

    def read_delta(self, name: str, start: int, stop: int) -> Tensor | None:
        """The change of these elements, float32, flat, without the rounding of a sum and a
        difference; None where the adapter has more than a low-rank change of the base's tensor.
        """
        return None if name in self._beneath else self._delta(name, start, stop)

    def _delta(self, name: str, start: int, stop: int) -> Tensor | None:
        placed = self._deltas.get(name)
        if placed is None:
            return None
        width = math.prod(self._tensors[name].shape[1:])
        change = torch.zeros(stop - start)
        for each in placed:
            # Of the module's elements, those that lie between start and stop here.
            shift = (each.at - each.start) * width
            first = max(start, each.at * width)
            last = min(stop, (each.at + each.rows) * width)
            if first < last:
                product = self._products.product(each.change, first - shift, last - shift)
                change[first - start : last - start] += product
        return change

    def will_read(self, name: str) -> None:
        """Ask the system to prefetch a tensor."""
        if name in self._deltas:
            self._base.will_read(name)
            for placed in self._deltas[name]:
                self._products.will_read(placed.change)
        else:
            super().will_read(name)

    def dtype(self, name: str) -> torch.dtype:
        """The dtype in which ``name`` is read."""
        return torch_dtype(self._tensors[name].dtype)


def reader_of(checkpoint: Checkpoint, checksums: ReadChecksums | None = None) -> TensorReader:
    """The reader for a checkpoint on disk, a base with an adapter, or an extended base.

    ``checksums``: records what is read.
    """
    if isinstance(checkpoint, ExpandedCheckpoint):
        return ExpandedReader(checkpoint, checksums)
    if isinstance(checkpoint, ExtendedCheckpoint):
        sources = (source for each in checkpoint.extensions.values() for source in each.sources)
        found = {id(source.checkpoint): source.checkpoint for source in sources}
        readers = {key: reader_of(source, checksums) for key, source in found.items()}
        return ExtendedReader(checkpoint, readers, checksums)
    return TensorReader(checkpoint, checksums)
