"""From a recipe to a plan: open the models, decide for every tensor, resolve the parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator
from typing import Any, Final

from ace_gui.architecture.scopes import SCOPES
from ace_gui.architecture.traits import Role
from ace_gui.engine.contract.plan import (
    NOTHING_AFTER,
    RECIPE,
    Check,
    CheckVerdict,
    Disposition,
    Plan,
    PlanRow,
    bytes_in_output,
    worst_first,
)
from ace_gui.engine.planning.alignment_checks import alignment_bytes, alignment_checks
from ace_gui.engine.planning.chat_templates import chat_checks, with_chat_template
from ace_gui.engine.planning.dispositions import (
    LeftOut,
    kept_integers,
    plan_rows,
    refuse_other_than_floats,
)
from ace_gui.engine.planning.groundwork import Groundwork
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.overridden_rows import check_overrides, completed, overridden
from ace_gui.engine.planning.preflight import preflight
from ace_gui.engine.planning.prepared import Prepared, bytes_for_experts
from ace_gui.engine.planning.requirements import (
    data_checks,
    largest_tensor,
    learning_bytes,
    memory_on_gpu,
    module_checks,
    peak_bytes,
)
from ace_gui.engine.planning.slices import open_recipe, with_slice_rules, without_idle_rows
from ace_gui.engine.planning.task_heads import with_heads
from ace_gui.engine.planning.vocabulary import (
    deciding_tokenizers,
    matched_by_token,
    with_new_tokens,
)
from ace_gui.errors import RecipeError
from ace_gui.formatting import counted, listing, plain
from ace_gui.machine import free_memory
from ace_gui.methods import checked_parameters, get_method
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.survey import Findings
from ace_gui.recipe import Recipe
from ace_gui.recipe.mergekit.key_fates import reasons_of, sentence_on
from ace_gui.recipe.overrides import After
from ace_gui.steps import Steps, result_of

LARGEST_WEIGHT: Final = 1e9
"""Weights of an expert; they may be negative."""


def prepare(recipe: Recipe, left_out: LeftOut | None = None) -> Prepared:
    """Open the models, check them and decide for every tensor, from headers alone.

    Tensors that may be tied are read, too. ``left_out``: as for ``plan_rows``.

    Raises RecipeError, CheckpointError, ArchitectureError or MismatchError.
    """
    return result_of(preparing(recipe, left_out=left_out))


_Models = tuple[OpenedModel, tuple[OpenedModel, ...], dict[Hashable, Findings]]
"""An opened base, its experts, and the surveys that were made of them."""

OpenedModels = list[tuple[Recipe, _Models]]
"""Opened models, each with the recipe less the method and parameters."""


def preparing(
    recipe: Recipe, opened: OpenedModels | None = None, left_out: LeftOut | None = None
) -> Steps[Prepared]:
    """Like ``prepare``, in steps: describing a model may take long.

    ``opened``: models of earlier recipes, to which these are added. Readers refuse their files if
    they changed meanwhile.
    """
    method = _checked_method(recipe)
    base, experts, surveys = yield from _opened(recipe, [] if opened is None else opened)
    ruled = with_slice_rules(recipe, base)
    # Taken before reading, so that a later change is noticed.
    tokenizers = deciding_tokenizers((base, *experts), ruled.matching)
    experts = matched_by_token(base, experts, ruled.matching)
    base, experts = with_new_tokens(base, experts, ruled)
    base = with_chat_template(base, experts, ruled)
    base, experts, heads = with_heads(base, experts, ruled)
    values, notes = completed(recipe.parameters, method, base)
    parameters = checked_parameters(method, values)
    planned = plan_rows(base, experts, method, ruled, heads, left_out)
    rows, unused = overridden(planned, ruled, base, heads.asked, len(recipe.overrides))
    rows = without_idle_rows(rows, ruled, dataclasses.asdict(parameters))
    refuse_other_than_floats(rows, base, experts)
    few = (_too_few(recipe, method),) if recipe.models and _too_few(recipe, method) else ()
    return _assessed(
        Prepared(
            plan=Plan(
                recipe=recipe,
                base=base.summary,
                experts=tuple(expert.summary for expert in experts),
                rows=rows,
                parameters=dataclasses.asdict(parameters),
                parameter_notes=notes,
                heterogeneity=method.heterogeneity,
                warnings=_warnings(base, rows, recipe) + unused + few + recipe.notes,
            ),
            base=base,
            experts=experts,
            method=method,
            parameters=parameters,
            tokenizers=tokenizers,
            groundwork=Groundwork(surveys=surveys),
        )
    )


def _opened(recipe: Recipe, opened: OpenedModels) -> Steps[_Models]:
    """The recipe's models, which are added to ``opened`` if they are not in it."""
    inputs = dataclasses.replace(recipe, merge_method="", parameters={})
    for opened_name, models in opened:
        if opened_name == inputs:
            return models
    models = *(yield from open_recipe(recipe)), {}
    opened.append((inputs, models))
    return models


def _assessed(prepared: Prepared) -> Prepared:
    """The same merge with the plan's sizes, and with the checks, which read the sizes."""
    gpu_bytes, host_bytes_with_gpu = memory_on_gpu(prepared)
    recipe = prepared.recipe
    rows = prepared.plan.rows
    plan = dataclasses.replace(
        prepared.plan,
        bytes_to_write=bytes_in_output(rows, recipe.out_dtype),
        bytes_for_experts=bytes_for_experts(prepared),
        peak_bytes=max(peak_bytes(prepared), learning_bytes(prepared), alignment_bytes(prepared)),
        largest_tensor=largest_tensor(prepared),
        gpu_bytes=gpu_bytes,
        host_bytes_with_gpu=host_bytes_with_gpu,
        free_memory=free_memory(),
    )
    sized = dataclasses.replace(prepared, plan=plan)
    checks = [*_how_read(recipe), *_averaged_convolutions(recipe, rows)]
    for find in _FINDERS:
        checks += find(sized)
    return dataclasses.replace(sized, plan=dataclasses.replace(plan, checks=worst_first(checks)))


_FINDERS: Final = (
    preflight,
    chat_checks,
    data_checks,
    module_checks,
    alignment_checks,
)
"""Each finds checks in a plan."""


def _checked_method(recipe: Recipe) -> MergeMethod[Any]:
    """The recipe's method. Raises RecipeError for errors that can be found without the models."""
    for name in recipe.expert_names:  # an expert's name becomes a file name in ``heads/``
        is_plain = name.strip(". ") == name and not set(name) & set('/\\:*?"<>|')
        if not is_plain or not name.isprintable() or len(name) > 100:
            raise RecipeError(
                f"{name!r} cannot name a file; give the expert another name.", key="name"
            )
    if recipe.scope not in SCOPES:
        raise RecipeError(
            f"{recipe.scope!r} is not a known scope; known: {', '.join(SCOPES)}.", key="scope"
        )
    method = get_method(recipe.merge_method)
    checked_parameters(method, recipe.parameters)
    check_overrides(recipe)
    _check_weights(recipe)
    _refuse_too_many(recipe, method)
    return method


def _warnings(base: OpenedModel, rows: tuple[PlanRow, ...], recipe: Recipe) -> tuple[str, ...]:
    warnings = list(base.checkpoint.warnings)
    if base.architecture.note:
        warnings.append(base.architecture.note)
    combined = any(row.is_combined for row in rows)
    if combined and not any(row.is_merged for row in rows):
        warnings.append("No tensor is merged by the method; the plan gives a reason for each.")
    if recipe.after != After() and not any(row.after != NOTHING_AFTER for row in rows):
        warnings.append("`after` changes nothing: the method merges no matrix.")
    if integers := kept_integers(rows):
        warnings.append(f"Not floating point, so the base's are kept: {listing(integers)}.")
    dropped = [row for row in rows if row.disposition == Disposition.DROPPED]
    for reason in dict.fromkeys(row.reason for row in dropped):
        warnings.append(f"{listing([r.name for r in dropped if r.reason == reason])}: {reason}.")
    return tuple(dict.fromkeys(warnings))


def _how_read(recipe: Recipe) -> Iterator[Check]:
    """Notes on a file of mergekit's: its defaults, and what became of its keys."""
    if recipe.defaults_note:
        yield Check(RECIPE, recipe.defaults_note, CheckVerdict.NOTE)
    if recipe.key_fates:
        reasons = "\n".join(reasons_of(recipe.key_fates))
        yield Check(RECIPE, sentence_on(recipe.key_fates), CheckVerdict.NOTE, reasons)


def _averaged_convolutions(recipe: Recipe, rows: tuple[PlanRow, ...]) -> list[Check]:
    """A note on convolutions to which the steps after the method do not apply."""
    convolutions = [row for row in rows if row.role == Role.CONVOLUTION]
    averaged = [row.name for row in convolutions if row.disposition is Disposition.AVERAGED]
    if not averaged or recipe.after == After():
        return []
    count = counted(len(averaged), "convolution is", "convolutions are")
    sentence = f"{count} averaged, so `after` does not apply there: {listing(averaged)}."
    return [Check(RECIPE, sentence, CheckVerdict.NOTE)]


def _refuse_too_many(recipe: Recipe, method: MergeMethod[Any]) -> None:
    """Refuse too many experts. Too few are refused later, by the merge, as more may be added."""
    count = len(recipe.models)
    if recipe.slices:
        count = max(len(part.sources) for part in recipe.slices) - 1
    if method.most is not None and count > method.most:
        raise RecipeError(
            f"{method.title} merges {counted(method.most, 'expert', 'experts')}, but there are "
            f"{count}; "
            "leave some out, or choose another method, such as the Karcher mean.",
            key="models",
        )


def require_experts(prepared: Prepared) -> None:
    """Raises RecipeError if there are too few experts for the method."""
    if sentence := _too_few(prepared.recipe, prepared.method):
        raise RecipeError(sentence, key="models")


def _too_few(recipe: Recipe, method: MergeMethod[Any]) -> str:
    """The sentence about too few experts; empty if there are enough."""
    count = len(recipe.models)
    if recipe.slices or count >= max(1, method.least):
        return ""
    if not count:
        return "There is nothing to merge; add at least one expert."
    return (
        f"{method.title} merges {'' if method.least == method.most else 'at least '}"
        f"{method.least} experts, but there is only {count}; add more, or choose another method."
    )


def _check_weights(recipe: Recipe) -> None:
    """Refuse weights so large that sums would overflow float32 and raise a misleading error."""
    weights = list(zip(recipe.expert_names, recipe.weights, strict=True))
    for rule in recipe.overrides:
        weights += rule.weights.items()
    for name, weight in weights:
        if not -LARGEST_WEIGHT <= weight <= LARGEST_WEIGHT:
            raise RecipeError(
                f"The weight of {plain(name)} is {weight:g}; give one from {-LARGEST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g}.",
                key="weight",
            )
