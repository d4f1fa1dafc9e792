"""Searches parameters by scores on one half of the tasks' data, and reports scores on the other.

A single parameter is searched on a grid, several with Optuna's sampler (TPE: J. Bergstra et al.,
Algorithms for Hyper-Parameter Optimization, NeurIPS 2011).
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ace_gui.checkpoints.staging import discard
from ace_gui.engine.contract.scored import (
    LESS_IS_BETTER,
    ParameterRange,
    TaskScore,
    Tuned,
    TunePoint,
    means,
    usual_merges,
)
from ace_gui.engine.evaluating.evaluate import known_tasks, merged_scores, require_tasks
from ace_gui.engine.evaluating.task_data import Half
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.overridden_rows import spelled_out
from ace_gui.engine.planning.prepare import OpenedModels, preparing
from ace_gui.engine.planning.requirements import require_room
from ace_gui.engine.streaming import Executor
from ace_gui.errors import RecipeError, ResourceError, TaskError, WorkbenchError
from ace_gui.methods import checked_parameters, get_method, parameter_fields
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue, limited
from ace_gui.steps import Steps, result_of

SEED: Final = 0
_DIGITS: Final = 4  # of a score, in comparisons

_Parameters = Mapping[str, ParameterValue]
_Ask = Generator[Sequence[_Parameters], Sequence[float | None], None]
"""Yields parameter values to try and receives their scores, None for a failure.

Several may be requested at once if they are independent.
"""

_Chosen = Sequence[tuple[ParameterRange, Any]]
"""Ranges with the fields of their parameters."""

STARTUP: Final = 10
"""Trials that Optuna's sampler draws at random."""


def tune(
    recipe: Recipe,
    ranges: Sequence[ParameterRange],
    *,
    merges: int | None = None,
    limit: int | None = None,
    device: str = "auto",
    workers: Executor | None = None,
) -> Iterator[TunePoint | Tuned | None]:
    """Merge with different values of these parameters and score each merge; no merge is kept.

    Yields a TunePoint for each, then Tuned. ``merges``: number of trials. ``limit``: most examples
    of each task, both halves together. ``workers``: the processes that run trials, as many at the
    same time as are independent; None: this process. Raises RecipeError for parameters out of
    range, TaskError for bad data before the first merge, and the first error if every merge fails.
    """
    started = time.monotonic()
    chosen = _checked(recipe, ranges)
    scored = replace(recipe, tasks=limited(recipe.tasks, limit))
    opened: OpenedModels = []
    prepared = yield from preparing(scored, opened)
    if not known_tasks(prepared.recipe):
        raise TaskError("There are no tasks to tune on; add some to the recipe.", key="tasks")
    for half in Half:
        yield from require_tasks(prepared, device, half=half, workers=workers)
    where = workers.device if workers else device
    portable = scored.absolute() if workers else scored
    points = yield from _searched(where, portable, chosen, merges, workers, opened)
    best = best_point(points, recipe, chosen)
    recipes_scored = (_with(portable, best.parameters), portable)
    proposals = [(where, recipe_scored, Half.REPORTED) for recipe_scored in recipes_scored]
    scores: dict[int, tuple[TaskScore, ...]] = {}
    for result in _in_turn(_scores, proposals, workers, opened):
        scores.update([result] if result else [])
        yield None
    yield Tuned(
        points=tuple(points),
        best=best,
        scores=scores[0],
        before=scores[1],
        seconds=time.monotonic() - started,
        recipe=spelled_out(
            _with(recipe, best.parameters), prepared.plan.parameters, prepared.plan.rows
        ),
    )


def _searched(
    device: str,
    recipe: Recipe,
    chosen: _Chosen,
    merges: int | None,
    workers: Executor | None,
    opened: OpenedModels,
) -> Generator[TunePoint | None, None, list[TunePoint]]:
    """Yield and return the result of each trial."""
    count = merges or usual_merges(len(chosen))
    start = _own_values(recipe, chosen)
    if len(chosen) == 1:
        asking = _grid(*chosen[0], count, start)
    else:
        asking = _proposed(chosen, count, start)
    points: list[TunePoint] = []
    scores: list[float | None] | None = None
    while True:
        try:
            if scores is None:
                batch = next(asking)
            else:
                batch = asking.send(scores)
        except StopIteration:
            return points
        arguments = []
        for index, parameters in enumerate(batch, len(points)):
            arguments.append((device, _with(recipe, parameters), parameters, index, count))
        finished: list[TunePoint] = []
        for result in _in_turn(_point, arguments, workers, opened):
            if result is not None:
                finished.append(result[1])
                yield result[1]
            yield None
        points += sorted(finished, key=lambda point: point.index)
        scores = [point.score for point in points[-len(batch) :]]


def _with(recipe: Recipe, parameters: _Parameters) -> Recipe:
    return replace(recipe, parameters={**recipe.parameters, **parameters})


def _in_turn(
    work: Callable[..., Steps[Any]],
    arguments: Sequence[tuple[Any, ...]],
    workers: Executor | None,
    opened: OpenedModels,
) -> Iterator[tuple[int, Any] | None]:
    """Yield each result with its index when it is ready; None: a pause.

    ``opened``: the models that this process has opened; workers open their own.
    """
    if workers is not None:
        calls = [(work, *argument) for argument in arguments]
        yield from workers.map_unordered(_finished, calls, ["a merge to tune"] * len(arguments))
        return
    for index, argument in enumerate(arguments):
        result = yield from work(*argument, opened)
        yield index, result


def _finished(work: Callable[..., Steps[Any]], *arguments: Any) -> Any:
    return result_of(work(*arguments))


def _point(
    device: str,
    recipe: Recipe,
    parameters: _Parameters,
    index: int,
    count: int,
    opened: OpenedModels | None = None,
) -> Steps[TunePoint]:
    """The result of these values on the half used for the search."""
    started = time.monotonic()
    score = None
    error = ""
    try:
        score = objective((yield from _scores(device, recipe, Half.SEARCHED, opened)))
    except WorkbenchError as problem:
        error = problem.sentence
    return TunePoint(
        parameters=parameters,
        index=index,
        of=count,
        score=score,
        seconds=time.monotonic() - started,
        error=error,
    )


def _scores(
    device: str, recipe: Recipe, half: Half, opened: OpenedModels | None = None
) -> Steps[tuple[TaskScore, ...]]:
    """Merge into a temporary folder; the merge's scores on one half of the data."""
    prepared = yield from preparing(recipe, opened)
    with tempfile.TemporaryDirectory(prefix="ace-tune-") as folder:
        store = Path(folder) / "store"
        require_room(prepared.plan, device, store)
        for _ in merge(prepared, store, device=device):
            yield None
        scores = yield from merged_scores(prepared, store / MODEL, device, alone=True, half=half)
        discard(store)
    return scores


def objective(scores: Sequence[TaskScore]) -> float:
    """The value to maximise: the mean share of the experts' scores if every task has an expert.

    Otherwise it is the mean score, or its negative if less is better in all tasks. Raises TaskError
    if the tasks cannot be combined, or if a score is undefined or infinite; such a merge is never
    chosen.
    """
    (mean,) = means(scores)
    if mean.undefined:
        raise TaskError(mean.remarks[0], key="tasks")
    if mean.normalised is not None:
        return mean.normalised
    if mean.score is None:
        raise TaskError(
            "Scores cannot be averaged if more is better for some and less for others; name the "
            "expert of each task.",
            key="tasks",
        )
    if scores[0].metric in LESS_IS_BETTER:
        return -mean.score
    return mean.score


def _checked(recipe: Recipe, ranges: Sequence[ParameterRange]) -> list[tuple[ParameterRange, Any]]:
    """The ranges with the fields of their parameters. Raises RecipeError."""
    method = get_method(recipe.merge_method)
    fields = {field.name: field for field in parameter_fields(method)}
    counts = Counter(parameter.name for parameter in ranges)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise RecipeError(f"`{twice[0]}` is to be tuned twice; give it one range.", key=twice[0])
    for parameter in ranges:
        for value in (parameter.low, parameter.high):
            if parameter.name in fields:
                kind = fields[parameter.name].kind
            else:
                kind = "float"
            checked = int(value) if kind == "int" and float(value).is_integer() else value
            checked_parameters(method, {**recipe.parameters, parameter.name: checked})
    return [(parameter, fields[parameter.name]) for parameter in ranges]


def _own_values(recipe: Recipe, chosen: _Chosen) -> dict[str, Any]:
    """The recipe's current values if they lie in the ranges; they are tried too."""
    values = {}
    for parameter, field in chosen:
        value = recipe.parameters.get(parameter.name, field.default)
        if isinstance(value, int | float) and parameter.low <= value <= parameter.high:
            values[parameter.name] = value
    return values


def _grid(parameter: ParameterRange, field: Any, count: int, start: Mapping[str, Any]) -> _Ask:
    """The grid; the recipe's own value replaces the nearest value between the ends."""
    spaced: Callable[..., Any] = np.linspace
    if parameter.is_logarithmic(declared=field.logarithmic):
        spaced = np.geomspace
    values = [float(f"{value:.6g}") for value in spaced(parameter.low, parameter.high, count)]
    for value in map(float, start.values()):
        if value not in values and count > 2:
            values[min(range(1, count - 1), key=lambda n: abs(values[n] - value))] = value
    points: Sequence[float] = values
    if field.kind == "int":
        points = list(map(round, values))
    yield [{parameter.name: point} for point in dict.fromkeys(points)]


def _proposed(chosen: _Chosen, count: int, start: _Parameters) -> _Ask:
    try:
        optuna: Any = importlib.import_module("optuna")
    except ImportError:
        raise ResourceError(
            "Several parameters at once need the Python package optuna; install it, or tune one "
            "after the other."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=SEED, n_startup_trials=STARTUP)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    if len(start) == len(chosen):
        study.enqueue_trial(dict(start))
    failed = optuna.trial.TrialState.FAIL
    proposed = 0
    while proposed < count:
        trials = [study.ask() for _ in range(1 if proposed else min(count, STARTUP))]
        proposed += len(trials)
        points = []
        for trial in trials:
            points.append(
                {parameter.name: _suggested(trial, parameter, field) for parameter, field in chosen}
            )
        scores = yield points
        for trial, score in zip(trials, scores, strict=True):
            study.tell(trial, score) if score is not None else study.tell(trial, state=failed)


def _suggested(trial: Any, parameter: ParameterRange, field: Any) -> ParameterValue:
    log = parameter.is_logarithmic(declared=field.logarithmic)
    if field.kind == "int":
        number: int = trial.suggest_int(
            parameter.name, int(parameter.low), int(parameter.high), log=log
        )
        return number
    value: float = trial.suggest_float(parameter.name, parameter.low, parameter.high, log=log)
    return float(f"{value:.6g}")


def best_point(points: Sequence[TunePoint], recipe: Recipe, chosen: _Chosen) -> TunePoint:
    """The point with the highest score; among equals, the one that changes the recipe least.

    Scores are equal if they differ by less than is shown.
    """
    start = _own_values(recipe, chosen)

    def change(point: TunePoint) -> float:
        total = 0.0
        for parameter, _ in chosen:
            width = parameter.high - parameter.low
            if parameter.name in start and width > 0:
                value = float(point.parameters[parameter.name])
                total += abs(value - float(start[parameter.name])) / width
        return total

    scored = [point for point in points if point.score is not None]
    if not scored:
        raise TaskError(f"No merge could be made: {points[0].error}")
    return max(scored, key=lambda point: (round(point.score or 0.0, _DIGITS), -change(point)))
