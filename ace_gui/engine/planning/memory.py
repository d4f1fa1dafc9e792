"""How much memory a merge will take, estimated from the plan alone.

A matrix is O outputs × I inputs.
"""

from __future__ import annotations

import math
import os
import shutil
from math import prod
from pathlib import Path
from typing import Any

import torch

from ace_gui.checkpoints import plain
from ace_gui.engine.contract.plan import COMBINED, NOTHING_AFTER, Disposition, PlanRow
from ace_gui.engine.planning.overridden_rows import method_of
from ace_gui.engine.streaming import PART_ELEMENTS, PASS_ELEMENTS
from ace_gui.errors import ResourceError
from ace_gui.formatting import human_bytes
from ace_gui.linalg.shaping import shaping_numbers
from ace_gui.machine import free_memory
from ace_gui.methods.linear import LINEAR
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Differences, Masks
from ace_gui.paths import merges_folder
from ace_gui.stored_formats import FORMATS

FLOAT32 = 4
FLOAT64 = 8
BLAS_BYTES = 32_000_000  # what matrix products keep for themselves
PARTS_UNDER_WAY = 4  # of a tensor that is merged in parts: being merged, waiting, being written
CAPPED_NUMBERS = 3  # for each entry: the merged change, and an expert's as read and centred
MODULE_BYTES = 40  # for each entry of which masks are made, or the largest differences chosen
ENOUGH_NUMBERS = 8  # for each entry and each pair of inputs, of a method that does not say

KEPT_BYTES = 64_000_000  # of a tensor's base and experts, as stored, while it is merged in parts

FREED_BYTES = 64_000_000  # of freed memory, kept by the C library for later (``engine.devices``)

SIDE_BY_SIDE_BYTES = 500_000_000  # for several matrices at a time; a larger one is merged alone


def peak_bytes(rows: tuple[PlanRow, ...], method: MergeMethod[Any]) -> int:
    """Estimated peak of the merge's own memory: the largest tensor's working set, and what was
    freed before.

    More where matrices are so small that the processor merges several at a time, with a tensor in
    parts meanwhile. Independent of the number of experts: they are read one after another.
    """
    largest = max((working_set(row, method) for row in rows), default=0)
    at_once, whole = matrices_at_once(rows, method, None), max(_whole(rows, method), default=0)
    if at_once > 1:
        in_parts = (working_set(row, method) for row in rows if not is_whole(row, method))
        largest = max(largest, at_once * whole + max(in_parts, default=0))
    return with_freed(largest)


def with_freed(held: int) -> int:
    """Bytes that a process takes which holds so many: no more can have been freed than was held."""
    return held + min(held, FREED_BYTES)


def matrices_at_once(rows: tuple[PlanRow, ...], method: MergeMethod[Any], limit: int | None) -> int:
    """How many matrices the processor merges side by side; ``limit`` as for ``require_memory``.

    One for each of torch's threads, if so many fit into ``SIDE_BY_SIDE_BYTES``: threads that share
    a matrix wait for each other many times, most of all on a machine that others use too.
    """
    sizes = _whole(rows, method)
    largest = max(sizes, default=1)
    most = min(torch.get_num_threads(), len(sizes), SIDE_BY_SIDE_BYTES // largest)
    while most > 1 and limit is not None and with_freed(most * largest) > limit:
        most -= 1
    return max(1, most)


def _whole(rows: tuple[PlanRow, ...], method: MergeMethod[Any]) -> list[int]:
    """Working sets of the matrices that are merged in one piece."""
    return [working_set(row, method) for row in rows if is_whole(row, method)]


def is_whole(row: PlanRow, default: MergeMethod[Any]) -> bool:
    """Whether a row is merged in one piece, and not part by part.

    One that is changed afterwards always is; what is merged by outputs is where they are the
    columns of the file.
    """
    if row.disposition is not Disposition.MERGED:
        return False
    kind = method_of(row, default).kind
    by_rows = kind is Kind.ROW and not row.transposed
    return row.after != NOTHING_AFTER or not (kind is Kind.ENTRY or by_rows)


def row_width(row: PlanRow, default: MergeMethod[Any]) -> int | None:
    """How many entries of a tensor that is merged part by part stay together; None: none do."""
    by_rows = method_of(row, default).kind is Kind.ROW
    return prod(row.shape[1:] or row.shape) if by_rows else None


def largest_tensor(rows: tuple[PlanRow, ...], method: MergeMethod[Any]) -> str:
    """The name of the tensor that decides ``peak_bytes``; empty without any."""
    largest = max(rows, key=lambda row: working_set(row, method), default=None)
    return "" if largest is None else plain(largest.name)


def memory_on_gpu(rows: tuple[PlanRow, ...], method: MergeMethod[Any]) -> tuple[int, int]:
    """What the largest matrix takes of a GPU, and then the largest tensor of the host's memory."""
    on_gpu = max((whole_bytes(row, method) for row in rows if is_whole(row, method)), default=0)
    beside = max((_beside_gpu(row, method, math.inf) for row in rows), default=0)
    return on_gpu, with_freed(beside)


def require_memory(
    rows: tuple[PlanRow, ...],
    method: MergeMethod[Any],
    limit: int | None,
    gpu_bytes: float | None = None,
) -> None:
    """Refuse, before anything runs, a merge whose largest tensor does not fit.

    ``limit``: bytes the merge may use; None: what the system says is free. ``gpu_bytes``: what the
    GPU has that it runs on; None: it runs on the processor. Raises ResourceError naming the tensor.
    """
    allowed = free_memory() if limit is None else limit

    def needed(row: PlanRow) -> int:
        if gpu_bytes is None:
            return with_freed(working_set(row, method))
        return with_freed(_beside_gpu(row, method, gpu_bytes))

    largest = max(rows, key=needed, default=None)
    if largest is None or needed(largest) <= allowed:
        return
    where = "is free" if limit is None else "is allowed"
    raise ResourceError(
        f"`{largest.name}` needs about {human_bytes(needed(largest))} of memory, but "
        f"only {human_bytes(allowed)} {where}. Free some memory, allow more, or keep it from the "
        "base.",
        tensor=largest.name,
        shapes={"base": largest.shape},
    )


def free_disk_bytes() -> int:
    """Free bytes where merges wait for their export."""
    return free_bytes(merges_folder())


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder that need not exist yet, nor be one we may look at."""
    while not os.path.exists(folder):  # noqa: PTH110 - Path.exists fails where it may not look
        folder = folder.parent
    return shutil.disk_usage(folder).free


def working_set(row: PlanRow, default: MergeMethod[Any]) -> int:
    """Bytes that merging a row takes of the processor's memory."""
    return max(
        _merging(row, default) + _between_others(row), _looking(row, default), _read_back(row)
    )


def _beside_gpu(row: PlanRow, default: MergeMethod[Any], gpu_bytes: float) -> int:
    """What a row takes of the host's memory where a GPU merges what it has room for."""
    if not is_whole(row, default) or whole_bytes(row, default) > gpu_bytes:
        return working_set(row, default)
    # As it is read, pinned, and what comes back, pinned and as it is stored.
    held = prod(row.shape) * 2 * (FORMATS[row.dtype].bits // 8 + FLOAT32)
    return max(held + _between_others(row), _read_back(row))


def _between_others(row: PlanRow) -> int:
    """Bytes round a matrix that lies between others in its tensor: read, and put together."""
    part = row.part
    if part is None or part.in_one_piece:
        return 0
    return (part.stop - part.start) * (FORMATS[row.dtype].bits // 8 + FLOAT32)


def _read_back(row: PlanRow) -> int:
    """Bytes of a tensor that was merged piece by piece, when the output is checked."""
    return prod(row.tensor_shape) * FORMATS[row.dtype].bits // 8


def _merging(row: PlanRow, default: MergeMethod[Any]) -> int:
    by_matrices = method_of(row, default).kind is Kind.MATRIX
    if is_whole(row, default) and (len(row.shape) == 2 or not by_matrices):
        return whole_bytes(row, default) + BLAS_BYTES * by_matrices
    # Part by part: those that threads merge, and the results of the others that are under way.
    elements, width = prod(row.shape), row_width(row, default) or 1
    part = min(elements, max(PART_ELEMENTS, width)) if row.part is None else elements
    under_way = min(PARTS_UNDER_WAY, math.ceil(elements / max(part, 1)))
    merged = min(under_way, torch.get_num_threads())
    results = (under_way - merged) * FLOAT32 * part
    return merged * _part_bytes(row, default, part) + results + kept_bytes(row, default)


def _part_bytes(row: PlanRow, default: MergeMethod[Any], entries: int) -> int:
    """What it takes to merge so many entries of a tensor that is merged in parts."""
    if row.disposition not in COMBINED:
        return 2 * FLOAT32 * entries
    method = LINEAR if row.disposition is Disposition.AVERAGED else method_of(row, default)
    numbers: float = ENOUGH_NUMBERS * entries
    if method.working_memory is not None:
        numbers = method.working_memory((entries,), len(row.experts))
    return int(FLOAT64 * numbers) + 2 * FLOAT32 * entries


def _looking(row: PlanRow, default: MergeMethod[Any]) -> int:
    """What it takes to look at a tensor for a survey of the model, or for modules of its entries.

    Parts are larger then. What a survey does with them is much the same as merging them.
    """
    method = method_of(row, default)
    if row.disposition is not Disposition.MERGED or method.kind is not Kind.ENTRY:
        return 0
    part, each = min(prod(row.shape), PASS_ELEMENTS), 0
    if method.survey is not None:
        each = _part_bytes(row, default, part)
    if isinstance(method.modules, Masks | Differences):
        # And the expert's masks of the parts that are under way.
        each = max(each, MODULE_BYTES * part + len(row.experts) * part)
    return torch.get_num_threads() * each


def kept_bytes(row: PlanRow, default: MergeMethod[Any]) -> int:
    """What base and experts take as they are stored, of a row that is not to be read again for
    each time that its method looks at it part by part; 0 where that is too much, or it need not.
    """
    method = method_of(row, default)
    if row.disposition is not Disposition.MERGED or not (method.tensor_surveys or method.votes):
        return 0
    kept = (1 + len(row.experts)) * prod(row.shape) * FORMATS[row.dtype].bits // 8
    return kept if kept <= KEPT_BYTES else 0


def whole_bytes(row: PlanRow, default: MergeMethod[Any]) -> int:
    """What it takes to merge a tensor in one piece, on the device where that is done.

    Its base is held beside what the method needs, and a task vector as it was read.
    """
    shape = tuple(reversed(row.shape)) if row.transposed else row.shape
    method = method_of(row, default)
    if method.working_memory is None:
        numbers: float = ENOUGH_NUMBERS * (prod(shape) + max(shape, default=1) ** 2)
    else:
        numbers = method.working_memory(shape, len(row.experts))
    if row.after.reshapes:
        numbers = max(numbers, prod(shape) + shaping_numbers(shape))
    if row.after.cap is not None:
        numbers = max(numbers, CAPPED_NUMBERS * prod(shape))
    return int(FLOAT64 * numbers) + 2 * FLOAT32 * prod(shape)
