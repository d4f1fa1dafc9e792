"""Tasks and scores: sends requests to the engine, and its answers to the session."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import EvaluationProgress, Event
from ace_gui.engine.contract.jobs import (
    CompareExamplesJob,
    DescribeTasksJob,
    EvaluateJob,
    KnownScoresJob,
    RoutesJob,
    TuneJob,
)
from ace_gui.engine.contract.plan import OF_INPUTS
from ace_gui.engine.contract.scored import EXPERTS, ExamplesCompared, TaskDescribed, TaskScore
from ace_gui.gui.control.engine_client import End, EngineClient
from ace_gui.gui.control.merge_operation import RunOperations
from ace_gui.gui.control.operations import (
    CovarianceOperation,
    RoutingOperation,
    TryOperation,
    TuneOperation,
)
from ace_gui.gui.state.activity import ActivityState
from ace_gui.recipe.values import Recipe, Task

SCORING: Final = (EvaluateJob, CompareExamplesJob, TuneJob, RoutesJob)
WHILE_MERGING: Final = (
    "A merge is running. Base, experts and every finished merge can be evaluated afterwards."
)
DELAY: Final = 250  # ms; skips the parts of a name while it is typed
_WORD: Final = re.compile(r"[^\W_]+")


def expert_named(title: str, names: Sequence[str]) -> str | None:
    """The expert with this name, or else the only one with a word that no other expert has."""
    namesake = next((name for name in names if name.casefold() == title.casefold()), None)
    words = [set(_WORD.findall(name.casefold())) for name in names]
    common = {word for word, count in Counter(chain(*words)).items() if count > 1}
    telling = set(_WORD.findall(title.casefold())) - common
    experts = [name for name, of_expert in zip(names, words, strict=True) if of_expert & telling]
    return namesake or (experts[0] if len(experts) == 1 else None)


class Scoring(QObject):
    """Tasks and scores. While the tasks are visible (``set_visible``), they are described.

    ``changed``: a job has begun or ended. ``trying`` runs a single input, ``tuning`` searches
    parameters, ``covariances`` compares calibration data with ACE's estimate.
    """

    changed = Signal()

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self._session = engine.session
        self._engine = engine
        self._runs = runs
        self.trying = TryOperation(engine)
        self.tuning = TuneOperation(engine)
        self.routing = RoutingOperation(engine)
        self.covariances = CovarianceOperation(engine)
        self._is_visible = False
        self._timer = engine.delayed(DELAY, self._ask)
        self._looked_up: tuple[object, ...] = ()
        for part in (engine.session.draft, engine.session.results.runs):
            part.changed.connect(self._follow)

    # Tasks

    def set_visible(self, is_visible: bool) -> None:
        """Set whether the tasks are visible."""
        self._is_visible = is_visible
        self._follow()

    def add(self, paths: Iterable[Path]) -> None:
        """Add a task for each file or folder of data, assigned to the expert with its name."""
        tasks = self._session.draft.inputs.tasks
        names = self._session.draft.inputs.names
        for path in paths:
            title = Task(data=path).title
            taken = {task.title for task in tasks}
            free = (f"{title}-{number}" for number in range(2, len(taken) + 3))
            if title not in taken:
                name = None
            else:
                name = next(task for task in free if task not in taken)
            tasks = (*tasks, Task(data=path, name=name, expert=expert_named(title, names)))
        self._set(tasks)

    def change(self, index: int, task: Task) -> None:
        tasks = self._session.draft.inputs.tasks
        self._set((*tasks[:index], task, *tasks[index + 1 :]))

    def remove(self, index: int) -> None:
        tasks = self._session.draft.inputs.tasks
        self._set((*tasks[:index], *tasks[index + 1 :]))

    def _set(self, tasks: tuple[Task, ...]) -> None:
        """Set the tasks, and plan again if the plan says what inputs are missing."""
        session = self._session
        session.draft.set_tasks(tasks)
        plan = session.draft.plan
        checks = () if plan is None else plan.checks
        if any(check.title in OF_INPUTS for check in checks):
            session.inputs_wanted.emit(session.draft.inputs)

    def _follow(self) -> None:
        if self._is_visible and (self._undescribed or self._unknown):
            self._timer.start()

    @property
    def _undescribed(self) -> tuple[Task, ...]:
        draft = self._session.draft
        scores = self._session.results.scores
        if draft.plan is None:
            return ()
        return tuple(task for task in draft.inputs.tasks if scores.described(task) is None)

    @property
    def _unknown(self) -> bool:
        """Whether a model has no scores yet; an earlier window may have computed some."""
        session = self._session
        models = ("base", EXPERTS, *(str(run.store) for run in session.results.runs.all))
        complete = session.results.scores.is_complete
        has_tasks = session.draft.plan is not None and bool(session.draft.inputs.tasks)
        return has_tasks and not all(map(complete, models))

    def _ask(self) -> None:
        """Ask for descriptions of the tasks, and once for their scores from earlier windows."""
        self._engine.drop(DescribeTasksJob)
        if self._is_visible and (tasks := self._undescribed):
            self._engine.run(DescribeTasksJob(recipe=self._recipe, tasks=tasks), self._receive)
        if not self._is_visible or not self._unknown or self.is_running:
            return
        inputs = self._session.draft.inputs
        device = self._session.device
        stores = tuple(run.store for run in self._session.results.runs.all)
        subject = (inputs.base, inputs.experts, inputs.tasks, stores, device)
        if subject != self._looked_up:
            self._looked_up = subject
            self._engine.drop(KnownScoresJob)
            job = KnownScoresJob(recipe=self._recipe, stores=stores, device=device)
            self._engine.run(job, self._receive, self._end, quiet=True)

    # Scores

    @property
    def is_running(self) -> bool:
        return self._session.activity.is_running(ActivityState.SCORING)

    @property
    def obstacle(self) -> str:
        """The reason why models cannot be evaluated now, or an empty string."""
        session = self._session
        if session.draft.plan is None:
            return "Open a base model first."
        if not session.draft.inputs.tasks:
            return "Add a task first."
        if session.activity.is_running(ActivityState.MERGING):
            return WHILE_MERGING
        if self.is_running:
            return "An evaluation is running."
        return ""

    def evaluate(self) -> None:
        """Evaluate base, experts and all finished merges on the tasks, except known scores."""
        if self.obstacle:
            return
        stores = tuple(run.store for run in self._session.results.runs.all)
        job = EvaluateJob(
            recipe=self._recipe,
            stores=stores,
            device=self._session.device,
            cluster=self._session.cluster,
        )
        self._engine.run(job, self._receive, self._end)
        self.changed.emit()

    def compare_examples(self, store: Path, *, with_base: bool) -> None:
        """Find the examples that a merge lost and gained."""
        session = self._session

        def receive(event: Event) -> None:
            if isinstance(event, ExamplesCompared):
                session.results.scores.compare(store, event, with_base=with_base)
            else:
                self._receive(event)

        self._engine.drop(CompareExamplesJob)
        job = CompareExamplesJob(
            recipe=self._recipe, store=store, with_base=with_base, device=session.device
        )
        self._engine.run(job, receive, self._end)
        self.changed.emit()

    def cancel(self) -> None:
        """Stop the evaluation and keep the scores so far."""
        self._engine.cancel(*SCORING)

    @property
    def _recipe(self) -> Recipe:
        return self._session.draft.inputs.recipe()

    def _receive(self, event: Event) -> None:
        session = self._session
        match event:
            case EvaluationProgress(model=model, task=task):
                merges = {str(run.store) for run in session.results.runs.all}
                if model in merges:
                    scored = "the merge"
                else:
                    scored = model
                session.activity.complete(title=f"scoring {scored} on {task}")
            case TaskScore():
                session.results.scores.record([event])
                self._runs.record_score(event)
            case TaskDescribed():
                session.results.scores.describe(event)

    def _end(self, _: End) -> None:
        self._session.results.changed.emit()
        self.changed.emit()
