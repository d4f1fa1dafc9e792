"""How much memory a merge will take, known from the plan alone, and how much it took.

A matrix is O outputs × I inputs.
"""

from __future__ import annotations

import shutil
import sys
from math import prod
from typing import Any

import platformdirs
import psutil

from ace_gui.checkpoints import FORMATS
from ace_gui.engine.parts import PART_ELEMENTS
from ace_gui.engine.plan import Disposition, PlanRow
from ace_gui.errors import ResourceError
from ace_gui.methods.base import Kind, MergeMethod

FLOAT32 = 4
FLOAT64 = 8
BLAS_BYTES = 32_000_000  # what matrix products keep for themselves
PARTS_UNDER_WAY = 4
TENSOR_BYTES = 64  # an entry, for methods that sort or select over whole tensors


def peak_bytes(rows: tuple[PlanRow, ...], method: MergeMethod[Any]) -> int:
    """Estimated peak of the merge's own memory: the largest tensor's working set.

    Independent of the number of experts: they are read one after another.
    """
    return max((_working_set(row, method) for row in rows), default=0)


def require_memory(rows: tuple[PlanRow, ...], method: MergeMethod[Any], limit: int | None) -> None:
    """Refuse, before anything runs, a merge whose largest tensor does not fit.

    ``limit``: bytes the merge may use; None: what the system says is free.
    Raises ResourceError naming the tensor.
    """
    allowed = psutil.virtual_memory().available if limit is None else limit
    largest = max(rows, key=lambda row: _working_set(row, method), default=None)
    if largest is None or _working_set(largest, method) <= allowed:
        return
    where = "is free" if limit is None else "is allowed"
    raise ResourceError(
        f"`{largest.name}` needs about {_gigabytes(_working_set(largest, method))} of memory, but "
        f"only {_gigabytes(allowed)} {where}. Free some memory, allow more, or keep it from the "
        "base.",
        tensor=largest.name,
        shapes={"base": largest.shape},
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"


def free_disk_bytes() -> int:
    """Free bytes where merges wait for their export: the disk of the user's cache."""
    folder = platformdirs.user_cache_path("ace-workbench")
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def measured_peak_bytes() -> int:
    """Peak resident memory of this process so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _working_set(row: PlanRow, method: MergeMethod[Any]) -> int:
    elements = prod(row.shape)
    merged = row.disposition == Disposition.MERGED
    if merged and method.kind is Kind.TENSOR:
        return TENSOR_BYTES * elements
    if merged and method.kind is Kind.MATRIX and len(row.shape) == 2:
        outputs, inputs = reversed(row.shape) if row.transposed else row.shape
        return FLOAT64 * _matrix_numbers(outputs, inputs) + 2 * FLOAT32 * elements + BLAS_BYTES
    # Part by part: stored, base, one task vector and their sum, for every part under way. Then
    # the whole tensor once more, when the output is read back.
    parts = min(elements, PARTS_UNDER_WAY * PART_ELEMENTS)
    return max(4 * FLOAT32 * parts, FORMATS[row.dtype].bits // 8 * elements)


def _matrix_numbers(outputs: int, inputs: int) -> int:
    """Float64 numbers alive at once in ACE, the largest of its three stages.

    Measured, not proven: summing over the experts (with the refinement's extra sums), solving, and
    the polar factor with its fallback. The other methods for matrices need no more.
    """
    both = outputs * inputs
    small = min(outputs, inputs)
    gram = inputs**2 + outputs**2 if 3 * outputs < 2 * inputs else 2 * inputs**2
    summing = gram + 4 * both
    solving = inputs**2 + 3 * both + 5 * 384 * inputs
    refining = max(3 * both + 4 * small**2, 5 * both + 2 * small**2)
    return max(summing, solving, refining)
