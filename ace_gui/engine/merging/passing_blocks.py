"""Lets inputs pass a merge and its experts block by block, so that each block can be trained alone.

Every input passes the merged model's blocks and, beside them, its own expert's. Only one block of
one model is in memory, and the hidden states of the inputs.
"""

from __future__ import annotations

import gc
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.architecture.blueprint import skeleton
from ace_gui.architecture.traits import Role
from ace_gui.engine.adapting.block_passes import (
    ADVICE,
    BlockModel,
    PassingInputs,
    free_parameters,
    groups_of,
)
from ace_gui.engine.adapting.objectives import BoundedCache, TaskResults, batch_indices
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.calibrating.calibrate import Calibration
from ace_gui.engine.calibrating.model_parameters import pieces as located
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.evaluators import Piece
from ace_gui.engine.evaluating.kinds import evaluator
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.merging.alignment_inputs import Parts
from ace_gui.engine.merging.readers import ModelReader, Readers
from ace_gui.engine.planning.models import answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.trained_tensors import shared_rows
from ace_gui.errors import MismatchError

_HEADS: Final = frozenset({Role.HEAD, Role.VOCABULARY_HEAD})


def block_models(sources: Sequence[Calibration]) -> list[tuple[Loading, BlockModel]]:
    """The models of all tasks without their parameters, each model once.

    Raises ArchitectureError, and TaskError for a model that is no sequence of blocks.
    """
    models: list[tuple[Loading, BlockModel]] = []
    for source in sources:
        for _, loading in source.tasks:
            if all(loading.config != loading_of_model.config for loading_of_model, _ in models):
                models.append((loading, BlockModel(skeleton(loading.config))))
    return models


def require_blocks(prepared: Prepared, sources: Sequence[Calibration]) -> None:
    """Raise the errors of ``block_models``, and MismatchError if a block lacks a tensor."""
    (_, model), *_ = block_models(sources)
    rows = [row.tensor for row in shared_rows(prepared)]
    places = located(model.model, prepared.base, rows)
    parameters_of_rows = set[str]()
    for parts in places.values():
        parameters_of_rows.update(parameter for parameter, _, _ in parts)
    for name, _ in model.model.named_parameters(remove_duplicate=False):
        if model.block_of(name) is not None and name not in parameters_of_rows:
            raise MismatchError(
                f"`{name}` is no tensor that the merge and its experts have alike, so its block "
                f"cannot be trained alone; {ADVICE}",
                tensor=name,
            )


@dataclass(kw_only=True)
class BlockInputs:
    """A task's inputs between two blocks."""

    data: TaskData
    """The task and its examples."""
    expert: int
    """Index of the expert."""

    merged: list[PassingInputs]
    """Inputs to train with, in the merged model."""

    expected: list[PassingInputs]
    """The same in the expert."""

    merged_back: list[PassingInputs]
    """Inputs kept back, in the merged model."""

    expected_back: list[PassingInputs]
    """The same in the expert."""

    plain_back: list[PassingInputs]
    """The same in the merged model as the method left it."""


class BlockTask:
    """One task of a block that learns to give what its expert's block gives.

    ``size``: inputs of a step, or as few more as inputs of one shape need.
    """

    def __init__(
        self, model: BlockModel, block: int, paths: BlockInputs, *, size: int, seed: tuple[int, ...]
    ) -> None:
        self.name = paths.data.name
        self._model = model
        self._block = block
        self._paths = paths
        self._seed = seed
        self._units = _units(paths.merged, size)

    @property
    def steps(self) -> int:
        """The steps of a pass over all inputs."""
        return len(self._units)

    def __call__(self, step: int, _cache: BoundedCache) -> TaskResults:
        """The squared difference of a step's outputs, with its graph."""
        (unit,) = batch_indices(len(self._units), 1, step, self._seed)
        losses = []
        for index in self._units[unit]:
            output_NLH = self._model.output(self._block, self._paths.merged[index])
            expected_NLH = self._paths.expected[index].states_NLH
            losses.append((output_NLH - expected_NLH).square().sum())
        return TaskResults(loss=torch.stack(losses).sum(), spread=None, distance=None)

    def distance(self) -> float:
        """The squared difference on inputs kept back, as a share of the expert's square."""
        outputs = [
            self._model.after_block(self._block, passing) for passing in self._paths.merged_back
        ]
        return relative_distance(outputs, self._paths.expected_back)


def _units(passings: Sequence[PassingInputs], size: int) -> list[list[int]]:
    """Inputs of a few shapes together, about ``size`` in each step."""
    units: list[list[int]] = [[]]
    count = 0
    for index, passing in enumerate(passings):
        if count and count + len(passing.indices) > size:
            units.append([])
            count = 0
        units[-1].append(index)
        count += len(passing.indices)
    return units


def relative_distance(merged: Sequence[PassingInputs], expected: Sequence[PassingInputs]) -> float:
    """Σ (merged − expected)² / Σ expected² of hidden states, over all inputs."""
    squared_differences = []
    squares = []
    for merged_inputs, expected_inputs in zip(merged, expected, strict=True):
        expected_NLH = expected_inputs.states_NLH.double()
        difference_NLH = merged_inputs.states_NLH.double() - expected_NLH
        squared_differences.append(float(difference_NLH.square().sum()))
        squares.append(float(expected_NLH.square().sum()))
    return math.fsum(squared_differences) / max(math.fsum(squares), 1e-300)


class BlockPasses(ABC):
    """Lets all inputs pass block after block, and trains each on the way.

    ``batch``: inputs of a task in a step.
    """

    def __init__(
        self,
        readers: Readers,
        sources: Sequence[Calibration],
        device: torch.device,
        *,
        batch: int,
    ) -> None:
        self._prepared = readers.prepared
        self._readers = readers
        self._sources = sources
        self._device = device
        self._batch = batch
        self._models = block_models(sources)
        self._model = self._models[0][1]
        self._rows = self._rows_by_block()
        self._parts: dict[str, Parts] = {}
        self._paths: list[BlockInputs] = []
        self._curve: dict[int, dict[str, float]] = {}

    def _passes(self) -> Iterator[LearningProgress]:
        """Train every block, the first one first."""
        self._begin()
        for block in range(len(self._model.blocks)):
            yield from self._block(block)
            gc.collect()

    def _tasks_of(self, block: int) -> list[BlockTask]:
        """What a block is trained with."""
        tasks = []
        for index, paths in enumerate(self._paths):
            seed = (self._prepared.recipe.seed, index, block)
            tasks.append(BlockTask(self._model, block, paths, size=self._batch, seed=seed))
        return tasks

    def _rows_by_block(self) -> Mapping[int | None, list[PlanRow]]:
        """The rows of every block; under None those outside of the blocks, without heads."""
        by_block = defaultdict[int | None, list[PlanRow]](list)
        rows = {row.tensor: row for row in shared_rows(self._prepared)}
        places = located(self._model.model, self._prepared.base, rows)
        for tensor, row in rows.items():
            if tensor in places:
                block = self._model.block_of(places[tensor][0][0])
                if block is not None or row.role not in _HEADS:
                    by_block[block].append(row)
        return by_block

    def _expert_value(self, row: PlanRow, expert: int) -> Tensor:
        """A tensor of an expert, float32."""
        reader: ModelReader = self._readers.experts[expert]
        name = answering_name(row, reader.model)
        if not reader.model.has(name):
            return self._readers.base.read(row.tensor).float()
        return reader.read(name).float()

    def _put_expert(
        self, parameters: SharedParameters, rows: Sequence[PlanRow], expert: int
    ) -> None:
        for row in rows:
            parameters.write(row.tensor, self._expert_value(row, expert).to(self._device))

    @abstractmethod
    def _put_merged(self, parameters: SharedParameters, rows: Sequence[PlanRow]) -> None:
        """Set tensors to those of the merge before it is trained."""

    @abstractmethod
    def _learned_of(self, rows: Sequence[PlanRow]) -> Sequence[PlanRow]:
        """Those of a block's rows whose tensors are trained."""

    @abstractmethod
    def _learned(
        self, block: int, parameters: SharedParameters, rows: Sequence[PlanRow]
    ) -> Iterator[LearningProgress]:
        """Train a block's tensors, or use those of an earlier run."""

    @abstractmethod
    def _parts_of(self, count: int) -> Parts:
        """Which of a task's inputs are trained with."""

    def _begin(self) -> None:
        """Let all inputs reach the first block, in the merge and in their experts."""
        rows = self._rows[None]
        shapes = {row.tensor: row.tensor_shape for row in rows}
        parameters = SharedParameters([], self._device)
        for _, model in self._models:
            parameters.adopt(model.model, self._prepared.base, shapes)
        self._put_merged(parameters, rows)
        for expert, source in enumerate(self._sources):
            for data, loading in source.tasks:
                self._paths.append(self._block_inputs(expert, data, loading))
        for expert in range(len(self._sources)):
            self._put_expert(parameters, rows, expert)
            for paths in self._paths:
                if paths.expert == expert:
                    self._begin_expert(paths)
        for _, model in self._models:
            free_parameters(model.model)

    def _block_inputs(self, expert: int, data: TaskData, loading: Loading) -> BlockInputs:
        """A task's inputs before the first block of the merge."""
        parts = self._parts_of(len(data.examples))
        self._parts[data.name] = parts
        trained = self._at_first_block(data, loading, parts.trained)
        back = self._at_first_block(data, loading, parts.kept_back)
        return BlockInputs(
            data=data,
            expert=expert,
            merged=trained,
            expected=[],
            merged_back=back,
            expected_back=[],
            plain_back=back,
        )

    def _begin_expert(self, paths: BlockInputs) -> None:
        """Let a task's inputs reach the first block of its expert."""
        parts = self._parts[paths.data.name]
        loadings = {data.name: loading for data, loading in self._sources[paths.expert].tasks}
        loading = loadings[paths.data.name]
        paths.expected = self._at_first_block(paths.data, loading, parts.trained)
        paths.expected_back = self._at_first_block(paths.data, loading, parts.kept_back)

    def _at_first_block(
        self, data: TaskData, loading: Loading, indices: Sequence[int]
    ) -> list[PassingInputs]:
        model = self._model_of(loading)
        evaluator_of_task = evaluator(data, loading, model.model)
        pieces: list[list[Piece]] = evaluator_of_task.pieces_of(data.examples)
        groups = []
        for alike in groups_of(pieces, indices):
            size = self._batch
            groups += [alike[first : first + size] for first in range(0, len(alike), size)]
        return model.at_first_block(evaluator_of_task, pieces, groups, self._device)

    def _model_of(self, loading: Loading) -> BlockModel:
        """The model without parameters that has the class and sizes of a loading."""
        models = (model for other, model in self._models if other.config == loading.config)
        return next(models)

    def _block(self, block: int) -> Iterator[LearningProgress]:
        """Train a block, and let all inputs pass it."""
        rows = self._rows[block]
        learned = self._learned_of(rows)
        parameters = SharedParameters([row.tensor for row in learned], self._device)
        shapes = {row.tensor: row.tensor_shape for row in rows}
        parameters.adopt(self._model.model, self._prepared.base, shapes)
        expected = self._passed_experts(block, parameters, rows)
        self._put_merged(parameters, rows)
        for paths, (inputs, inputs_back) in zip(self._paths, expected, strict=True):
            paths.plain_back = self._passed(block, paths.plain_back)
            paths.expected = inputs
            paths.expected_back = inputs_back
        if learned:
            yield from self._learned(block, parameters, learned)
        for paths in self._paths:
            paths.merged = self._passed(block, paths.merged)
            paths.merged_back = self._passed(block, paths.merged_back)
        distances = {}
        for paths in self._paths:
            distances[paths.data.name] = relative_distance(paths.merged_back, paths.expected_back)
        self._curve[block + 1] = distances
        free_parameters(self._model.blocks[block])

    def _passed_experts(
        self, block: int, parameters: SharedParameters, rows: Sequence[PlanRow]
    ) -> list[tuple[list[PassingInputs], list[PassingInputs]]]:
        """Each task's inputs after its expert's block: those to train with, and those kept back."""
        passed = []
        expert = None
        for paths in self._paths:
            if paths.expert != expert:
                expert = paths.expert
                self._put_expert(parameters, rows, expert)
            inputs = self._passed(block, paths.expected)
            inputs_back = self._passed(block, paths.expected_back)
            passed.append((inputs, inputs_back))
        return passed

    def _passed(self, block: int, passings: Sequence[PassingInputs]) -> list[PassingInputs]:
        return [self._model.after_block(block, passing) for passing in passings]
