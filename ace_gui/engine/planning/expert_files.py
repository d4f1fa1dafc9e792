"""Files of single experts stored with the merged weights: heads, masks, factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Final

from ace_gui.checkpoints import OutputTensor
from ace_gui.engine.contract.plan import COMBINED, Disposition, PlanRow
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods.shared.expert_modules import Cut, Differences, Factors, Masks
from ace_gui.methods.shared.trimming import kept_count
from ace_gui.stored_formats import FORMATS

HEADS: Final = "heads"
"""The folder of a merged model with the heads kept for single experts."""


def experts_with_heads(folder: Path) -> list[str]:
    """Names of the experts whose heads a merged model's folder has, sorted."""
    return sorted(file.stem for file in (folder / HEADS).glob("*.safetensors"))


def head_tensors(prepared: Prepared, t: int) -> list[OutputTensor]:
    """The tensors of expert ``t`` that are saved in ``heads/`` under its own names."""
    expert = prepared.experts[t]
    names = [
        expert.own_names.get(row.name, row.name)
        for row in prepared.plan.rows
        if row.disposition is Disposition.PER_EXPERT and t in row.experts
    ]
    infos = expert.checkpoint.tensors
    return [
        OutputTensor(name=name, dtype=infos[name].dtype, shape=infos[name].shape) for name in names
    ]


def module_rows(prepared: Prepared) -> list[PlanRow]:
    """The rows for which something is stored per expert, in plan order."""
    rows, left, with_biases = prepared.plan.rows, set(), set()
    for row in rows:
        modules = prepared.method_of(row).modules
        if not row.in_base or row.disposition is not Disposition.MERGED or not prod(row.shape):
            continue
        if isinstance(modules, Differences):
            if modules.roles is not None and row.role not in modules.roles:
                continue
            if modules.with_biases:
                with_biases.add(row.tensor)
        elif not isinstance(modules, Masks | Factors):
            continue
        left.add(row.name)

    def is_bias(row: PlanRow) -> bool:
        start, _, last = row.name.rpartition(".")
        combined = row.disposition in COMBINED and row.in_base and bool(row.experts)
        return combined and last == "bias" and f"{start}.weight" in with_biases

    return [row for row in rows if row.name in left or is_bias(row)]


def module_tensors(
    row: PlanRow, prepared: Prepared, counts: Mapping[int, int] | None = None
) -> Iterator[OutputTensor]:
    """The entries of a row in ``modules.safetensors``, by expert.

    ``counts``: the number of elements chosen for each expert, if known; otherwise it is estimated.
    """
    modules = prepared.method_of(row).modules
    for t in row.experts:
        start = f"{prepared.experts[t].name}/{row.name}"
        if isinstance(modules, Masks):
            count = -(-prod(row.shape) // 8)
            yield OutputTensor(name=f"{start}/mask", dtype="U8", shape=(count,))
            yield OutputTensor(name=f"{start}/scale", dtype="F64", shape=(1,))
        elif isinstance(modules, Factors):
            rows, columns = row.shape
            rank = modules.rank(rows, columns, len(row.experts))
            yield OutputTensor(name=f"{start}/u", dtype="F32", shape=(rows, rank))
            yield OutputTensor(name=f"{start}/s", dtype="F32", shape=(rank,))
            yield OutputTensor(name=f"{start}/vh", dtype="F32", shape=(rank, columns))
        elif isinstance(modules, Differences):
            chosen = None if counts is None else counts[t]
            cut = modules.cut(prepared.parameters_of(row))
            yield from _difference_tensors(row, cut, start, chosen)


def _difference_tensors(
    row: PlanRow, cut: Cut, start: str, count: int | None
) -> Iterator[OutputTensor]:
    if cut.density is not None or cut.in_rows is not None:
        outputs, inputs = 1, prod(row.shape)
        if cut.density is None:  # this many in each row
            outputs, inputs = row.shape[::-1] if row.transposed else row.shape
        about = outputs * kept_count(cut.density or cut.in_rows or 0.0, inputs)
        shape = (about if count is None else count,)
        yield OutputTensor(name=f"{start}/index", dtype="I32", shape=shape)
        yield OutputTensor(name=f"{start}/values", dtype="F32", shape=shape)
    elif cut.rank is not None and len(row.shape) == 2:
        rows, columns = row.shape
        rank = min(cut.rank, rows, columns)
        yield OutputTensor(name=f"{start}/left", dtype="F32", shape=(rows, rank))
        yield OutputTensor(name=f"{start}/right", dtype="F32", shape=(rank, columns))
    else:
        yield OutputTensor(name=f"{start}/whole", dtype="F32", shape=row.shape)


def bytes_beside(prepared: Prepared) -> int:
    """Bytes of these files without their headers; rows may have methods of their own."""
    tensors = [t for row in module_rows(prepared) for t in module_tensors(row, prepared)]
    for t in range(len(prepared.experts)):
        tensors += head_tensors(prepared, t)
    return sum(prod(tensor.shape) * FORMATS[tensor.dtype].bits // 8 for tensor in tensors)
