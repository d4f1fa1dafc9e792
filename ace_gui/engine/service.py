"""Runs the jobs: the engine process's loop."""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection, Iterator
from multiprocessing.connection import Connection
from typing import Final

from ace_gui.checkpoints.pickle_conversion import with_consent
from ace_gui.engine.capabilities import engine_ready, use_threads
from ace_gui.engine.contract.events import (
    Event,
    Job,
    JobCancelled,
    JobDone,
    JobFailed,
    ScoringJob,
)
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.planning.opening import open_recipe_models
from ace_gui.engine.planning.recipe_models import RecipeModels
from ace_gui.engine.runner import Runner
from ace_gui.engine.workflow import prepared_with_consent
from ace_gui.errors import EngineError, WorkbenchError, is_out_of_memory
from ace_gui.paths import conversions_folder
from ace_gui.recipe import Recipe
from ace_gui.steps import result_of

HEAD_START: Final = 1.5
"""Seconds that newer jobs may take before the oldest gets its share of the time."""


def run(job: Job, *, convert: bool = False) -> Iterator[Event]:
    """Run a job in this process and yield its events. Raises the job's errors.

    ``convert``: first convert PyTorch pickles of its recipe.
    """
    runner = Runner()
    recipe = getattr(job, "recipe", None)
    if convert and recipe is not None:
        if isinstance(job, ScoringJob):
            _convert_for_scores(recipe)
        else:
            runner.keep(prepared_with_consent(recipe, convert=True))
    yield from (event for event in steps_of(job, runner) if event is not None)


def _convert_for_scores(recipe: Recipe) -> None:
    """Convert the PyTorch pickles of a recipe that is scored, which needs no plan."""

    def opened() -> RecipeModels:
        return result_of(open_recipe_models(recipe))

    with_consent(opened, conversions_folder(), convert=True)


NEEDS_MEMORY: Final = frozenset(("merging", "comparing", "scoring", "tuning"))
"""The states of jobs before which the models of *Try it* are dropped."""


def safe_steps(job: Job, runner: Runner) -> Iterator[Event | None]:
    """A job's steps, followed by JobDone or JobFailed; nothing is raised."""
    if job.state in NEEDS_MEMORY:
        runner.asked_models.clear()
    try:
        yield from steps_of(job, runner)
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
        if self._owed > HEAD_START:
            return min(active)
        return max(active)

    def took(self, number: int, seconds: float, active: Collection[int]) -> None:
        """Record the duration of a job's step."""
        oldest = number == min(active, default=number)
        if oldest:
            self._owed = max(0.0, self._owed - seconds)
        else:
            self._owed = self._owed + seconds


def serve(pipe: Connection) -> None:
    """Answer the owner until it ends the process or goes away."""
    use_threads(None)
    runner = Runner()
    try:
        pipe.send((0, engine_ready()))
    except OSError:  # the owner has ended while this process was importing
        return
    active: dict[int, Iterator[Event | None]] = {}
    scheduler = JobScheduler()
    while True:
        try:
            while not active or pipe.poll():
                if not _handle_message(pipe, active, runner):
                    return
            number = scheduler.next(active)
            started = time.monotonic()
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
