"""Which experts a merge with a router selects."""

from __future__ import annotations

from pathlib import Path

from ace_gui.engine.contract.events import EvaluationProgress, Event
from ace_gui.engine.contract.jobs import RoutesJob
from ace_gui.engine.contract.scored.routes import RoutesFound, TaskRoutes
from ace_gui.gui.control.operations.one_operation import OneOperation
from ace_gui.gui.state.activity import MergeRun


class RoutingOperation(OneOperation):
    """``routes`` belong to the store queried last; None before."""

    store: Path | None = None
    routes: tuple[TaskRoutes, ...] | None = None

    @property
    def obstacle(self) -> str:
        """The reason why nothing can be computed, or an empty string."""
        if not self._session.draft.inputs.tasks:
            return "Add a task first."
        routing = [method.title for method in self._session.draft.methods if method.routes]
        if self.merges or not routing:
            return ""
        methods = ", ".join(routing)
        return f"No merge here has a router. Merge with one of these methods: {methods}."

    @property
    def merges(self) -> list[MergeRun]:
        """The finished merges that have a router."""
        routing = {method.name for method in self._session.draft.methods if method.routes}
        runs = self._session.results.runs.all
        return [run for run in runs if run.recipe.merge_method in routing]

    def start(self, store: Path, limit: int | None) -> None:
        """Run a finished merge on the tasks. Earlier routes are dropped."""
        if self.obstacle or self.is_running:
            return
        self.store, self.routes = store, None
        job = RoutesJob(
            recipe=self._session.draft.inputs.recipe(),
            store=store,
            limit=limit,
            device=self._session.device,
        )
        self._begin(job, quiet=True)

    def take(self, event: Event) -> None:
        """Keep the routes."""
        match event:
            case EvaluationProgress(task=task):
                self._session.activity.complete(title=f"computing the routes of {task}")
            case RoutesFound(routes=routes):
                self.routes = routes
