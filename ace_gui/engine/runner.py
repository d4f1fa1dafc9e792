"""What the jobs of a process share: the last plans, findings about layers, the threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.contract.events import ScoringJob
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.evaluate import known_tasks
from ace_gui.engine.evaluating.kept_models import KeptModels
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.opening import open_recipe_models
from ace_gui.engine.planning.prepare import preparing
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.recipe_models import RecipeModels
from ace_gui.errors import EngineError, TaskError
from ace_gui.paths import inspections_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import Task, limited
from ace_gui.steps import Steps

PLANS_KEPT: Final = 2
"""The loaded recipe, and one that is tried out next to it."""


class Runner:
    """What the jobs of a process share. Each process that runs jobs has one."""

    def __init__(self) -> None:
        self._recent: list[Prepared] = []
        self.threads = torch.get_num_threads()
        self.chosen_threads: int | None = None  # by the person, for workers too; None: by default
        self.cache = InspectionCache(inspections_folder())
        self.asked_models = KeptModels()
        """Those of *Try it*. Work that needs much memory drops them."""

    def forget(self) -> None:
        """Forget all plans."""
        self._recent = []

    def prepared(self, recipe: Recipe) -> Steps[Prepared]:
        """The plan of a recipe; a recent one is used again if its files have not changed."""
        plan = self._recent_plan(recipe)
        return (yield from self.prepare(recipe)) if plan is None else plan

    def opened(self, recipe: Recipe) -> Steps[RecipeModels]:
        """The models of a recipe, for scores: of a recent plan, or else opened without one."""
        plan = self._recent_plan(recipe)
        return (yield from open_recipe_models(recipe)) if plan is None else plan.models

    def _recent_plan(self, recipe: Recipe) -> Prepared | None:
        for prepared_before in self._recent:
            same = (
                prepared_before.plan.recipe == recipe
                and prepared_before.plan.recipe.tasks == recipe.tasks
            )
            if same and prepared_before.is_current():
                return prepared_before
        return None

    def prepare(self, recipe: Recipe) -> Steps[Prepared]:
        """A new plan of a recipe."""
        prepared = yield from preparing(recipe)
        self.keep(prepared)
        return prepared

    def keep(self, prepared: Prepared) -> None:
        """Keep a plan, instead of others of its recipe."""
        earlier = [recent for recent in self._recent if recent.plan.recipe != prepared.recipe]
        self._recent = [prepared, *earlier][:PLANS_KEPT]

    def matrix(
        self, recipe: Recipe, row: PlanRow, device: str
    ) -> Steps[tuple[Prepared, PlanRow, torch.device]]:
        """The context for inspecting a matrix.

        The row is looked up again, as another scope may change it. Raises EngineError if the plan
        no longer has it.
        """
        prepared = yield from self.prepared(recipe)
        for planned_row in prepared.plan.rows:
            if planned_row.name == row.name:
                return prepared, planned_row, resolve_device(device)
        sentence = f"The plan has no tensor `{row.name}`; open the models again."
        raise EngineError(sentence, tensor=row.name)

    def models(
        self,
        recipe: Recipe | None,
        stores: Sequence[Path] = (),
        folders: Sequence[Any] = (),
        names: Sequence[str] = (),
    ) -> Steps[Models]:
        """A recipe's models, folders of models or models in memory, and finished merges.

        ``names``: names of the folders; if empty, their paths serve as names, as for merges.
        """
        opened = None if recipe is None else (yield from self.opened(recipe))
        paths = (*folders, *(store / MODEL for store in stores))
        return Models(opened, paths, (*(names or map(str, folders)), *map(str, stores)))

    def asked(self, job: ScoringJob) -> Steps[tuple[Models, tuple[Task, ...]]]:
        """The models and tasks of a job. Raises TaskError if it was given no tasks."""
        if job.tasks == ():
            sentence = "There are no tasks; add some to the recipe, or name a file with --tasks."
            raise TaskError(sentence)
        models = yield from self.models(job.recipe, job.stores, job.folders, job.names)
        if job.tasks is None:
            tasks = known_tasks(job.recipe)
        else:
            tasks = job.tasks
        return models, limited(tasks, job.limit)
