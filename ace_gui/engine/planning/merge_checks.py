"""Checks of a merge: its data and modules; its disk and memory where it is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ace_gui.architecture.traits import Role
from ace_gui.checkpoints import MODULES
from ace_gui.engine.contract.plan import (
    ADAPTER,
    DISK,
    NOTHING_AFTER,
    Check,
    Disposition,
    Plan,
    PlanRow,
    Verdict,
    bytes_in_store,
    disk_check,
    replaced,
)
from ace_gui.engine.devices import memory_of, resolve_device
from ace_gui.engine.planning.expert_files import module_rows
from ace_gui.engine.planning.memory import free_bytes
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import ResourceError, TaskError
from ace_gui.formatting import path_text, plain
from ace_gui.methods.shared.expert_modules import (
    ROUTED_WHOLE,
    Differences,
    ModuleKind,
    kind_of,
    learns,
)
from ace_gui.recipe import Recipe

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
    lacking = prepared.plan.recipe.without_calibration
    if lacking:
        return (Check("Calibration data", lacking_sentence(title, lacking), Verdict.ERROR),)
    return (Check("Calibration data", "Every expert has inputs."),)


def module_checks(prepared: Prepared) -> tuple[Check, ...]:
    """The check of a merge that stores modules; none for other merges."""
    left = module_rows(prepared)
    if not left and not learns(prepared.method.modules):
        return ()
    if sentence := _obstacle(prepared, left):
        return (Check("Modules", sentence, Verdict.ERROR),)
    return (Check("Modules", "The modules can be added to this model."),)


def _obstacle(prepared: Prepared, left: Sequence[PlanRow]) -> str:
    """Why modules are impossible, in a sentence; empty if they are possible."""
    lacking, method = prepared.plan.recipe.without_calibration, prepared.method
    if MODULES in prepared.base.checkpoint.side_files:
        return (
            f"The base has a {MODULES} of its own, which lists its components; merge its "
            "transformer alone, or choose a method that leaves no modules."
        )
    if learns(method.modules) and lacking:
        return lacking_sentence(method.title, lacking)
    found = [prepared.method_of(row) for row in left]
    roles = method.modules.roles if isinstance(method.modules, Differences) else None
    if roles is not None and not left:
        return f"{method.title} needs MLP blocks, and none of this model is known; choose another."
    # Differences are valid only with the merge that they are differences to.
    own = next((each for each in found if isinstance(each.modules, Differences)), None)
    if own is None:
        return ""
    if own is not method or any(each is not own for each in found if each.modules is not None):
        return (
            f"{own.title} writes modules for the whole model: choose it for the recipe, and no "
            "method with modules in its rules."
        )
    if any(row.after != NOTHING_AFTER for row in left):
        return (
            f"{own.title} stores differences from its own merge, which must not change "
            "afterwards; remove `after`."
        )
    return _misfit(prepared, left)


def _misfit(prepared: Prepared, left: Sequence[PlanRow]) -> str:
    """Why a loaded model cannot use the differences, in a sentence; empty if it can."""
    method, lacking = prepared.method, prepared.plan.recipe.without_calibration
    assert method.modules is not None
    kind, rows = kind_of(method.modules), prepared.plan.rows
    if kind in ROUTED_WHOLE:
        if lacking:
            return lacking_sentence(method.title, lacking)
        for row in left:
            pieces = prepared.base.architecture.modules.get(row.tensor, ())
            if len(pieces) > 1 or any(each.rows != row.tensor_shape[0] for each in pieces):
                return (
                    f"{method.title} makes weights for each example, and transformers holds "
                    f"`{plain(row.tensor)}` in another layout than its files; choose another "
                    "method."
                )
    if kind is ModuleKind.BLOCKS:
        rows = tuple(row for row in left if len(row.shape) != 1)
    for row in rows if kind in (ModuleKind.SMILE, ModuleKind.BLOCKS) else ():
        merged = row.in_base and row.disposition is Disposition.MERGED
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
    checks = tuple(check for check in plan.checks if check.title not in (DISK, ADAPTER))
    if store is not None:
        needed = bytes_in_store(plan.rows) + plan.bytes_beside
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
    owners = {
        t for row in plan.rows if row.disposition == Disposition.PER_EXPERT for t in row.experts
    }
    models = int(not resumes) + (len(owners) if complete_heads else 0)
    needed = models * plan.bytes_to_write + plan.bytes_beside
    checks = store_checks(plan, memory_bytes=memory_bytes, gpu_memory=gpu_memory, store=None)
    adapter = (check for check in plan.checks if check.title == ADAPTER)
    advice = "Free some space there, or choose an output folder on another disk."
    return replaced((*checks, *adapter), disk_check(needed, free_bytes(target), advice))


def refuse_errors(checks: Iterable[Check]) -> None:
    """Raise ResourceError for the checks that predict a failure; it has all their lines."""
    lines = [check.line for check in checks if check.verdict is Verdict.ERROR]
    if lines:
        raise ResourceError(f"{' '.join(lines)} Nothing was written.")


def require_room(
    plan: Plan, device: str, store: Path | None, memory_bytes: int | None = None
) -> None:
    """Raise ResourceError if a merge into a store would fail; arguments as of ``store_checks``."""
    gpu_memory = memory_of(resolve_device(device))
    refuse_errors(store_checks(plan, memory_bytes=memory_bytes, gpu_memory=gpu_memory, store=store))
