"""Does the jobs: the engine process's loop, and one generator a job."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from ace_gui.checkpoints import converting
from ace_gui.engine import process
from ace_gui.engine.analysis import analyse
from ace_gui.engine.catalogue import engine_ready
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.events import (
    ConversionProgress,
    Event,
    JobCancelled,
    JobDone,
    JobFailed,
    PlanReady,
)
from ace_gui.engine.exporting import export
from ace_gui.engine.inspection import spectrum
from ace_gui.engine.jobs import (
    AnalyseJob,
    ConvertJob,
    ExportJob,
    Job,
    LoadRecipeJob,
    MergeJob,
    PlanJob,
    SampleAccuracyJob,
    SpectrumJob,
)
from ace_gui.engine.merging import merge
from ace_gui.engine.opening import conversions_folder
from ace_gui.engine.planning import Prepared, prepare
from ace_gui.engine.sample import sample_accuracies
from ace_gui.errors import EngineError, WorkbenchError
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.files import load_recipe


class Runner:
    """Turns jobs into events. Remembers the last plan: most jobs follow upon it."""

    def __init__(self) -> None:
        self._last: Prepared | None = None

    def run(self, job: Job) -> Iterator[Event]:
        """Carry out a job, a step at a time. Raises WorkbenchError."""
        match job:
            case PlanJob(recipe=recipe):
                yield PlanReady(plan=self._prepared(recipe).plan)
            case LoadRecipeJob(paths=paths):
                yield PlanReady(plan=self._prepared(recipe_of(paths)).plan)
            case ConvertJob(path=path):
                for done, total in converting(path, conversions_folder()):
                    yield ConversionProgress(done=done, total=total)
            case AnalyseJob(recipe=recipe):
                yield from analyse(self._prepared(recipe))
            case MergeJob():
                if job.threads is not None:
                    torch.set_num_threads(job.threads)
                yield from merge(
                    self._prepared(job.recipe),
                    job.store,
                    device=job.device,
                    resume=job.resume,
                    memory_bytes=job.memory_bytes,
                )
            case SpectrumJob():
                device = resolve_device(job.device)
                yield spectrum(self._prepared(job.recipe), job.row, device)
            case ExportJob():
                yield from export(
                    job.store,
                    job.folder,
                    dtype=job.dtype,
                    shard_bytes=job.shard_bytes,
                    complete_heads=job.complete_heads,
                )
            case SampleAccuracyJob():
                yield from sample_accuracies()

    def _prepared(self, recipe: Recipe) -> Prepared:
        last = self._last
        if last is None or last.plan.recipe != recipe or not last.is_current():
            self._last = last = prepare(recipe)
        return last


def recipe_of(paths: tuple[Path, ...]) -> Recipe:
    """The recipe of a YAML file, or of model folders: the base first, then the experts."""
    if len(paths) == 1 and paths[0].suffix in {".yaml", ".yml"}:
        return load_recipe(paths[0])
    base, *experts = (Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100
    return Recipe(base_model=base, models=tuple(ModelEntry(model=path) for path in experts))


def safe_steps(job: Job, runner: Runner) -> Iterator[Event]:
    """A job's events, ended by JobDone or JobFailed; nothing is raised."""
    try:
        yield from runner.run(job)
    except WorkbenchError as error:
        error.details = f"{error.details}\n\n{traceback.format_exc()}".strip()
        yield JobFailed(error=error)
    except MemoryError:
        sentence = "There was not enough memory for this step; close other programs and try again."
        yield JobFailed(error=EngineError(sentence, details=traceback.format_exc()))
    except Exception as error:  # whatever it was, the window must hear of it
        sentence = f"Something unexpected went wrong: {type(error).__name__}: {error}."
        yield JobFailed(error=EngineError(sentence, details=traceback.format_exc()))
    else:
        yield JobDone()


def serve(pipe: Connection) -> None:
    """Answer the owner until it says quit or goes away."""
    runner = Runner()
    pipe.send((0, engine_ready()))
    active: dict[int, Iterator[Event]] = {}
    while True:
        try:
            while not active or pipe.poll():
                if not _obey(pipe, active, runner):
                    return
            number = max(active)  # the newest: a quick look goes before a long merge
            _step(pipe, number, active)
        except (EOFError, OSError):  # the owner is gone
            return


def _obey(pipe: Connection, active: dict[int, Iterator[Event]], runner: Runner) -> bool:
    """Take one message; False ends the process."""
    match pipe.recv():
        case process.Submit(number=number, job=job):
            active[number] = safe_steps(job, runner)
        case process.Cancel(number=number):
            steps = active.pop(number, None)
            if steps is not None:
                steps.close()  # type: ignore[attr-defined]
                pipe.send((number, JobCancelled()))
        case process.Quit():
            for steps in active.values():
                steps.close()  # type: ignore[attr-defined]
            return False
    return True


def _step(pipe: Connection, number: int, active: dict[int, Iterator[Event]]) -> None:
    event = next(active[number])
    pipe.send((number, event))
    if isinstance(event, JobDone | JobFailed):
        del active[number]
