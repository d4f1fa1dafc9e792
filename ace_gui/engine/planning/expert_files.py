"""Files of single experts stored with the merged weights: heads, masks, factors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

from ace_gui.checkpoints import OutputTensor
from ace_gui.engine.contract.plan import COMBINED, Disposition, PlanRow
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.overridden_rows import method_of, parameters_of
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import Cut, Differences, Factors, Masks
from ace_gui.methods.shared.trimming import kept_count
from ace_gui.stored_formats import FORMATS

HEADS: Final = "heads"
"""The folder of a merged model with the heads kept for single experts."""


def experts_with_heads(folder: Path) -> list[str]:
    """Names of the experts whose heads a merged model's folder has, sorted."""
    return sorted(file.stem for file in (folder / HEADS).glob("*.safetensors"))


def head_tensors(rows: Sequence[PlanRow], expert: OpenedModel, t: int) -> list[OutputTensor]:
    """The tensors of expert ``t`` that are saved in ``heads/`` under its own names."""
    names = [
        expert.own_names.get(row.name, row.name)
        for row in rows
        if row.disposition is Disposition.PER_EXPERT and t in row.experts
    ]
    infos = expert.checkpoint.tensors
    return [
        OutputTensor(name=name, dtype=infos[name].dtype, shape=infos[name].shape) for name in names
    ]


def module_rows(rows: Sequence[PlanRow], default: MergeMethod[Any]) -> list[PlanRow]:
    """The rows for which something is stored per expert, in plan order."""
    left = {row.name for row in rows if _leaves_modules(row, default)}
    with_biases = {
        row.tensor
        for row in rows
        if row.name in left
        and isinstance(modules := method_of(row, default).modules, Differences)
        and modules.with_biases
    }
    return [row for row in rows if row.name in left or _is_bias(row, with_biases)]


def _leaves_modules(row: PlanRow, default: MergeMethod[Any]) -> bool:
    merged = row.in_base and row.disposition is Disposition.MERGED and prod(row.shape) > 0
    modules = method_of(row, default).modules
    if isinstance(modules, Differences) and modules.roles is not None:
        return merged and row.role in modules.roles
    return merged and isinstance(modules, Masks | Factors | Differences)


def _is_bias(row: PlanRow, matrices: Collection[str]) -> bool:
    """Whether the row is the bias of one of these matrices."""
    start, _, last = row.name.rpartition(".")
    combined = row.disposition in COMBINED and row.in_base and bool(row.experts)
    return combined and last == "bias" and f"{start}.weight" in matrices


def module_tensors(
    row: PlanRow,
    default: MergeMethod[Any],
    parameters: Any,
    names: Sequence[str],
    counts: Mapping[int, int] | None = None,
) -> Iterator[OutputTensor]:
    """The entries of a row in ``modules.safetensors``, by expert; ``names``: all experts'.

    ``counts``: the number of elements chosen for each expert, if known; otherwise it is estimated.
    """
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
        elif isinstance(modules, Differences):
            chosen = None if counts is None else counts[t]
            yield from _difference_tensors(row, modules.cut(parameters), start, chosen)


def entries_in_rows(row: PlanRow, cut: Cut) -> int:
    """The number of elements kept of a matrix if this many are kept in each row."""
    assert cut.in_rows is not None
    outputs, inputs = row.shape[::-1] if row.transposed else row.shape
    return outputs * kept_count(cut.in_rows, inputs)


def _difference_tensors(
    row: PlanRow, cut: Cut, start: str, count: int | None
) -> Iterator[OutputTensor]:
    if cut.density is not None or cut.in_rows is not None:
        if cut.density is not None:
            about = kept_count(cut.density, prod(row.shape))
        else:
            about = entries_in_rows(row, cut)
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


def bytes_beside(
    rows: Sequence[PlanRow],
    default: MergeMethod[Any],
    parameters: Any,
    experts: Sequence[OpenedModel],
) -> int:
    """Bytes of these files without their headers; rows may have methods of their own."""
    names = [expert.name for expert in experts]
    tensors = [
        tensor
        for row in module_rows(rows, default)
        for tensor in module_tensors(row, default, parameters_of(row, default, parameters), names)
    ]
    for t, expert in enumerate(experts):
        tensors += head_tensors(rows, expert, t)
    return sum(prod(tensor.shape) * FORMATS[tensor.dtype].bits // 8 for tensor in tensors)
