"""The evaluation: every model on every task, one model in memory at a time."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from ace_gui.checkpoints.input_files import state_of
from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.contract.events import Evaluated, EvaluationProgress, Event
from ace_gui.engine.contract.scored import TaskScore, normalised
from ace_gui.engine.evaluating.examples import read_task
from ace_gui.engine.evaluating.kinds import KINDS, evaluator_class, require_kind
from ace_gui.engine.evaluating.loaded_models import (
    Loaded,
    answered,
    older_objects_frozen,
    unchanged,
)
from ace_gui.engine.evaluating.metrics import MetricResult
from ace_gui.engine.evaluating.subjects import Loading, Models, Subject
from ace_gui.engine.evaluating.task_data import Half, TaskData, head_labels
from ace_gui.engine.kept_files import ArrayCache
from ace_gui.engine.planning.opening import open_recipe_models
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Executor
from ace_gui.errors import TaskError
from ace_gui.paths import scores_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.task_kinds import Metric
from ace_gui.recipe.values import Task
from ace_gui.steps import Steps, result_of
from ace_gui.versions import code_digest, library_versions

MERGED: Final = "merged"
"""Name of a merge among the models of its recipe."""

SEED: Final = 0
"""Seed for drawing examples if there is a limit, so that they are always the same."""


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

    ``chat``: whether prompts were in its chat template; None: it gets no prompts.
    """

    measured: MetricResult
    answers: Sequence[Any]
    chat: bool | None = None


def evaluate(
    models: Models,
    tasks: Sequence[Task],
    *,
    device: str = "auto",
    half: Half | None = None,
    workers: Executor | None = None,
) -> Iterator[Event | None]:
    """Score the base and the folders on every task, and each expert on its own.

    A task without an expert is scored for all experts. All data are read and checked first. Results
    for unchanged files are not computed again. ``half``: use one half of the examples. ``workers``:
    the processes that run the models, several at the same time; None: this process. Closing the
    generator cancels. Raises TaskError, CheckpointError, MismatchError and ResourceError.
    """
    if workers:
        where = torch.device(workers.device)
    else:
        where = resolve_device(device)
    trials = yield from all_trials(models, tasks, half)
    if workers is not None:
        if any(trial.loading.model is not None for trial in trials):
            raise TaskError("Models in memory are scored by this process; leave out the cluster.")
        yield from _answered_by(workers, models, tasks, trials, half)
    scores: dict[tuple[Subject, str], TaskScore] = {}
    for event in outcomes_of(trials, where):
        yield event if isinstance(event, EvaluationProgress) else _scored(*event, scores)
    order = models.subjects()
    by_model = sorted(scores.items(), key=lambda item: order.index(item[0][0]))
    yield Evaluated(scores=tuple(score for _, score in by_model))


def known_scores(
    models: Models, tasks: Sequence[Task], *, device: str = "auto"
) -> Iterator[TaskScore | None]:
    """The scores that ``evaluate`` would not compute again; no model is run.

    Raises the errors of ``evaluate`` about data, and about models that do not fit them.
    """
    where = resolve_device(device)
    cache = ArrayCache(scores_folder())
    trials = yield from all_trials(models, tasks)
    scores: dict[tuple[Subject, str], TaskScore] = {}
    for trial in trials:
        stored = _remembered(cache, _key(trial, where), trial)
        if stored is not None:
            yield _scored(trial, stored, scores)
        yield None


def _answered_by(
    workers: Executor,
    models: Models,
    tasks: Sequence[Task],
    trials: Sequence[Trial],
    half: Half | None,
) -> Iterator[EvaluationProgress | None]:
    """Cache the unknown results of the trials, with each model on one worker."""
    cache = ArrayCache(scores_folder())
    device = torch.device(workers.device)
    unknown = []
    for index, trial in enumerate(trials):
        if _remembered(cache, _key(trial, device), trial) is None:
            unknown.append(index)
    groups = [list(group) for _, group in groupby(unknown, lambda index: trials[index].subject)]
    if models.opened is None:
        recipe = None
    else:
        recipe = models.opened.recipe.absolute()
    folders = tuple(folder.absolute() for folder in models.folders)
    models = replace(models, opened=None, folders=folders)
    absolute = [task.absolute() for task in tasks]
    run = partial(_run_trials, recipe, models, absolute, workers.device, half)
    about = [trials[indices[0]].subject.name for indices in groups]
    done = 0
    total = sum(len(trials[index].data.examples) for index in unknown)
    for result in workers.map_unordered(run, [(indices,) for indices in groups], about):
        if result is None:
            yield None
            continue
        for index, outcome in zip(groups[result[0]], result[1], strict=True):
            _remember(cache, _key(trials[index], device), outcome)
            done += len(trials[index].data.examples)
            yield progress_of(trials[index], done, total)


def _run_trials(
    recipe: Recipe | None,
    models: Models,
    tasks: Sequence[Task],
    device: str,
    half: Half | None,
    indices: Sequence[int],
) -> list[Outcome]:
    """Run some trials, by their indices among all, in a new process."""
    if recipe is None:
        opened = None
    else:
        opened = result_of(open_recipe_models(recipe))
    models = replace(models, opened=opened)
    trials = result_of(all_trials(models, tasks, half))
    events = outcomes_of([trials[index] for index in indices], resolve_device(device))
    return [event[1] for event in events if not isinstance(event, EvaluationProgress)]


def progress_of(
    trial: Trial, done: int, total: int, tokens_per_second: float = 0.0
) -> EvaluationProgress:
    """The progress of several trials, now at this one, by the number of examples."""
    return EvaluationProgress(
        model=trial.subject.name,
        task=trial.data.name,
        done=done,
        total=total,
        tokens_per_second=tokens_per_second,
    )


def check_tasks(prepared: Prepared) -> Steps[None]:
    """Read everything that the scores of base and experts need, except the models' weights.

    Raises TaskError without tasks, and for a task of an unknown expert or with unusable data; the
    errors of ``all_trials``, and those of tokenizers, image processors and chat templates.
    """
    if not prepared.recipe.tasks:
        raise TaskError("The recipe has no tasks to score; add some.", key="tasks")
    trials = yield from all_trials(Models(prepared.models), prepared.recipe.tasks)
    for trial in trials:
        evaluator_class(trial.data, trial.loading).preprocessor(trial.data, trial.loading)
        yield None


def require_tasks(
    prepared: Prepared,
    device: str,
    *,
    half: Half | None = None,
    workers: Executor | None = None,
    with_base: bool = False,
) -> Steps[None]:
    """Score the experts and cache the results, so that errors in tasks show before a merge.

    ``with_base``: the base too, for a merge that will be scored together with it.
    """
    models = Models(prepared.models, with_base=with_base)
    tasks = known_tasks(prepared.recipe)
    for _ in evaluate(models, tasks, device=device, half=half, workers=workers):
        yield None


def merged_scores(
    prepared: Prepared, folder: Path, device: str, *, alone: bool = False, half: Half | None = None
) -> Steps[tuple[TaskScore, ...]]:
    """The scores of a merged model in a folder, named ``merged``, on the recipe's tasks.

    Includes those of base and experts; ``alone``: leaves them out, but still compares with the
    experts.
    """
    models = Models(prepared.models, (folder,), (MERGED,), with_base=not alone)
    scores: tuple[TaskScore, ...] = ()
    for event in evaluate(models, known_tasks(prepared.recipe), device=device, half=half):
        if isinstance(event, Evaluated):
            scores = event.scores
        yield None
    if alone:
        return tuple(score for score in scores if score.model == MERGED)
    return scores


def known_tasks(recipe: Recipe | None) -> tuple[Task, ...]:
    """The recipe's tasks, except those of experts that were removed; none without a recipe."""
    if recipe is None:
        return ()
    return tuple(task for task in recipe.tasks if task.expert in (None, *recipe.expert_names))


def require_own_names(tasks: Sequence[Task]) -> None:
    """Raise TaskError if two tasks have the same name."""
    name, count = Counter(task.title for task in tasks).most_common(1)[0] if tasks else ("", 0)
    if count > 1:
        raise TaskError(f"Two tasks are called {name!r}; give each a name.", key="tasks")


def trials_of(models: Models, task: Task, half: Half | None = None) -> Steps[list[Trial]]:
    """The trials of all models and tasks, with data that are read and checked. Raises TaskError."""
    owner = models.owner(task)
    reference = models.reference(task)
    data = yield from read_task(task, reference, seed=SEED, half=half)
    trials = []
    for subject in models.subjects():
        if subject.expert is not None and owner not in (None, subject.expert):
            continue
        loading = models.loading(subject, task)
        require_kind(loading, data, subject)
        targets = KINDS[data.kind].targets(data, loading.config)
        trials.append(
            Trial(subject=subject, data=data, loading=loading, targets=targets, owner=owner)
        )
    return trials


def all_trials(
    models: Models, tasks: Sequence[Task], half: Half | None = None
) -> Steps[list[Trial]]:
    """The trials of all models on all their tasks, with all data read and checked.

    Experts come first, as other models are compared with them. Raises TaskError.
    """
    trials: list[Trial] = []
    require_own_names(tasks)
    for task in tasks:
        trials += yield from trials_of(models, task, half)
        yield None
    order = list(dict.fromkeys(trial.subject.name for trial in trials))
    return sorted(trials, key=lambda t: (t.subject.expert is None, order.index(t.subject.name)))


def outcomes_of(
    trials: Sequence[Trial], device: torch.device
) -> Iterator[EvaluationProgress | tuple[Trial, Outcome]]:
    """The progress, and each trial with its result. Cached results are reused."""
    cache = ArrayCache(scores_folder())
    loaded = Loaded(device)
    in_memory = {
        id(t.loading.model): t.loading.model for t in trials if t.loading.model is not None
    }
    done = 0
    total = sum(len(trial.data.examples) for trial in trials)
    with older_objects_frozen(), unchanged(list(in_memory.values())):
        for trial in trials:
            key = _key(trial, device)
            outcome = _remembered(cache, key, trial)
            if outcome is None:
                outcome = yield from _computed(trial, loaded, done, total)
            _remember(cache, key, outcome)
            yield trial, outcome
            done += len(trial.data.examples)


def _computed(
    trial: Trial, loaded: Loaded, before: int, total: int
) -> Generator[EvaluationProgress, None, Outcome]:
    """Run the model of a trial. ``before``: examples of earlier trials."""
    evaluator = loaded.evaluator(trial.data, trial.loading)
    answers = list[Any]()
    for step in answered(evaluator):
        if isinstance(step, int):
            yield progress_of(trial, before + step, total, evaluator.tokens_per_second)
        else:
            answers = step
    return Outcome(measured=_measure(trial, answers), answers=answers, chat=evaluator.chat)


def _measure(trial: Trial, answers: Sequence[Any]) -> MetricResult:
    names = trial.data.task.labels or head_labels(trial.loading.config)
    return KINDS[trial.data.kind].judge(trial.data, answers, trial.targets, names)


def _scored(
    trial: Trial, outcome: Outcome, scores: dict[tuple[Subject, str], TaskScore]
) -> TaskScore:
    """The score; it is added to ``scores``, in which experts come first."""
    measure = outcome.measured
    cut = KINDS[trial.data.kind].cut(outcome.answers)
    name = trial.data.name
    metric = trial.data.metric.value
    chance = None
    if trial.data.metric is Metric.ACCURACY:
        chance = KINDS[trial.data.kind].chance(trial.data, trial.loading.config)
    is_own = trial.owner is not None and trial.subject.expert == trial.owner
    score = TaskScore(
        model=trial.subject.name,
        task=name,
        metric=metric,
        score=measure.score,
        n=len(trial.data.examples),
        standard_error=measure.standard_error,
        own=is_own,
        each_N=measure.each_N,
        chat=outcome.chat,
        cut=cut.examples,
        cut_words=cut.words,
        chance=chance,
    )
    owners = (score for score in scores.values() if score.own and score.task == name)
    best = score if is_own else next(owners, None)
    if trial.owner is not None and best is not None:
        share = normalised(metric, score.score, best.score, best.standard_error)
        score = replace(score, normalised=share)
    scores[trial.subject, name] = score
    return score


def _key(trial: Trial, device: torch.device) -> str:
    """Digest of everything that answers and their score depend on.

    Empty for a model in memory, which may change.
    """
    data = trial.data
    loading = trial.loading
    if loading.model is not None:
        return ""
    if loading.replaced is None:
        own_names = None
    else:
        own_names = sorted(loading.replaced.names.items())
    terms = (
        repr(replace(data.task, limit=None)),
        data.kind,
        data.metric,
        sorted(data.columns.items()),
        data.content(),
        sorted(loading.config.items()),
        own_names,
        None if loading.modules is None else loading.modules.expert,
        [state_of(path) for path in loading.files],
        device.type,
        code_digest("engine", "architecture", "checkpoints"),
        *library_versions().values(),
    )
    return hashlib.sha256(json.dumps(terms, default=str).encode()).hexdigest()


def _remembered(cache: ArrayCache, key: str, trial: Trial) -> Outcome | None:
    """The cached outcome; None also for an invalid entry."""
    if key:
        entry = cache.get(key)
    else:
        entry = None
    count = len(trial.data.examples)
    try:
        if entry:
            record = json.loads(entry["outcome"].tobytes())
        else:
            record = {}
        each_N = np.array(record["each"], dtype=float)
        answers = []
        for answer in record["answers"]:
            if isinstance(answer, list):
                answers.append(tuple(answer))
            else:
                answers.append(answer)
        result = MetricResult(score=record["score"], standard_error=record["error"], each_N=each_N)
        outcome = Outcome(measured=result, answers=answers, chat=record["chat"])
    except (ValueError, TypeError, KeyError):
        return None
    if len(answers) == count and each_N.shape == (count,):
        return outcome
    return None


def _remember(cache: ArrayCache, key: str, outcome: Outcome) -> None:
    """Cache an outcome as JSON, which keeps every digit of a number."""
    if not key:
        return
    result = outcome.measured
    record = {
        "score": result.score,
        "error": result.standard_error,
        "each": result.each_N.tolist(),
        "answers": outcome.answers,
        "chat": outcome.chat,
    }
    cache.put(key, {"outcome": np.frombuffer(json.dumps(record).encode(), np.uint8)})
