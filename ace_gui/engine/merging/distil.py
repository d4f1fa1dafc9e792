"""Aligns a finished merge with the answers of its own experts (the recipe's ``distil``).

The experts answer inputs of their tasks; a few of the merge's tensors are trained until the merge
answers nearly the same. No labels are used.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from ace_gui.checkpoints.header import torch_dtype
from ace_gui.engine.adapting.expert_answers import (
    AlignedTask,
    ExpertAnswer,
    answers_of,
)
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.adapting.task_models import repeatable, share_body
from ace_gui.engine.adapting.trained_changes import TrainedChanges
from ace_gui.engine.adapting.training import trained
from ace_gui.engine.adapting.training_loop import TrainingState
from ace_gui.engine.calibrating.calibrate import Calibration, digest
from ace_gui.engine.contract.distilled import Distilled, TaskDivergence
from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.evaluators import Evaluator
from ace_gui.engine.evaluating.kinds import evaluator
from ace_gui.engine.evaluating.loaded_models import Loaded, load
from ace_gui.engine.evaluating.subjects import Loading, Models
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.kept_files import is_there, keep_tensors, open_tensors, warn_recomputed
from ace_gui.engine.merging.alignment_inputs import (
    ASKING,
    Parts,
    alignment_sources,
    distinctions_by,
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
from ace_gui.engine.merging.distil_blocks import FOLDER, BlockAlignment, trained_files
from ace_gui.engine.merging.passing_blocks import require_blocks
from ace_gui.engine.merging.store import MergeStore
from ace_gui.engine.merging.tensor_merge import rounded
from ace_gui.engine.planning.alignment_checks import AlignmentWay, way_of_alignment
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.trained_tensors import (
    TrainedTensors,
    copies_of,
    learning_rate,
    trained_tensors,
)
from ace_gui.errors import CheckpointError
from ace_gui.recipe.distillation import Distillation, How

RESULT: Final = "distilled.safetensors"
"""The trained tensors in a store, with what their training gave."""

TRAINING: Final = "distilling"
"""The folder of unfinished training in a store."""

CURVE: Final = "divergence on inputs kept back"

_RESULT: Final = TypeAdapter(Distilled)

Progress = PassProgress | LearningProgress


def sources_key(sources: Sequence[Calibration]) -> str:
    """Digest of the inputs and of the models that answer them."""
    return digest([json.dumps([source.terms() for source in sources], default=str)])[:40]


@dataclass(frozen=True, kw_only=True)
class AlignmentPlan:
    """How a merge is aligned with its experts."""

    sources: Sequence[Calibration]
    """The inputs of every expert; none for a merge that is not aligned."""

    way: AlignmentWay
    """Whole or by block."""


def alignment_plan(prepared: Prepared, allowed: int | None) -> AlignmentPlan:
    """How the merge is aligned. ``allowed``: memory that may be used; None: what is free.

    Raises the errors of its inputs, and those of ``require_blocks`` for a merge that is aligned by
    block.
    """
    distil = prepared.recipe.distil
    sources = alignment_sources(prepared)
    if not distil or not sources:
        return AlignmentPlan(sources=(), way=AlignmentWay(how=How.WHOLE, whole_fits=True))
    way = way_of_alignment(prepared, allowed)
    if way.how is How.BLOCKS:
        require_blocks(prepared, sources)
    return AlignmentPlan(sources=sources, way=way)


def distilled(
    prepared: Prepared,
    store: MergeStore,
    plan: AlignmentPlan,
    distil: Distillation,
    device: torch.device,
) -> Generator[Progress, None, Distilled]:
    """Align the merge in a store, whose model is complete, and write what was trained.

    If the recipe leaves the choice, an interrupted run goes on as it began, whole or by block.
    Raises TaskError and MismatchError if a task's model cannot be trained, MethodError if training
    diverges, and the errors of loading and writing.
    """
    result = found_result(store.folder)
    if result is None:
        with repeatable(device):
            result, tensors = yield from _aligned(prepared, store, plan, distil, device)
        keep_tensors(store.folder / RESULT, tensors, json.dumps(asdict(result)))
    _write(prepared, store, result)
    yield news(done=result.steps, total=result.steps, curve=CURVE, warnings=result.warnings)
    return result


def _aligned(
    prepared: Prepared,
    store: MergeStore,
    plan: AlignmentPlan,
    distil: Distillation,
    device: torch.device,
) -> Generator[Progress, None, tuple[Distilled, Mapping[str, Tensor]]]:
    """What the training gave, and the trained tensors."""
    if _is_by_block(store, distil, plan.way.how):
        by_block = BlockAlignment(
            prepared, store, plan.sources, distil, device, compares=plan.way.whole_fits
        )
        yield from by_block.run()
        return by_block.result()
    whole = WholeAlignment(prepared, store, plan.sources, distil, device)
    yield from whole.run()
    return whole.result()


def _write(prepared: Prepared, store: MergeStore, distilled: Distilled) -> None:
    """Put the trained tensors in the place of the merged ones."""
    files = [store.folder / RESULT]
    if distilled.blocks and distilled.best_step:
        files = trained_files(store.folder)
    for tensors_saved in map(open_tensors, files):
        for name in tensors_saved.checkpoint.tensors:
            values = tensors_saved.read(name)
            for copy in copies_of(prepared, name):
                dtype = torch_dtype(store.manifest.dtypes[copy])
                store.replace(copy, rounded(values, dtype, copy))


def _is_by_block(store: MergeStore, distil: Distillation, how: How) -> bool:
    """Whether one block after another is trained."""
    if distil.how is How.AUTO and is_there(store.folder / FOLDER):
        return True
    if distil.how is How.AUTO and is_there(store.folder / TRAINING):
        return False
    return how is How.BLOCKS


def found_result(folder: Path) -> Distilled | None:
    """What the training of a store's merge gave; None if it is not finished, or unreadable."""
    path = folder / RESULT
    if not is_there(path):
        return None
    try:
        return _RESULT.validate_json(open_tensors(path).about)
    except (CheckpointError, ValidationError) as error:
        warn_recomputed(path, error)
        return None


class WholeAlignment:
    """One training: the experts answer, then the merge learns to answer like them."""

    def __init__(
        self,
        prepared: Prepared,
        store: MergeStore,
        sources: Sequence[Calibration],
        distil: Distillation,
        device: torch.device,
    ) -> None:
        self._prepared = prepared
        self._store = store
        self._sources = sources
        self._distil = distil
        self._device = device
        self._plan: TrainedTensors = trained_tensors(prepared, distil)
        self._learning_rate = learning_rate(distil, self._plan)
        self._merged = store.reader()
        self._parameters = SharedParameters(self._plan.names)
        self._answers: dict[str, list[ExpertAnswer]] = {}
        self._parts: dict[str, Parts] = {}
        self._distinctions: dict[tuple[str, str], float] = {}
        self._doubts: tuple[str, ...] = ()
        self._changes: TrainedChanges | None = None
        self._state: TrainingState | None = None

    def run(self) -> Iterator[Progress]:
        """Ask the experts, then train."""
        yield from self._asked()
        tasks_data = tasks_of(self._sources)
        self._doubts = warnings_about_inputs(self._prepared, tasks_data, self._distinctions)
        tasks = self._tasks(self._merged_models())
        seed = self._prepared.recipe.seed
        self._changes = changes_begun(
            self._plan, self._plan.rows, self._value, self._parameters, seed=seed
        )
        steps = self._distil.steps
        schedule = LearningSchedule(steps=steps, learning_rate=self._learning_rate)
        loop = alignment_loop(
            self._changes, self._parameters, tasks, schedule, lambda: self._divergences(tasks)
        )
        folder = self._store.folder / TRAINING
        yield news(done=0, total=steps, curve=CURVE, warnings=self._doubts)
        yield from trained(loop, folder, 0, title=TITLE, experts=self._names(), curve=CURVE)
        self._state = loop.state

    def result(self) -> tuple[Distilled, Mapping[str, Tensor]]:
        """What the training gave, and the trained tensors; none if no step was better."""
        assert self._changes is not None
        result = self._result()
        tensors: dict[str, Tensor] = {}
        if result.best_step:
            tensors = self._changes.finish()
        return result, tensors

    def _names(self) -> list[str]:
        return [data.name for data in tasks_of(self._sources)]

    def _all_tasks(self) -> list[tuple[TaskData, str]]:
        """Every task, with the name of its expert."""
        names = self._prepared.recipe.expert_names
        tasks = []
        for name, source in zip(names, self._sources, strict=True):
            tasks += [(data, name) for data, _ in source.tasks]
        return tasks

    def _asked(self) -> Iterator[PassProgress]:
        """Let every expert answer the inputs of its tasks."""
        loaded = Loaded(self._device)
        tasks = tasks_of(self._sources)
        for source in self._sources:
            for data, loading in source.tasks:
                expert = loaded.evaluator(data, loading)
                self._answers[data.name] = answers_of(expert, data.examples)
                seed = (self._prepared.recipe.seed, len(self._parts))
                self._parts[data.name] = parts_of(len(data.examples), seed)
                self._distinctions |= distinctions_by(expert, tasks)
                yield PassProgress(title=ASKING, done=len(self._answers), total=len(tasks))

    def _merged_models(self) -> list[Evaluator]:
        """The merged model on every task, with the same parameters where these are trained."""
        shapes = {row.tensor: row.tensor_shape for row in self._plan.rows}
        models = Models(self._prepared.models, (self._store.model,), with_base=False)
        merge = models.subjects()[-1]
        loaded: list[tuple[Loading, Any]] = []
        body: dict[str, Tensor] = {}
        evaluators = []
        for data in tasks_of(self._sources):
            loading = models.loading(merge, data.task)
            models_of_loading = [model for earlier, model in loaded if earlier == loading]
            if models_of_loading:
                model = models_of_loading[0]
            else:
                model = load(loading, self._device)
                # In this order: what is replaced must not stay in memory as a part of the body.
                self._parameters.adopt(model, self._prepared.base, shapes)
                share_body(model, body)
                loaded.append((loading, model))
            evaluators.append(evaluator(data, loading, model))
        return evaluators

    def _value(self, row: PlanRow) -> Tensor:
        """A tensor of the merge, float32."""
        return self._merged(row.tensor).float().to(self._device)

    def _tasks(self, models: Sequence[Evaluator]) -> list[AlignedTask]:
        tasks = []
        for index, model in enumerate(models):
            name = model.data.name
            expected = [self._answers[name][at] for at in self._parts[name].trained]
            seed = (self._prepared.recipe.seed, index)
            size = self._distil.batch
            tasks.append(AlignedTask(model, expected, size=size, seed=seed))
        return tasks

    def _divergences(self, tasks: Sequence[AlignedTask]) -> Mapping[str, float]:
        """The divergence of each task on its inputs kept back."""
        divergences = {}
        for task in tasks:
            back = self._parts[task.name].kept_back
            expected = [self._answers[task.name][index] for index in back]
            divergences[task.name] = task.divergence(expected)
        return divergences

    def _result(self) -> Distilled:
        state = self._state
        assert state is not None
        best = state.nearest[1]
        tasks = []
        for data, expert in self._all_tasks():
            parts = self._parts[data.name]
            tasks.append(
                TaskDivergence(
                    task=data.name,
                    expert=expert,
                    inputs=len(parts.trained),
                    kept_back=len(parts.kept_back),
                    before=state.checks[0][data.name],
                    after=state.checks[best][data.name],
                )
            )
        return Distilled(
            what=IN_WORDS[self._plan.train],
            tensors=len(self._plan.names),
            numbers=self._plan.numbers,
            learning_rate=self._learning_rate,
            steps=state.step,
            best_step=best,
            tasks=tuple(tasks),
            curve=state.checks,
            doubts=self._doubts,
        )
