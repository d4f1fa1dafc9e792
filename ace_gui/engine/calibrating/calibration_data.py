"""The calibration data of an expert: its model, and the calibration inputs of its tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ace_gui.checkpoints.input_files import status_of
from ace_gui.engine.calibrating.statistics_folder import CalibratedWith
from ace_gui.engine.evaluating.evaluate import known_tasks, require_own_names
from ace_gui.engine.evaluating.examples import read_calibration
from ace_gui.engine.evaluating.kinds.every_kind import require_kind
from ace_gui.engine.evaluating.subjects import Loading, Models
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.planning.prepared import Prepared

EXAMPLES: Final = 256
"""Most inputs of each task, as in the papers."""

SEED: Final = 0
"""Seed for drawing inputs if there are more: always the same ones."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """For one expert: its tasks' inputs, and the source of its model for each."""

    name: str
    tasks: tuple[tuple[TaskData, Loading], ...]

    @property
    def examples(self) -> int:
        """The number of inputs."""
        return sum(len(data.examples) for data, _ in self.tasks)

    def inputs(self) -> tuple[CalibratedWith, ...]:
        """The inputs of each task, as a manifest names them."""
        return tuple(
            CalibratedWith(
                task=data.name,
                data=tuple(map(str, data.table.files)),
                digest=file_digest(data.table.files),
                examples=len(data.examples),
            )
            for data, _ in self.tasks
        )

    def terms(self) -> list[Any]:
        """Everything that the measurements depend on."""
        return [
            (
                repr(data.task),
                data.kind,
                sorted(data.columns.items()),
                data.content(),
                [_stamp(path) for path in loading.files],
                sorted(loading.config.items()),
                None if loading.own is None else sorted(loading.own.names.items()),
            )
            for data, loading in self.tasks
        ]


def calibration(
    prepared: Prepared, t: int, *, labelled: bool = False, limit: int = EXAMPLES
) -> Calibration:
    """The calibration data of expert t, read and checked. ``limit``: most inputs of each task.

    Raises TaskError and CheckpointError.
    """
    models, tasks = Models(prepared, with_base=False), known_tasks(prepared)
    name = prepared.plan.recipe.expert_names[t]
    require_own_names(tasks)
    subject = models.subjects()[t]
    found = []
    for task in tasks:
        if models.owner(task) == t and task.calibration is not None:
            config = models.reference(task)
            data = read_calibration(task, config, limit=limit, seed=SEED, labelled=labelled)
            loading = models.loading(subject, task)
            require_kind(loading, data, subject)
            found.append((data, loading))
    return Calibration(name=name, tasks=tuple(found))


def digest(texts: Iterable[str]) -> str:
    """SHA-256 of several texts in order."""
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()


def file_digest(paths: Sequence[Path]) -> str:
    """SHA-256 of the contents of several files in order. Raises OSError."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    return found.hexdigest()


def _stamp(path: Path) -> tuple[str, int, int, int]:
    status = status_of(path)
    return str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns
