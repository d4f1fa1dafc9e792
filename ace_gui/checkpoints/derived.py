"""Models made from tensors of others: a base with an adapter, or with rows of experts.

A base is extended by heads or rows of new tokens that the experts have and it lacks. Such rows have
no value in the base. They are read as the weighted mean of the experts that have them. An expert
without them therefore counts as unchanged, and the mean of the experts equals the mean of those
that have them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.adapters.adapter_config import MERGE_FIRST
from ace_gui.checkpoints.adapters.lora import Adapter
from ace_gui.checkpoints.adapters.weight_changes import LowRank, TokenRows, WeightChange
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import DerivedInfo, TensorReader, require_finite
from ace_gui.errors import MismatchError
from ace_gui.formatting import dimensions, listing, path_text, plain
from ace_gui.stored_formats import is_float

_BLOCK: Final = 1 << 22
"""Elements in memory at a time for a mean or for norms."""

NOWHERE = -1
"""Marks a row that a model lacks."""

Rows = NDArray[np.int64]
Shares = NDArray[np.float64]


def compose(
    model: Checkpoint, sources: Mapping[str, tuple[Checkpoint, str]], **changed: Any
) -> Checkpoint:
    """A checkpoint of others' tensors. ``sources``: by its names, a checkpoint and the name there.

    The rest is from ``model``, except for fields in ``changed``. The formats in ``tensors`` are
    those of the output; a base with an adapter is read in a wider one.
    """
    files = {stamp.path: stamp for source, _ in sources.values() for stamp in source.files}
    tensors = {
        name: replace(source.tensors[key], name=name) for name, (source, key) in sources.items()
    }
    fields = {"tensors": tensors, "files": tuple(files.values()), "adapter": None, **changed}
    return replace(model, **fields)


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorSource:
    """The rows of a tensor in one model. ``rows``: the position of each row there, or ``NOWHERE``.

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
    because those of the experts differ. ``unknown``: rows that no model has, which are that mean,
    too.
    """

    own: TensorSource | None
    sources: tuple[TensorSource, ...]
    padding: int = 0
    merged: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()

    @property
    def rows(self) -> Rows:
        """The row numbers of one source, as many as the tensor has rows."""
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
        first = start // width
        last = -(-stop // width)
        rows = self._rows_of_tokens(reader, first, last)
        count = len(self.rows) - self.padding
        means = [row - first for row in (*self.unknown, *range(count, len(self.rows)))]
        means = [row for row in means if 0 <= row < last - first]
        if means:
            rows[means] = self._mean(reader, count).to(rows.dtype)
        return rows.reshape(-1)[start - first * width : stop - first * width]

    def rounding(self, reader: TensorReader) -> float:
        """The share of a quantisation's rounding in the base's rows."""
        if self.own is not None:
            info = self.own.info
        else:
            info = None
        if isinstance(info, DerivedInfo):
            return info.rounding(reader)
        return 0.0

    def _mean(self, reader: TensorReader, count: int) -> Tensor:
        """The mean of those of the first ``count`` rows that a model has, in float64."""
        step = max(1, _BLOCK // self.width)
        total = torch.zeros(self.width, dtype=torch.float64)
        for at in range(0, count, step):
            block = self._rows_of_tokens(reader, at, min(at + step, count))
            total += block.double().sum(0)  # unknown rows are zeros
        return total / (count - len(self.unknown))

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
        self, reader: TensorReader, total: Tensor, source: TensorSource, rows: Rows, shares: Shares
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
    """The checkpoint with these tensors added or replaced, and with the files of their models."""
    files = list(checkpoint.files)
    for info in extensions.values():
        for source in info.sources:
            files += source.checkpoint.files
    before = checkpoint.changes
    all_changes = {}
    for file in {**before, **changes}:
        all_changes[file] = {**before.get(file, {}), **changes.get(file, {})}
    return replace(
        checkpoint,
        tensors={**checkpoint.tensors, **extensions},
        files=tuple(dict.fromkeys(files)),
        changes=all_changes,
        output_files=checkpoint.output_files if output_files is None else output_files,
    )


def runs(rows: Rows) -> Iterator[tuple[int, int, int]]:
    """Runs of consecutive rows: the first one's index in ``rows``, its number, and the count."""
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
    weighted = has * np.array(weights)[:, None]
    weighted = np.where(weighted.sum(axis=0) == 0, has, weighted)
    total = weighted.sum(axis=0)
    return list(weighted / np.where(total == 0, 1, total))


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """``rows`` rows of ``tensor`` from row ``at`` on are a module's rows from ``start`` on."""

    tensor: str
    at: int
    start: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class ChangedInfo(DerivedInfo):
    """A tensor with an adapter's changes: float32, or float64 on such a base.

    ``under``: the tensor to change, the base's or, if ``brought``, the adapter's own.
    ``changes``: the change of each module, and which of its rows are in the tensor.
    """

    under: TensorInfo
    changes: tuple[tuple[WeightChange, StoredRows], ...]
    brought: bool

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The tensor to change, and the factors."""
        return (self.under, *(info for change, _ in self.changes for info in change.parts))

    def rounding(self, reader: TensorReader) -> float:
        """The share of a quantisation's rounding in the tensor that is changed."""
        if isinstance(self.under, DerivedInfo):
            return self.under.rounding(reader)
        return 0.0

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the changed tensor."""
        return self._stored(reader, start, stop).add_(self.delta(reader, start, stop))

    def delta(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """The change of these elements in float32, without the rounding of a sum with the base."""
        width = math.prod(self.shape[1:])
        total = torch.zeros(stop - start)
        for change, piece in self.changes:
            # The module's elements that are between start and stop of this tensor.
            shift = (piece.at - piece.start) * width
            first = max(start, piece.at * width)
            last = min(stop, (piece.at + piece.rows) * width)
            if first < last:
                product = _product(reader, change, first - shift, last - shift)
                if change.uses_base:
                    product = self._with_base(reader, change, product, first, last)
                total[first - start : last - start] += product
        return total

    def _stored(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the tensor to change, in the dtype of the sum."""
        if self.under.dtype == "F64":
            wide = torch.float64
        else:
            wide = torch.float32
        return reader.elements(self.under, start, stop).to(wide)

    def _with_base(
        self, reader: TensorReader, change: WeightChange, product: Tensor, first: int, last: int
    ) -> Tensor:
        """f·(W₀ + product) − W₀ with DoRA's f; for replaced rows, the new row − W₀."""
        stored = self._stored(reader, first, last)
        at = torch.arange(first, last)
        if isinstance(change, LowRank):
            if change.turned:
                index = at % change.width
            else:
                index = at // change.width
            factors = reader.once(self, partial(self._magnitude_factors, reader, change))
            factor = factors[index].to(stored.dtype)
            return (factor * product).add_((factor - 1) * stored).to(torch.float32)
        assert isinstance(change, TokenRows)
        replaced = torch.isin(at // change.width, torch.tensor(change.indices))
        return torch.where(replaced, product - stored, 0).to(torch.float32)

    def _magnitude_factors(self, reader: TensorReader, change: LowRank) -> Tensor:
        """DoRA's magnitudes divided by the norms of W₀ + scale·B·A, one per output, in float64."""
        rows = change.shape[0]
        width = change.width
        total = torch.zeros(width if change.turned else rows, dtype=torch.float64)
        step = max(1, _BLOCK // max(width, 1))
        for first in range(0, rows, step):
            last = min(first + step, rows)
            changed = self._stored(reader, first * width, last * width).double()
            changed += _product(reader, change, first * width, last * width)
            squares = changed.square_().reshape(-1, width)
            if change.turned:
                total += squares.sum(0)
            else:
                total[first:last] = squares.sum(1)
        assert change.magnitude is not None
        magnitude = read_factor(reader, change.magnitude).flatten().double()
        return magnitude / total.sqrt()


def read_factor(reader: TensorReader, info: TensorInfo) -> Tensor:
    """A tensor of an adapter in float32. Raises NonFiniteError."""
    stored = reader.read_info(info)
    require_finite(stored, info.name, path_text(info.file), info.file)
    return stored.to(torch.float32)


def _product(reader: TensorReader, change: WeightChange, start: int, stop: int) -> Tensor:
    """Elements of the flattened change; only their rows are computed."""
    width = change.width
    if start >= stop or width == 0:
        return torch.empty(0)
    first = start // width
    last = -(-stop // width)
    rows = change.product(partial(read_factor, reader), first, last).reshape(-1)
    return rows[start - first * width : stop - first * width]


def expand(
    adapter: Adapter,
    base: Checkpoint,
    answers: Mapping[str, str],
    transposed: Collection[str],
    pieces: Mapping[str, Sequence[StoredRows]] | None = None,
) -> Checkpoint:
    """The whole model that ``adapter`` makes of ``base``, without reading a tensor.

    It has the base's names. Where the base stores several modules in one tensor, a part changes.

    ``answers``: name in the adapter → the base's name of that tensor. ``transposed``: the base's
    tensors that are stored inputs × outputs (Conv1D), known from the module's class; shapes and the
    adapter's ``fan_in_fan_out`` cannot tell. ``pieces``: name in the adapter → the rows of a base
    tensor, for modules without a tensor of their own in the base. Raises MismatchError if a change
    has no tensor in the base, or one of another shape.
    """
    pieces = pieces or {}
    _refuse_unanswered(adapter, {*answers, *pieces}, pieces)
    full = {answers.get(name, name): info for name, info in adapter.full.items()}
    stored = {**base.tensors, **full}
    placed: dict[str, tuple[tuple[WeightChange, StoredRows], ...]] = {}
    for name, delta in adapter.deltas.items():
        for piece in pieces.get(name) or [_whole_rows(stored[answers[name]], answers[name])]:
            change = _oriented(delta, piece.tensor, stored[piece.tensor], transposed)
            _refuse_unfit(adapter, change, piece, stored[piece.tensor], in_pieces=name in pieces)
            placed[piece.tensor] = (*placed.get(piece.tensor, ()), (change, piece))
    return Checkpoint(
        path=adapter.path,
        folder=adapter.folder,
        tensors={**stored, **{n: _changed(stored[n], n, c) for n, c in placed.items()}},
        files=(*base.files, *adapter.files),
        config=base.config,
        warnings=adapter.warnings,
        adapter=adapter.stored,
    )


def _whole_rows(info: TensorInfo, name: str) -> StoredRows:
    shape = info.shape
    return StoredRows(tensor=name, at=0, start=0, rows=shape[0] if shape else 1)


def _refuse_unfit(
    adapter: Adapter, change: WeightChange, piece: StoredRows, info: TensorInfo, *, in_pieces: bool
) -> None:
    """Raise MismatchError if a change does not fit a tensor of the base.

    ``in_pieces``: whether the module's rows are in several tensors, or in a part of one.
    """
    covers_tensor = (piece.at, piece.start) == (0, 0) and change.fits(info.shape)
    height = math.prod(change.shape) // max(change.width, 1)
    inside = piece.start + piece.rows <= height and change.width == math.prod(info.shape[1:])
    of_rows = inside and not getattr(change, "turned", False) and not change.uses_base
    smaller = in_pieces and piece.rows < max(height, info.shape[0])
    if not is_float(info.dtype) or not (covers_tensor or (of_rows and smaller)):
        _refuse_other_shape(adapter, info, change)


def _oriented(
    delta: WeightChange, target: str, info: TensorInfo, transposed: Collection[str]
) -> WeightChange:
    """The change in the orientation of the base's weight, which depends on the module's class."""
    if isinstance(delta, LowRank):
        sides = info.shape[1:]
        if delta.experts > 1 and (len(sides) != 2 or sides[0] != sides[1]):
            turned = sides == (delta.a.shape[1], delta.b.shape[0])
        elif delta.experts > 1:
            turned = target in transposed
        else:
            turned = delta.embedding or (len(delta.a.shape) == 2 and target in transposed)
            turned = turned and not delta.bare
        return replace(delta, target=target, turned=turned)
    if isinstance(delta, TokenRows):
        return replace(delta, target=target, count=info.shape[0])
    return replace(delta, target=target)


def _refuse_unanswered(
    adapter: Adapter, answered: Collection[str], pieces: Mapping[str, Sequence[StoredRows]]
) -> None:
    missing = [name for name in adapter.deltas if name not in answered]
    if missing:
        raise MismatchError(
            f"{path_text(adapter.path)}: {len(missing)} of the adapter's targets are not in the "
            "base: "
            f"{listing(missing)}. Choose the base that it was trained on. If it was trained on "
            "another model, such as the language model inside this one, name that with `on`.",
            path=adapter.path,
            tensor=missing[0],
            details="\n".join(missing),
        )
    partial = [name for name in adapter.full if name in pieces]
    if partial:
        raise MismatchError(
            f"{path_text(adapter.path)}: {listing(partial)} of the adapter is part of a larger "
            f"tensor in the base's files. {MERGE_FIRST}",
            path=adapter.path,
            tensor=partial[0],
        )


def _refuse_other_shape(adapter: Adapter, info: TensorInfo, delta: WeightChange) -> NoReturn:
    raise MismatchError(
        f"{path_text(adapter.path)}: The change of `{plain(info.name)}` is "
        f"{dimensions(delta.shape)}, but the base's is {dimensions(info.shape)} in {info.dtype}. "
        "Choose the base that it was trained on.",
        path=adapter.path,
        tensor=info.name,
        shapes={"base": info.shape, "adapter": delta.shape},
    )


def _changed(
    under: TensorInfo, name: str, changes: tuple[tuple[WeightChange, StoredRows], ...]
) -> ChangedInfo:
    """The tensor ``name``, which is ``under`` plus changes; no file has its bytes."""
    wide = under.dtype == "F64"
    first = changes[0][0].parts[0]
    replaced = {
        "name": name,
        "dtype": "F64" if wide else "F32",
        "file": first.file,
        "start": first.start,
        "nbytes": math.prod(under.shape) * (8 if wide else 4),
    }
    fields = {**under.fields, **replaced}
    brought = under.file == first.file
    if isinstance(under, DerivedInfo):
        written = under.written
    else:
        written = ""
    return ChangedInfo(**fields, under=under, changes=changes, brought=brought, written=written)
