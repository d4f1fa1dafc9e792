"""From a recipe to a plan: open the models, decide for every tensor, resolve the parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import psutil

from ace_gui.architecture.scopes import SCOPES
from ace_gui.checkpoints import FORMATS, RECIPE_TAGS, Checkpoint, is_float, reader_of
from ace_gui.engine.budget import free_disk_bytes, peak_bytes
from ace_gui.engine.dispositions import plan_rows
from ace_gui.engine.opening import OpenedModel, open_models
from ace_gui.engine.plan import Disposition, Plan, PlanRow
from ace_gui.engine.preflight import preflight
from ace_gui.errors import FileChangedError, RecipeError
from ace_gui.methods import checked_parameters, family_epsilon, get_method
from ace_gui.methods.base import MergeMethod
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue

COMBINED = frozenset({Disposition.MERGED, Disposition.AVERAGED})
"""What reads every expert's tensor."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan, and the opened models and method that carry it out."""

    plan: Plan
    base: OpenedModel
    experts: tuple[OpenedModel, ...]
    method: MergeMethod[Any]
    parameters: Any

    def is_current(self) -> bool:
        """Whether every file is still the one that was opened."""
        try:
            for model in (self.base, *self.experts):
                reader_of(model.checkpoint).check_unchanged()
        except FileChangedError:
            return False
        return True


def prepare(recipe: Recipe) -> Prepared:
    """Open, check and decide, from headers alone.

    Raises RecipeError, CheckpointError, ArchitectureError or MismatchError.
    """
    _check_names(recipe)
    if recipe.scope not in SCOPES:
        raise RecipeError(
            f"{recipe.scope!r} is not a known scope; known: {', '.join(SCOPES)}.", key="scope"
        )
    method = get_method(recipe.merge_method)
    checked_parameters(method, recipe.parameters)
    base, experts = open_models(recipe)
    values, notes = _resolve(recipe, method, base)
    parameters = checked_parameters(method, values)
    rows = plan_rows(base, experts, method, recipe.scope)
    to_write, peak = bytes_to_write(rows, recipe.out_dtype), peak_bytes(rows, method)
    plan = Plan(
        recipe=recipe,
        base=base.summary,
        experts=tuple(expert.summary for expert in experts),
        rows=rows,
        parameters=dataclasses.asdict(parameters),
        parameter_notes=notes,
        heterogeneity=method.heterogeneity,
        warnings=_warnings(base, rows),
        bytes_to_read=_bytes_to_read(rows, base.checkpoint, experts),
        bytes_to_write=to_write,
        peak_bytes=peak,
        checks=preflight(
            base,
            experts,
            rows,
            bytes_to_write=to_write,
            peak_bytes=peak,
            free_disk=free_disk_bytes(),
            free_memory=psutil.virtual_memory().available,
        ),
    )
    return Prepared(plan=plan, base=base, experts=experts, method=method, parameters=parameters)


def output_dtype(row: PlanRow, out_dtype: str | None) -> str:
    """The dtype tag that a tensor of the base has in an output of that dtype (None: its own)."""
    if out_dtype is None or row.disposition == Disposition.COPIED or not is_float(row.dtype):
        return row.dtype
    return RECIPE_TAGS[out_dtype]


def bytes_to_write(rows: tuple[PlanRow, ...], out_dtype: str | None) -> int:
    """Size of the merged model's tensors, heads aside."""
    return sum(
        prod(row.shape) * FORMATS[output_dtype(row, out_dtype)].bits // 8
        for row in rows
        if row.in_base
    )


def _bytes_to_read(
    rows: tuple[PlanRow, ...], base: Checkpoint, experts: tuple[OpenedModel, ...]
) -> int:
    total = 0
    for row in rows:
        if row.in_base:
            total += base.tensors[row.name].nbytes
        if row.disposition in COMBINED:
            for t in row.experts:
                own = experts[t].own_names[row.tied_to or row.name]
                total += experts[t].checkpoint.tensors[own].nbytes
    return total


def _resolve(
    recipe: Recipe, method: MergeMethod[Any], base: OpenedModel
) -> tuple[Mapping[str, ParameterValue], Mapping[str, str]]:
    """The recipe's parameters, with epsilon by family where the recipe leaves it open."""
    if method.name != "ace" or "epsilon" in recipe.parameters:
        return recipe.parameters, {}
    config = base.checkpoint.config or {}
    hidden = config.get("hidden_size")
    epsilon, note = family_epsilon(
        base.architecture.family, hidden if isinstance(hidden, int) else None
    )
    return {**recipe.parameters, "epsilon": epsilon}, {"epsilon": note}


def _warnings(base: OpenedModel, rows: tuple[PlanRow, ...]) -> tuple[str, ...]:
    warnings = list(base.checkpoint.warnings)
    if base.architecture.note:
        warnings.append(base.architecture.note)
    combined = any(row.disposition in COMBINED for row in rows)
    if combined and not any(row.disposition == Disposition.MERGED for row in rows):
        warnings.append("No tensor is merged by the method: nothing here is a linear layer.")
    dropped = [row.name for row in rows if row.disposition == Disposition.DROPPED]
    if dropped:
        warnings.append(f"{len(dropped)} tensors are dropped; the layers table says why.")
    return tuple(dict.fromkeys(warnings))


def _check_names(recipe: Recipe) -> None:
    """An expert's name becomes a file name in ``heads/``."""
    for name in recipe.expert_names:
        plain = name.strip(". ") == name and not set(name) & set('/\\:*?"<>|')
        if not plain or not name.isprintable() or len(name) > 100:
            raise RecipeError(
                f"{name!r} cannot name a file; give the expert another name.", key="name"
            )
