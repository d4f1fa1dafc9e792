"""Aligns a finished merge with its own experts one block after another.

Every input passes the merged model's blocks and, beside them, its own expert's. In each block a few
tensors are trained until its output is near the expert's. Only one block of one model is in memory,
and the hidden states of the inputs.
"""

from __future__ import annotations

import gc
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ace_gui.architecture.blueprint import skeleton
from ace_gui.architecture.traits import Role
from ace_gui.engine.adapting.block_passes import BlockModel, Passing, empty, groups_of
from ace_gui.engine.adapting.objectives import Found, Kept, batch_indices, descended
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.adapting.trained_changes import TrainedChanges
from ace_gui.engine.adapting.training import CheckedLoop, Seen, trained
from ace_gui.engine.calibrating.calibrate import Calibration
from ace_gui.engine.calibrating.model_parameters import pieces as located
from ace_gui.engine.contract.distilled import Distilled, TaskDivergence
from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.evaluators import Piece
from ace_gui.engine.evaluating.kinds import evaluator
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.kept_files import is_there, keep_tensors, open_tensors, warn_recomputed
from ace_gui.engine.merging.alignment_inputs import Parts, doubts, parts_of
from ace_gui.engine.merging.alignment_steps import (
    CHECKED_EVERY,
    IN_WORDS,
    TITLE,
    Schedule,
    news,
    rates,
)
from ace_gui.engine.merging.readers import ModelReader, Readers
from ace_gui.engine.merging.store import MergeStore
from ace_gui.engine.planning.alignment_checks import left_out_sentence
from ace_gui.engine.planning.models import answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.trained_tensors import (
    TrainedTensors,
    rank_of,
    shared_rows,
    trained_tensors,
)
from ace_gui.errors import CheckpointError, MismatchError
from ace_gui.recipe.distillation import Distillation

FOLDER: Final = "distilling-blocks"
"""The folder of unfinished training in a store: a file for each trained block."""

CURVE: Final = "squared difference on inputs kept back"

_HEADS: Final = frozenset({Role.HEAD, Role.VOCABULARY_HEAD})

Progress = PassProgress | LearningProgress


def trained_files(store: Path) -> list[Path]:
    """The files with the trained tensors of each block, in a store."""
    return sorted((store / FOLDER).glob("block-*.safetensors"))


def block_models(sources: Sequence[Calibration]) -> list[tuple[Loading, BlockModel]]:
    """The models of all tasks without their parameters, each model once.

    Raises ArchitectureError, and TaskError for a model that is no sequence of blocks.
    """
    found: list[tuple[Loading, BlockModel]] = []
    for source in sources:
        for _, loading in source.tasks:
            if all(loading.config != known.config for known, _ in found):
                found.append((loading, BlockModel(skeleton(loading.config))))
    return found


def require_blocks(prepared: Prepared, sources: Sequence[Calibration]) -> None:
    """Raise the errors of ``block_models``, and MismatchError if a block lacks a tensor."""
    (_, model), *_ = block_models(sources)
    rows = [row.tensor for row in shared_rows(prepared)]
    places = located(model.model, prepared.base, rows)
    there = {parameter for parts in places.values() for parameter, _, _ in parts}
    for name, _ in model.model.named_parameters(remove_duplicate=False):
        if model.block_of(name) is not None and name not in there:
            raise MismatchError(
                f"`{name}` is no tensor that the merge and its experts have alike, so its block "
                "cannot be trained alone; choose `distil: {how: whole}`, or leave `distil` out.",
                tensor=name,
            )


@dataclass(kw_only=True)
class Paths:
    """A task's inputs between two blocks."""

    data: TaskData
    expert: int
    """Index of the expert."""

    merged: list[Passing]
    """Inputs to train with, in the merged model."""

    wanted: list[Passing]
    """The same in the expert."""

    merged_back: list[Passing]
    """Inputs kept back, in the merged model."""

    wanted_back: list[Passing]
    """The same in the expert."""

    plain_back: list[Passing]
    """The same in the merged model as the method left it."""


class BlockTask:
    """One task of a block that learns to give what its expert's block gives.

    ``size``: inputs of a step, or as few more as inputs of one shape need.
    """

    def __init__(
        self, model: BlockModel, block: int, paths: Paths, *, size: int, seed: tuple[int, ...]
    ) -> None:
        self.name = paths.data.name
        self._model = model
        self._block = block
        self._paths = paths
        self._seed = seed
        self._units = _units(paths.merged, size)

    def __call__(self, step: int, _kept: Kept) -> Found:
        """The squared difference of a step's outputs, with its graph."""
        (unit,) = batch_indices(len(self._units), 1, step, self._seed)
        losses = []
        for index in self._units[unit]:
            output_NLH = self._model.output(self._block, self._paths.merged[index])
            wanted_NLH = self._paths.wanted[index].states_NLH
            losses.append((output_NLH - wanted_NLH).square().sum())
        return Found(loss=torch.stack(losses).sum(), spread=None, distance=None)

    def distance(self) -> float:
        """The squared difference on inputs kept back, as a share of the expert's square."""
        outputs = [self._model.passed(self._block, passing) for passing in self._paths.merged_back]
        return relative(outputs, self._paths.wanted_back)


def _units(passings: Sequence[Passing], size: int) -> list[list[int]]:
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


def relative(ones: Sequence[Passing], others: Sequence[Passing]) -> float:
    """Σ (one − other)² / Σ other² over all inputs."""
    differences = []
    squares = []
    for one, other in zip(ones, others, strict=True):
        wide = other.states_NLH.double()
        differences.append(float((one.states_NLH.double() - wide).square().sum()))
        squares.append(float(wide.square().sum()))
    return math.fsum(differences) / max(math.fsum(squares), 1e-300)


class BlockAlignment:
    """One training: block by block the merge learns to give what its experts give."""

    def __init__(
        self,
        prepared: Prepared,
        store: MergeStore,
        sources: Sequence[Calibration],
        distil: Distillation,
        device: torch.device,
    ) -> None:
        self._prepared = prepared
        self._sources = sources
        self._distil = distil
        self._device = device
        self._folder = store.folder / FOLDER
        self._plan: TrainedTensors = trained_tensors(prepared, distil)
        self._readers = Readers(prepared, with_checksums=False)
        self._merged = store.reader()
        self._models = block_models(sources)
        self._model = self._models[0][1]
        self._rows = self._rows_by_block()
        self._parts: dict[str, Parts] = {}
        self._paths: list[Paths] = []
        self._curve: dict[int, dict[str, float]] = {}
        self._names: set[str] = set()
        self._doubts: tuple[str, ...] = ()

    def run(self) -> Iterator[Progress]:
        """Train every block, the first one first."""
        found = doubts([data for source in self._sources for data, _ in source.tasks], {})
        left_out = left_out_sentence(self._prepared)
        if left_out:
            self._doubts = (*found, left_out)
        else:
            self._doubts = found
        yield news(done=0, total=self._distil.steps, curve=CURVE, warnings=self._doubts)
        self._begin()
        for block in range(len(self._model.blocks)):
            yield from self._block(block)
            gc.collect()

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
                    before=relative(paths.plain_back, paths.wanted_back),
                    after=relative(paths.merged_back, paths.wanted_back),
                )
            )
        is_better = sum(task.after for task in tasks) < sum(task.before for task in tasks)
        if not is_better:
            tasks = [replace(task, after=task.before) for task in tasks]
        result = Distilled(
            what=IN_WORDS[self._plan.train],
            tensors=len(self._names),
            numbers=self._numbers(),
            learning_rate=self._plan.learning_rate,
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

    def _value(self, row: PlanRow, expert: int | None) -> Tensor:
        """A tensor of the merge, or of an expert, float32."""
        if expert is None:
            return self._merged(row.tensor).float()
        reader: ModelReader = self._readers.experts[expert]
        name = answering_name(row, reader.model)
        if not reader.model.has(name):
            return self._readers.base.read(row.tensor).float()
        return reader.read(name).float()

    def _put(
        self, parameters: SharedParameters, rows: Sequence[PlanRow], expert: int | None
    ) -> None:
        for row in rows:
            parameters.write(row.tensor, self._value(row, expert).to(self._device))

    def _begin(self) -> None:
        """Let all inputs reach the first block, in the merge and in their experts."""
        rows = self._rows[None]
        shapes = {row.tensor: row.tensor_shape for row in rows}
        parameters = SharedParameters([], self._device)
        for _, model in self._models:
            parameters.adopt(model.model, self._prepared.base, shapes)
        self._put(parameters, rows, None)
        for expert, source in enumerate(self._sources):
            for data, loading in source.tasks:
                self._paths.append(self._begun(expert, data, loading))
        for expert in range(len(self._sources)):
            self._put(parameters, rows, expert)
            for paths in self._paths:
                if paths.expert == expert:
                    self._begin_expert(paths)
        for _, model in self._models:
            empty(model.model)

    def _begun(self, expert: int, data: TaskData, loading: Loading) -> Paths:
        seed = (self._prepared.recipe.seed, len(self._parts))
        parts = parts_of(len(data.examples), seed)
        self._parts[data.name] = parts
        trained = self._begun_part(data, loading, parts.trained)
        back = self._begun_part(data, loading, parts.kept_back)
        return Paths(
            data=data,
            expert=expert,
            merged=trained,
            wanted=[],
            merged_back=back,
            wanted_back=[],
            plain_back=back,
        )

    def _begin_expert(self, paths: Paths) -> None:
        parts = self._parts[paths.data.name]
        loading = next(
            loading
            for data, loading in self._sources[paths.expert].tasks
            if data.name == paths.data.name
        )
        paths.wanted = self._begun_part(paths.data, loading, parts.trained)
        paths.wanted_back = self._begun_part(paths.data, loading, parts.kept_back)

    def _begun_part(
        self, data: TaskData, loading: Loading, indices: Sequence[int]
    ) -> list[Passing]:
        model = next(m for known, m in self._models if known.config == loading.config)
        asked = evaluator(data, loading, model.model)
        pieces: list[list[Piece]] = asked.pieces_of(data.examples)
        groups = []
        for alike in groups_of(pieces, indices):
            size = self._distil.batch
            groups += [alike[first : first + size] for first in range(0, len(alike), size)]
        return model.begun(asked, pieces, groups, self._device)

    def _block(self, block: int) -> Iterator[LearningProgress]:
        """Train a block, and let all inputs pass it."""
        rows = self._rows[block]
        learned = [row for row in self._plan.rows if row in rows]
        parameters = SharedParameters([row.tensor for row in learned], self._device)
        shapes = {row.tensor: row.tensor_shape for row in rows}
        parameters.adopt(self._model.model, self._prepared.base, shapes)
        wanted = self._passed_experts(block, parameters, rows)
        self._put(parameters, rows, None)
        for paths, (ones, back) in zip(self._paths, wanted, strict=True):
            paths.plain_back = self._passed(block, paths.plain_back)
            paths.wanted = ones
            paths.wanted_back = back
        if learned:
            yield from self._learned(block, parameters, learned)
        for paths in self._paths:
            paths.merged = self._passed(block, paths.merged)
            paths.merged_back = self._passed(block, paths.merged_back)
        self._curve[block + 1] = {
            paths.data.name: relative(paths.merged_back, paths.wanted_back) for paths in self._paths
        }
        empty(self._model.blocks[block])

    def _passed_experts(
        self, block: int, parameters: SharedParameters, rows: Sequence[PlanRow]
    ) -> list[tuple[list[Passing], list[Passing]]]:
        """What each task's inputs are after its expert's block."""
        found = []
        latest = None
        for paths in self._paths:
            if paths.expert != latest:
                self._put(parameters, rows, paths.expert)
                latest = paths.expert
            ones = self._passed(block, paths.wanted)
            found.append((ones, self._passed(block, paths.wanted_back)))
        return found

    def _passed(self, block: int, passings: Sequence[Passing]) -> list[Passing]:
        return [self._model.passed(block, passing) for passing in passings]

    def _learned(
        self, block: int, parameters: SharedParameters, rows: Sequence[PlanRow]
    ) -> Iterator[LearningProgress]:
        """Train the block's tensors, or use those of an earlier run."""
        file = self._folder / f"block-{block:04d}.safetensors"
        known = _kept(file, [row.tensor for row in rows])
        if known is None:
            changes = self._changes(parameters, rows)
            yield from self._trained(block, parameters, changes)
            known = {row.tensor: changes.tensor(row.tensor) for row in rows}
            self._folder.mkdir(exist_ok=True)
            keep_tensors(file, known)
        for name, values in known.items():
            parameters.write(name, values.to(self._device))
        self._names |= known.keys()

    def _changes(self, parameters: SharedParameters, rows: Sequence[PlanRow]) -> TrainedChanges:
        starts = {row.tensor: self._value(row, None).to(self._device) for row in rows}
        ranks = {}
        if self._plan.rank is not None:
            ranks = {row.tensor: rank_of(row.tensor_shape) for row in rows}
        return TrainedChanges(starts, ranks, parameters, seed=self._prepared.recipe.seed)

    def _trained(
        self, block: int, parameters: SharedParameters, changes: TrainedChanges
    ) -> Iterator[LearningProgress]:
        tasks = []
        for index, paths in enumerate(self._paths):
            seed = (self._prepared.recipe.seed, index, block)
            size = self._distil.batch
            tasks.append(BlockTask(self._model, block, paths, size=size, seed=seed))
        steps = self._distil.steps

        def checked() -> Mapping[str, float]:
            changes.write()
            return {task.name: task.distance() for task in tasks}

        def stepped(step: int) -> Seen:
            changes.write()
            parameters.forget_gradients()
            seen = descended(tasks, step, Kept(0))
            changes.pull()
            latest = loop.state.checks[max(loop.state.checks)]
            return replace(seen, figures=tuple(latest.values()))

        loop = CheckedLoop(
            changes.values,
            stepped,
            Schedule(steps=steps, learning_rate=self._plan.learning_rate),
            rates=rates(steps).__getitem__,
            check=checked,
            every=CHECKED_EVERY,
        )
        title = f"{TITLE}, block {block + 1} of {len(self._model.blocks)}"
        names = [paths.data.name for paths in self._paths]
        yield from trained(loop, self._folder, block, title=title, experts=names, curve=CURVE)


def _kept(file: Path, names: Sequence[str]) -> dict[str, Tensor] | None:
    """A block's trained tensors of an earlier run; None if they are not there, or unreadable."""
    if not is_there(file):
        return None
    try:
        kept = open_tensors(file)
        return {name: kept.read(name) for name in names}
    except (CheckpointError, KeyError) as error:
        warn_recomputed(file, error)
        return None
