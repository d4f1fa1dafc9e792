"""A recipe with its opened models, and what is decided for each tensor."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from ace_gui.checkpoints import FileStamp, TensorReader
from ace_gui.checkpoints.input_files import status_of
from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, Plan, PlanRow
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.vocabulary.rows import deciding_tokenizers
from ace_gui.errors import CheckpointError
from ace_gui.methods import checked_parameters, get_method
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings, findings_of

if TYPE_CHECKING:
    from ace_gui.engine.calibrating.statistics_folder import Statistics


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan, and the opened models and methods that carry it out.

    ``method``, ``parameters``: the recipe's, which a row may override. ``tokenizers``: files that
    determine matching rows, if rows are matched by token. ``findings``: what is known so far of the
    whole model, by method and parameters; ``surveying`` adds to it. ``surveys``: the surveys of
    recipes that differ only in method and parameters, so that each is made once. ``measurements``:
    the finished ones on the experts' data, one per expert; ``calibrating`` adds to it.
    ``distances``: of the experts from the base, by name, set by ``unrelated``.
    """

    plan: Plan
    base: OpenedModel
    experts: tuple[OpenedModel, ...]
    method: MergeMethod[Any]
    parameters: Any
    tokenizers: tuple[FileStamp, ...] = ()
    findings: dict[tuple[str, Any], Findings] = field(default_factory=dict, compare=False)
    surveys: dict[Hashable, Findings] = field(default_factory=dict, compare=False)
    measurements: dict[Need, tuple[Statistics, ...]] = field(default_factory=dict, compare=False)
    distances: dict[str, float] = field(default_factory=dict, compare=False)

    def method_of(self, row: PlanRow) -> MergeMethod[Any]:
        """The method that merges a row."""
        return self.method if row.override is None else get_method(row.override.method)

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
        if row.disposition is not Disposition.MERGED:
            return False
        kind = self.method_of(row).kind
        by_rows = kind is Kind.ROW and not row.transposed
        return row.after != NOTHING_AFTER or not (kind is Kind.ENTRY or by_rows)

    def row_width(self, row: PlanRow) -> int | None:
        """How many elements of a row merged in parts stay together; None: each is independent."""
        by_rows = self.method_of(row).kind is Kind.ROW
        return prod(row.shape[1:] or row.shape) if by_rows else None

    @property
    def needs(self) -> Mapping[Need, str]:
        """The measurements on the experts' data, each with the title of a method that needs it."""
        found = {}
        for row in self.plan.rows:
            if row.disposition is Disposition.MERGED and row.in_base:
                own = self.method_of(row)
                need = own.need(self.parameters_of(row))
                if need is not None:
                    found[need] = own.title
        return found

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
            return deciding_tokenizers(models, self.plan.recipe.matching) == self.tokenizers
        except CheckpointError:
            return False
