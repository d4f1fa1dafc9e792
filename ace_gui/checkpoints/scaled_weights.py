"""Weights of 8 bits with scales, read as float32: W = scale · q, for a tensor, its rows or blocks.

fp8 (E4M3) as FBGEMM, compressed-tensors and DeepSeek's models store it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.formatting import counted

_FP8: Final = "F8_E4M3"
_SCALES: Final = ("weight_scale_inv", "weight_scale")
_SCALE_FORMATS: Final = ("F32", "BF16", "F16")
_OF_INPUTS: Final = ("input_scale", "input_activation_scale")


@dataclass(frozen=True, kw_only=True)
class ScaledInfo(TensorInfo):
    """A weight of 8 bits, described as it is read. ``block``: rows and columns of one scale."""

    scale: TensorInfo
    block: tuple[int, int]

    @property
    def stored_bytes(self) -> int:
        """Bytes in the file."""
        return prod(self.shape)

    @property
    def quantised(self) -> TensorInfo:
        """The bytes in the file."""
        return TensorInfo(
            name=self.name,
            dtype="U8",
            shape=self.shape,
            file=self.file,
            start=self.start,
            nbytes=self.stored_bytes,
        )

    def factors(self, scales: Tensor, first: int, last: int) -> Tensor:
        """The scale of each element of the rows ``first`` to ``last``, counted through a stack."""
        rows, columns = self.shape[-2:]
        grid = scales.to(torch.float32).reshape(-1, max(1, -(-columns // self.block[1])))
        per_matrix = -(-rows // self.block[0])
        at = torch.arange(first, last)
        wanted = grid[at // rows * per_matrix + at % rows // self.block[0]]
        return wanted.repeat_interleave(self.block[1], dim=1)[:, :columns]


def with_scales(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, Any] | None
) -> tuple[dict[str, TensorInfo], tuple[str, ...]]:
    """The tensors, where fp8 weights with scales are float32, and a note of what that costs.

    ``config``: the model's, which may have the size of the blocks. Weights without scales, or with
    scales that do not fit, stay as they are, to be refused.
    """
    found = {
        name: made
        for name, info in tensors.items()
        if (made := _scaled(info, tensors, _blocks(config))) is not None
    }
    if not found:
        return dict(tensors), ()
    ends = tuple(f".{end}" for end in _OF_INPUTS)
    used = {made.scale.name for made in found.values()}
    kept = {
        name: found.get(name, info)
        for name, info in tensors.items()
        if name not in used and not name.endswith(ends)
    }
    weights = counted(len(found), "fp8 weight is", "fp8 weights are")
    note = (
        f"{weights} read as float32, each with its scales; a merged model has no such weights: it "
        "is four times as large, or twice with `out_dtype: bfloat16`, and what fp8 rounded away "
        "is in every change."
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
            return ScaledInfo(
                name=info.name,
                dtype="F32",
                shape=info.shape,
                file=info.file,
                start=info.start,
                nbytes=4 * prod(info.shape),
                scale=scale,
                block=block,
            )
    return None
