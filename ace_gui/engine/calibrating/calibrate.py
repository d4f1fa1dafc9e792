"""Measures what a merge's methods need from the experts' data, and keeps it for later merges.

The data of an expert are the calibration inputs of its tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from ace_gui.checkpoints.input_files import state_of
from ace_gui.checkpoints.staging import claimed
from ace_gui.engine.calibrating.fisher_information import (
    FisherSums,
    fisher_groups,
    require_probabilities,
)
from ace_gui.engine.calibrating.model_parameters import (
    GramSums,
    float_tensors,
    gram_groups,
    linear_tensors,
)
from ace_gui.engine.calibrating.statistics_folder import (
    CalibratedWith,
    Statistics,
    StatisticsWriter,
    folder_to_write,
    found_statistics,
)
from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.evaluating.evaluate import known_tasks, require_own_names
from ace_gui.engine.evaluating.evaluators import Evaluator
from ace_gui.engine.evaluating.examples import read_calibration
from ace_gui.engine.evaluating.kinds import require_kind
from ace_gui.engine.evaluating.loaded_models import Loaded
from ace_gui.engine.evaluating.subjects import Loading, Models
from ace_gui.engine.evaluating.task_data import Picture, TaskData
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import require_calibration
from ace_gui.engine.streaming import Executor
from ace_gui.errors import ClusterError, WorkbenchError
from ace_gui.formatting import plain
from ace_gui.methods.shared.measured import Need
from ace_gui.paths import statistics_folder
from ace_gui.recipe import Recipe
from ace_gui.steps import Steps
from ace_gui.versions import code_digest, library_versions

EXAMPLES: Final = 256
"""Most inputs of each task, as in the papers."""

SEED: Final = 0
"""Seed for drawing inputs from those of a task with more than ``EXAMPLES``."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """For one expert: its tasks' inputs, and the source of its model for each."""

    name: str
    tasks: tuple[tuple[TaskData, Loading], ...]

    @property
    def examples(self) -> int:
        """The number of inputs."""
        return sum(len(data.examples) for data, _ in self.tasks)

    def files(self) -> set[Path]:
        """The files of the tasks' tables and of the pictures that they name."""
        files: set[Path] = set()
        for data, _ in self.tasks:
            files.update(data.table.files)
            for example in data.examples:
                pictures = (
                    value for value in example.inputs.values() if isinstance(value, Picture)
                )
                files.update(p.given for p in pictures if isinstance(p.given, Path))
        return files

    def inputs(self) -> tuple[CalibratedWith, ...]:
        """The inputs of each task, as a manifest names them."""
        inputs = []
        for data, _ in self.tasks:
            files = data.table.files
            task_inputs = CalibratedWith(
                task=data.name,
                data=tuple(map(str, files)),
                digest=files_digest(files),
                examples=len(data.examples),
            )
            inputs.append(task_inputs)
        return tuple(inputs)

    def terms(self) -> list[Any]:
        """Everything that the measurements depend on."""
        terms = []
        for data, loading in self.tasks:
            of_data = (repr(data.task), data.kind, sorted(data.columns.items()), data.content())
            states = [state_of(path) for path in loading.files]
            replaced = None
            if loading.replaced is not None:
                replaced = sorted(loading.replaced.names.items())
            terms.append((*of_data, states, sorted(loading.config.items()), replaced))
        return terms


def calibration(
    prepared: Prepared, t: int, *, labelled: bool = False, limit: int = EXAMPLES
) -> Calibration:
    """The calibration data of expert t, read and checked. ``limit``: most inputs of each task.

    Raises TaskError and CheckpointError.
    """
    models = Models(prepared.models, with_base=False)
    tasks = known_tasks(prepared.recipe)
    name = prepared.recipe.expert_names[t]
    require_own_names(tasks)
    subject = models.subjects()[t]
    chosen = []
    for task in tasks:
        if models.owner(task) == t and task.calibration is not None:
            config = models.reference(task)
            data = read_calibration(task, config, limit=limit, seed=SEED, labelled=labelled)
            loading = models.loading(subject, task)
            require_kind(loading, data, subject)
            chosen.append((data, loading))
    return Calibration(name=name, tasks=tuple(chosen))


def calibration_files(prepared: Prepared) -> set[Path]:
    """The files with the inputs of all experts; empty if the merge needs none.

    Raises the errors of ``calibration``.
    """
    files: set[Path] = set()
    if prepared.needs or prepared.recipe.distil:
        for t in range(len(prepared.experts)):
            files |= calibration(prepared, t).files()
    return files


def digest(texts: Iterable[str]) -> str:
    """SHA-256 of several texts in order."""
    hasher = hashlib.sha256()
    for text in texts:
        hasher.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return hasher.hexdigest()


def files_digest(paths: Sequence[Path]) -> str:
    """SHA-256 of the contents of several files in order. Raises OSError."""
    hasher = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                hasher.update(block)
    return hasher.hexdigest()


_TITLES: Final = {
    Need.INPUTS: "measuring the inputs of {}",
    Need.GRADIENTS: "measuring the gradients of {}",
}
_CODE: Final = ("engine/calibrating", "engine/evaluating", "architecture", "checkpoints", "linalg")


def calibrated(
    prepared: Prepared, device: torch.device, workers: Executor | None = None
) -> Iterator[PassProgress | None]:
    """Measure what the methods of the plan need from the experts' data, unless it is known already.

    Adds to ``Groundwork.measurements``. An interrupted run is continued. ``workers``: each takes
    one expert after another; None: this process measures all. Raises TaskError if an expert has no
    calibration inputs, and the errors of reading data, loading models and writing.
    """
    for need in prepared.needs:
        if not need.learned and need not in prepared.groundwork.measurements:
            yield from measure(prepared, need, device, workers)


def measure(
    prepared: Prepared, need: Need, device: torch.device, workers: Executor | None = None
) -> Iterator[PassProgress | None]:
    """Measure every expert; arguments as for ``calibrated``."""
    require_calibration(prepared.recipe, prepared.needs.get(need, "This"))
    sources = [calibration(prepared, t) for t in range(len(prepared.experts))]
    for source in sources if need is Need.GRADIENTS else ():
        for data, _ in source.tasks:
            require_probabilities(data.kind, data.name)
    if workers is None:
        where = device
    else:
        where = torch.device(workers.device)
    measured = {}
    missing = {}
    for t, source in enumerate(sources):
        folder = statistics_folder() / _key(prepared, t, need, source, where)
        stored = found_statistics(folder)
        if stored:
            measured[t] = stored
        else:
            missing[t] = folder
    if workers is not None:
        names = [source.name for source in sources]
        measured |= yield from _measured_by(workers, prepared, need, missing, names)
    else:
        for t, folder in missing.items():
            index = folder_to_write(folder, prepared)
            measured[t] = yield from _measured(prepared, t, need, sources[t], index, where)
    prepared.groundwork.measurements[need] = tuple(measured[t] for t in range(len(sources)))


def _measured_by(
    workers: Executor,
    prepared: Prepared,
    need: Need,
    folders: Mapping[int, Path],
    names: Sequence[str],
) -> Generator[PassProgress | None, None, dict[int, Statistics]]:
    """Let workers measure the experts, each into its own folder.

    Raises the errors of ``calibrated``, and ClusterError.
    """
    folders = {t: folder_to_write(folder, prepared) for t, folder in folders.items()}
    recipe = prepared.recipe.absolute()
    about = [names[t] for t in folders]
    arguments = [(recipe, t, need, folder, workers.device) for t, folder in folders.items()]
    done = 0
    for result in workers.map_unordered(_measured_alone, arguments, about):
        if result is None:
            yield None
            continue
        done += 1
        title = _TITLES[need].format(plain(about[result[0]]))
        yield PassProgress(title=title, done=done, total=len(folders))
    measured = {t: stored for t, folder in folders.items() if (stored := found_statistics(folder))}
    for t, folder in folders.items():
        if t not in measured:
            raise ClusterError(
                f"{folder.parent}, where the workers keep what they measure, is not the same "
                "folder for them as here; give all machines one cache folder (XDG_CACHE_HOME).",
                path=folder,
            )
    return measured


def _measured_alone(recipe: Recipe, t: int, need: Need, folder: Path, device: str) -> None:
    """Measure one expert in this process."""
    prepared = prepare(recipe)
    source = calibration(prepared, t)
    for _ in _measured(prepared, t, need, source, folder, torch.device(device)):
        pass


def recall(prepared: Prepared, need: Need, device: torch.device) -> Steps[bool]:
    """Load earlier measurements of every expert; whether they exist. Measures nothing.

    Unreadable data count as not measured; ``measure`` raises the error.
    """
    if need in prepared.groundwork.measurements:
        return True
    statistics = []
    if prepared.recipe.without_calibration:
        return False
    for t in range(len(prepared.experts)):
        try:
            key = _key(prepared, t, need, calibration(prepared, t), device)
            stored = found_statistics(statistics_folder() / key)
        except WorkbenchError:
            return False
        if stored is None:
            return False
        statistics.append(stored)
        yield
    prepared.groundwork.measurements[need] = tuple(statistics)
    return True


def _key(prepared: Prepared, t: int, need: Need, source: Calibration, device: torch.device) -> str:
    """Digest of everything that the measurements of an expert depend on."""
    expert = prepared.experts[t]
    names = _names(prepared, t, need)
    terms = (
        need,
        source.terms(),
        [(name, expert.own_names[name], expert.shape(name)) for name in names],
        device.type,
        code_digest(*_CODE),
        *library_versions().values(),
    )
    return digest([json.dumps(terms, default=str)])[:40]


def _names(prepared: Prepared, t: int, need: Need) -> list[str]:
    if need is Need.INPUTS:
        names_of = linear_tensors
    else:
        names_of = float_tensors
    return names_of(prepared, t)


def _measured(
    prepared: Prepared, t: int, need: Need, source: Calibration, folder: Path, device: torch.device
) -> Generator[PassProgress, None, Statistics]:
    """Measure expert ``t`` into the folder, which is locked meanwhile."""
    loaded = Loaded(device)
    title = _TITLES[need].format(plain(source.name))
    tensors, groups = _groups(prepared, t, need, loaded.evaluator(*source.tasks[0]))
    progress = PassProgress(title=title, done=0, total=source.examples * len(groups))
    with claimed(folder):
        writer = StatisticsWriter(folder)
        for number, sums in enumerate(groups):
            if not writer.has(number, sums.names):
                for data, loading in source.tasks:
                    for count in sums.add(loaded.evaluator(data, loading)):
                        done = min(progress.done + count, source.examples * (number + 1))
                        progress = replace(progress, done=done)
                        yield progress
                writer.write(number, *sums.result())
            progress = replace(progress, done=source.examples * (number + 1))
            yield progress
        return writer.finish(
            need=need,
            expert=source.name,
            model=str(source.tasks[0][1].folder),
            inputs=source.inputs(),
            seed=SEED,
            tensors=tensors,
        )


def _groups(
    prepared: Prepared, t: int, need: Need, evaluator: Evaluator
) -> tuple[dict[str, str], Sequence[GramSums | FisherSums]]:
    """The stored name of each base tensor, and the groups of tensors measured together."""
    expert = prepared.experts[t]
    names = _names(prepared, t, need)
    if need is Need.GRADIENTS:
        return fisher_groups(evaluator, expert, names)
    traits = prepared.base.architecture.traits
    widths = {n: expert.shape(n)[-2 if traits[n].transposed else -1] for n in names}
    return gram_groups(evaluator, expert, widths)
