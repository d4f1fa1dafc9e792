"""The library: the package's functions for Python programs, without a window.

Every function takes a recipe as the path of a recipe file, as a mapping with the same keys, or as a
``Recipe``. ``progress`` is called with each of the engine's events. Errors are those of
``ace_gui.errors``.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ace_gui.engine import workflow
from ace_gui.engine.cluster.ray_cluster import workers_at
from ace_gui.engine.contract.checks import Check
from ace_gui.engine.contract.events import (
    Evaluated,
    Event,
    Exported,
    MergeFinished,
    MethodCompared,
    PlanReady,
)
from ace_gui.engine.contract.figures.covariance_match import CovarianceMatch, CovariancesCompared
from ace_gui.engine.contract.layers import Layer
from ace_gui.engine.contract.plan import Plan
from ace_gui.engine.contract.scored.routes import RoutesFound, TaskRoutes
from ace_gui.engine.contract.scored.scores import MeanScore, TaskScore, means
from ace_gui.engine.contract.scored.tuned import ParameterRange, Tuned
from ace_gui.engine.devices import resolve_device, use_threads
from ace_gui.engine.evaluating.loaded_models import loaded_model
from ace_gui.engine.inspecting import compare_recipes, tune_parameters
from ace_gui.engine.inspecting.compare_covariances import as_ace_merges, compare_covariances
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError
from ace_gui.paths import inspections_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.new_recipes import recipe_for
from ace_gui.recipe.recipe_file import load_tasks, recipe_from, tasks_from
from ace_gui.recipe.tasks import Task
from ace_gui.recipe.values import ParameterValue

GivenRecipe = Path | str | Mapping[str, object] | Recipe
GivenTasks = Path | str | Sequence[Mapping[str, object] | Task]
GivenModels = Path | str | Mapping[str, Any] | Sequence[Any] | Any
Progress = Callable[[Event], object]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """``layers``: one per tensor, in the plan's order. ``checks``: worst first. ``covariances``:
    one per matrix and expert, if requested.
    """

    layers: tuple[Layer, ...]
    checks: tuple[Check, ...]
    plan: Plan
    covariances: tuple[CovarianceMatch, ...] = ()

    def to_frame(self) -> Any:
        """The layers as a pandas DataFrame; ImportError where pandas is not installed."""
        return _frame(self.layers)


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """``folder``: the output. ``seconds``: of merging. ``warnings``: about the merge as a whole;
    ``notes``: about the workers of a cluster."""

    folder: Path
    seconds: float
    warnings: tuple[str, ...]
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """``scores``: one a model and task, base first, then experts, then the folders."""

    scores: tuple[TaskScore, ...]

    @property
    def means(self) -> tuple[MeanScore, ...]:
        """The mean score and the mean share of the experts' of every model."""
        return means(self.scores)

    def to_frame(self) -> Any:
        """The scores as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([score.record() for score in self.scores])


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """``recipe``: with the chosen values, and with those that followed from the base model.

    ``result``: every merge that was tried, and the scores of the chosen one and of the recipe as
    it was on data that were not searched with.
    """

    recipe: Recipe
    result: Tuned


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """``rows``: one per merge, in the requested order. A failed merge has its reason in
    ``error``.
    """

    rows: tuple[MethodCompared, ...]

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame; ImportError where pandas is not installed."""
        import pandas as pd

        return pd.DataFrame([compare_recipes.compared_record(row) for row in self.rows])


def plan(recipe: GivenRecipe) -> Plan:
    """What a merge would do with every tensor, and why; reads headers and configs alone."""
    return prepare(recipe_from(recipe)).plan


def inspect(
    recipe: GivenRecipe,
    *,
    convert: bool = False,
    covariances: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
) -> Inspection:
    """The plan with γ, regime and energies of every tensor; reads every model once.

    ``convert``: convert PyTorch pickles among the models, once, into the cache. ``covariances``:
    also compare ACE's covariances with those of the inputs that the experts have with the
    `calibration` data of their tasks, which runs each expert once, on the ``device``.
    """
    given = recipe_from(recipe)
    found = workflow.inspect(given, convert=convert)
    matches: tuple[CovarianceMatch, ...] = ()
    if covariances:
        prepared, cache = prepare(as_ace_merges(given)), InspectionCache(inspections_folder())
        for event in compare_covariances(prepared, resolve_device(device), cache):
            if isinstance(event, CovariancesCompared) and event.layer is not None:
                matches += event.layer.matches
            if progress is not None and event is not None:
                progress(event)
    return Inspection(
        layers=found.layers,
        checks=found.checks,
        plan=found.prepared.plan,
        covariances=matches,
    )


def merge(
    recipe: GivenRecipe,
    out: Path | str,
    *,
    device: str = "auto",
    threads: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    memory_bytes: int | None = None,
    convert: bool = False,
    complete_heads: bool = False,
    evaluate: bool = False,
    cluster: str = "",
) -> MergeResult:
    """Merge into the new folder ``out``, which appears only when all of it is written.

    ``device``: auto, cpu or cuda:N. ``threads`` None: as torch chooses. ``resume``: go on with an
    unfinished merge of the same recipe. For the rest see ``workflow.Options``.
    """
    options = workflow.Options(
        device=device,
        threads=threads,
        memory_bytes=memory_bytes,
        resume=resume,
        convert=convert,
        complete_heads=complete_heads,
        evaluate=evaluate,
        cluster=cluster,
    )
    return _result(workflow.merge_to_folder(recipe_from(recipe), Path(out), options), progress)


def extract(
    base: Path | str,
    model: Path | str,
    out: Path | str,
    *,
    rank: int | None = None,
    energy: float | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    device: str = "auto",
    resume: bool = False,
    progress: Progress | None = None,
) -> MergeResult:
    """Write the change from ``base`` to ``model`` as an adapter in PEFT's format, into ``out``.

    ``rank``: of its factors (default 32); or ``energy``: the share of the squared norm of each
    change that they keep. ``include``, ``exclude``: patterns of tensors' names, with ``*``.

        ace_gui.extract("base", "fine-tune", "adapter", rank=16)
    """
    given = recipe_for(str(base), [str(model)], "task_arithmetic")
    events = workflow.extract_adapter(
        given.base_model,
        given.models[0].model,
        Path(out),
        workflow.Options(device=device, resume=resume),
        rank=rank,
        energy=energy,
        include=include,
        exclude=exclude,
    )
    return _result(events, progress)


def _result(events: Iterable[Event], progress: Progress | None) -> MergeResult:
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds, exported = 0.0, None
    for event in events:
        match event:
            case PlanReady(plan=planned):
                warnings = tuple(check.line for check in planned.checks if check.is_worry)
            case MergeFinished():
                warnings, seconds = (*event.warnings, *warnings), event.seconds
                notes = event.notes
            case Exported():
                exported = event
        if progress is not None:
            progress(event)
    assert exported is not None
    return MergeResult(
        folder=exported.folder,
        seconds=seconds,
        warnings=tuple(dict.fromkeys(warnings)),
        files=exported.files,
        notes=notes,
    )


def compare(
    recipe: GivenRecipe,
    *,
    methods: str | Sequence[str] = (),
    parameter: str | None = None,
    values: ParameterValue | Sequence[ParameterValue] = (),
    device: str = "auto",
    cluster: str = "",
    progress: Progress | None = None,
) -> Comparison:
    """Merge by each of ``methods``, or with each of ``values`` of one parameter, and measure each.

    ``cluster``: whose workers do so, as of ``merge``. Nothing that was merged is kept.
    """
    use_threads(None)
    recipes: tuple[Recipe, ...] = (recipe_from(recipe),)
    tried = _several(values) if isinstance(values, str | Sequence) else [values]
    if (parameter is None) != (not tried):
        missing = "values" if parameter else "parameter"
        raise RecipeError(f"`parameter` and `values` go together; name `{missing}`.", key=missing)
    if methods:
        recipes = compare_recipes.by_method(recipes[0], _several(methods))
    if parameter is not None:
        recipes = tuple(
            each for own in recipes for each in compare_recipes.by_value(own, parameter, tried)
        )
    rows = []
    with workers_at(cluster, device) as workers:
        for event in compare_recipes.compare_all(recipes, device, workers):
            if isinstance(event, MethodCompared):
                rows.append(event)
            if progress is not None:
                progress(event)
    return Comparison(rows=tuple(rows))


def evaluate(
    recipe: GivenRecipe | None,
    models: GivenModels = (),
    tasks: GivenTasks | None = None,
    *,
    limit: int | None = None,
    device: str = "auto",
    cluster: str = "",
    convert: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Score the recipe's base and experts, and more models, on tasks.

    ``recipe`` None: only ``models``: folders or transformers models in memory, in a mapping by the
    names that they have in the result. A model in memory is not changed; it stays on its device in
    its dtype, and its scores are not cached. Its tokenizer is that of the folder it was loaded
    from, or of the recipe. ``tasks``: a file, a mapping for each task as in such a file, or
    ``Task``s; None: the recipe's. The ``data`` of a mapping may be a pandas DataFrame or a
    ``datasets.Dataset``; ``name`` it then. ``limit``: maximum number of examples per task, drawn
    with a fixed seed. ``cluster``: workers for the models, as for ``merge``. Raises TaskError for
    unusable data or models, before any long work.
    """
    given = None if recipe is None else recipe_from(recipe)
    found = _models(models)
    scores: tuple[TaskScore, ...] = ()
    how: dict[str, Any] = {"names": list(found), "limit": limit, "device": device}
    with workers_at(cluster, device) as workers, tempfile.TemporaryDirectory() as folder:
        chosen = () if given is None else given.tasks
        chosen = chosen if tasks is None else _tasks(tasks, Path(folder))
        how |= {"convert": convert, "workers": workers}
        for event in workflow.score(given, list(found.values()), chosen, **how):
            if isinstance(event, Evaluated):
                scores = event.scores
            if progress is not None:
                progress(event)
    return Evaluation(scores=scores)


def tune(
    recipe: GivenRecipe,
    parameters: Mapping[str, tuple[float, float]],
    *,
    merges: int | None = None,
    limit: int | None = None,
    device: str = "auto",
    cluster: str = "",
    progress: Progress | None = None,
) -> Tuning:
    """Try values of the method's parameters, from low to high, on one half of the tasks' data.

    One parameter on a grid of 9 merges, several by Optuna in 25; ``merges``: another number. What
    is reported was measured on the other half. ``cluster``: whose workers try them. Nothing that
    was merged is kept.
    """
    use_threads(None)
    given = recipe_from(recipe)
    ranges = tuple(
        ParameterRange(name=name, low=low, high=high) for name, (low, high) in parameters.items()
    )
    result: Tuned | None = None
    how: dict[str, Any] = {"merges": merges, "limit": limit, "device": device}
    with workers_at(cluster, device) as workers:
        for event in tune_parameters.tune(given, ranges, workers=workers, **how):
            if isinstance(event, Tuned):
                result = event
            if progress is not None and event is not None:
                progress(event)
    assert result is not None
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
    """Which experts models with routers take for examples of each task, and what that costs.

    Arguments as of ``evaluate``; models without a router are left out.
    """
    given = None if recipe is None else recipe_from(recipe)
    chosen = (() if given is None else given.tasks) if tasks is None else _tasks(tasks)
    folders = [Path(model) for model in _several(models)]
    names = [str(model) for model in _several(models)]
    found: tuple[TaskRoutes, ...] = ()
    how: dict[str, Any] = {"names": names, "limit": limit, "device": device, "convert": convert}
    for event in workflow.routes(given, folders, chosen, **how):
        if isinstance(event, RoutesFound):
            found = event.routes
        if progress is not None:
            progress(event)
    return found


def load_model(folder: Path | str, *, task: str | None = None, device: str = "cpu") -> Any:
    """A merged model as a transformers model in evaluation mode, with its modules.

    ``task``: the expert whose task the model does. If the folder has that expert's head, it is
    loaded. Modules for a known task then give the expert's model. Routed modules process every
    example of a batch separately, so that no output depends on the rest of the batch. Float32 if
    memory allows. No code of the folder is run. Raises CheckpointError for an unusable folder or
    modules, ArchitectureError, OutputError for an unknown task, and MismatchError.
    """
    return loaded_model(Path(folder), task, device)


def _tasks(given: GivenTasks, tables: Path | None = None) -> tuple[Task, ...]:
    """``tables``: a folder for the data of tasks that are tables in memory."""
    if isinstance(given, str | Path):
        return load_tasks(Path(given))
    found = []
    for number, each in enumerate(given):
        if isinstance(each, Task):
            found.append(each)
            continue
        data: Any = each.get("data")
        if tables is not None and hasattr(data, "to_parquet"):
            path = tables / str(number) / "data.parquet"
            path.parent.mkdir()
            data.to_parquet(path)
            each = {**each, "data": path}
        found += tasks_from({"tasks": [each]})
    return tuple(found)


def _models(given: GivenModels) -> dict[str, Any]:
    """Folders, and models in memory, by name; the name of a folder is as it was given."""
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        several = [given] if hasattr(given, "state_dict") else _several(given)
        named = {}
        for each in several:
            name = str(each) if isinstance(each, str | Path) else type(each).__name__
            number = sum(known.partition(" ")[0] == name for known in named)
            named[f"{name} {number + 1}" if number else name] = each
    return {k: Path(each) if isinstance(each, str | Path) else each for k, each in named.items()}


def _several(given: str | Path | Sequence[Any]) -> list[Any]:
    """A single text or path counts as one item. As a sequence it would be split into characters."""
    return [given] if isinstance(given, str | Path) else list(given)


def _frame(items: Iterable[Layer]) -> Any:
    import pandas as pd

    return pd.DataFrame([dataclasses.asdict(item) for item in items])
