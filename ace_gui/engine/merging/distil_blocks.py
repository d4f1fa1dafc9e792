"""Aligns a finished merge with its own experts one block after another.

In each block a few tensors are trained until its output is near the output of the expert's block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.adapting.trained_changes import TrainedChanges
from ace_gui.engine.adapting.training import trained
from ace_gui.engine.calibrating.calibrate import Calibration
from ace_gui.engine.contract.distilled import Distilled, TaskDivergence
from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.kept_files import is_there, keep_tensors, open_tensors, warn_recomputed
from ace_gui.engine.merging.alignment_inputs import (
    Parts,
    compared_inputs,
    parts_of,
    tasks_of,
    warnings_about_inputs,
)
from ace_gui.engine.merging.alignment_steps import (
    IN_WORDS,
    TITLE,
    LearningSchedule,
    alignment_loop,
    changes_begun,
    news,
)
from ace_gui.engine.merging.passing_blocks import BlockPasses, relative_distance
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import MergeStore
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.trained_tensors import TrainedTensors, learning_rate, trained_tensors
from ace_gui.errors import CheckpointError
from ace_gui.recipe.distillation import Distillation

FOLDER: Final = "distilling-blocks"
"""The folder of unfinished training in a store: a file for each trained block."""

CURVE: Final = "squared difference on inputs kept back"

Progress = PassProgress | LearningProgress


def trained_files(store: Path) -> list[Path]:
    """The files with the trained tensors of each block, in a store."""
    return sorted((store / FOLDER).glob("block-*.safetensors"))


class BlockAlignment(BlockPasses):
    """One training: block by block the merge learns to give what its experts give.

    ``compares``: each expert is asked about the inputs of every task first, which takes one whole
    model in memory.
    """

    def __init__(
        self,
        prepared: Prepared,
        store: MergeStore,
        sources: Sequence[Calibration],
        distil: Distillation,
        device: torch.device,
        *,
        compares: bool,
    ) -> None:
        readers = Readers(prepared, with_checksums=False)
        super().__init__(readers, sources, device, batch=distil.batch)
        self._compares = compares
        self._distil = distil
        self._folder = store.folder / FOLDER
        self._plan: TrainedTensors = trained_tensors(prepared, distil)
        self._learning_rate = learning_rate(distil, self._plan, by_block=True)
        self._merged = store.reader()
        self._names: set[str] = set()
        self._doubts: tuple[str, ...] = ()

    def run(self) -> Iterator[Progress]:
        """Train every block, the first one first."""
        tasks = tasks_of(self._sources)
        distinctions: Mapping[tuple[str, str], float] = {}
        if self._compares:
            distinctions = yield from compared_inputs(self._sources, self._device)
        self._doubts = warnings_about_inputs(self._prepared, tasks, distinctions)
        yield news(done=0, total=self._distil.steps, curve=CURVE, warnings=self._doubts)
        yield from self._passes()

    def result(self) -> tuple[Distilled, Mapping[str, Tensor]]:
        """What the training gave. The trained tensors stay in files, see ``trained_files``."""
        tasks = []
        for paths in self._paths:
            parts = self._parts[paths.data.name]
            tasks.append(
                TaskDivergence(
                    task=paths.data.name,
                    expert=self._prepared.recipe.expert_names[paths.expert],
                    inputs=len(parts.trained),
                    kept_back=len(parts.kept_back),
                    before=relative_distance(paths.plain_back, paths.expected_back),
                    after=relative_distance(paths.merged_back, paths.expected_back),
                )
            )
        is_better = sum(task.after for task in tasks) < sum(task.before for task in tasks)
        if not is_better:
            tasks = [replace(task, after=task.before) for task in tasks]
        result = Distilled(
            what=IN_WORDS[self._plan.train],
            tensors=len(self._names),
            numbers=self._numbers(),
            learning_rate=self._learning_rate,
            steps=self._distil.steps,
            best_step=self._distil.steps if is_better else 0,
            tasks=tuple(tasks),
            curve=self._curve,
            doubts=self._doubts,
            blocks=len(self._model.blocks),
        )
        return result, {}

    def _numbers(self) -> int:
        rows = [row for row in self._plan.rows if row.tensor in self._names]
        return replace(self._plan, rows=tuple(rows)).numbers

    def _value(self, row: PlanRow) -> Tensor:
        """A tensor of the merge, float32."""
        return self._merged(row.tensor).float().to(self._device)

    def _put_merged(self, parameters: SharedParameters, rows: Sequence[PlanRow]) -> None:
        for row in rows:
            parameters.write(row.tensor, self._value(row))

    def _learned_of(self, rows: Sequence[PlanRow]) -> Sequence[PlanRow]:
        return [row for row in self._plan.rows if row in rows]

    def _parts_of(self, count: int) -> Parts:
        return parts_of(count, (self._prepared.recipe.seed, len(self._parts)))

    def _learned(
        self, block: int, parameters: SharedParameters, rows: Sequence[PlanRow]
    ) -> Iterator[LearningProgress]:
        """Train the block's tensors, or use those of an earlier run."""
        file = self._folder / f"block-{block:04d}.safetensors"
        stored = _kept(file, [row.tensor for row in rows])
        if stored is None:
            seed = self._prepared.recipe.seed
            changes = changes_begun(self._plan, rows, self._value, parameters, seed=seed)
            yield from self._trained(block, parameters, changes)
            stored = changes.finish()
            self._folder.mkdir(exist_ok=True)
            keep_tensors(file, stored)
        else:
            for name, values in stored.items():
                parameters.write(name, values.to(self._device))
        self._names |= stored.keys()

    def _trained(
        self, block: int, parameters: SharedParameters, changes: TrainedChanges
    ) -> Iterator[LearningProgress]:
        tasks = self._tasks_of(block)

        def distances() -> Mapping[str, float]:
            return {task.name: task.distance() for task in tasks}

        schedule = LearningSchedule(steps=self._distil.steps, learning_rate=self._learning_rate)
        loop = alignment_loop(changes, parameters, tasks, schedule, distances)
        title = f"{TITLE}, block {block + 1} of {len(self._model.blocks)}"
        names = [paths.data.name for paths in self._paths]
        yield from trained(loop, self._folder, block, title=title, experts=names, curve=CURVE)


def _kept(file: Path, names: Sequence[str]) -> dict[str, Tensor] | None:
    """A block's trained tensors of an earlier run; None if they are not there, or unreadable."""
    if not is_there(file):
        return None
    try:
        saved = open_tensors(file)
        return {name: saved.read(name) for name in names}
    except (CheckpointError, KeyError) as error:
        warn_recomputed(file, error)
        return None
