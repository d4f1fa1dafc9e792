"""Learns a method's values from the tasks' data once, and keeps them for later merges."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ace_gui.checkpoints.staging import claimed
from ace_gui.engine.adapting.expert_answers import AlignedTask, ExpertAnswer, answers_of
from ace_gui.engine.adapting.objectives import (
    BoundedCache,
    LearnedTask,
    TaskObjective,
    descended,
    expert_answers,
)
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.adapting.task_models import LoadedTaskModels, TaskModel, repeatable
from ace_gui.engine.adapting.training import CHECKPOINT, Curves, save_curves, saved_curves, trained
from ace_gui.engine.adapting.training_loop import (
    Loop,
    StepResults,
    collapse_warnings,
    sharpness_aware,
    window_steps,
)
from ace_gui.engine.calibrating.calibrate import EXAMPLES, SEED, Calibration, calibration, digest
from ace_gui.engine.calibrating.statistics_folder import (
    FACTORS,
    Statistics,
    StatisticsWriter,
    folder_to_write,
    found_statistics,
)
from ace_gui.engine.contract.events import LearningProgress, PassProgress
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.engine.merging.learn_by_block import LearningByBlock
from ace_gui.engine.merging.merge_manifest import layout_digest
from ace_gui.engine.merging.merged_values import LearnedRow, MergedValues, put_fixed
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.surveying import surveyed
from ace_gui.engine.planning.prepare import require_experts
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import cached_bytes, require_calibration
from ace_gui.engine.planning.trained_tensors import shared_rows
from ace_gui.errors import MethodError, RecipeError, TaskError
from ace_gui.formatting import plain
from ace_gui.methods import added_sources
from ace_gui.methods.shared.measured import Need
from ace_gui.paths import statistics_folder
from ace_gui.versions import COMPUTING, code_digest, library_versions


def is_learned(row: PlanRow, prepared: Prepared) -> bool:
    """Whether the recipe's method learns values for a row.

    Raises RecipeError if the row has another method of its own that would learn.
    """
    if not row.is_merged or not row.experts:
        return False
    method = prepared.method_of(row)
    if method.learning is None:
        return False
    if method is not prepared.method or prepared.parameters_of(row) != prepared.parameters:
        raise RecipeError(
            f"{method.title} learns over the whole model; make it the recipe's method, with the "
            f"same parameters for every tensor, not only for `{row.name}`.",
            key="overrides",
        )
    return True


Progress = Iterator[PassProgress | LearningProgress]

TITLE: Final = "learning with {}"


def learned(prepared: Prepared, device: torch.device) -> Progress:
    """Learn the values that the plan's methods need, unless they are known already.

    Adds to ``Groundwork.learned``. An interrupted run is continued. Raises TaskError if an
    expert has no data of the required kind, MismatchError if a model lacks tensors of the merged
    model, and the errors of reading data, loading models and writing.
    """
    for need in prepared.needs:
        if need.learned and need not in prepared.groundwork.learned:
            require_experts(prepared)
            yield from _learned(prepared, need, device)


def require_learned(prepared: Prepared, device: torch.device) -> None:
    """Use the values learned earlier. Raises MethodError if there are none."""
    for need, title in prepared.needs.items():
        if need.learned and need not in prepared.groundwork.learned:
            sources = _sources(prepared, need)
            for kind in dict.fromkeys((device.type, "cuda", "cpu")):
                statistics = found_statistics(_folder(prepared, need, sources, kind))
                if statistics is not None:
                    prepared.groundwork.learned[need] = (statistics,)
                    break
            else:
                raise MethodError(f"{title} learns from data first; merge, then inspect again.")


def _sources(prepared: Prepared, need: Need) -> list[Calibration]:
    """The data of every expert. Raises TaskError if there is none."""
    require_calibration(prepared.recipe, prepared.needs[need])
    limit = _most_inputs(prepared, need)
    sources = []
    for t in range(len(prepared.experts)):
        sources.append(calibration(prepared, t, labelled=need is Need.LOSS, limit=limit))
    return sources


def _most_inputs(prepared: Prepared, need: Need) -> int:
    """Most inputs of each task."""
    learning = prepared.method.learning
    if need is Need.LOSS:
        return int(prepared.parameters.batch)
    if learning is None or learning.inputs is None:
        return EXAMPLES
    return learning.inputs(prepared.parameters)


def _folder(
    prepared: Prepared, need: Need, sources: Sequence[Calibration], device_type: str
) -> Path:
    """The folder, named by a digest of everything the learned values depend on."""
    recipe = prepared.recipe
    terms = (
        need,
        prepared.method.name,
        repr(prepared.parameters),
        [source.terms() for source in sources],
        layout_digest(prepared),
        [(file.path, file.size, file.mtime_ns, file.ctime_ns) for file in prepared.files],
        repr([(row, prepared.weights_of(row)) for row in shared_rows(prepared)]),
        recipe.seed,
        device_type,
        code_digest(*COMPUTING),
        added_sources([prepared.method.name]),
        *library_versions().values(),
    )
    return statistics_folder() / digest([json.dumps(terms, default=str)])[:40]


def _learned(prepared: Prepared, need: Need, device: torch.device) -> Progress:
    sources = _sources(prepared, need)
    folder = _folder(prepared, need, sources, device.type)
    statistics = found_statistics(folder)
    if statistics is None:
        folder = folder_to_write(folder, prepared)
        with claimed(folder):
            readers = Readers(prepared)
            yield from (event for event in surveyed(readers) if event is not None)
            with repeatable(device):
                yield from _Work(need, sources, readers, folder, device).run()
        statistics = Statistics(folder)
    else:
        yield _finished_event(prepared, saved_curves(statistics.folder))
    prepared.groundwork.learned[need] = (statistics,)


def _finished_event(prepared: Prepared, curves: Curves) -> LearningProgress:
    """The event for finished learning, with the curves of all stages."""
    assert prepared.method.learning is not None
    steps = max(map(len, curves.figures.values()), default=0)
    return LearningProgress(
        title=TITLE.format(prepared.method.title),
        done=steps,
        total=steps,
        first=0,
        losses=curves.losses,
        figures=curves.figures,
        curve=prepared.method.learning.curve,
        warnings=curves.warnings,
    )


class _Work:
    """Loads the tasks' models, learns in one or more stages, and writes the learned values."""

    def __init__(
        self,
        need: Need,
        sources: Sequence[Calibration],
        readers: Readers,
        folder: Path,
        device: torch.device,
    ) -> None:
        prepared = readers.prepared
        self._prepared = prepared
        self._need = need
        self._sources = sources
        self._readers = readers
        self._folder = folder
        self._device = device
        learning = prepared.method.learning
        assert learning is not None
        self._learning = learning
        rows = shared_rows(prepared)
        self._rows = [row for row in rows if is_learned(row, prepared)]
        self._fixed = [row for row in rows if not is_learned(row, prepared)]
        self._shapes = {row.tensor: row.tensor_shape for row in rows}
        self._parameters = SharedParameters([row.tensor for row in self._rows])
        self._writer = StatisticsWriter(folder)
        self._expected: dict[str, list[Tensor]] = {}
        self._answers: dict[str, list[ExpertAnswer]] = {}
        self._names: list[str] = []
        before = saved_curves(folder)  # those of stages that an earlier run finished
        self._losses = dict(before.losses)
        self._figures = dict(before.figures)
        self._warnings = list(before.warnings)

    def run(self) -> Progress:
        """Run all remaining stages, and finish the folder."""
        if self._learning.by_block:
            yield from self._by_block()
        else:
            yield from self._stages()
        self._writer.finish(
            need=self._need,
            expert="",
            model=str(self._prepared.plan.recipe.base_model),
            inputs=tuple(chain.from_iterable(source.inputs() for source in self._sources)),
            seed=SEED,
            tensors={name: name for name in self._names},
        )
        (self._folder / CHECKPOINT).unlink(missing_ok=True)
        shutil.rmtree(self._folder / FACTORS, ignore_errors=True)
        yield _finished_event(self._prepared, self._curves())

    def _by_block(self) -> Progress:
        """Learn the values of one block after another."""
        title = TITLE.format(self._prepared.method.title)
        blocks = LearningByBlock(
            self._readers,
            self._sources,
            self._rows,
            self._folder,
            self._writer,
            self._device,
            title,
        )
        yield from blocks.run()
        self._names = blocks.names
        self._losses |= blocks.curves.losses
        self._figures |= blocks.curves.figures

    def _stages(self) -> Progress:
        models = self._models()
        for row in self._fixed:
            put_fixed(row, self._readers, self._parameters, self._device)
        self._cache = BoundedCache(cached_bytes(self._parameters.bytes))
        everyone = list(range(len(self._prepared.experts)))
        if self._learning.per_expert:
            stages = [[t] for t in everyone]
        else:
            stages = [everyone]
        for number, experts in enumerate(stages):
            yield from self._stage(number, experts, models)

    def _models(self) -> Sequence[TaskModel]:
        """The tasks' models; their parameters are replaced by the merged model's."""
        models = LoadedTaskModels(
            self._prepared, self._sources, self._shapes, self._parameters, self._device
        )
        for task in models.with_experts():
            if self._need is Need.ANSWERS:
                temperature = self._learning.temperature(self._prepared.parameters)
                with_states = bool(self._learning.hidden_weight(self._prepared.parameters))
                answers = answers_of(
                    task.evaluator(), task.data.examples, temperature, with_states=with_states
                )
                self._answers[task.data.name] = answers
            elif self._prepared.parameters.patience and KINDS[task.data.kind].has_entropy:
                self._expected[task.data.name] = expert_answers(task.evaluator())
        return models.loaded

    def _tasks(self, experts: Sequence[int], models: Sequence[TaskModel]) -> list[LearnedTask]:
        """The tasks of a stage, without those that have nothing to learn from."""
        parameters = self._prepared.parameters
        labelled = self._need is Need.LOSS
        objectives: list[LearnedTask] = []
        for index, task in enumerate(models):
            if task.expert not in experts:
                continue
            data = task.data
            seed = (self._prepared.plan.recipe.seed, index)
            if self._need is Need.ANSWERS:
                objectives.append(self._aligned_task(task, seed))
                continue
            if not labelled and not KINDS[data.kind].has_entropy:
                self._warn(
                    f"The answers of the task {plain(data.name)} have no probabilities, so it "
                    "was left out of learning."
                )
                continue
            targets = None
            if labelled:
                targets = KINDS[data.kind].targets(data, task.loading.config)
            objective = TaskObjective(
                task.evaluator(),
                targets,
                size=parameters.batch,
                seed=seed,
                expected=self._expected.get(data.name),
            )
            objectives.append(objective)
        if not objectives:
            raise TaskError(
                f"{self._prepared.method.title} needs tasks whose answers have probabilities, such "
                "as labels; choose another method.",
                key="kind",
            )
        return objectives

    def _aligned_task(self, task: TaskModel, seed: tuple[int, ...]) -> AlignedTask:
        """A task that learns from its expert's answers."""
        parameters = self._prepared.parameters
        return AlignedTask(
            task.evaluator(),
            self._answers[task.data.name],
            size=parameters.batch,
            seed=seed,
            hidden=self._learning.hidden_weight(parameters),
        )

    def _stage(self, number: int, experts: list[int], models: Sequence[TaskModel]) -> Progress:
        """Learn the values of some experts. Each stage is stored as one file."""
        learning = self._learning
        parameters = self._prepared.parameters
        merged = self._initial_values(experts)
        values = merged.all()
        names = [f"{name}/{number}" for name in values]
        self._names += names
        if self._writer.has(number, names):
            return
        merged.write(None)
        tasks = self._tasks(experts, models)  # some tasks need the initial merged model

        def objective(step: int) -> StepResults:
            figures = merged.write(step)
            self._parameters.forget_gradients()
            results = descended(tasks, step, self._cache)
            merged.set_gradients(step)
            return replace(results, figures=figures)

        compared = [len(self._expected[task.name]) for task in tasks if task.name in self._expected]
        window = window_steps(compared, parameters.batch)
        radius = learning.radius(parameters)
        if radius:
            minimised = sharpness_aware(objective, values, radius)
        else:
            minimised = objective
        loop = Loop(values, minimised, parameters, plain=learning.plain_descent, window=window)
        owners = [self._prepared.plan.recipe.expert_names[t] for t in experts]
        title = TITLE.format(self._prepared.method.title)
        if learning.per_expert:
            title += f", {plain(owners[0])}"
        yield from trained(
            loop, self._folder, number, title=title, experts=owners, curve=learning.curve
        )
        state = loop.state
        self._losses |= {task: tuple(losses) for task, losses in state.losses.items()}
        for index, name in enumerate(owners):
            self._figures[name] = tuple(figures[index] for figures in state.figures)
        for sentence in collapse_warnings(state):
            self._warn(sentence)
        save_curves(self._folder, self._curves())
        settled = [learning.stored_form(value) for value in values.values()]
        self._writer.write(number, dict(zip(names, settled, strict=True)), dict.fromkeys(names, 1))

    def _initial_values(self, experts: Sequence[int]) -> MergedValues:
        """The initial values of these experts."""
        learning = self._learning
        parameters = self._prepared.parameters
        total = len(self._prepared.experts)
        shared = {}
        if learning.shared is not None:
            for name, value in learning.shared(parameters, total).items():
                shared[name] = value.to(self._device)
        rows = []
        values = {}
        for plan_row in self._rows:
            indices = [index for index, t in enumerate(plan_row.experts) if t in experts]
            if not indices:
                continue
            row = LearnedRow(
                plan_row,
                self._readers,
                self._parameters,
                self._cache,
                self._folder,
                self._device,
                indices if learning.per_expert else None,
            )
            values_of_row = {}
            for name, value in learning.start(row.own_vectors, parameters, row.findings).items():
                values_of_row[name] = value.to(self._device, copy=True)
            values[row.name] = values_of_row
            row.close()
            rows.append(row)
        seed = self._prepared.plan.recipe.seed
        return MergedValues(learning, parameters, rows, values, shared, seed=seed)

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warnings:
            self._warnings.append(sentence)

    def _curves(self) -> Curves:
        return Curves(losses=self._losses, figures=self._figures, warnings=tuple(self._warnings))
