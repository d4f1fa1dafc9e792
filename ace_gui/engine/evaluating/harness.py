"""Scores by the Language Model Evaluation Harness, the Python package lm-eval.

It is an optional extra: L. Gao et al., The Language Model Evaluation Harness, 2024,
doi:10.5281/zenodo.12608602. The data of its tasks must be on this machine, as nothing is
downloaded.
"""

from __future__ import annotations

import importlib
import io
import logging
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture.transformers_library import has_chat_template
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.errors import ResourceError, TaskError
from ace_gui.formatting import listing, path_text
from ace_gui.processes import go_offline

_ERROR: Final = "_stderr"
_BATCH: Final = 16


class Harness:
    """The harness with some of its tasks, ready to run on folders of language models."""

    def __init__(self, tasks: Sequence[str], folder: Path | None = None) -> None:
        """``own``: a folder with tasks, used instead of the harness's.

        Raises ResourceError if lm-eval is not installed, TaskError for an unknown task.
        """
        go_offline()
        try:
            self._library: Any = importlib.import_module("lm_eval")
            manager = importlib.import_module("lm_eval.tasks").TaskManager
        except ImportError:
            raise ResourceError(
                "--harness needs the Python package lm-eval; install it, in the folder of the "
                'source, with pip install ".[lm-eval]".'
            ) from None
        logging.getLogger("lm_eval").setLevel(logging.ERROR)
        self._tasks = list(tasks)
        if folder is None:
            with_own = {}
        else:
            with_own = {"include_path": str(folder), "include_defaults": False}
        self._manager = manager(**with_own)
        unknown = sorted(set(tasks) - set(self._manager.all_tasks))
        if unknown:
            if folder is None:
                where = "The harness"
            else:
                where = path_text(folder)
            raise TaskError(f"{where} has no task {listing(unknown)}; see lm-eval ls tasks.")

    def scores(
        self, folder: Path, *, limit: int | None, device: str, quiet: bool = False
    ) -> Iterator[TaskScore]:
        """A score for each task and metric. Raises TaskError if the harness fails.

        The harness prints to standard error; if ``quiet``, it prints nothing, not even progress
        bars. Models with a chat template are asked in it. No code of the model folder is run. The
        user's own tasks may contain code, which is run.
        """
        chat = has_chat_template((folder,))
        # A task, its data and the model may fail with errors of any type.
        try:
            errors = io.StringIO() if quiet else sys.stderr
            with redirect_stdout(errors), redirect_stderr(errors):
                results = self._library.simple_evaluate(
                    model="hf",
                    model_args={"pretrained": str(folder), "dtype": "float32"},
                    tasks=self._tasks,
                    task_manager=self._manager,
                    device=device,
                    batch_size=_BATCH,
                    apply_chat_template=chat,
                    limit=limit,
                    log_samples=False,
                )
        except Exception as error:
            message = " ".join(str(error).split())[:200] or type(error).__name__
            raise TaskError(
                f"The harness could not run {listing(self._tasks)} on {path_text(folder)} "
                f"({message}); "
                "its data must be on this machine, and the model a language model.",
                path=folder,
                details=f"{type(error).__name__}: {error}",
            ) from error
        for task, figures in results["results"].items():
            count = results["n-samples"].get(task, {}).get("effective", 0)
            for score in _scores(figures, str(folder), task, count):
                yield replace(score, chat=chat)


def _scores(figures: Mapping[str, Any], name: str, task: str, count: int) -> Iterator[TaskScore]:
    """The scores under keys such as ``acc,none`` and ``acc_stderr,none``: metric and filter."""
    for key, value in figures.items():
        metric, comma, answers = key.partition(",")
        if not comma or metric.endswith(_ERROR) or not isinstance(value, int | float):
            continue
        error = figures.get(f"{metric}{_ERROR},{answers}")
        yield TaskScore(
            model=name,
            task=task,
            metric=metric if answers == "none" else f"{metric}, {answers}",
            score=float(value),
            n=count,
            standard_error=float(error) if isinstance(error, int | float) else math.nan,
        )
