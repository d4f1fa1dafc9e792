"""Runs the jobs: the engine process's loop, and what jobs share."""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import torch

from ace_gui.engine.capabilities import engine_ready, resolve_device, use_threads
from ace_gui.engine.contract.events import Event, Job, JobCancelled, JobDone, JobFailed, ScoringJob
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.evaluate import known_tasks
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepare import preparing
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.workflow import prepared_with_consent
from ace_gui.errors import EngineError, TaskError, WorkbenchError, is_out_of_memory
from ace_gui.paths import inspections_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import Task, limited
from ace_gui.steps import Steps

PLANS_KEPT: Final = 2
"""The loaded recipe, and one that is tried out next to it."""

HEAD_START: Final = 1.5
"""Seconds that newer jobs may take before the oldest gets its share of the time."""


class Runner:
    """Runs jobs. It keeps what they share: the last plans, findings about layers, the threads."""

    def __init__(self) -> None:
        self._recent: list[Prepared] = []
        self.threads = torch.get_num_threads()
        self.chosen_threads: int | None = None  # by the person, for workers too; None: by default
        self.cache = InspectionCache(inspections_folder())

    def forget(self) -> None:
        """Forget all plans."""
        self._recent = []

    def prepared(self, recipe: Recipe) -> Steps[Prepared]:
        """The plan of a recipe; a recent one is used again if its files have not changed."""
        for known in self._recent:
            same = known.plan.recipe == recipe and known.plan.recipe.tasks == recipe.tasks
            if same and known.is_current():
                return known
        return (yield from self.prepare(recipe))

    def prepare(self, recipe: Recipe) -> Steps[Prepared]:
        """A new plan of a recipe."""
        prepared = yield from preparing(recipe)
        self.keep(prepared)
        return prepared

    def keep(self, prepared: Prepared) -> None:
        """Keep a plan, instead of others of its recipe."""
        others = [known for known in self._recent if known.plan.recipe != prepared.recipe]
        self._recent = [prepared, *others][:PLANS_KEPT]

    def matrix(
        self, recipe: Recipe, row: PlanRow, device: str
    ) -> Steps[tuple[Prepared, PlanRow, torch.device]]:
        """The context for inspecting a matrix.

        The row is looked up again, as another scope may change it. Raises EngineError if the plan
        no longer has it.
        """
        prepared = yield from self.prepared(recipe)
        for known in prepared.plan.rows:
            if known.name == row.name:
                return prepared, known, resolve_device(device)
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
        prepared = None if recipe is None else (yield from self.prepared(recipe))
        paths = (*folders, *(store / MODEL for store in stores))
        return Models(prepared, paths, (*(names or map(str, folders)), *map(str, stores)))

    def asked(self, job: ScoringJob) -> Steps[tuple[Models, tuple[Task, ...]]]:
        """The models and tasks of a job. Raises TaskError if it was given no tasks."""
        if job.tasks == ():
            sentence = "There are no tasks; add some to the recipe, or name a file with --tasks."
            raise TaskError(sentence)
        models = yield from self.models(job.recipe, job.stores, job.folders, job.names)
        tasks = known_tasks(models.prepared) if job.tasks is None else job.tasks
        return models, limited(tasks, job.limit)


def run(job: Job, *, convert: bool = False) -> Iterator[Event]:
    """Run a job in this process and yield its events. Raises the job's errors.

    ``convert``: first convert PyTorch pickles of its recipe.
    """
    runner, recipe = Runner(), getattr(job, "recipe", None)
    if convert and recipe is not None:
        runner.keep(prepared_with_consent(recipe, convert=True))
    yield from (event for event in job.steps(runner) if event is not None)


def safe_steps(job: Job, runner: Runner) -> Iterator[Event | None]:
    """A job's steps, followed by JobDone or JobFailed; nothing is raised."""
    try:
        yield from job.steps(runner)
    except WorkbenchError as error:
        error.details = f"{error.details}\n\n{traceback.format_exc()}".strip()
        yield JobFailed(error=error)
    except Exception as error:  # the window must be informed of any error
        sentence = f"Something unexpected went wrong: {type(error).__name__}: {error}."
        if is_out_of_memory(error):
            sentence = (
                "There was not enough memory for this step; close other programs and try again."
            )
        yield JobFailed(error=EngineError(sentence, details=traceback.format_exc()))
    else:
        yield JobDone()


class JobScheduler:
    """Runs the newest job first, until newer ones took ``HEAD_START`` more than the oldest.

    A user who opens one layer after another during a merge keeps sending jobs; half of the time
    still goes to the merge.
    """

    def __init__(self) -> None:
        self._owed = 0.0  # seconds owed to the oldest job

    def next(self, active: Collection[int]) -> int:
        """The number of the next job to run; jobs are numbered as they come."""
        return min(active) if self._owed > HEAD_START else max(active)

    def took(self, number: int, seconds: float, active: Collection[int]) -> None:
        """Record the duration of a job's step."""
        oldest = number == min(active, default=number)
        self._owed = max(0.0, self._owed - seconds) if oldest else self._owed + seconds


def serve(pipe: Connection) -> None:
    """Answer the owner until it ends the process or goes away."""
    use_threads(None)
    runner = Runner()
    pipe.send((0, engine_ready()))
    active: dict[int, Iterator[Event | None]] = {}
    scheduler = JobScheduler()
    while True:
        try:
            while not active or pipe.poll():
                if not _handle_message(pipe, active, runner):
                    return
            number, started = scheduler.next(active), time.monotonic()
            jobs = tuple(active)
            _step(pipe, number, active)
            scheduler.took(number, time.monotonic() - started, jobs)
        except (EOFError, OSError):  # the owner is gone
            return


def _handle_message(
    pipe: Connection, active: dict[int, Iterator[Event | None]], runner: Runner
) -> bool:
    """Handle one message; False ends the process."""
    match pipe.recv():
        case None:
            for running in active.values():
                running.close()  # type: ignore[attr-defined]
            return False
        case number, None:
            steps = active.pop(number, None)
            if steps is not None:
                steps.close()  # type: ignore[attr-defined]
                pipe.send((number, JobCancelled()))
        case number, job:
            active[number] = safe_steps(job, runner)
    return True


def _step(pipe: Connection, number: int, active: dict[int, Iterator[Event | None]]) -> None:
    event = next(active[number])
    if event is not None:
        pipe.send((number, event))
    if isinstance(event, JobDone | JobFailed):
        del active[number]
