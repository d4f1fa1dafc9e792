"""Functions that run models on the data of tasks: scores, comparisons, tuning and routes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ace_gui.engine.capabilities import use_threads
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.contract.events import Evaluated, MethodCompared
from ace_gui.engine.contract.jobs import EvaluateJob, RoutesJob, TuneJob
from ace_gui.engine.contract.scored import ParameterRange, RoutesFound, TaskRoutes, Tuned
from ace_gui.engine.inspecting import compare_recipes
from ace_gui.engine.service import run
from ace_gui.errors import RecipeError
from ace_gui.library.arguments import (
    GivenModels,
    GivenRecipe,
    GivenTasks,
    as_list,
    models_by_name,
    recipe_or_none,
    tasks_of,
)
from ace_gui.library.progress import Progress, last_of, watched
from ace_gui.library_results import Comparison, Evaluation, Tuning
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import recipe_from
from ace_gui.recipe.values import ParameterValue, limited


def compare(
    recipe: GivenRecipe,
    *,
    methods: str | Sequence[str] = (),
    parameter: str | None = None,
    values: ParameterValue | Sequence[ParameterValue] = (),
    limit: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    cluster: str = "",
    progress: Progress | None = None,
) -> Comparison:
    """Merge by each of ``methods``, or with each of ``values`` of one parameter, and measure each.

    ``limit``: maximum number of examples per task. ``cluster``: workers for the merges, as for
    ``merge``. The merged models are not kept.

    >>> ace_gui.compare(recipe, methods=["linear", "ties"])
    <Comparison: 2 merges, 0 failed>
    """
    use_threads(threads)
    loaded = recipe_from(recipe)
    recipes: tuple[Recipe, ...] = (replace(loaded, tasks=limited(loaded.tasks, limit)),)
    tried = as_list(values) if isinstance(values, str | Sequence) else [values]
    if (parameter is None) != (not tried):
        missing = "values" if parameter else "parameter"
        raise RecipeError(f"`parameter` and `values` go together; name `{missing}`.", key=missing)
    if methods:
        recipes = compare_recipes.by_method(recipes[0], as_list(methods))
    if parameter is not None:
        by_value: list[Recipe] = []
        for single_recipe in recipes:
            by_value += compare_recipes.by_value(single_recipe, parameter, tried)
        recipes = tuple(by_value)
    rows = []
    with workers_at(cluster, device, threads) as workers:
        for event in watched(compare_recipes.compare_all(recipes, device, workers), progress):
            if isinstance(event, MethodCompared):
                rows.append(event)
    return Comparison(rows=tuple(rows))


def evaluate(
    recipe: GivenRecipe | None,
    models: GivenModels = (),
    tasks: GivenTasks | None = None,
    *,
    limit: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    cluster: str = "",
    convert: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Score the recipe's base and experts, and more models, on tasks.

    ``recipe`` None: score only ``models``. ``models``: folders or transformers models in memory; a
    mapping gives them names. A model in memory is not changed. It stays on its device in its dtype,
    and its scores are not cached. It needs the tokenizer of the folder it was loaded from, or of
    the recipe. ``tasks``: a file, a mapping for each task as in such a file, or ``Task``s; None:
    the recipe's. The ``data`` of a mapping may be a pandas DataFrame or a ``datasets.Dataset``; add
    a ``name`` then. ``limit``: maximum number of examples per task, drawn with a fixed seed.
    ``cluster``: workers for the models, as for ``merge``. Raises TaskError for unusable data or
    models, before any long work.

    >>> ace_gui.evaluate(sample, limit=4, device="cpu")
    <Evaluation: 6 models on 5 tasks>
    """
    by_name = models_by_name(models)
    loaded = recipe_or_none(recipe)
    use_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        job = EvaluateJob(
            recipe=loaded,
            folders=tuple(by_name.values()),
            names=tuple(by_name),
            tasks=tasks_of(loaded, tasks, Path(folder)),
            limit=limit,
            device=device,
            cluster=cluster,
            threads=threads,
        )
        return Evaluation(scores=last_of(run(job, convert=convert), Evaluated, progress).scores)


def tune(
    recipe: GivenRecipe,
    parameters: Mapping[str, tuple[float, float]],
    *,
    merges: int | None = None,
    limit: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    cluster: str = "",
    progress: Progress | None = None,
) -> Tuning:
    """Choose values of ``parameters``, within (low, high), on one half of the tasks' data.

    One parameter is tried on a grid of 9 merges, several by Optuna in 25; ``merges``: another
    number. The reported scores are those of the other half. ``limit``: maximum number of examples
    per task, for both halves together. ``cluster``: workers for the merges, which are not kept.

    >>> tuned = ace_gui.tune(sample, {"scaling": (0.5, 1.0)}, merges=2, limit=8)
    >>> sorted(tuned.result.best.parameters)
    ['scaling']
    """
    use_threads(threads)
    job = TuneJob(
        recipe=recipe_from(recipe),
        ranges=tuple(ParameterRange(name=n, low=a, high=b) for n, (a, b) in parameters.items()),
        merges=merges,
        limit=limit,
        device=device,
        cluster=cluster,
        threads=threads,
    )
    result = last_of(run(job), Tuned, progress)
    return Tuning(recipe=result.recipe, result=result)


def routes(
    recipe: GivenRecipe | None,
    models: Path | str | Sequence[Path | str],
    tasks: GivenTasks | None = None,
    *,
    limit: int | None = None,
    device: str = "auto",
    convert: bool = False,
    progress: Progress | None = None,
) -> tuple[TaskRoutes, ...]:
    """Measure which experts the routers of models choose for each task, and the time it takes.

    Arguments as for ``evaluate``; models without a router are left out.

    >>> ace_gui.routes(sample, [], limit=4)
    ()
    """
    loaded = recipe_or_none(recipe)
    folders = as_list(models)
    job = RoutesJob(
        recipe=loaded,
        folders=tuple(map(Path, folders)),
        names=tuple(map(str, folders)),
        tasks=tasks_of(loaded, tasks),
        limit=limit,
        device=device,
    )
    return last_of(run(job, convert=convert), RoutesFound, progress).routes
