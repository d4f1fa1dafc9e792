"""Files of single experts beside the merged weights: heads, masks, factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

from ace_gui.checkpoints import OutputTensor
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.overridden_rows import method_of
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import Factors, Masks
from ace_gui.stored_formats import FORMATS

HEADS: Final = "heads"
"""The folder, in a merged model, with the heads that were kept for single experts."""


def head_tensors(rows: Sequence[PlanRow], expert: OpenedModel, t: int) -> list[OutputTensor]:
    """The tensors of expert ``t`` that are saved in ``heads/``, under its own names."""
    names = [
        expert.own_names.get(row.name, row.name)
        for row in rows
        if row.disposition is Disposition.PER_EXPERT and t in row.experts
    ]
    infos = expert.checkpoint.tensors
    return [
        OutputTensor(name=name, dtype=infos[name].dtype, shape=infos[name].shape) for name in names
    ]


def leaves_modules(row: PlanRow, default: MergeMethod[Any]) -> bool:
    """Whether the method of a row stores a module for each expert."""
    merged = row.in_base and row.disposition is Disposition.MERGED and prod(row.shape) > 0
    return merged and method_of(row, default).modules is not None


def module_tensors(
    row: PlanRow, default: MergeMethod[Any], names: Sequence[str]
) -> Iterator[OutputTensor]:
    """The entries of a row in ``modules.safetensors``, by expert; ``names``: all experts'."""
    modules = method_of(row, default).modules
    for t in row.experts:
        start = f"{names[t]}/{row.name}"
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


def bytes_beside(
    rows: Sequence[PlanRow], default: MergeMethod[Any], experts: Sequence[OpenedModel]
) -> int:
    """Bytes of these files without their headers; rows may have their own methods."""
    names = [expert.name for expert in experts]
    left = [row for row in rows if leaves_modules(row, default)]
    tensors = [tensor for row in left for tensor in module_tensors(row, default, names)]
    for t, expert in enumerate(experts):
        tensors += head_tensors(rows, expert, t)
    return sum(prod(tensor.shape) * FORMATS[tensor.dtype].bits // 8 for tensor in tensors)
