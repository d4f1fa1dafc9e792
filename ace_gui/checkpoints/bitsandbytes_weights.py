"""Which tensors are a weight of bitsandbytes together, and whether they fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, prod
from typing import Any, Final

from ace_gui.checkpoints.header import RANK_LIMIT
from ace_gui.checkpoints.quantised_parts import Candidate, is_count
from ace_gui.checkpoints.quantised_weights import (
    BlocksInfo,
    NestedScales,
    QuantisedInfo,
    RowsInfo,
)
from ace_gui.formatting import dimensions

_MOST: Final = 2**48
"""Most numbers of a weight that are believed."""
_BY_ROWS: Final = 0
"""bitsandbytes' number of the layout of 8 bits; others belong to old GPUs."""


def bitsandbytes_4(candidate: Candidate) -> QuantisedInfo | None:
    """NF4 and FP4, in blocks of the flattened weight."""
    weight = candidate.part("")
    table = candidate.part(".quant_map")
    states = (candidate.part(f".quant_state.bitsandbytes__{kind}") for kind in ("nf4", "fp4"))
    state = next((part for part in states if part is not None), None)
    if weight is None or table is None or state is None:
        return None
    settings = candidate.json(state)
    shape = _shape(candidate, settings.get("shape"))
    blocksize = settings.get("blocksize")
    if not is_count(blocksize) or blocksize % 2:
        candidate.refuse("its blocksize is not an even number up to a million")
    count = prod(shape)
    size = -(-count // 2)
    if weight.nbytes != size:
        candidate.refuse(
            f"{dimensions(shape)} numbers need {size} bytes, and it has {weight.nbytes}"
        )
    blocks = -(-count // blocksize)
    candidate.require_part(table, ("F32",), (16,))
    nested = _nested(candidate, settings, blocks)
    candidate.require_part(
        candidate.info, ("F32",) if nested is None else ("U8",), (blocks,), (blocks, 1)
    )
    if state.name.endswith("nf4"):
        kind = "NF4"
    else:
        kind = "FP4"
    return BlocksInfo(
        **candidate.fields(weight.name, shape, f"bitsandbytes {kind}", weight),
        absmax=candidate.info,
        table=table,
        blocksize=blocksize,
        nested=nested,
    )


def _shape(candidate: Candidate, value: object) -> tuple[int, ...]:
    """The shape in a weight's settings. Raises CheckpointError."""
    if isinstance(value, list):
        sizes = value
    else:
        sizes = []
    natural = 0 < len(sizes) <= RANK_LIMIT and all(is_count(size, _MOST) for size in sizes)
    if natural and prod(sizes) <= _MOST:
        return tuple(sizes)
    raise candidate.misfit("its settings have no shape that can be read")


def _nested(candidate: Candidate, settings: Mapping[str, Any], blocks: int) -> NestedScales | None:
    """How bitsandbytes' largest values are quantised; None if they are not."""
    absmax = candidate.part(".nested_absmax")
    table = candidate.part(".nested_quant_map")
    if absmax is None and table is None:
        return None
    blocksize = settings.get("nested_blocksize")
    offset = settings.get("nested_offset")
    number = isinstance(offset, float | int) and isfinite(offset)
    if absmax is None or table is None or not is_count(blocksize) or not number:
        candidate.refuse("what its nested scales need is not complete")
    candidate.require_part(absmax, ("F32",), (-(-blocks // blocksize),))
    candidate.require_part(table, ("F32",), (256,))
    return NestedScales(absmax=absmax, table=table, blocksize=blocksize, offset=float(offset or 0))


def bitsandbytes_8(candidate: Candidate) -> QuantisedInfo | None:
    """W = q · SCB / 127, row by row (Dettmers et al. 2022, section 3), stored by rows."""
    info = candidate.info
    scale = candidate.part(".SCB")
    if scale is None or len(info.shape) != 2 or not prod(info.shape):
        return None
    layout = candidate.numbers(".weight_format")
    candidate.require(layout in (None, (_BY_ROWS,)), "its layout belongs to old GPUs")
    candidate.require_part(scale, ("F32",), info.shape[:1])
    block = (1, info.shape[1])
    fields = candidate.fields(info.name, info.shape, "bitsandbytes int8")
    return RowsInfo(**fields, scale=scale, block=block, divisor=127.0)
