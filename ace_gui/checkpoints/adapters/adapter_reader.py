"""Reads the changes of an adapter, one tensor at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

from ace_gui.checkpoints.adapters.lora import Adapter, ExpandedCheckpoint
from ace_gui.checkpoints.adapters.weight_changes import Change, LowRank, TokenRows
from ace_gui.checkpoints.derived import (
    ComposedCheckpoint,
    ComposedReader,
    ExtendedCheckpoint,
    ExtendedReader,
)
from ace_gui.checkpoints.header import TensorInfo, torch_dtype
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import ReadChecksums, TensorReader, require_finite
from ace_gui.formatting import path_text

_BLOCK: Final = 1 << 22


class AdapterReader:
    """Computes the change of one weight from its factors. Safe to use from several threads."""

    def __init__(self, adapter: Adapter, checksums: ReadChecksums | None = None) -> None:
        self._adapter = adapter
        self._reader = TensorReader(adapter.stored, checksums)

    def delta(self, target: str) -> Tensor:
        """The change of the weight ``target``, float32, in its shape.

        Of one that depends on the base's values, the part without them.

        Raises KeyError if the adapter does not change it, NonFiniteError if a factor holds NaN
        or Inf, and as ``TensorReader.read`` does.
        """
        change = self._adapter.deltas[target]
        return self.product(change, 0, math.prod(change.shape)).reshape(change.shape)

    def full(self, name: str) -> Tensor:
        """A tensor that replaces the base's, as stored. Raises as ``TensorReader.read`` does."""
        return self._reader.read(self._adapter.full[name].name)

    def product(self, change: Change, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened change; only their rows are computed."""
        width = change.width
        if start >= stop or width == 0:
            return torch.empty(0)
        first, last = start // width, -(-stop // width)
        rows = change.product(self.part, first, last).reshape(-1)
        return rows[start - first * width : stop - first * width]

    def will_read(self, change: Change) -> None:
        """Ask the system to prefetch the factors."""
        for info in change.parts:
            self._reader.will_read(info.name)

    def part(self, info: TensorInfo) -> Tensor:
        """A tensor of the adapter in float32. Raises NonFiniteError."""
        stored = self._reader.read(info.name)
        require_finite(stored, info.name, path_text(self._adapter.path), self._adapter.path)
        return stored.to(torch.float32)


class ExpandedReader(TensorReader):
    """Reads a base with an adapter on it: its changes are made one tensor at a time."""

    def __init__(
        self, checkpoint: ExpandedCheckpoint, checksums: ReadChecksums | None = None
    ) -> None:
        super().__init__(checkpoint, checksums)
        self._deltas = checkpoint.deltas
        self._of_base = checkpoint.base.tensors
        self._base = reader_of(checkpoint.base, checksums)
        self._products = AdapterReader(checkpoint.adapter, checksums)
        self._beneath = checkpoint.beneath
        self._brought = TensorReader(checkpoint.adapter.stored, checksums)
        self._factors: dict[str, Tensor] = {}

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements of a tensor; those of a changed one in float32, or float64 on such a base."""
        delta = self._delta(name, start, stop)
        if delta is None and self._tensors[name] is self._of_base.get(name):
            return self._base.read_part(name, start, stop)
        if delta is None:
            return super().read_part(name, start, stop)
        return self._under(name, start, stop).add_(delta)

    def read_delta(self, name: str, start: int, stop: int) -> Tensor | None:
        """The change of these elements, float32, flat, without the rounding of a sum and a
        difference; None where the adapter has more than a change of the base's tensor.
        """
        return None if name in self._beneath else self._delta(name, start, stop)

    def _under(self, name: str, start: int, stop: int) -> Tensor:
        """Elements of what the change is added to, in the dtype of the sum."""
        if name in self._beneath:
            stored = self._brought.read_part(self._beneath[name].name, start, stop)
        else:
            stored = self._base.read_part(name, start, stop)
        return stored.to(self.dtype(name))

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
                if each.change.uses_base:
                    product = self._with_base(name, each.change, product, first, last)
                change[first - start : last - start] += product
        return change

    def _with_base(
        self, name: str, change: Change, product: Tensor, first: int, last: int
    ) -> Tensor:
        """f·(W₀ + product) − W₀ with DoRA's f; of replaced rows the new ones − W₀."""
        stored = self._under(name, first, last)
        at = torch.arange(first, last)
        if isinstance(change, LowRank):
            index = at % change.width if change.turned else at // change.width
            factor = self._magnitude_factors(name, change)[index].to(stored.dtype)
            return (factor * product).add_((factor - 1) * stored).to(torch.float32)
        assert isinstance(change, TokenRows)
        replaced = torch.isin(at // change.width, torch.tensor(change.indices))
        return torch.where(replaced, product - stored, 0).to(torch.float32)

    def _magnitude_factors(self, name: str, change: LowRank) -> Tensor:
        """DoRA's magnitudes by the norms of W₀ + scale·B·A, one for each output; float64."""
        if name not in self._factors:
            rows, width = change.shape[0], change.width
            total = torch.zeros(width if change.turned else rows, dtype=torch.float64)
            step = max(1, _BLOCK // max(width, 1))
            for first in range(0, rows, step):
                last = min(first + step, rows)
                changed = self._under(name, first * width, last * width).double()
                changed += self._products.product(change, first * width, last * width)
                squares = changed.square_().reshape(-1, width)
                if change.turned:
                    total += squares.sum(0)
                else:
                    total[first:last] = squares.sum(1)
            assert change.magnitude is not None
            magnitude = self._products.part(change.magnitude).flatten().double()
            self._factors[name] = magnitude / total.sqrt()
        return self._factors[name]

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
    """The reader for any kind of checkpoint.

    ``checksums``: records what is read.
    """
    if isinstance(checkpoint, ExpandedCheckpoint):
        return ExpandedReader(checkpoint, checksums)
    if isinstance(checkpoint, ExtendedCheckpoint):
        sources = (source for each in checkpoint.extensions.values() for source in each.sources)
        models = [checkpoint.base, *(source.checkpoint for source in sources)]
        return ExtendedReader(checkpoint, _readers(models, checksums), checksums)
    if isinstance(checkpoint, ComposedCheckpoint):
        models = [source.checkpoint for source in checkpoint.sources.values()]
        return ComposedReader(checkpoint, _readers(models, checksums), checksums)
    return TensorReader(checkpoint, checksums)


def _readers(
    models: Iterable[Checkpoint], checksums: ReadChecksums | None
) -> dict[int, TensorReader]:
    """One reader for each model, by its ``id``."""
    return {key: reader_of(m, checksums) for key, m in {id(m): m for m in models}.items()}
