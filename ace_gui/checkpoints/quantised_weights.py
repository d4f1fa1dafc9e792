"""Weights that are assembled from stored parts, and dequantised as they are read.

Other modules see such a weight as one tensor of float32 under its usual name. A part of it needs
only the stored parts of its rows. The formulas are in ``dequantise.py``; which tensors belong
together, and whether they fit, is decided before in ``quantised_formats.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Final

import torch
from torch import Tensor

from ace_gui.checkpoints import dequantise
from ace_gui.checkpoints.dequantise import Grid
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.reader import DerivedInfo, TensorReader, allocate

_AT_ONCE: Final = 1 << 19
"""Elements that are dequantised at a time, which bounds what is needed beside the result."""
_BAND: Final = 1 << 22
"""Bytes of a matrix stored by inputs that are in memory while its columns are picked."""
_SAMPLES: Final = 8
"""Places in a weight at which its steps are looked at."""


@dataclass(frozen=True, kw_only=True)
class QuantisedInfo(DerivedInfo):
    """A weight of float32 that is computed from stored parts.

    It is read in units: the fewest consecutive elements that are dequantised together.
    """

    format: str
    """The format's name in messages."""
    codes: TensorInfo
    """The stored integers."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of the codes in the file."""
        return self.codes.nbytes

    @property
    def unit(self) -> int:
        """Elements of a unit: a row, unless a format has units of its own."""
        return self.shape[-1]

    @property
    def samples(self) -> int:
        """Number of places at which its steps are looked at."""
        return _SAMPLES

    def grids(self, reader: TensorReader, first: int, last: int) -> Iterator[Grid]:
        """The units ``first`` to ``last``, in order, in grids of at most some 2^19 elements."""
        step = max(1, _AT_ONCE // self.unit)
        for start in range(first, last, step):
            yield self.grid(reader, start, min(start + step, last))

    def grid(self, reader: TensorReader, first: int, last: int) -> Grid:
        """The units ``first`` to ``last``."""
        raise NotImplementedError

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened weight, float32."""
        part = allocate(self, stop - start)
        if start >= stop:
            return part
        place = start // self.unit * self.unit
        for grid in self.grids(reader, start // self.unit, -(-stop // self.unit)):
            values = grid.values().reshape(-1)
            low = max(start, place)
            high = min(stop, place + len(values))
            part[low - start : high - start] = values[low - place : high - place]
            place += len(values)
        return part

    def rounding(self, reader: TensorReader) -> float:
        """The rounding's share of the weight's energy, by its steps at a few places.

        An error that is equally probable everywhere in a step has the variance step²/12.
        """
        units = -(-prod(self.shape) // self.unit)
        width = max(1, _AT_ONCE // self.samples // self.unit)
        noise = energy = 0.0
        for first in sorted({units * place // self.samples for place in range(self.samples)}):
            for grid in self.grids(reader, first, min(first + width, units)):
                noise += float(grid.steps().double().square().sum()) / 12
                energy += float(grid.values().double().square().sum())
        if energy:
            return noise / energy
        return 0.0


@dataclass(frozen=True, kw_only=True)
class BlocksInfo(QuantisedInfo):
    """NF4 and FP4 of bitsandbytes: blocks of the flattened weight."""

    absmax: TensorInfo
    """The largest value of each block; codes of them if they are nested."""
    table: TensorInfo
    """The value of each of the sixteen codes."""
    blocksize: int
    nested: NestedScales | None = None

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """Codes and largest values."""
        return self.codes, self.absmax

    @property
    def unit(self) -> int:
        """Elements of a block."""
        return self.blocksize

    def grid(self, reader: TensorReader, first: int, last: int) -> Grid:
        """Blocks; the last one is filled up with zeros."""
        size = self.blocksize // 2
        stop = min(last * size, self.codes.nbytes)
        raw = torch.zeros((last - first) * size, dtype=torch.uint8)
        raw[: stop - first * size] = _raw(reader, self.codes, first * size, stop)
        absmax = reader.elements(self.absmax, first, last)
        if self.nested is not None:
            absmax = self.nested.values(reader, absmax, first)
        return dequantise.bitsandbytes(raw, absmax, reader.read_info(self.table), self.blocksize)

    def grids(self, reader: TensorReader, first: int, last: int) -> Iterator[Grid]:
        """As for any weight; the zeros after the last element are not part of the last grid."""
        remaining = prod(self.shape) - first * self.blocksize
        for grid in super().grids(reader, first, last):
            if grid.codes.numel() > remaining:
                yield _flat(grid, remaining)
            else:
                yield grid
            remaining -= grid.codes.numel()


def _flat(grid: Grid, count: int) -> Grid:
    """The first ``count`` elements of a grid."""
    scale = grid.scale.expand(grid.codes.shape).reshape(-1)[:count]
    return replace(grid, codes=grid.codes.reshape(-1)[:count], scale=scale)


@dataclass(frozen=True, kw_only=True)
class NestedScales:
    """How bitsandbytes' largest values are quantised themselves."""

    absmax: TensorInfo
    table: TensorInfo
    blocksize: int
    offset: float

    def values(self, reader: TensorReader, codes: Tensor, first: int) -> Tensor:
        """The largest values of consecutive blocks, of which the first has this number."""
        places = torch.arange(first, first + len(codes)) // self.blocksize
        start = first // self.blocksize
        scales = reader.elements(self.absmax, start, int(places[-1]) + 1)
        table = reader.read_info(self.table)
        return dequantise.nested_absmax(codes, scales[places - start], table, self.offset)


@dataclass(frozen=True, kw_only=True)
class ColumnsInfo(QuantisedInfo):
    """GPTQ and AWQ, whose files have inputs × outputs: a row is a column of the file."""

    scale: TensorInfo
    """Groups × outputs."""
    zero: TensorInfo
    """Zero points, packed along the outputs."""
    order: TensorInfo | None
    """The group of each input; None: they are consecutive."""
    bits: int
    """Of one code."""
    is_awq: bool
    """AWQ's order of codes in a word; otherwise GPTQ's."""
    less_one: bool
    """Whether one less than the zero point is stored."""

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """Codes, scales and zero points."""
        return self.codes, self.scale, self.zero

    @property
    def samples(self) -> int:
        """One, because any part needs all of the file's tensor."""
        return 1

    def grids(self, reader: TensorReader, first: int, last: int) -> Iterator[Grid]:
        """Rows; their codes are picked from the file in one go."""
        codes_OI = self._codes(reader, first, last)
        groups = self.scale.shape[0]
        scale_GO = reader.read_info(self.scale)[:, first:last]
        zero_GO = self._zeros(reader.read_info(self.zero))[:, first:last]
        group_I = torch.arange(self.unit) // (self.unit // groups)
        if self.order is not None:
            group_I = reader.read_info(self.order).long()
        step = max(1, _AT_ONCE // self.unit)
        for start in range(0, last - first, step):
            rows = slice(start, start + step)
            yield dequantise.columnwise(
                codes_OI[rows], scale_GO[:, rows], zero_GO[:, rows], group_I
            )

    def _zeros(self, words_GW: Tensor) -> Tensor:
        if self.is_awq:
            return dequantise.awq_codes(words_GW)
        return dequantise.gptq_zeros(words_GW, self.bits, less_one=self.less_one)

    def _codes(self, reader: TensorReader, first: int, last: int) -> Tensor:
        """The codes of some rows, rows × inputs."""
        height, width = self.codes.shape
        codes_OI = torch.empty(last - first, self.unit, dtype=torch.uint8)
        # Whole words of every number of bits end after so many rows of the file.
        step = max(1, _BAND // (4 * width * self.bits)) * self.bits
        for start in range(0, height, step):
            stop = min(start + step, height)
            words = reader.elements(self.codes, start * width, stop * width).view(-1, width)
            if self.is_awq:
                low = first // 8
                part = dequantise.awq_codes(words[:, low : -(-last // 8)])
                codes_OI[:, start:stop] = part[:, first - low * 8 : last - low * 8].T
            else:
                inputs = slice(start * 32 // self.bits, stop * 32 // self.bits)
                codes_OI[:, inputs] = dequantise.gptq_codes(words[:, first:last], self.bits)
        return codes_OI


@dataclass(frozen=True, kw_only=True)
class RowsInfo(QuantisedInfo):
    """Formats that store the weight by rows, with a scale per tensor, row, group or block."""

    scale: TensorInfo
    """The tensor of scales."""
    block: tuple[int, int]
    """Rows and columns with one scale."""
    bits: int = 8
    """Of one code."""
    floats: bool = False
    """Whether the codes are floating-point numbers, not integers."""
    zero: TensorInfo | None = None
    """Zero points in the form of the scales; in words along the rows if the codes are in words."""
    order: TensorInfo | None = None
    """The group of each column; None: they are consecutive."""
    divisor: TensorInfo | float = 1.0
    """Divides every scale."""
    factor: TensorInfo | None = None
    """Multiplies every scale; None: there is none."""

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """Codes and scales."""
        return self.codes, self.scale

    def grid(self, reader: TensorReader, first: int, last: int) -> Grid:
        """Rows, numbered through a stack."""
        size = self.codes.nbytes // prod(self.shape[:-1])
        raw = _raw(reader, self.codes, first * size, last * size).view(last - first, size)
        spread = partial(self._spread, reader)
        scale = spread(self._scales(reader, first, last))
        zero = None
        if self.zero is not None and self.codes.dtype == "I32":
            zero = spread(self._unpacked_zeros(reader, self.zero, first, last))
        elif self.zero is not None:
            zero = spread(self._of_rows(reader, self.zero, first, last))
        if self.codes.dtype == "I32":
            middle = torch.tensor(float(1 << (self.bits - 1)))
            if zero is None:
                zero = middle
            return dequantise.packed_integers(raw, self.bits, self.unit, scale, zero)
        if self.bits == 4:
            return dequantise.packed_floats(raw, scale)
        return dequantise.bytes_as_numbers(raw, scale, zero, floats=self.floats)

    def _scales(self, reader: TensorReader, first: int, last: int) -> Tensor:
        """The scales of some rows, rows × groups."""
        scales = self._of_rows(reader, self.scale, first, last)
        if self.factor is not None:
            return scales * _numbers(reader, self.factor, 0, 1)
        if isinstance(self.divisor, TensorInfo):
            return scales / _numbers(reader, self.divisor, 0, 1)
        return scales / self.divisor

    def _of_rows(self, reader: TensorReader, info: TensorInfo, first: int, last: int) -> Tensor:
        """What has a number for each block, for some rows of the weight: rows × groups."""
        rows, columns = self.shape[-2:]
        if self.order is not None:
            width = info.shape[-1]
        else:
            width = -(-columns // self.block[1])
        per_matrix = -(-rows // self.block[0])
        at = torch.arange(first, last)
        places = at // rows * per_matrix + at % rows // self.block[0]
        low = int(places[0])
        stored = _numbers(reader, info, low * width, (int(places[-1]) + 1) * width)
        return stored.view(-1, width)[places - low]

    def _unpacked_zeros(
        self, reader: TensorReader, zero: TensorInfo, first: int, last: int
    ) -> Tensor:
        """The zero points of some rows, which are in words along the rows: rows × groups."""
        width = zero.shape[1]
        low = first * self.bits // 32
        high = -(-last * self.bits // 32)
        words = reader.elements(zero, low * width, high * width).view(-1, width)
        start = first * self.bits - 32 * low
        zeros_GO = dequantise.from_stream(words.T, self.bits, start, last - first)
        return zeros_GO.T.to(torch.float32)

    def _spread(self, reader: TensorReader, by_group: Tensor) -> Tensor:
        """Values by row and group as values by row and column."""
        if by_group.shape[1] == 1:
            return by_group
        if self.order is not None:
            return by_group[:, reader.read_info(self.order).long()]
        return by_group[:, torch.arange(self.unit) // self.block[1]]


@dataclass(frozen=True, kw_only=True)
class StretchesInfo(QuantisedInfo):
    """HQQ: rows of a reshaped weight; stretches of them share the words of the file."""

    scale: TensorInfo
    zero: TensorInfo
    bits: int
    axis: int
    """1: a scale for each reshaped row; 0: for each reshaped column."""

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """Codes, scales and zero points."""
        return self.codes, self.scale, self.zero

    @property
    def unit(self) -> int:
        """Elements of a reshaped row."""
        return self.codes.shape[1]

    def grid(self, reader: TensorReader, first: int, last: int) -> Grid:
        """Reshaped rows."""
        height = self.codes.shape[0]
        stretches = []
        for number, shift in enumerate(dequantise.hqq_shifts(self.bits)):
            low = max(first, number * height)
            high = min(last, (number + 1) * height)
            if low < high:
                start = (low - number * height) * self.unit
                words = reader.elements(self.codes, start, start + (high - low) * self.unit)
                stretches.append(dequantise.hqq_codes(words, self.bits, shift))
        read = partial(_numbers, reader)
        by_rows = self.axis == 1
        if by_rows:
            span = (first, last)
        else:
            span = (0, self.unit)
        if by_rows:
            shape = (-1, 1)
        else:
            shape = (1, -1)
        scale = read(self.scale, *span).view(shape)
        zero = read(self.zero, *span).view(shape)
        return Grid(codes=torch.cat(stretches).view(-1, self.unit), scale=scale, zero=zero)


@dataclass(frozen=True, kw_only=True)
class StackInfo(QuantisedInfo):
    """A stack of experts in MXFP4, as gpt-oss has it: experts × inputs × outputs when read.

    The file has experts × outputs × groups × 16 bytes with two numbers each, the lower four bits
    first, and an exponent of 2 for each group of 32 numbers. A unit is the matrix of an expert.
    """

    scale: TensorInfo

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """Codes and exponents."""
        return self.codes, self.scale

    @property
    def unit(self) -> int:
        """Elements of an expert's matrix."""
        return prod(self.shape[1:])

    def grid(self, reader: TensorReader, first: int, last: int) -> Grid:
        """The matrices of some experts, each inputs × outputs."""
        outputs, groups, packed = self.codes.shape[1:]
        count = outputs * groups
        raw = _raw(reader, self.codes, first * count * packed, last * count * packed)
        exponents = _raw(reader, self.scale, first * count, last * count)
        grid = dequantise.packed_floats(
            raw.view(-1, packed), dequantise.powers_of_two(exponents)[:, None]
        )
        turned = (last - first, outputs, groups * 2 * packed)
        scale = grid.scale.expand(grid.codes.shape).reshape(turned).transpose(1, 2)
        return replace(grid, codes=grid.codes.reshape(turned).transpose(1, 2), scale=scale)


@dataclass(frozen=True, kw_only=True)
class GgufInfo(QuantisedInfo):
    """A tensor of a quantised type of GGUF; the library ``gguf`` knows its formula."""

    kind: int
    """The number of the type in the file."""
    typical_rounding: float
    """The type's error relative to the weight, measured on normally distributed numbers."""

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The tensor in the file."""
        return (self.codes,)

    def grid(self, reader: TensorReader, first: int, last: int) -> Grid:
        """Rows that are dequantised already."""
        size = self.codes.shape[1]
        raw = reader.elements(self.codes, first * size, last * size).view(-1, size)
        values = dequantise.gguf_values(raw, self.kind)
        return Grid(codes=values, scale=torch.ones(()))

    def rounding(self, _reader: TensorReader) -> float:
        """The rounding's share of the weight's energy; the library tells no steps."""
        return self.typical_rounding**2


def _raw(reader: TensorReader, info: TensorInfo, start: int, stop: int) -> Tensor:
    """Some bytes of a tensor, whatever its format."""
    return reader.elements(replace(info, dtype="U8", shape=(info.nbytes,)), start, stop)


def _numbers(reader: TensorReader, info: TensorInfo, start: int, stop: int) -> Tensor:
    """Elements of a tensor of scales in float32; bytes are exponents of two."""
    if info.dtype == "F8_E4M3":
        return _raw(reader, info, start, stop).view(torch.float8_e4m3fn).to(torch.float32)
    if info.dtype in ("U8", "F8_E8M0"):
        return dequantise.powers_of_two(_raw(reader, info, start, stop))
    return reader.elements(info, start, stop).to(torch.float32)
