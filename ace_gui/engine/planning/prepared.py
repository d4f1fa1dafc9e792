"""A recipe with its opened models, and what is decided for each tensor."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ace_gui.checkpoints import FileStamp, TensorReader
from ace_gui.checkpoints.input_files import status_of
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.row_methods import RowMethods
from ace_gui.engine.planning.vocabulary.rows import deciding_tokenizers
from ace_gui.errors import CheckpointError
from ace_gui.methods import checked_parameters
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings, findings_of

if TYPE_CHECKING:
    from ace_gui.engine.calibrating.statistics_folder import Statistics


@dataclass(frozen=True, kw_only=True)
class Prepared(RowMethods):
    """A plan, and the opened models and methods that carry it out.

    ``tokenizers``: files
    that determine matching rows, if rows are matched by token. ``findings``: what is known so far
    of the whole model, by method and parameters; ``surveying`` adds to it. ``surveys``: the surveys
    of recipes that differ only in method and parameters, so that each is made once. ``needs``:
    measurements on the experts' data, each with a method that needs it. ``measurements``: the
    finished ones, one per expert; ``calibrating`` adds to it. ``distances``: of the experts from
    the base, by name, set by ``unrelated``.
    """

    plan: Plan
    base: OpenedModel
    experts: tuple[OpenedModel, ...]
    tokenizers: tuple[FileStamp, ...] = ()
    findings: dict[tuple[str, Any], Findings] = field(default_factory=dict, compare=False)
    surveys: dict[Hashable, Findings] = field(default_factory=dict, compare=False)
    needs: Mapping[Need, str] = field(default_factory=dict)
    measurements: dict[Need, tuple[Statistics, ...]] = field(default_factory=dict, compare=False)
    distances: dict[str, float] = field(default_factory=dict, compare=False)

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
