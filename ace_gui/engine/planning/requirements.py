"""What a merge needs, from the plan alone: memory, disk and data, and the checks of these.

The memory for learning is included, but not the activations of a batch, which depend on the inputs.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Final

import torch

from ace_gui.architecture.traits import Role
from ace_gui.checkpoints.folder import MODULES
from ace_gui.engine.capabilities import memory_of, resolve_device
from ace_gui.engine.contract.plan import (
    CALIBRATION,
    DISK,
    NOTHING_AFTER,
    OUTPUT,
    Check,
    CheckVerdict,
    Disposition,
    Plan,
    PlanRow,
    bytes_in_store,
    disk_check,
    models_on_disk,
    replaced,
)
from ace_gui.engine.planning.prepared import Prepared, module_rows
from ace_gui.engine.streaming import PART_ELEMENTS, PASS_ELEMENTS
from ace_gui.errors import ResourceError, TaskError
from ace_gui.formatting import human_bytes, path_text, plain
from ace_gui.linalg.singular import matrix_shape, shaping_memory
from ace_gui.machine import free_memory
from ace_gui.methods.linear import LINEAR
from ace_gui.methods.method import Kind
from ace_gui.methods.shared.expert_modules import (
    ROUTED_ONCE,
    Differences,
    Masks,
    ModuleKind,
    are_entrywise,
    kind_of,
    learns,
)
from ace_gui.methods.shared.survey import Range
from ace_gui.paths import merges_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.output_forms import Output
from ace_gui.stored_formats import FORMATS

FLOAT32 = 4
FLOAT64 = 8
BLAS_BYTES = 32_000_000  # buffers of matrix products
PARTS_UNDER_WAY = 4  # of a tensor that is merged in parts: being merged, waiting, being written
CAPPED_NUMBERS = 3  # per element: the merged change, and an expert's as read and centred
MODULE_BYTES = 40  # per element, for masks or for choosing the largest differences
ENOUGH_NUMBERS = 8  # default per element and pair of inputs

KEPT_BYTES = 96_000_000  # of a tensor's base and experts, as stored, while it is merged

FREED_BYTES = 64_000_000  # of freed memory, kept by the C library for later (``use_threads``)

LEAST_KEPT: Final = 128_000_000
SHARE_KEPT: Final = 0.5
"""Cached task vectors and inputs may use this multiple of the model's bytes, if that is more."""

COPIES: Final = 6
"""Copies of a learned number: itself, its gradient, two moments, and two earlier values."""

AT_ONCE: Final = 4
"""Tensors of the largest shape held during a step."""

DECOMPOSED: Final = 6
"""Float64 tensors of a matrix's shape held during its decomposition."""

SIDE_BY_SIDE_BYTES = 500_000_000  # for several matrices at a time; a larger one is merged alone


def peak_bytes(prepared: Prepared) -> int:
    """Estimated peak memory of the merge: the largest working set, and memory freed before.

    It is higher if matrices are so small that the CPU merges several at a time, and a tensor in
    parts meanwhile. Experts are read one after another: their number counts only for what is kept
    of small tensors, up to ``KEPT_BYTES``.
    """
    largest = 0
    parts = 0
    for row in prepared.plan.rows:
        size = working_set(row, prepared)
        if prepared.is_whole(row):
            largest = max(largest, size)
        else:
            parts = max(parts, size)
    at_once = matrices_at_once(prepared, None)
    return with_freed(max(largest, parts, at_once * largest + parts if at_once > 1 else 0))


def with_freed(held: int) -> int:
    """Process memory for a peak of this many bytes; no more can be freed than was held."""
    return held + min(held, FREED_BYTES)


def matrices_at_once(prepared: Prepared, limit: int | None) -> int:
    """How many matrices the CPU merges at the same time; ``limit`` as for ``require_memory``.

    One per torch thread, if they fit into ``SIDE_BY_SIDE_BYTES``. Threads that share a matrix often
    wait for each other, most of all on a busy machine.
    """
    sizes = [working_set(row, prepared) for row in prepared.plan.rows if prepared.is_whole(row)]
    largest = max(sizes, default=1)
    most = min(torch.get_num_threads(), len(sizes), SIDE_BY_SIDE_BYTES // largest)
    while most > 1 and limit is not None and with_freed(most * largest) > limit:
        most -= 1
    return max(1, most)


def largest_tensor(prepared: Prepared) -> str:
    """The name of the tensor that determines ``peak_bytes``; empty if there is none."""
    rows = prepared.plan.rows
    largest = max(rows, key=lambda row: working_set(row, prepared), default=None)
    if largest is None:
        return ""
    return plain(largest.name)


def memory_on_gpu(prepared: Prepared) -> tuple[int, int]:
    """GPU memory of the largest matrix, and host memory of the largest tensor in that case."""
    rows = prepared.plan.rows
    on_gpu = max((whole_bytes(row, prepared) for row in rows if prepared.is_whole(row)), default=0)
    host = max((_host_bytes_with_gpu(row, prepared, math.inf) for row in rows), default=0)
    return on_gpu, with_freed(host)


def require_memory(prepared: Prepared, limit: int | None, gpu_bytes: float | None = None) -> None:
    """Refuse a merge whose largest tensor does not fit, before anything runs.

    ``limit``: bytes the merge may use; None: the free memory that the system reports.
    ``gpu_bytes``: memory of the GPU used; None: the merge runs on the CPU. Raises ResourceError
    naming the tensor.
    """
    if limit is None:
        allowed = free_memory()
    else:
        allowed = limit

    def needed(row: PlanRow) -> int:
        if gpu_bytes is None:
            return with_freed(working_set(row, prepared))
        return with_freed(_host_bytes_with_gpu(row, prepared, gpu_bytes))

    largest = max(prepared.plan.rows, key=needed, default=None)
    if largest is None or needed(largest) <= allowed:
        return
    if limit is None:
        where = "is free"
    else:
        where = "is allowed"
    raise ResourceError(
        f"`{largest.name}` needs about {human_bytes(needed(largest))} of memory, but "
        f"only {human_bytes(allowed)} {where}. Free some memory, allow more, or keep it from the "
        "base.",
        tensor=largest.name,
        shapes={"base": largest.shape},
    )


def free_disk_bytes() -> int:
    """Free bytes on the disk where merges are kept until their export."""
    return free_bytes(merges_folder())


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder, which need not exist or be readable."""
    while not os.path.exists(folder):  # noqa: PTH110 - Path.exists fails where it may not look
        folder = folder.parent
    return shutil.disk_usage(folder).free


def working_set(row: PlanRow, prepared: Prepared) -> int:
    """Host memory in bytes for merging a row."""
    held = _with_neighbours(row, _merging(row, prepared))
    return max(held, _survey_bytes(row, prepared))


def _with_neighbours(row: PlanRow, merging: int) -> int:
    """Bytes for merging a row, and those around it.

    These are for its neighbours inside its tensor, and for checking a tensor that was merged piece
    by piece.
    """
    stored = FORMATS[row.dtype].bits // 8
    part = row.part
    if part is not None and not part.in_one_piece:
        merging += (part.stop - part.start) * (stored + FLOAT32)
    return max(merging, prod(row.tensor_shape) * FORMATS[row.dtype].bits // 8)


def _host_bytes_with_gpu(row: PlanRow, prepared: Prepared, gpu_bytes: float) -> int:
    """Host memory for a row if a GPU merges what fits on it."""
    if not prepared.is_whole(row) or whole_bytes(row, prepared) > gpu_bytes:
        return working_set(row, prepared)
    # The tensor as read and pinned, and the result, pinned and in its stored dtype.
    return _with_neighbours(row, prod(row.shape) * 2 * (FORMATS[row.dtype].bits // 8 + FLOAT32))


def _merging(row: PlanRow, prepared: Prepared) -> int:
    by_matrices = prepared.method_of(row).kind is Kind.MATRIX
    if prepared.is_whole(row) and (len(row.shape) == 2 or not by_matrices):
        blas = BLAS_BYTES * by_matrices
        return whole_bytes(row, prepared) + blas + kept_bytes(row, prepared)
    # Part by part: the parts being merged, and finished parts that wait.
    elements = prod(row.shape)
    width = prepared.row_width(row) or 1
    if row.part is None:
        part = min(elements, max(PART_ELEMENTS, width))
    else:
        part = elements
    under_way = min(PARTS_UNDER_WAY, math.ceil(elements / max(part, 1)))
    merged = min(under_way, torch.get_num_threads())
    results = (under_way - merged) * FLOAT32 * part
    return merged * _part_bytes(row, prepared, part) + results + kept_bytes(row, prepared)


def _part_bytes(row: PlanRow, prepared: Prepared, entries: int) -> int:
    """Bytes for merging this many elements of a tensor merged in parts."""
    if not row.is_combined:
        return 2 * FLOAT32 * entries
    if row.disposition is Disposition.AVERAGED:
        method = LINEAR
    else:
        method = prepared.method_of(row)
    numbers: float = ENOUGH_NUMBERS * entries
    if method.working_memory is not None:
        numbers = method.working_memory((entries,), len(row.experts))
    return int(FLOAT64 * numbers) + 2 * FLOAT32 * entries


def _survey_bytes(row: PlanRow, prepared: Prepared) -> int:
    """Bytes for a row in a survey of the model, or in choosing elements for modules.

    Parts are larger then. A survey needs about as much per part as merging.
    """
    method = prepared.method_of(row)
    if not row.is_merged or method.kind is not Kind.ENTRY:
        return 0
    part = min(prod(row.shape), PASS_ELEMENTS)
    bytes_each = 0
    if method.surveys_over(Range.MODEL, prepared.parameters_of(row)):
        bytes_each = _part_bytes(row, prepared, part)
    if isinstance(method.modules, Masks | Differences):
        # Plus the expert's masks of the parts in progress.
        bytes_each = max(bytes_each, MODULE_BYTES * part + len(row.experts) * part)
    return torch.get_num_threads() * bytes_each


def kept_bytes(row: PlanRow, prepared: Prepared) -> int:
    """Bytes for caching the stored base and experts of a row in host memory.

    The cache saves reading them again in each pass. 0 if it is too large, or not needed.
    """
    method = prepared.method_of(row)
    if not row.is_merged:
        return 0
    surveys = method.surveys_over(Range.TENSOR, prepared.parameters_of(row))
    if not (prepared.is_whole(row) or surveys or method.votes):
        return 0
    needed = (1 + len(row.experts)) * prod(row.shape) * FORMATS[row.dtype].bits // 8
    if needed <= KEPT_BYTES:
        return needed
    return 0


def whole_bytes(row: PlanRow, prepared: Prepared) -> int:
    """Bytes for merging a tensor in one piece, on the device where that is done.

    Includes the base, the needs of the method, and one task vector as it was read.
    """
    if row.transposed:
        shape = tuple(reversed(row.shape))
    else:
        shape = row.shape
    method = prepared.method_of(row)
    if not row.is_merged or method.working_memory is None:
        numbers: float = ENOUGH_NUMBERS * (prod(shape) + max(shape, default=1) ** 2)
    else:
        numbers = method.working_memory(shape, len(row.experts))
    if row.after.reshapes:
        numbers = max(numbers, prod(shape) + shaping_memory(matrix_shape(shape)))
    if row.after.cap is not None:
        numbers = max(numbers, CAPPED_NUMBERS * prod(shape))
    return int(FLOAT64 * numbers) + 2 * FLOAT32 * prod(shape)


def cached_bytes(model: int) -> int:
    """Bytes that cached task vectors and inputs may use for a model of this size."""
    return max(LEAST_KEPT, int(SHARE_KEPT * model))


def learning_bytes(prepared: Prepared) -> int:
    """Estimated peak while the recipe's method learns; 0 if it does not learn."""
    learning = prepared.method.learning
    modules = prepared.method.modules
    needs = [0]
    once = [row for row in prepared.plan.rows if row.tied_to is None]
    shapes = {row.tensor: row.tensor_shape for row in once if row.in_base}
    model = FLOAT32 * sum(map(prod, shapes.values()))

    def decomposed(some: Iterable[PlanRow]) -> int:
        matrices = [prod(row.shape) for row in some if len(row.shape) == 2]
        return DECOMPOSED * FLOAT64 * max(matrices, default=0)

    if learning is not None:  # a model with its gradients, cached tensors, and learned numbers
        merged = [row for row in once if row.is_merged]
        numbers = _learned_numbers(prepared, merged)
        at_once = max((prod(row.shape) for row in merged), default=0) * FLOAT32 * AT_ONCE
        needs.append(2 * model + cached_bytes(model) + FLOAT32 * COPIES * numbers + at_once)
        needs.append(0 if learning.part_inputs is None else decomposed(merged))
    if modules is not None:
        rows = module_rows(prepared)
        trained = 2 * model if learns(modules) else 0  # and one while it is loaded
        if kind_of(modules) is ModuleKind.BLOCKS:  # all experts' blocks
            trained += FLOAT32 * sum(prod(row.shape) * len(row.experts) for row in rows)
        needs += [trained, 0 if are_entrywise(modules, prepared.parameters) else decomposed(rows)]
    return max(needs)


def _learned_numbers(prepared: Prepared, rows: Iterable[PlanRow]) -> int:
    """How many numbers are learned at once; in one block, if one after another is learned."""
    learning = prepared.method.learning
    assert learning is not None
    by_block: dict[int | None, int] = {}
    for row in rows:
        traits = prepared.base.architecture.traits[row.tensor]
        block = traits.block if learning.by_block else None
        if learning.by_block and block is None:
            continue
        numbers = learning.numbers(row.shape, len(row.experts))
        by_block[block] = by_block.get(block, 0) + numbers
    return max(by_block.values(), default=0)


_MORE_ROOM: Final = "Free some space there, or choose an output folder on another disk."

_NO_LAYER: Final = frozenset({Role.EMBEDDING, Role.POSITION, Role.CONVOLUTION, Role.NORM})


def lacking_sentence(title: str, experts: Sequence[str]) -> str:
    """The message for a method for which experts lack data."""
    names = ", ".join(map(plain, experts))
    return (
        f"{title} needs inputs of each expert's task, but none are given for {names}; "
        "add tasks with `calibration` data to the recipe, or choose a method without data."
    )


def require_calibration(recipe: Recipe, title: str) -> None:
    """Raise TaskError if an expert has no data for the method with this title."""
    if recipe.without_calibration:
        raise TaskError(lacking_sentence(title, recipe.without_calibration), key="calibration")


def data_checks(prepared: Prepared) -> tuple[Check, ...]:
    """The check of a merge that needs data; none for other merges."""
    title = next(iter(prepared.needs.values()), "")
    if not title:
        return ()
    lacking = prepared.recipe.without_calibration
    if lacking:
        return (Check(CALIBRATION, lacking_sentence(title, lacking), CheckVerdict.ERROR),)
    return (Check(CALIBRATION, "Every expert has inputs."),)


def module_checks(prepared: Prepared) -> tuple[Check, ...]:
    """The check of a merge that stores modules; none for other merges."""
    rows = module_rows(prepared)
    if not rows and not learns(prepared.method.modules):
        return ()
    if sentence := _obstacle(prepared, rows):
        return (Check("Modules", sentence, CheckVerdict.ERROR),)
    return (Check("Modules", "The modules can be added to this model."),)


def _obstacle(prepared: Prepared, rows: Sequence[PlanRow]) -> str:
    """Why modules are impossible, in a sentence; empty if they are possible."""
    lacking = prepared.recipe.without_calibration
    method = prepared.method
    if MODULES in prepared.base.checkpoint.side_files:
        return (
            f"The base has a {MODULES} of its own, which lists its components; merge its "
            "transformer alone, or choose a method that leaves no modules."
        )
    if learns(method.modules) and lacking:
        return lacking_sentence(method.title, lacking)
    methods = [prepared.method_of(row) for row in rows]
    roles = method.modules.roles if isinstance(method.modules, Differences) else None
    if roles is not None and not rows:
        return f"{method.title} needs MLP blocks, and none of this model is known; choose another."
    # Differences are valid only with the merge that they are differences to.
    writer = next(
        (method_used for method_used in methods if isinstance(method_used.modules, Differences)),
        None,
    )
    if writer is None:
        return ""
    with_modules = [method_used for method_used in methods if method_used.modules is not None]
    if writer is not method or any(method_used is not writer for method_used in with_modules):
        return (
            f"{writer.title} writes modules for the whole model: choose it for the recipe, and no "
            "method with modules in its rules."
        )
    if any(row.after != NOTHING_AFTER for row in rows):
        return (
            f"{writer.title} stores differences from its own merge, which must not change "
            "afterwards; remove `after`."
        )
    return _misfit(prepared, rows)


def _misfit(prepared: Prepared, matrices: Sequence[PlanRow]) -> str:
    """Why a loaded model cannot use the differences, in a sentence; empty if it can."""
    method = prepared.method
    lacking = prepared.recipe.without_calibration
    assert method.modules is not None
    kind = kind_of(method.modules)
    rows = prepared.plan.rows
    if kind in ROUTED_ONCE:
        if lacking:
            return lacking_sentence(method.title, lacking)
        for row in matrices:
            pieces = prepared.base.architecture.modules.get(row.tensor, ())
            if len(pieces) > 1 or any(piece.rows != row.tensor_shape[0] for piece in pieces):
                return (
                    f"{method.title} makes weights for each example, and transformers holds "
                    f"`{plain(row.tensor)}` in another layout than its files; choose another "
                    "method."
                )
    if kind is ModuleKind.BLOCKS:
        rows = tuple(row for row in matrices if len(row.shape) != 1)
    for row in rows if kind in (ModuleKind.SMILE, ModuleKind.BLOCKS) else ():
        merged = row.in_base and row.is_merged
        if merged and (len(row.tensor_shape) != 2 or row.role in _NO_LAYER):
            return (
                f"{method.title} adds experts to linear layers, and `{plain(row.name)}` does not "
                "belong to one; keep or average it by a rule, or choose another method."
            )
    return ""


def store_checks(
    plan: Plan, *, memory_bytes: int | None, gpu_memory: int, store: Path | None
) -> tuple[Check, ...]:
    """The checks for a merge into a store, worst first.

    ``memory_bytes``: memory limit of the merge, None: all free memory. ``gpu_memory``: bytes of the
    GPU used, 0 for the CPU. ``store``: path of the store; None if it needs no more disk space, as
    when resuming.
    """
    checks = tuple(check for check in plan.checks if check.title not in (DISK, OUTPUT))
    if store is not None:
        needed = bytes_in_store(plan.rows) + plan.bytes_for_experts
        advice = f"The merge is put into {path_text(store)}: free some space on that disk."
        checks = replaced(checks, disk_check(needed, free_bytes(store), advice))
    if memory_bytes is None and not gpu_memory:
        return checks
    return replaced(checks, plan.memory_check(memory_bytes, gpu_memory))


def output_checks(
    plan: Plan,
    target: Path,
    *,
    memory_bytes: int | None = None,
    gpu_memory: int,
    complete_heads: bool = False,
    resumes: bool = False,
) -> tuple[Check, ...]:
    """The checks for a merge straight into the folder ``target``, worst first.

    ``complete_heads``: with a whole model for each expert's own head. ``resumes``: disk space of
    the merged model is allocated already. For the rest see ``store_checks``.
    """
    models = models_on_disk(plan, Output(plan.recipe.output), complete_heads=complete_heads)
    models -= int(resumes)
    needed = models * plan.bytes_to_write + plan.bytes_for_experts
    checks = store_checks(plan, memory_bytes=memory_bytes, gpu_memory=gpu_memory, store=None)
    of_output = (check for check in plan.checks if check.title == OUTPUT)
    return replaced((*checks, *of_output), disk_check(needed, free_bytes(target), _MORE_ROOM))


def require_disk(needed: int, target: Path, output: str) -> None:
    """Raise ResourceError if an ``output`` of so many bytes does not fit on the target's disk."""
    refuse_errors([disk_check(needed, free_bytes(target), _MORE_ROOM, output)])


def refuse_errors(checks: Iterable[Check]) -> None:
    """Raise ResourceError for the checks that predict a failure; it has all their lines."""
    lines = [check.line for check in checks if check.verdict is CheckVerdict.ERROR]
    if lines:
        raise ResourceError(f"{' '.join(lines)} Nothing was written.")


def require_room(
    plan: Plan, device: str, store: Path | None, memory_bytes: int | None = None
) -> None:
    """Raise ResourceError if a merge into a store would fail; arguments as for ``store_checks``."""
    gpu_memory = memory_of(resolve_device(device))
    refuse_errors(store_checks(plan, memory_bytes=memory_bytes, gpu_memory=gpu_memory, store=store))
