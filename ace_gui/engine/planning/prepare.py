"""From a recipe to a plan: open the models, decide for every tensor, resolve the parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ace_gui.architecture.scopes import SCOPES
from ace_gui.checkpoints import FileStamp, reader_of
from ace_gui.checkpoints.input_files import status_of
from ace_gui.engine.contract.checks import (
    EVERYTHING,
    RECIPE,
    Check,
    Verdict,
    worst_first,
)
from ace_gui.engine.contract.plan import (
    COMBINED,
    Disposition,
    Plan,
    PlanRow,
    bytes_in_output,
    bytes_in_store,
)
from ace_gui.engine.planning.adapter_plan import adapter_checks
from ace_gui.engine.planning.calibration_needs import data_checks, needs_of
from ace_gui.engine.planning.dispositions import plan_rows
from ace_gui.engine.planning.expert_files import bytes_beside
from ace_gui.engine.planning.learning_memory import learning_bytes
from ace_gui.engine.planning.memory import (
    free_disk_bytes,
    is_whole,
    largest_tensor,
    memory_on_gpu,
    peak_bytes,
    row_width,
)
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.module_checks import module_checks
from ace_gui.engine.planning.number_formats import kept_integers, refuse_other_than_floats
from ace_gui.engine.planning.overridden_rows import check_overrides, method_of, overridden
from ace_gui.engine.planning.preflight import preflight
from ace_gui.engine.planning.resolved_parameters import completed
from ace_gui.engine.planning.slices import open_recipe, with_slice_rules, without_idle_rows
from ace_gui.engine.planning.task_heads import with_heads
from ace_gui.engine.planning.vocabulary.chat_templates import chat_checks, with_chat_template
from ace_gui.engine.planning.vocabulary.extension import with_new_tokens
from ace_gui.engine.planning.vocabulary.rows import deciding_tokenizers, matched_by_token
from ace_gui.errors import CheckpointError, RecipeError
from ace_gui.formatting import listing, plain
from ace_gui.machine import free_memory
from ace_gui.methods import checked_parameters, get_method
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings, findings_of
from ace_gui.recipe import Recipe
from ace_gui.steps import Steps, result_of

if TYPE_CHECKING:
    from ace_gui.engine.calibrating.statistics_folder import Statistics


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan, and the opened models and method that carry it out.

    ``method`` and ``parameters`` are the recipe's; a row may be overridden. ``tokenizers``: files
    that determine matching rows, if rows are matched by token. ``findings``: what is known so far
    of the whole model, by method and parameters; ``surveying`` adds to it. ``needs``: measurements
    on the experts' data, each with a method that needs it. ``measurements``: the finished ones, one
    per expert; ``calibrating`` adds to it. ``distances``: of the experts from the base, by name,
    set by ``unrelated``.
    """

    plan: Plan
    base: OpenedModel
    experts: tuple[OpenedModel, ...]
    method: MergeMethod[Any]
    parameters: Any
    tokenizers: tuple[FileStamp, ...] = ()
    findings: dict[tuple[str, Any], Findings] = field(default_factory=dict, compare=False)
    needs: Mapping[Need, str] = field(default_factory=dict)
    measurements: dict[Need, tuple[Statistics, ...]] = field(default_factory=dict, compare=False)
    distances: dict[str, float] = field(default_factory=dict, compare=False)

    def method_of(self, row: PlanRow) -> MergeMethod[Any]:
        """The method that merges a row: the recipe's, or that of its override."""
        return method_of(row, self.method)

    def is_whole(self, row: PlanRow) -> bool:
        """Whether a row is merged in one piece instead of part by part."""
        return is_whole(row, self.method)

    def row_width(self, row: PlanRow) -> int | None:
        """How many elements of a row merged in parts stay together; None: each is independent."""
        return row_width(row, self.method)

    def parameters_of(self, row: PlanRow) -> Any:
        """The parameters of ``method_of(row)`` for this row."""
        if row.override is None:
            return self.parameters
        return checked_parameters(self.method_of(row), row.override.parameters)

    def own_of(self, row: PlanRow) -> list[Any] | None:
        """The parameters of each expert that has the row; None if all use those of the row."""
        if row.override is None or not row.override.own:
            return None
        given, own = row.override.parameters, row.override.own
        method = self.method_of(row)
        return [checked_parameters(method, {**given, **own[t]}) for t in row.experts]

    def weights_of(self, row: PlanRow) -> tuple[float, ...]:
        """One weight for each expert that has the row, in the order of ``row.experts``."""
        weights = row.override.weights if row.override else self.plan.recipe.weights
        return tuple(weights[t] for t in row.experts)

    def findings_of(self, row: PlanRow) -> Findings | None:
        """The findings that the method of a row needs, for the row's experts; None if unknown."""
        found = self.findings.get((self.method_of(row).name, self.parameters_of(row)))
        return None if found is None else findings_of(found, row.experts)

    @property
    def files(self) -> tuple[FileStamp, ...]:
        """The files that the result depends on, with their stamps when opened."""
        models = (self.base, *self.experts)
        return (*(stamp for model in models for stamp in model.checkpoint.files), *self.tokenizers)

    def is_current(self) -> bool:
        """Whether every file is unchanged since it was opened."""
        models = (self.base, *self.experts)
        try:
            for model in models:
                reader_of(model.checkpoint).check_unchanged()
            if any(status_of(file.path).st_ctime_ns != file.ctime_ns for file in self.files):
                return False
            return deciding_tokenizers(models, self.plan.recipe.matching) == self.tokenizers
        except CheckpointError:
            return False


LARGEST_WEIGHT: Final = 1e9
"""Weights of an expert; they may be negative."""


def prepare(recipe: Recipe) -> Prepared:
    """Open the models, check them and decide for every tensor, from headers alone.

    Raises RecipeError, CheckpointError, ArchitectureError or MismatchError.
    """
    return result_of(preparing(recipe))


OpenedModels = list[tuple[Recipe, tuple[OpenedModel, tuple[OpenedModel, ...]]]]
"""Opened bases and experts, each with its recipe less the method and its parameters."""


def preparing(recipe: Recipe, opened: OpenedModels | None = None) -> Steps[Prepared]:
    """Like ``prepare``, in steps: describing a model may take long.

    ``opened``: models of earlier recipes, to which these are added. Readers refuse their files if
    they changed meanwhile.
    """
    method = _checked_method(recipe)
    known = [] if opened is None else opened
    inputs = dataclasses.replace(recipe, merge_method="", parameters={})
    found = next((models for own, models in known if own == inputs), None)
    if found is None:
        found = yield from open_recipe(recipe)
        known.append((inputs, found))
    base, experts = found
    given, recipe = recipe, with_slice_rules(recipe, base)
    # Taken before reading, so that a later change is noticed.
    tokenizers = deciding_tokenizers((base, *experts), recipe.matching)
    experts = matched_by_token(base, experts, recipe.matching)
    base, experts = with_new_tokens(base, experts, recipe)
    base = with_chat_template(base, experts, recipe)
    base, experts, heads = with_heads(base, experts, recipe)
    values, notes = completed(recipe.parameters, method, base)
    parameters = checked_parameters(method, values)
    planned = plan_rows(base, experts, method, recipe, heads)
    rows, unused = overridden(planned, recipe, base, heads.asked, len(given.overrides))
    rows = without_idle_rows(rows, recipe, dataclasses.asdict(parameters))
    recipe = given
    refuse_other_than_floats(rows, base, experts)
    gpu_bytes, beside_gpu_bytes = memory_on_gpu(rows, method)
    plan = Plan(
        recipe=recipe,
        base=base.summary,
        experts=tuple(expert.summary for expert in experts),
        rows=rows,
        parameters=dataclasses.asdict(parameters),
        parameter_notes=notes,
        heterogeneity=method.heterogeneity,
        warnings=(_warnings(base, rows) + unused + _missing_experts(recipe, method) + recipe.notes),
        bytes_to_write=bytes_in_output(rows, recipe.out_dtype),
        bytes_beside=bytes_beside(rows, method, parameters, experts),
        peak_bytes=max(peak_bytes(rows, method), learning_bytes(rows, method, parameters)),
        largest_tensor=largest_tensor(rows, method),
        gpu_bytes=gpu_bytes,
        beside_gpu_bytes=beside_gpu_bytes,
        free_memory=free_memory(),
    )
    needs = needs_of(rows, method, parameters)
    checks = (
        *_recipe_checks(recipe),
        *_checks(plan, base, experts),
        *chat_checks(base, experts, recipe),
        *data_checks(recipe, needs),
        *module_checks(recipe, rows, method, base),
    )
    prepared = Prepared(
        plan=plan,
        base=base,
        experts=experts,
        method=method,
        parameters=parameters,
        tokenizers=tokenizers,
        needs=needs,
    )
    checks = worst_first((*checks, *adapter_checks(prepared)))
    return dataclasses.replace(prepared, plan=dataclasses.replace(plan, checks=checks))


def _checks(plan: Plan, base: OpenedModel, experts: tuple[OpenedModel, ...]) -> tuple[Check, ...]:
    return preflight(
        base,
        experts,
        plan.rows,
        vocabulary=plan.recipe.matching,
        store_bytes=bytes_in_store(plan.rows) + plan.bytes_beside,
        memory=plan.memory_check(None),
        free_disk=free_disk_bytes(),
    )


def _recipe_checks(recipe: Recipe) -> tuple[Check, ...]:
    """The note about a recipe that was read with mergekit's defaults."""
    if not recipe.defaults_note:
        return ()
    note, sentence = Verdict.NOTE, recipe.defaults_note
    return (Check(subject=EVERYTHING, title=RECIPE, verdict=note, sentence=sentence),)


def _checked_method(recipe: Recipe) -> MergeMethod[Any]:
    """The recipe's method. Raises RecipeError for errors that can be found without the models."""
    _check_names(recipe)
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


def _warnings(base: OpenedModel, rows: tuple[PlanRow, ...]) -> tuple[str, ...]:
    warnings = list(base.checkpoint.warnings)
    if base.architecture.note:
        warnings.append(base.architecture.note)
    combined = any(row.disposition in COMBINED for row in rows)
    if combined and not any(row.disposition == Disposition.MERGED for row in rows):
        warnings.append("No tensor is merged by the method: nothing here is a linear layer.")
    if kept := kept_integers(rows):
        warnings.append(f"Not floating point, so the base's are kept: {listing(kept)}.")
    dropped = [row for row in rows if row.disposition == Disposition.DROPPED]
    for reason in dict.fromkeys(row.reason for row in dropped):
        warnings.append(f"{listing([r.name for r in dropped if r.reason == reason])}: {reason}.")
    return tuple(dict.fromkeys(warnings))


def _missing_experts(recipe: Recipe, method: MergeMethod[Any]) -> tuple[str, ...]:
    found = len(recipe.models)
    if recipe.slices:
        return ()
    return (too_few(method, found),) if 0 < found < method.least else ()


def _refuse_too_many(recipe: Recipe, method: MergeMethod[Any]) -> None:
    """Refuse too many experts. Too few are refused later, by the merge, as more may be added."""
    found = len(recipe.models)
    if recipe.slices:
        found = max(len(part.sources) for part in recipe.slices) - 1
    if method.most is not None and found > method.most:
        raise RecipeError(
            f"{method.title} merges {experts(method.most)}, but there are {found}; "
            "leave some out, or choose another method, such as the Karcher mean.",
            key="models",
        )


def require_experts(prepared: Prepared) -> None:
    """Raises RecipeError if there are too few experts for the method."""
    found, method = len(prepared.experts), prepared.method
    if prepared.plan.recipe.slices:
        return
    if not found:
        raise RecipeError("There is nothing to merge; add at least one expert.", key="models")
    if found < method.least:
        raise RecipeError(too_few(method, found), key="models")


def experts(count: int) -> str:
    """The number of experts."""
    return "1 expert" if count == 1 else f"{count} experts"


def too_few(method: MergeMethod[Any], found: int) -> str:
    """The sentence about too few experts."""
    return (
        f"{method.title} merges {'' if method.least == method.most else 'at least '}"
        f"{method.least} experts, but there is only {found}; add more, or choose another method."
    )


def _check_weights(recipe: Recipe) -> None:
    """Refuse weights so large that sums would overflow float32 and raise a misleading error."""
    given = list(zip(recipe.expert_names, recipe.weights, strict=True))
    given += [pair for rule in recipe.overrides for pair in rule.weights.items()]
    for name, weight in given:
        if not -LARGEST_WEIGHT <= weight <= LARGEST_WEIGHT:
            raise RecipeError(
                f"The weight of {plain(name)} is {weight:g}; give one from {-LARGEST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g}.",
                key="weight",
            )


def _check_names(recipe: Recipe) -> None:
    """An expert's name becomes a file name in ``heads/``."""
    for name in recipe.expert_names:
        plain = name.strip(". ") == name and not set(name) & set('/\\:*?"<>|')
        if not plain or not name.isprintable() or len(name) > 100:
            raise RecipeError(
                f"{name!r} cannot name a file; give the expert another name.", key="name"
            )
