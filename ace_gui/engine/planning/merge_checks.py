"""Checks of a merge: its data and modules; its disk and memory where it is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture.traits import Role
from ace_gui.checkpoints import MODULES
from ace_gui.engine.contract.checks import (
    ADAPTER,
    DISK,
    EVERYTHING,
    Check,
    Verdict,
    disk_check,
    replaced,
)
from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, Plan, PlanRow, bytes_in_store
from ace_gui.engine.planning.expert_files import module_rows
from ace_gui.engine.planning.memory import free_bytes
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.row_methods import RowMethods
from ace_gui.errors import ResourceError, TaskError
from ace_gui.formatting import path_text, plain
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import (
    ROUTED_WHOLE,
    Differences,
    ModuleKind,
    kind_of,
    learns,
)
from ace_gui.methods.shared.measured import Need
from ace_gui.recipe import Recipe

_NO_LAYER: Final = frozenset({Role.EMBEDDING, Role.POSITION, Role.CONVOLUTION, Role.NORM})


def needs_of(rows: Sequence[PlanRow], methods: RowMethods) -> dict[Need, str]:
    """The measurements that the rows' methods need, each with the title of one such method."""
    found = {}
    for row in rows:
        if row.disposition is Disposition.MERGED and row.in_base:
            own = methods.method_of(row)
            need = own.need(methods.parameters_of(row))
            if need is not None:
                found[need] = own.title
    return found


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


def data_checks(recipe: Recipe, needs: Mapping[Need, str]) -> tuple[Check, ...]:
    """The check of a merge that needs data; none for other merges."""
    if not needs:
        return ()
    lacking, title = recipe.without_calibration, next(iter(needs.values()))
    return (
        Check(
            subject=EVERYTHING,
            title="Calibration data",
            verdict=Verdict.ERROR if lacking else Verdict.OK,
            sentence=lacking_sentence(title, lacking) if lacking else "Every expert has inputs.",
        ),
    )


def module_checks(
    recipe: Recipe, rows: Sequence[PlanRow], methods: RowMethods, base: OpenedModel
) -> tuple[Check, ...]:
    """The check of a merge that stores modules; none for other merges."""
    left = module_rows(rows, methods)
    if not left and not learns(methods.method.modules):
        return ()
    sentence = _obstacle(recipe, left, rows, methods, base)
    verdict = Verdict.ERROR if sentence else Verdict.OK
    fine = "The modules can be added to this model."
    return (Check(subject=EVERYTHING, title="Modules", verdict=verdict, sentence=sentence or fine),)


def _obstacle(
    recipe: Recipe,
    left: Sequence[PlanRow],
    rows: Sequence[PlanRow],
    methods: RowMethods,
    base: OpenedModel,
) -> str:
    """Why modules are impossible, in a sentence; empty if they are possible."""
    lacking, method = recipe.without_calibration, methods.method
    if MODULES in base.checkpoint.side_files:
        return (
            f"The base has a {MODULES} of its own, which lists its components; merge its "
            "transformer alone, or choose a method that leaves no modules."
        )
    if learns(method.modules) and lacking:
        return lacking_sentence(method.title, lacking)
    found = [methods.method_of(row) for row in left]
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
    return _misfit(own, left, rows, lacking, base)


def _misfit(
    method: MergeMethod[Any],
    left: Sequence[PlanRow],
    rows: Sequence[PlanRow],
    lacking: Sequence[str],
    base: OpenedModel,
) -> str:
    """Why a loaded model cannot use the differences, in a sentence; empty if it can."""
    assert method.modules is not None
    kind = kind_of(method.modules)
    if kind in ROUTED_WHOLE:
        if lacking:
            return lacking_sentence(method.title, lacking)
        for row in left:
            pieces = base.architecture.modules.get(row.tensor, ())
            if len(pieces) > 1 or any(each.rows != row.tensor_shape[0] for each in pieces):
                return (
                    f"{method.title} makes weights for each example, and transformers holds "
                    f"`{plain(row.tensor)}` in another layout than its files; choose another "
                    "method."
                )
    if kind is ModuleKind.BLOCKS:
        rows = [row for row in left if len(row.shape) != 1]
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
