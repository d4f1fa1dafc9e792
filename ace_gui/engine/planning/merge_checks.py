"""The checks of a plan that depend on where it is carried out and with how much memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.checks import (
    ADAPTER,
    DISK,
    Check,
    Verdict,
    disk_check,
    replaced,
)
from ace_gui.engine.contract.plan import Disposition, Plan, bytes_in_store
from ace_gui.engine.planning.memory import free_bytes
from ace_gui.errors import ResourceError
from ace_gui.formatting import path_text

_ADVICE: Final = "Free some space there, or choose an output folder on another disk."

_STORE_ADVICE: Final = "The merge is put into {folder}: free some space on that disk."


def store_checks(
    plan: Plan, *, memory_bytes: int | None, gpu_memory: int, store: Path | None
) -> tuple[Check, ...]:
    """The checks for a merge into a store, worst first.

    ``memory_bytes``: memory limit of the merge, None: all free memory. ``gpu_memory``: bytes of the
    GPU used, 0 for the CPU. ``store``: path of the store; None if it needs no more disk space, as
    when resuming.
    """
    checks = tuple(check for check in plan.checks if check.title not in (DISK, ADAPTER))
    if store is not None:
        needed = bytes_in_store(plan.rows) + plan.bytes_beside
        advice = _STORE_ADVICE.format(folder=path_text(store))
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
    owners = {
        t for row in plan.rows if row.disposition == Disposition.PER_EXPERT for t in row.experts
    }
    models = int(not resumes) + (len(owners) if complete_heads else 0)
    needed = models * plan.bytes_to_write + plan.bytes_beside
    checks = store_checks(plan, memory_bytes=memory_bytes, gpu_memory=gpu_memory, store=None)
    adapter = (check for check in plan.checks if check.title == ADAPTER)
    return replaced((*checks, *adapter), disk_check(needed, free_bytes(target), _ADVICE))


def refuse_errors(checks: Iterable[Check]) -> None:
    """Raise ResourceError for the checks that predict a failure; it has all their lines."""
    lines = [check.line for check in checks if check.verdict is Verdict.ERROR]
    if lines:
        raise ResourceError(f"{' '.join(lines)} Nothing was written.")
