"""Every form of a merge on disk: a class that checks and writes it, and its line in ``_EXPORTERS``.

What is known of a form without writing one is a member of ``Output`` in ``recipe/output_forms.py``.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from ace_gui.checkpoints.staging import claimed_output, discard, promote, staged
from ace_gui.engine.contract.events import Event, Exported, JobProgress, exported
from ace_gui.engine.contract.plan import OUTPUT, Check, CheckVerdict, worst_first
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.merging.store import MODEL, read_finished
from ace_gui.engine.modules.stored import has_modules, read_manifest
from ace_gui.engine.output.adapter_writing import require_adapter_disk, write_adapter
from ace_gui.engine.output.exporting import (
    export,
    export_adapter,
    finish_model,
    publish,
    write_model,
)
from ace_gui.engine.output.models_of_experts import write_task_models
from ace_gui.engine.planning.adapter_plan import adapter_plan, require_adapter, require_factors
from ace_gui.engine.planning.prepare import require_experts
from ace_gui.engine.planning.prepared import Prepared, module_rows
from ace_gui.errors import RecipeError, WorkbenchError
from ace_gui.methods.shared.expert_modules import Differences, Factors, Masks
from ace_gui.output_files import writing
from ace_gui.recipe import Recipe
from ace_gui.recipe.output_forms import AdapterExport, ModelExport, Output

Written = Iterator[JobProgress | Exported]
"""Progress, and then what was written."""


class Exporter(ABC):
    """One form of a merge. A new one is a ``FromModel`` unless it needs no whole model."""

    output: ClassVar[Output]
    """The form."""

    def require(self, prepared: Prepared) -> None:
        """Raise RecipeError or MismatchError for a merge that cannot have this form.

        A merge of too few experts has none.
        """
        require_experts(prepared)

    def checks(self, prepared: Prepared) -> tuple[Check, ...]:
        """Whether a merge can have this form; none if every merge can."""
        noun = self.output.traits.noun
        try:
            self.require(prepared)
        except WorkbenchError as error:
            return (Check(OUTPUT, error.sentence, CheckVerdict.ERROR),)
        return (Check(OUTPUT, f"The merge can be written as {noun}."),)

    @abstractmethod
    def write(self, store: Path, folder: Path, chosen: Any) -> Written:
        """Write a finished store as ``folder``, completely or not at all.

        ``chosen``: the form's options, ``output.traits.export``. Raises OutputError, ResourceError,
        CheckpointError, or RecipeError for a merge that cannot have this form.
        """


class ThroughModel(Exporter):
    """A form for which the whole model is merged first."""

    @abstractmethod
    def publish(
        self, store: Path, folder: Path, *, complete_heads: bool, scores: tuple[TaskScore, ...]
    ) -> Written:
        """Turn a store in the output's own dtype into ``folder``, which the caller has claimed.

        ``scores``: for the card. Raises the errors of ``write``, and then leaves a store that can
        be resumed.
        """


class WholeModel(ThroughModel):
    """A folder that transformers, or another library of the base, loads."""

    output = Output.MODEL

    def checks(self, _: Prepared) -> tuple[Check, ...]:
        """None: every merge can be written as a model."""
        return ()

    def write(self, store: Path, folder: Path, chosen: ModelExport) -> Written:
        """As ``export``."""
        return export(store, folder, chosen)

    def publish(
        self, store: Path, folder: Path, *, complete_heads: bool, scores: tuple[TaskScore, ...]
    ) -> Written:
        """As the function ``publish``."""
        yield publish(store, folder, complete_heads=complete_heads, scores=scores)


class FromModel(ThroughModel):
    """A form that is made from the folder of a finished model, by ``after``."""

    @abstractmethod
    def after(self, model: Path, folder: Path, chosen: Any) -> Iterator[JobProgress]:
        """Write the form into the empty ``folder``, from the folder of the merged ``model``.

        ``chosen`` as for ``write``, whose errors it raises.
        """

    def write(self, store: Path, folder: Path, chosen: Any) -> Written:
        """Write the model beside the output, and then the form from it."""
        inputs = read_finished(store).input_folders
        as_model = ModelExport(dtype=getattr(chosen, "dtype", None))
        with claimed_output(folder, inputs) as target, staged(target) as stage:
            model = stage / MODEL
            model.mkdir()
            yield from write_model(store, model, model, as_model, target.name)
            yield from self._made(model, stage / _MADE, chosen)
            promote(stage / _MADE, target)
        yield exported(target)

    def publish(
        self, store: Path, folder: Path, *, complete_heads: bool, scores: tuple[TaskScore, ...]
    ) -> Written:
        """Make the store's model complete, and then the form from it."""
        model = store / MODEL
        made = store / _MADE
        chosen = self._chosen(read_finished(store).recipe)
        with writing(store):
            finish_model(store, model, folder.name, complete_heads=complete_heads, scores=scores)
            shutil.rmtree(made, ignore_errors=True)  # of a run that was stopped here
            yield from self._made(model, made, chosen)
            promote(made, folder)
            discard(store)
        yield exported(folder)

    def _made(self, model: Path, folder: Path, chosen: Any) -> Iterator[JobProgress]:
        folder.mkdir()
        return self.after(model, folder, chosen)

    def _chosen(self, recipe: Recipe) -> Any:
        """The form's options: those that are also keys of a recipe, and the usual others."""
        names = [option.name for option in self.output.options if hasattr(recipe, option.name)]
        return self.output.traits.export(**{name: getattr(recipe, name) for name in names})


_MADE: Final = "made"
"""The folder of what is made from a model, beside it."""


class Straight(Exporter):
    """A form that is merged without a whole model."""

    @abstractmethod
    def require_room(self, prepared: Prepared, target: Path) -> None:
        """Raise ResourceError if the form does not fit on the target's disk."""

    @abstractmethod
    def merge(
        self, prepared: Prepared, out: Path, *, device: str, threads: int | None, resume: bool
    ) -> Iterator[Event]:
        """Merge into the folder ``out``, which appears only when it is complete.

        Yields PlanReady, the events of a merge, then Exported. Closing the generator leaves a store
        that can be resumed. Raises the errors of merging and writing.
        """


class PeftAdapter(Straight):
    """An adapter in PEFT's format."""

    output = Output.ADAPTER

    def require(self, prepared: Prepared) -> None:
        """A matrix of a linear layer must change, and nothing be wanted that needs a model."""
        require_adapter(prepared.recipe)
        super().require(prepared)
        require_factors(adapter_plan(prepared).completed())

    def require_room(self, prepared: Prepared, target: Path) -> None:
        """As ``require_adapter_disk``."""
        require_adapter_disk(adapter_plan(prepared), prepared, target)

    def write(self, store: Path, folder: Path, chosen: AdapterExport) -> Written:
        """Cut the merged change to the chosen size."""
        if chosen.by_energy:
            return export_adapter(
                store, folder, dtype=chosen.dtype, rank=None, energy=chosen.energy
            )
        return export_adapter(store, folder, dtype=chosen.dtype, rank=chosen.rank, energy=None)

    def merge(
        self, prepared: Prepared, out: Path, *, device: str, threads: int | None, resume: bool
    ) -> Iterator[Event]:
        """As ``write_adapter``."""
        events = write_adapter(prepared, out, device=device, threads=threads, resume=resume)
        with closing(events):
            yield from events


class TaskModels(FromModel):
    """A folder for each expert, with its model as ``ace-gui task`` rebuilds it."""

    output = Output.TASK_MODELS

    def require(self, prepared: Prepared) -> None:
        """The method must keep a part of each expert's weights."""
        super().require(prepared)
        modules = prepared.method.modules
        if not isinstance(modules, Masks | Factors | Differences) or not module_rows(prepared):
            raise RecipeError(
                f"{prepared.method.title} keeps nothing from which the experts' models can be "
                "made; choose a method such as emr, tsv_c or byom, or write a model.",
                key="output",
            )

    def write(self, store: Path, folder: Path, chosen: Any) -> Written:
        """As in other forms from a model, of a merge with modules."""
        if not has_modules(store / MODEL):
            raise RecipeError(
                "The merge has no modules, from which the experts' models are made; export the "
                "full model, or merge with a method such as emr, tsv_c or byom.",
                key="output",
            )
        return super().write(store, folder, chosen)

    def after(self, model: Path, folder: Path, _: Any) -> Iterator[JobProgress]:
        """Write each expert's model; the merged one has the chosen number format."""
        return write_task_models(model, read_manifest(model).experts, folder)


_EXPORTERS: Final[tuple[Exporter, ...]] = (
    WholeModel(),
    PeftAdapter(),
    TaskModels(),
)
EXPORTERS: Final[Mapping[Output, Exporter]] = {exporter.output: exporter for exporter in _EXPORTERS}
"""What writes each form."""


def exporter_of(recipe: Recipe) -> Exporter:
    """What writes the merge of a recipe."""
    return EXPORTERS[recipe.output]


def with_output_checks(prepared: Prepared) -> Prepared:
    """The same merge; its plan also has the checks of the form in which it is to be written."""
    if not prepared.experts:
        return prepared
    checks = exporter_of(prepared.recipe).checks(prepared)
    plan = replace(prepared.plan, checks=worst_first((*prepared.plan.checks, *checks)))
    return replace(prepared, plan=plan)
