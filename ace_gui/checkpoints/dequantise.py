"""The formula of each quantised format, in torch: W = (level − zero) · scale.

A level is the code itself, or the value that a table has for it. Nothing is read here: the
functions get those stored parts that belong to the requested rows. O outputs × I inputs; G groups
of inputs with one scale each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

E2M1: Final = torch.tensor([s * v for s in (1.0, -1.0) for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6)])
"""Values of the sixteen codes of a 4-bit float: sign, two bits of exponent, one of mantissa."""
E4M3: Final = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn).float()
"""Values of the 256 codes of an 8-bit float; two of them are NaN."""

_AWQ_ORDER: Final = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in a word the eight columns of AWQ are, in their order."""
_EXPONENT_BIAS: Final = 127
_HQQ_THREES: Final = 10
"""3-bit codes in a word of HQQ; its highest two bits are empty."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """Some rows of a quantised weight. Scale and zero broadcast to the shape of the codes."""

    codes: Tensor
    """Integers, or bytes that are numbers of ``table``."""
    scale: Tensor
    """float32."""
    zero: Tensor | None = None
    """Is subtracted from the levels; None: nothing is."""
    table: Tensor | None = None
    """The level of each code, float32; None: the codes are the levels."""

    def values(self) -> Tensor:
        """The weights, float32."""
        if self.table is None:
            levels = self.codes.to(torch.float32)
        else:
            levels = self._of(self.table)
        if self.zero is not None:
            levels = levels - self.zero
        return levels * self.scale

    def steps(self) -> Tensor:
        """The width of the interval that is rounded to each weight, float32."""
        if self.table is None:
            cells = torch.ones(())
        else:
            cells = self._of(cell_widths(self.table))
        return (cells * self.scale).abs().expand(self.codes.shape)

    def _of(self, table: Tensor) -> Tensor:
        return table[self.codes.to(torch.int32)]


def cell_widths(table: Tensor) -> Tensor:
    """Half the distance between the neighbours of each level; of the outermost, the whole one."""
    levels, places = torch.unique(table.nan_to_num(0.0), return_inverse=True)
    if len(levels) < 2:
        return torch.zeros_like(table)
    gaps = levels.diff()
    widths: Tensor = (torch.cat([gaps[:1], gaps]) + torch.cat([gaps, gaps[-1:]])) / 2
    return widths[places]


def unpacked(words: Tensor, bits: int) -> Tensor:
    """The codes in a stream of bits along the last dimension, low bits first. uint8."""
    raw = words.clone(memory_format=torch.contiguous_format).view(torch.uint8)
    if bits == 8:
        return raw
    if bits == 3:  # eight codes in three bytes
        triples = raw.view(*raw.shape[:-1], -1, 3).to(torch.int32)
        merged = triples[..., 0] | triples[..., 1] << 8 | triples[..., 2] << 16
        codes = (merged[..., None] >> torch.arange(0, 24, 3, dtype=torch.int32)) & 7
        return codes.to(torch.uint8).flatten(-2)
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8)
    return ((raw[..., None] >> shifts) & ((1 << bits) - 1)).flatten(-2)


def from_stream(words: Tensor, bits: int, start: int, count: int) -> Tensor:
    """Codes of any size up to 8 bits from a stream of bits along the last dimension. uint8.

    ``start``: bits before the first code. Codes may go over the end of a byte, or of a word.
    """
    raw = words.clone(memory_format=torch.contiguous_format).view(torch.uint8)
    raw = torch.nn.functional.pad(raw, (0, 1))  # what follows the last byte is not used
    place = start + bits * torch.arange(count)
    low = raw[..., place // 8].to(torch.int16)
    high = raw[..., place // 8 + 1].to(torch.int16) << 8
    codes = (low | high) >> (place % 8).to(torch.int16)
    return (codes & ((1 << bits) - 1)).to(torch.uint8)


def bitsandbytes(raw: Tensor, absmax: Tensor, table: Tensor, blocksize: int) -> Grid:
    """NF4 and FP4: two codes a byte, high bits first, in blocks with a largest value each."""
    codes = torch.stack([raw >> 4, raw & 15], dim=-1).reshape(-1, blocksize)
    return Grid(codes=codes, scale=absmax[:, None], table=table)


def nested_absmax(codes: Tensor, scale: Tensor, table: Tensor, offset: float) -> Tensor:
    """The largest values of bitsandbytes' blocks where they are quantised themselves."""
    return Grid(codes=codes, scale=scale, table=table).values() + offset


def gptq_codes(words_WO: Tensor, bits: int) -> Tensor:
    """GPTQ's codes as O × I, from words along the inputs."""
    return unpacked(words_WO.T, bits)


def gptq_zeros(words_GW: Tensor, bits: int, *, less_one: bool) -> Tensor:
    """GPTQ's zero points, G × O. ``less_one``: one less is stored, as its first version does."""
    zeros = unpacked(words_GW, bits)
    if less_one:
        return (zeros + 1) & ((1 << bits) - 1)
    return zeros


def awq_codes(words_XW: Tensor) -> Tensor:
    """AWQ's codes or zero points (gemm, 4 bits): eight columns a word, in an order of its own."""
    codes = unpacked(words_XW, 4).view(*words_XW.shape, 8)
    return codes[..., list(_AWQ_ORDER)].flatten(-2)


def columnwise(codes_OI: Tensor, scale_GO: Tensor, zero_GO: Tensor, group_I: Tensor) -> Grid:
    """GPTQ and AWQ, with the group of each input."""
    scale = scale_GO.to(torch.float32).T[:, group_I]
    return Grid(codes=codes_OI, scale=scale, zero=zero_GO.to(torch.float32).T[:, group_I])


def packed_integers(words_OW: Tensor, bits: int, inputs: int, scale: Tensor, zero: Tensor) -> Grid:
    """compressed-tensors ``pack-quantized``; codes and zero points have the same offset."""
    if 8 % bits == 0:
        codes_OI = unpacked(words_OW, bits)[:, :inputs]
    else:
        codes_OI = from_stream(words_OW, bits, 0, inputs)
    return Grid(codes=codes_OI, scale=scale, zero=zero)


def packed_floats(raw_OB: Tensor, scale: Tensor) -> Grid:
    """NVFP4 and MXFP4: two codes a byte, low bits first."""
    return Grid(codes=unpacked(raw_OB, 4), scale=scale, table=E2M1)


def bytes_as_numbers(raw: Tensor, scale: Tensor, zero: Tensor | None, *, floats: bool) -> Grid:
    """A code a byte: fp8 (E4M3), or signed integers, also with a zero point."""
    if floats:
        return Grid(codes=raw, scale=scale, table=E4M3)
    return Grid(codes=raw.view(torch.int8), scale=scale, zero=zero)


def powers_of_two(exponents: Tensor) -> Tensor:
    """The scales of MXFP4, stored as exponents with a bias."""
    return torch.ldexp(torch.ones(exponents.shape), exponents.to(torch.int32) - _EXPONENT_BIAS)


def hqq_shifts(bits: int) -> tuple[int, ...]:
    """How far to the right the codes of HQQ's stretches of rows are shifted, in their order."""
    if bits == 3:
        return tuple(3 * (_HQQ_THREES - 1 - place) for place in range(_HQQ_THREES))
    return tuple(range(8 - bits, -1, -bits))


def hqq_codes(words: Tensor, bits: int, shift: int) -> Tensor:
    """The codes of one stretch of rows of HQQ. uint8."""
    return ((words >> shift) & ((1 << bits) - 1)).to(torch.uint8)


def gguf_values(raw_RB: Tensor, kind: int) -> Tensor:
    """Rows of a quantised type of GGUF, as its own library dequantises them. float32."""
    from gguf.constants import GGMLQuantizationType  # only where such a file is read
    from gguf.quants import dequantize

    with np.errstate(all="ignore"):  # infinite scales are found by whoever checks the weights
        values = dequantize(raw_RB.numpy(), GGMLQuantizationType(kind))
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
