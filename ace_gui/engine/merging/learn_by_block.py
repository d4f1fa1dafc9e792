"""Learns a method's values one block after another, from the experts' hidden states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ace_gui.engine.adapting.objectives import BoundedCache, descended
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.adapting.training import Curves, save_curves, trained
from ace_gui.engine.adapting.training_loop import Loop, StepResults
from ace_gui.engine.calibrating.calibrate import Calibration
from ace_gui.engine.calibrating.statistics_folder import StatisticsWriter
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.alignment_inputs import Parts
from ace_gui.engine.merging.alignment_steps import LearningSchedule
from ace_gui.engine.merging.merged_values import LearnedRow, MergedValues, put_fixed
from ace_gui.engine.merging.passing_blocks import BlockPasses, require_blocks
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.planning.trained_tensors import shared_rows


def _one_each(value: Tensor) -> Tensor:
    """One number for each expert, of values that are all equal (T × 1 × …)."""
    return value.flatten(1)[:, :1].reshape(len(value), *(1 for _ in value.shape[1:]))


class LearningByBlock(BlockPasses):
    """Learns the values of a method's rows. ``learned``: the rows with values.

    ``names`` and ``curves``: what was learned by now.
    """

    def __init__(
        self,
        readers: Readers,
        sources: Sequence[Calibration],
        learned: Sequence[PlanRow],
        folder: Path,
        writer: StatisticsWriter,
        device: torch.device,
        title: str,
    ) -> None:
        parameters = readers.prepared.parameters
        super().__init__(readers, sources, device, batch=parameters.batch)
        learning = readers.prepared.method.learning
        assert learning is not None
        self._learning = learning
        self._parameters_of_method = parameters
        self._learned_rows = learned
        self._folder = folder
        self._writer = writer
        self._title = title
        self.names: list[str] = []
        self.curves = Curves(losses={}, figures={})

    def run(self) -> Iterator[LearningProgress]:
        """Learn the values of every block, then store those outside of the blocks, unchanged."""
        require_blocks(self._prepared, self._sources)
        yield from self._passes()
        outside_tensors = {row.tensor for row in self._rows[None]}
        block_tensors = set()
        for block, rows in self._rows.items():
            if block is not None:
                block_tensors |= {row.tensor for row in rows}
        after_blocks = []
        for row in self._learned_rows:
            if row.tensor in outside_tensors or row.tensor not in block_tensors:
                after_blocks.append(row)
        parameters = SharedParameters([], self._device)
        self._store(len(self._model.blocks), self._values(after_blocks, parameters, _one_each))

    def _parts_of(self, count: int) -> Parts:
        return Parts(trained=tuple(range(count)), kept_back=())

    def _learned_of(self, rows: Sequence[PlanRow]) -> Sequence[PlanRow]:
        tensors = {row.tensor for row in rows}
        return [row for row in self._learned_rows if row.tensor in tensors]

    def _put_merged(self, parameters: SharedParameters, rows: Sequence[PlanRow]) -> None:
        learned = self._learned_of(rows)
        tensors = {row.tensor for row in rows}
        for row in shared_rows(self._prepared):
            if row.tensor in tensors and row not in learned:
                put_fixed(row, self._readers, parameters, self._device)
        self._values(learned, parameters).write(None)

    def _values(
        self,
        rows: Sequence[PlanRow],
        parameters: SharedParameters,
        shaped: Callable[[Tensor], Tensor] = lambda value: value,
    ) -> MergedValues:
        """The initial values of some rows."""
        values_by_row = []
        of_experts = {}
        for plan_row in rows:
            row = LearnedRow(
                plan_row, self._readers, parameters, BoundedCache(0), self._folder, self._device
            )
            start = self._learning.start(row.own_vectors, self._parameters_of_method, row.findings)
            of_experts[row.name] = {n: shaped(value).to(self._device) for n, value in start.items()}
            row.close()
            values_by_row.append(row)
        seed = self._prepared.plan.recipe.seed
        return MergedValues(
            self._learning, self._parameters_of_method, values_by_row, of_experts, {}, seed=seed
        )

    def _learned(
        self, block: int, parameters: SharedParameters, rows: Sequence[PlanRow]
    ) -> Iterator[LearningProgress]:
        values = self._values(rows, parameters)
        names = [f"{name}/{block}" for name in values.all()]
        if self._writer.has(block, names):
            self.names += names
            self._take(block, values)
            return
        tasks = self._tasks_of(block)

        def objective(step: int) -> StepResults:
            figures = values.write(step)
            parameters.forget_gradients()
            results = descended(tasks, step, BoundedCache(0))
            values.set_gradients(step)
            return replace(results, figures=figures)

        method: Any = self._parameters_of_method
        steps = method.epochs * max(task.steps for task in tasks)
        schedule = LearningSchedule(steps=steps, learning_rate=method.learning_rate)
        loop = Loop(values.all(), objective, schedule)
        title = f"{self._title}, block {block + 1} of {len(self._model.blocks)}"
        names_of_experts = list(self._prepared.plan.recipe.expert_names)
        yield from trained(
            loop,
            self._folder,
            block,
            title=title,
            experts=names_of_experts,
            curve=self._learning.curve,
        )
        values.write(None)
        losses = {task: tuple(losses) for task, losses in loop.state.losses.items()}
        figures = zip(*loop.state.figures, strict=True)
        by_expert = dict(zip(names_of_experts, map(tuple, figures), strict=False))
        self.curves = Curves(losses=losses, figures=by_expert)
        save_curves(self._folder, self.curves)
        self._store(block, values)

    def _take(self, block: int, values: MergedValues) -> None:
        """Use the values that an earlier run learned."""
        stored = self._writer.stored(block)
        with torch.no_grad():
            for name, value in values.all().items():
                value.copy_(stored[f"{name}/{block}"])
        values.write(None)

    def _store(self, stage: int, values: MergedValues) -> None:
        named = {f"{name}/{stage}": value for name, value in values.all().items()}
        self.names += named
        if not self._writer.has(stage, list(named)):
            self._writer.write(stage, named, dict.fromkeys(named, 1))
