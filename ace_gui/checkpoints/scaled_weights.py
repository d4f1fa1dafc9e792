"""Quantised weights with scales, read as float32: W = scale · q, for a tensor, rows or blocks.

fp8 (E4M3) as FBGEMM, compressed-tensors and DeepSeek's models store it, bitsandbytes' int8, and
gpt-oss's MXFP4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import open_regular, read_at
from ace_gui.checkpoints.reader import DerivedInfo, TensorReader
from ace_gui.formatting import counted

_FP4: Final = tuple(sign * x for sign in (1.0, -1.0) for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6))
_FP8: Final = "F8_E4M3"
_SCALES: Final = ("weight_scale_inv", "weight_scale")
_SCALE_FORMATS: Final = ("F32", "BF16", "F16")
_FORMAT: Final = ".weight_format"
_BY_ROWS: Final = 0
"""bitsandbytes' number of the layout; others belong to old GPUs."""
_OF_INPUTS: Final = ("input_scale", "input_activation_scale")


@dataclass(frozen=True, kw_only=True)
class QuantisedInfo(DerivedInfo):
    """A weight read as float32. ``quantised``: as it is stored; ``scale``: its."""

    quantised: TensorInfo
    scale: TensorInfo

    @property
    def stored_bytes(self) -> int:
        """Bytes in the file."""
        return self.quantised.nbytes

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The quantised weight and its scales."""
        return self.quantised, self.scale


@dataclass(frozen=True, kw_only=True)
class ScaledInfo(QuantisedInfo):
    """A weight in fp8 or int8. ``block``: rows and columns of a scale, which is for ``divisor``."""

    block: tuple[int, int]
    divisor: float = 1.0

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the weight; scales are those of the rows that they are in."""
        raw = reader.elements(replace(self.quantised, dtype="U8"), start, stop)
        is_int8 = self.quantised.dtype == "I8"
        part = raw.view(torch.int8 if is_int8 else torch.float8_e4m3fn).to(torch.float32)
        if start < stop:
            width = self.shape[-1]
            first, last = start // width, -(-stop // width)
            scales = reader.whole(self.scale)
            factors = self._factors(scales, first, last).reshape(-1)
            part.mul_(factors[start - first * width : stop - first * width]).div_(self.divisor)
        return part

    def _factors(self, scales: Tensor, first: int, last: int) -> Tensor:
        """The scale of each element of the rows ``first`` to ``last``, counted through a stack."""
        rows, columns = self.shape[-2:]
        grid = scales.to(torch.float32).reshape(-1, max(1, -(-columns // self.block[1])))
        per_matrix = -(-rows // self.block[0])
        at = torch.arange(first, last)
        wanted = grid[at // rows * per_matrix + at % rows // self.block[0]]
        return wanted.repeat_interleave(self.block[1], dim=1)[:, :columns]


@dataclass(frozen=True, kw_only=True)
class PackedInfo(QuantisedInfo):
    """A stack of experts in MXFP4, as gpt-oss has it: experts × inputs × outputs when read.

    Stored are experts × outputs × groups × 16 bytes of two numbers each, the lower four bits first,
    and an exponent of 2 for each group of 32.
    """

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the stack; one expert's matrix is unpacked at a time."""
        size = prod(self.shape[1:])
        part = torch.empty(stop - start)
        for expert in range(start // size, -(-stop // size)):
            at = expert * size
            first, last = max(start, at), min(stop, at + size)
            matrix = self._matrix(reader, expert)
            part[first - start : last - start] = matrix[first - at : last - at]
        return part

    def _matrix(self, reader: TensorReader, expert: int) -> Tensor:
        outputs, groups, packed = self.quantised.shape[1:]
        count = outputs * groups
        size = count * packed
        raw = reader.elements(self.quantised, expert * size, (expert + 1) * size)
        exponents = reader.elements(self.scale, expert * count, (expert + 1) * count)
        nibbles = torch.stack([raw & 15, raw >> 4], dim=-1).reshape(count, 2 * packed)
        values = torch.ldexp(
            torch.tensor(_FP4)[nibbles.long()], exponents[:, None].to(torch.int32) - 127
        )
        return values.reshape(outputs, -1).T.reshape(-1)


def with_scales(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, Any] | None
) -> tuple[dict[str, TensorInfo], tuple[str, ...]]:
    """The tensors, where quantised weights with scales are float32, and a note of what that costs.

    ``config``: the model's, which may have the size of the blocks. Weights without scales, or with
    scales that do not fit, stay as they are, to be refused.
    """
    found = {
        name: made
        for name, info in tensors.items()
        if (made := _scaled(info, tensors, _blocks(config)) or _packed(info, tensors)) is not None
    }
    if not found:
        return dict(tensors), ()
    ends = tuple(f".{end}" for end in _OF_INPUTS)
    used = {made.scale.name for made in found.values()}
    used |= {name.replace(".SCB", _FORMAT) for name in used if name.endswith(".SCB")}
    kept = {
        found[name].name if name in found else name: found.get(name, info)
        for name, info in tensors.items()
        if name not in used and not name.endswith(ends)
    }
    weights = counted(len(found), "quantised weight is", "quantised weights are")
    note = (
        f"{weights} read as float32 (fp8, int8 or MXFP4, with scales). The merged model is not "
        "quantised: its weights are four times as large as fp8 and int8, eight times as large as "
        "MXFP4, and half of that with `out_dtype: bfloat16`. What they rounded away is in every "
        "change."
    )
    return kept, (note,)


def _blocks(config: Mapping[str, Any] | None) -> tuple[int, int] | None:
    settings = (config or {}).get("quantization_config")
    given = settings.get("weight_block_size") if isinstance(settings, dict) else None
    if isinstance(given, list) and len(given) == 2 and all(type(n) is int and n > 0 for n in given):
        return given[0], given[1]
    return None


def _scaled(
    info: TensorInfo, tensors: Mapping[str, TensorInfo], blocks: tuple[int, int] | None
) -> ScaledInfo | None:
    owner, _, last = info.name.rpartition(".")
    if info.dtype == "I8" and last == "weight" and len(info.shape) == 2:
        return _int8(info, tensors, owner)
    if info.dtype != _FP8 or last != "weight" or len(info.shape) not in (2, 3):
        return None
    named = (tensors.get(f"{owner}.{end}") for end in _SCALES)
    scale = next((each for each in named if each is not None), None)
    if scale is None or scale.dtype not in _SCALE_FORMATS or not prod(info.shape):
        return None
    rows, columns = info.shape[-2:]
    stack = prod(info.shape[:-2])
    for block in (blocks, (1, columns), (rows, columns)):
        if block is None:
            continue
        grid = stack * -(-rows // block[0]) * -(-columns // block[1])
        whole = scale.shape[-2:] == (-(-rows // block[0]), -(-columns // block[1]))
        if prod(scale.shape) == grid and (whole or block[1] == columns):
            return _as_float32(info, scale, block)
    return None


def _int8(info: TensorInfo, tensors: Mapping[str, TensorInfo], owner: str) -> ScaledInfo | None:
    """W = q · SCB / 127, row by row (Dettmers et al. 2022, section 3), stored by rows."""
    scale, layout = tensors.get(f"{owner}.SCB"), tensors.get(f"{owner}{_FORMAT}")
    if scale is None or scale.dtype != "F32" or scale.shape != info.shape[:1]:
        return None
    if layout is not None:
        byte = bytearray(1)
        with open_regular(layout.file) as (descriptor, _):
            read_at(descriptor, memoryview(byte), layout.start)
        if layout.nbytes != 1 or byte[0] != _BY_ROWS:
            return None
    return _as_float32(info, scale, (1, info.shape[1]), divisor=127.0)


def _as_float32(
    info: TensorInfo, scale: TensorInfo, block: tuple[int, int], divisor: float = 1.0
) -> ScaledInfo:
    made = info.fields | {"dtype": "F32", "nbytes": 4 * prod(info.shape)}
    return ScaledInfo(**made, quantised=info, scale=scale, block=block, divisor=divisor)


def _packed(info: TensorInfo, tensors: Mapping[str, TensorInfo]) -> PackedInfo | None:
    name = info.name.removesuffix("_blocks")
    scale = tensors.get(f"{name}_scales")
    if name == info.name or name in tensors or scale is None:
        return None
    fits = len(info.shape) == 4 and info.shape[3] == 16 and scale.shape == info.shape[:3]
    if not fits or (info.dtype, scale.dtype) != ("U8", "U8") or not prod(info.shape):
        return None
    experts, outputs, groups, _ = info.shape
    shape = (experts, 32 * groups, outputs)
    made = {"name": name, "dtype": "F32", "shape": shape, "nbytes": 4 * prod(shape)}
    return PackedInfo(**{**info.fields, **made}, quantised=info, scale=scale)
