"""The evaluation: every model on every task, one model in memory at a time."""

from __future__ import annotations

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch

from ace_gui.checkpoints.input_files import status_of
from ace_gui.engine.array_cache import ArrayCache
from ace_gui.engine.contract.events import Evaluated, EvaluationProgress, Event
from ace_gui.engine.contract.scored.scores import TaskScore, normalised
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.answering import answered
from ace_gui.engine.evaluating.examples import read_task
from ace_gui.engine.evaluating.kinds.every_kind import KINDS, require_kind
from ace_gui.engine.evaluating.labels import head_labels
from ace_gui.engine.evaluating.loaded_models import Loaded, unchanged
from ace_gui.engine.evaluating.metrics import MetricResult
from ace_gui.engine.evaluating.subjects import (
    Loading,
    Models,
    Subject,
    experts_of,
    models_of,
)
from ace_gui.engine.evaluating.task_data import Half, TaskData
from ace_gui.engine.executor import Executor
from ace_gui.engine.planning.prepare import Prepared, prepare
from ace_gui.errors import TaskError
from ace_gui.paths import scores_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.tasks import Task
from ace_gui.steps import Steps, result_of
from ace_gui.versions import code_digest, library_versions

MERGED: Final = "merged"
"""Name of a merge among the models of its recipe."""

SEED: Final = 0
"""Seed for drawing examples if there is a limit: always the same ones."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One model on one task. ``owner``: the expert of the task; ``targets``: right answers."""

    subject: Subject
    data: TaskData
    loading: Loading
    targets: Sequence[Any]
    owner: int | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a trial. ``answers``: the model's, one per example.

    ``chat``: whether it was asked in its chat template; None: it is not asked in words.
    """

    measured: MetricResult
    answers: Sequence[Any]
    chat: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Answering:
    """A trial in progress. ``done``: number of examples; ``tokens_per_second``: generated."""

    done: int
    tokens_per_second: float = 0.0


def evaluate(
    models: Models,
    tasks: Sequence[Task],
    *,
    limit: int | None = None,
    device: str = "auto",
    half: Half | None = None,
    workers: Executor | None = None,
) -> Iterator[Event | None]:
    """Score the base and the folders on every task, and each expert on its own.

    A task without an expert is scored for all experts. All data are read and checked first. Results
    for unchanged files are not computed again. ``half``: use one half of the examples. ``workers``:
    the processes that run the models, several at the same time; None: this process. Closing the
    generator cancels.

    Raises TaskError, CheckpointError, MismatchError and ResourceError.
    """
    where = torch.device(workers.device) if workers else resolve_device(device)
    trials = yield from all_trials(models, tasks, limit, half)
    if workers is not None:
        if any(trial.loading.model is not None for trial in trials):
            raise TaskError("Models in memory are scored by this process; leave out the cluster.")
        share = Share.of(models, tasks, limit=limit, half=half, device=workers.device)
        yield from _answered_by(workers, share, trials, where)
    total = sum(len(trial.data.examples) for trial in trials)
    found: dict[tuple[Subject, str], TaskScore] = {}
    done = 0
    for trial, outcome in outcomes_of(trials, where):
        if isinstance(outcome, Outcome):
            score = _score(trial, outcome, found)
            found[trial.subject, trial.data.name] = score
            done += len(trial.data.examples)
            yield score
        else:
            yield progress_of(trial, outcome, done, total)
    order = models.subjects()
    by_model = sorted(found.items(), key=lambda item: order.index(item[0][0]))
    yield Evaluated(scores=tuple(score for _, score in by_model))


def known_scores(
    models: Models, tasks: Sequence[Task], *, device: str = "auto"
) -> Iterator[TaskScore | None]:
    """The scores that ``evaluate`` would not compute again; no model is asked.

    Raises what ``evaluate`` raises of data and of models that do not fit them.
    """
    where, cache = resolve_device(device), ArrayCache(scores_folder())
    trials = yield from all_trials(models, tasks, None)
    found: dict[tuple[Subject, str], TaskScore] = {}
    for trial in trials:
        known = _remembered(cache, _key(trial, where), trial)
        if known is not None:
            score = _score(trial, known, found)
            found[trial.subject, trial.data.name] = score
            yield score
        yield None


@dataclass(frozen=True, kw_only=True)
class Share:
    """Some trials of an evaluation, by their ``indices`` among all, for a new process.

    For the other fields see ``Models`` and ``evaluate``.
    """

    recipe: Recipe | None
    with_base: bool
    folders: tuple[Path, ...]
    names: tuple[str, ...]
    tasks: tuple[Task, ...]
    limit: int | None
    half: Half | None
    device: str
    indices: tuple[int, ...] = ()

    @classmethod
    def of(cls, models: Models, tasks: Sequence[Task], **how: Any) -> Self:
        """A share without trials; ``how``: limit, half and device."""
        return cls(
            recipe=None if models.prepared is None else models.prepared.plan.recipe.absolute(),
            with_base=models.with_base,
            folders=tuple(folder.absolute() for folder in models.folders),
            names=models.names,
            tasks=tuple(task.absolute() for task in tasks),
            **how,
        )

    def outcomes(self) -> list[Outcome]:
        """Run the trials in this process."""
        models = Models(
            prepared=None if self.recipe is None else prepare(self.recipe),
            with_base=self.with_base,
            folders=self.folders,
            names=self.names,
        )
        trials = result_of(all_trials(models, self.tasks, self.limit, self.half))
        wanted = [trials[index] for index in self.indices]
        found = outcomes_of(wanted, resolve_device(self.device))
        return [outcome for _, outcome in found if isinstance(outcome, Outcome)]


def _answered_by(
    workers: Executor, share: Share, trials: Sequence[Trial], device: torch.device
) -> Iterator[EvaluationProgress | None]:
    """Cache the unknown results of the trials, with each model on one worker."""
    cache = ArrayCache(scores_folder())
    unknown = [
        index
        for index, trial in enumerate(trials)
        if _remembered(cache, _key(trial, device), trial) is None
    ]
    together = [
        tuple(indices) for _, indices in groupby(unknown, lambda index: trials[index].subject)
    ]
    shares = [(replace(share, indices=indices),) for indices in together]
    about = [trials[indices[0]].subject.name for indices in together]
    done, total = 0, sum(len(trials[index].data.examples) for index in unknown)
    for result in workers.map_unordered(Share.outcomes, shares, about):
        if result is None:
            yield None
            continue
        indices, found = together[result[0]], result[1]
        for index, outcome in zip(indices, found, strict=True):
            trial = trials[index]
            _remember(cache, _key(trial, device), outcome)
            done += len(trial.data.examples)
            yield progress_of(trial, Answering(done=0), done, total)


def progress_of(trial: Trial, step: Answering, before: int, total: int) -> EvaluationProgress:
    """The progress of a trial. ``before``: examples of earlier trials."""
    return EvaluationProgress(
        model=trial.subject.name,
        task=trial.data.name,
        done=before + step.done,
        total=total,
        tokens_per_second=step.tokens_per_second,
    )


def require_tasks(
    prepared: Prepared,
    device: str,
    *,
    limit: int | None = None,
    half: Half | None = None,
    workers: Executor | None = None,
) -> Steps[None]:
    """Score the experts and cache the results, so that errors in tasks show before a merge."""
    models, tasks = experts_of(prepared, ()), known_tasks(prepared)
    for _ in evaluate(models, tasks, limit=limit, device=device, half=half, workers=workers):
        yield None


def merged_scores(
    prepared: Prepared,
    folder: Path,
    device: str,
    *,
    alone: bool = False,
    limit: int | None = None,
    half: Half | None = None,
) -> Steps[tuple[TaskScore, ...]]:
    """The scores of a merged model in a folder, named ``merged``, on the recipe's tasks.

    Includes those of base and experts; ``alone``: leaves them out, but still compares with the
    experts.
    """
    models = experts_of(prepared, (folder,)) if alone else models_of(prepared, (folder,))
    models, tasks = replace(models, names=(MERGED,)), known_tasks(prepared)
    scores: tuple[TaskScore, ...] = ()
    for event in evaluate(models, tasks, limit=limit, device=device, half=half):
        if isinstance(event, Evaluated):
            scores = event.scores
        yield None
    return tuple(each for each in scores if each.model == MERGED) if alone else scores


def known_tasks(prepared: Prepared) -> tuple[Task, ...]:
    """The recipe's tasks, except those of experts that were removed."""
    recipe = prepared.plan.recipe
    return tuple(each for each in recipe.tasks if each.expert in (None, *recipe.expert_names))


def task_names(tasks: Sequence[Task]) -> list[str]:
    """The names of tasks. Raises TaskError if two are equal."""
    names = [task.title for task in tasks]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TaskError(f"Two tasks are called {twice[0]!r}; give each a name.", key="tasks")
    return names


def trials_of(
    models: Models,
    task: Task,
    name: str,
    limit: int | None = None,
    half: Half | None = None,
) -> Steps[list[Trial]]:
    """The trials of all models and tasks, with data that are read and checked. Raises TaskError."""
    owner = models.owner(task, name)
    reference = models.reference(task, name)
    data = yield from read_task(task, name, reference, limit=limit, seed=SEED, half=half)
    trials = []
    for subject in models.subjects():
        if subject.expert is not None and owner not in (None, subject.expert):
            continue
        loading = models.loading(subject, task, name)
        require_kind(loading, data, subject)
        targets = KINDS[data.kind].targets(data, loading.config)
        trials.append(
            Trial(subject=subject, data=data, loading=loading, targets=targets, owner=owner)
        )
    return trials


def all_trials(
    models: Models, tasks: Sequence[Task], limit: int | None, half: Half | None = None
) -> Steps[list[Trial]]:
    """Each model on each of its tasks, all data read and checked; experts come first.

    Raises TaskError.
    """
    found: list[Trial] = []
    for task, name in zip(tasks, task_names(tasks), strict=True):
        found += yield from trials_of(models, task, name, limit, half)
        yield None
    return _experts_first(found)


def _experts_first(trials: Sequence[Trial]) -> list[Trial]:
    """Experts first, as other models are compared with them; then grouped by model."""
    order = list(dict.fromkeys(trial.subject.name for trial in trials))
    return sorted(trials, key=lambda t: (t.subject.expert is None, order.index(t.subject.name)))


def outcomes_of(
    trials: Sequence[Trial], device: torch.device
) -> Iterator[tuple[Trial, Outcome | Answering]]:
    """Yield each trial with its progress, and finally with its result.

    Cached results for unchanged files are reused.
    """
    cache = ArrayCache(scores_folder())
    loaded = Loaded(device)
    in_memory = {
        id(t.loading.model): t.loading.model for t in trials if t.loading.model is not None
    }
    gc.freeze()  # collecting a model then skips older objects
    try:
        with unchanged(list(in_memory.values())):
            for trial in trials:
                key = _key(trial, device)
                known = _remembered(cache, key, trial)
                if known is None:
                    known = yield from _computed(trial, loaded)
                _remember(cache, key, known)
                yield trial, known
    finally:
        gc.unfreeze()


def _computed(
    trial: Trial, loaded: Loaded
) -> Generator[tuple[Trial, Outcome | Answering], None, Outcome]:
    """Run the model of a trial; yields its progress, and returns its result."""
    one, answers = loaded.asker(trial.data, trial.loading), list[Any]()
    for step in answered(one):
        if isinstance(step, int):
            yield trial, Answering(done=step, tokens_per_second=one.tokens_per_second)
        else:
            answers = step
    return Outcome(measured=_measure(trial, answers), answers=answers, chat=one.chat)


def _measure(trial: Trial, answers: Sequence[Any]) -> MetricResult:
    names = trial.data.task.labels or head_labels(trial.loading.config)
    return KINDS[trial.data.kind].judge(trial.data, answers, trial.targets, names)


def _score(
    trial: Trial, outcome: Outcome, found: Mapping[tuple[Subject, str], TaskScore]
) -> TaskScore:
    measure, cut = outcome.measured, KINDS[trial.data.kind].cut(outcome.answers)
    name, metric = trial.data.name, trial.data.metric.value
    own = trial.owner is not None and trial.subject.expert == trial.owner
    score = TaskScore(
        model=trial.subject.name,
        task=name,
        metric=metric,
        score=measure.score,
        n=len(trial.data.examples),
        standard_error=measure.standard_error,
        own=own,
        each_N=measure.each_N,
        chat=outcome.chat,
        cut=cut.examples,
        cut_words=cut.words,
    )
    owners = (each for each in found.values() if each.own and each.task == name)
    best = score if own else next(owners, None)
    if trial.owner is None or best is None:
        return score
    share = normalised(metric, score.score, best.score, best.standard_error)
    return replace(score, normalised=share)


def _key(trial: Trial, device: torch.device) -> str:
    """Digest of everything that answers and their score depend on.

    Empty for a model in memory, which may change.
    """
    data, loading = trial.data, trial.loading
    if loading.model is not None:
        return ""
    own = None if loading.own is None else sorted(loading.own.names.items())
    terms = (
        repr(data.task),
        data.kind,
        data.metric,
        sorted(data.columns.items()),
        data.content(),
        sorted(loading.config.items()),
        own,
        None if loading.modules is None else loading.modules.expert,
        [_stamp(path) for path in loading.files],
        device.type,
        code_digest("engine", "architecture", "checkpoints"),
        *library_versions().values(),
    )
    return hashlib.sha256(json.dumps(terms, default=str).encode()).hexdigest()


def _stamp(path: Path) -> tuple[str, int, int]:
    status = status_of(path)
    return str(path), status.st_size, status.st_mtime_ns


def _remembered(cache: ArrayCache, key: str, trial: Trial) -> Outcome | None:
    """The cached answers; None also for an invalid entry."""
    if not key:
        return None
    entry, count = cache.get(key), len(trial.data.examples)
    if entry is None or {"figures", "each", "answers"} - entry.keys():
        return None
    figures, each_N = entry["figures"], entry["each"]
    try:
        kept = json.loads(entry["answers"].tobytes())
        answers, chat = kept["answers"], kept["chat"]
    except (ValueError, TypeError, KeyError):
        return None
    if len(answers) != count or figures.shape != (2,) or each_N.shape != (count,):
        return None
    score, error = figures.astype(float).tolist()
    result = MetricResult(score=score, standard_error=error, each_N=each_N.astype(float))
    answers = [tuple(each) if isinstance(each, list) else each for each in answers]
    return Outcome(measured=result, answers=answers, chat=chat)


def _remember(cache: ArrayCache, key: str, outcome: Outcome) -> None:
    """Cache an outcome; answers as text in JSON, which keeps every digit of a number."""
    if not key:
        return
    found = outcome.measured
    figures = np.array([found.score, found.standard_error])
    kept = json.dumps({"answers": outcome.answers, "chat": outcome.chat}).encode()
    cache.put(
        key, {"figures": figures, "each": found.each_N, "answers": np.frombuffer(kept, np.uint8)}
    )
