"""A recipe with its opened models, the decision for each tensor, and what is kept per expert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ace_gui.checkpoints.input_files import FileStamp, status_of
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.checkpoints.writer import OutputTensor
from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, Plan, PlanRow
from ace_gui.engine.planning.groundwork import Groundwork
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.engine.planning.recipe_models import RecipeModels
from ace_gui.engine.planning.vocabulary import deciding_tokenizers
from ace_gui.errors import CheckpointError
from ace_gui.methods import checked_parameters, get_method
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Differences, Factors, Masks, StoredPart
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings, findings_of_experts
from ace_gui.methods.shared.trimming import kept_count
from ace_gui.recipe import Recipe
from ace_gui.stored_formats import FORMATS


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan, and the opened models and methods that carry it out."""

    plan: Plan
    """What is done with each tensor."""
    base: OpenedModel
    """The base model."""
    experts: tuple[OpenedModel, ...]
    """In the recipe's order."""
    method: MergeMethod[Any]
    """The recipe's method, which a row may override."""
    parameters: Any
    """The method's parameters, which a row may override."""
    tokenizers: tuple[FileStamp, ...] = ()
    """Files that determine matching rows, if rows are matched by token."""
    groundwork: Groundwork = field(default_factory=Groundwork, compare=False)
    """What is found out about the models before the merge; all else stays as it is."""

    @property
    def recipe(self) -> Recipe:
        """The recipe of the plan."""
        return self.plan.recipe

    @property
    def models(self) -> RecipeModels:
        """The models without the plan, as scores need them."""
        kept_T = []
        for t in range(len(self.experts)):
            kept_T.append(tuple(head.name for head in head_tensors(self, t)))
        return RecipeModels(
            recipe=self.recipe, base=self.base, experts=self.experts, kept_T=tuple(kept_T)
        )

    def method_of(self, row: PlanRow) -> MergeMethod[Any]:
        """The method that merges a row."""
        if row.override is None:
            return self.method
        return get_method(row.override.method)

    def parameters_of(self, row: PlanRow) -> Any:
        """The parameters of ``method_of(row)`` for this row."""
        if row.override is None:
            return self.parameters
        return checked_parameters(self.method_of(row), row.override.parameters)

    def is_whole(self, row: PlanRow) -> bool:
        """Whether a row is merged in one piece instead of part by part.

        A row with steps after the method always is. So is a row merged by outputs if the outputs
        are the columns of the file.
        """
        if not row.is_merged:
            return False
        method = self.method_of(row)
        rows_are_columns = method.kind is Kind.ROW and row.transposed
        has_steps = row.after != NOTHING_AFTER
        return has_steps or rows_are_columns or method.needs_whole(self.parameters_of(row))

    def row_width(self, row: PlanRow) -> int | None:
        """How many elements of a row merged in parts stay together; None: each is independent."""
        by_rows = self.method_of(row).kind is Kind.ROW
        if by_rows:
            return prod(row.shape[1:] or row.shape)
        return None

    @property
    def needs(self) -> Mapping[Need, str]:
        """The measurements on the experts' data, each with the title of a method that needs it."""
        title_of_need = {}
        for row in self.plan.rows:
            if row.is_merged and row.in_base:
                need = self.need_of(row)
                if need is not None:
                    title_of_need[need] = self.method_of(row).title
        return title_of_need

    def need_of(self, row: PlanRow) -> Need | None:
        """The measurements on the experts' data that the method of a row needs."""
        return self.method_of(row).need(self.parameters_of(row))

    def expert_parameters_of(self, row: PlanRow) -> list[Any] | None:
        """The parameters of each expert that has the row; None if all use those of the row."""
        if row.override is None or not row.override.own:
            return None
        shared = row.override.parameters
        of_experts = row.override.own
        method = self.method_of(row)
        return [checked_parameters(method, {**shared, **of_experts[t]}) for t in row.experts]

    def weights_of(self, row: PlanRow) -> tuple[float, ...]:
        """One weight for each expert that has the row, in the order of ``row.experts``."""
        if row.override:
            weights = row.override.weights
        else:
            weights = self.recipe.weights
        return tuple(weights[t] for t in row.experts)

    def findings_of(self, row: PlanRow) -> Findings | None:
        """The findings that the method of a row needs, for the row's experts; None if unknown."""
        findings = self.groundwork.findings.get((self.method_of(row).name, self.parameters_of(row)))
        if findings is None:
            return None
        return findings_of_experts(findings, row.experts)

    @property
    def files(self) -> tuple[FileStamp, ...]:
        """The files that the result depends on, with their stamps when opened."""
        models = (self.base, *self.experts)
        files = dict.fromkeys(stamp for model in models for stamp in model.checkpoint.files)
        return (*files, *self.tokenizers)

    def is_current(self) -> bool:
        """Whether every file is unchanged since it was opened."""
        models = (self.base, *self.experts)
        try:
            for model in models:
                TensorReader(model.checkpoint).check_unchanged()
            if any(status_of(file.path).st_ctime_ns != file.ctime_ns for file in self.files):
                return False
            return deciding_tokenizers(models, self.recipe.matching) == self.tokenizers
        except CheckpointError:
            return False


def head_tensors(prepared: Prepared, t: int) -> list[OutputTensor]:
    """The tensors of expert ``t`` that are saved in ``heads/`` under its own names."""
    expert = prepared.experts[t]
    names: dict[str, None] = {}  # tied tensors once
    for row in prepared.plan.rows:
        if row.disposition is Disposition.PER_EXPERT and t in row.experts:
            name = expert.own_names.get(answering_name(row, expert), row.name)
            names[name] = None
    infos = expert.checkpoint.tensors
    return [
        OutputTensor(name=name, dtype=infos[name].dtype, shape=infos[name].shape) for name in names
    ]


def module_rows(prepared: Prepared) -> list[PlanRow]:
    """The rows for which something is stored per expert, in plan order."""
    rows = prepared.plan.rows
    module_names = set()
    with_biases = set()
    for row in rows:
        modules = prepared.method_of(row).modules
        if not row.in_base or not row.is_merged or not prod(row.shape):
            continue
        if isinstance(modules, Differences):
            if modules.roles is not None and row.role not in modules.roles:
                continue
            if modules.with_biases:
                with_biases.add(row.tensor)
        elif not isinstance(modules, Masks | Factors):
            continue
        module_names.add(row.name)

    def is_bias(row: PlanRow) -> bool:
        start, _, last = row.name.rpartition(".")
        combined = row.is_combined and row.in_base and bool(row.experts)
        return combined and last == "bias" and f"{start}.weight" in with_biases

    return [row for row in rows if row.name in module_names or is_bias(row)]


def module_tensors(
    row: PlanRow, prepared: Prepared, counts: Mapping[int, int] | None = None
) -> Iterator[OutputTensor]:
    """The entries of a row in ``modules.safetensors``, by expert.

    ``counts``: the number of elements chosen for each expert, if known; otherwise it is estimated.
    """
    modules = prepared.method_of(row).modules
    for t in row.experts:
        start = f"{prepared.experts[t].name}/{row.name}"
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
            if counts is None:
                chosen = None
            else:
                chosen = counts[t]
            stored_part = modules.stored_part(prepared.parameters_of(row))
            yield from _difference_tensors(row, stored_part, start, chosen)


def _difference_tensors(
    row: PlanRow, stored_part: StoredPart, start: str, count: int | None
) -> Iterator[OutputTensor]:
    if stored_part.density is not None or stored_part.density_in_rows is not None:
        outputs = 1
        inputs = prod(row.shape)
        if stored_part.density is None:  # this many in each row
            outputs, inputs = row.shape[::-1] if row.transposed else row.shape
        density = stored_part.density or stored_part.density_in_rows or 0.0
        about = outputs * kept_count(density, inputs)
        shape = (about if count is None else count,)
        yield OutputTensor(name=f"{start}/index", dtype="I32", shape=shape)
        yield OutputTensor(name=f"{start}/values", dtype="F32", shape=shape)
    elif stored_part.rank is not None and len(row.shape) == 2:
        rows, columns = row.shape
        rank = min(stored_part.rank, rows, columns)
        yield OutputTensor(name=f"{start}/left", dtype="F32", shape=(rows, rank))
        yield OutputTensor(name=f"{start}/right", dtype="F32", shape=(rank, columns))
    else:
        yield OutputTensor(name=f"{start}/whole", dtype="F32", shape=row.shape)


def bytes_for_experts(prepared: Prepared) -> int:
    """Bytes of these files without their headers; rows may have methods of their own."""
    tensors = list[OutputTensor]()
    for row in module_rows(prepared):
        tensors += module_tensors(row, prepared)
    for t in range(len(prepared.experts)):
        tensors += head_tensors(prepared, t)
    return sum(prod(tensor.shape) * FORMATS[tensor.dtype].bits // 8 for tensor in tensors)
