"""Processes that do something at a given moment, again and again, and can be killed at any."""

from __future__ import annotations

import io
import time
import traceback
from collections import deque
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

import torch

from ace_gui.errors import WorkbenchError

DONE = "done"
KILLED = "killed"


@dataclass(frozen=True)
class TimedAction:
    """``action`` of ``what`` into ``out``, at a moment of the system's clock."""

    action: str
    what: Path
    out: Path
    resume: bool = False
    moment: float = 0.0


def merging(task: TimedAction) -> None:
    """``ace-gui merge``."""
    from ace_gui.engine.workflow import Options, merge_to_folder
    from ace_gui.recipe.recipe_file import load_recipe

    recipe = load_recipe(task.what)
    options = Options(device="cpu", threads=1, resume=task.resume)
    deque(merge_to_folder(recipe, task.out, options), maxlen=0)


def exporting(task: TimedAction) -> None:
    """What the window does with a finished store."""
    from ace_gui.engine.output.exporting import export
    from ace_gui.recipe.output_forms import ModelExport

    list(export(task.what, task.out, ModelExport(dtype="float64", gigabytes=30e-6)))


def converting(task: TimedAction) -> None:
    """A pickle into a cache."""
    from ace_gui.checkpoints.pickle_conversion import convert_pickle

    convert_pickle(task.what, task.out)


ACTIONS = {action.__name__: action for action in (merging, exporting, converting)}


def serve(pipe: Connection) -> None:
    """Do task after task, each at its moment, and say how it ended."""
    torch.set_num_threads(1)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        time.sleep(max(0.0, task.moment - time.monotonic()))
        pipe.send(outcome(task))


def outcome(task: TimedAction) -> str:
    """``DONE``, the sentence of an error, or a traceback."""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            ACTIONS[task.action](task)
    except WorkbenchError as error:
        return error.sentence
    except BaseException:
        return traceback.format_exc()
    return DONE


class Worker:
    """A process that does tasks, and another one after it was killed."""

    def __init__(self, context: ForkServerContext) -> None:
        self._context = context
        self._start()

    def begin(self, task: TimedAction) -> None:
        """Have it done at its moment; ``end`` waits for it."""
        self._pipe.send(task)

    def end(self) -> str:
        """How the task ended."""
        try:
            return str(self._pipe.recv())
        except (EOFError, ConnectionError):
            return KILLED
        finally:
            if self._killed:  # perhaps only after it had answered
                self.close()
                self._start()

    def kill(self) -> None:
        """As the system does when memory is short."""
        self._killed = True
        self._process.kill()

    def close(self) -> None:
        """End the process."""
        self.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()

    def _start(self) -> None:
        self._killed = False
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
