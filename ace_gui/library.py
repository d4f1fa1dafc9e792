"""The library: the package's functions for Python programs, without a window.

Every function takes a recipe as the path of a recipe file, as a mapping with the same keys, or as a
``Recipe``. ``progress`` is called with each of the engine's events. Errors are those of
``ace_gui.errors``.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ace_gui.engine import workflow
from ace_gui.engine.capabilities import available_devices, method_info, use_threads
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.contract.contents import ModelContents
from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import (
    CovariancesCompared,
    DeviceInfo,
    Evaluated,
    Event,
    Exported,
    FigureMade,
    GgufWritten,
    MergeFinished,
    MethodCompared,
    MethodInfo,
    PlanReady,
    Reported,
)
from ace_gui.engine.contract.findings import CovarianceMatch, ModelDiff
from ace_gui.engine.contract.jobs import (
    CovariancesJob,
    EvaluateJob,
    FigureJob,
    GgufJob,
    RoutesJob,
    TuneJob,
)
from ace_gui.engine.contract.plan import Plan
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.contract.scored import (
    ParameterRange,
    RoutesFound,
    TaskRoutes,
    TaskScore,
    Tuned,
)
from ace_gui.engine.evaluating.loaded_models import loaded_model
from ace_gui.engine.in_memory import StateDict, merged_state_dicts
from ace_gui.engine.inspecting import compare_recipes
from ace_gui.engine.inspecting.model_contents import model_contents
from ace_gui.engine.inspecting.model_diff import diff_models
from ace_gui.engine.mixtures.building import mixture_to_folder, refuse_options
from ace_gui.engine.output.exporters import with_output_checks
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.service import run
from ace_gui.errors import RecipeError
from ace_gui.figures.charts import panel_kinds
from ace_gui.figures.printing import files_of
from ace_gui.figures.sheet import Sheet
from ace_gui.library_results import Comparison, Evaluation, Inspection, MergeResult, Tuning
from ace_gui.methods import METHODS
from ace_gui.recipe import Recipe
from ace_gui.recipe.distillation import distillation_of
from ace_gui.recipe.mixtures import MixtureRecipe
from ace_gui.recipe.new_recipes import recipe_for_extraction
from ace_gui.recipe.recipe_file import load_tasks, mixture_from, recipe_from, tasks_from
from ace_gui.recipe.values import ParameterValue, SanityCheck, Task, limited

GivenRecipe = Path | str | Mapping[str, object] | Recipe
GivenTasks = Path | str | Sequence[Mapping[str, object] | Task]
GivenModels = Path | str | Mapping[str, Any] | Sequence[Any] | Any
Progress = Callable[[Event], object]
Result = TypeVar("Result")


def plan(recipe: GivenRecipe) -> Plan:
    """Plan what a merge does with every tensor, and why. Reads only headers and configs.

    >>> [(row.name, row.disposition.value) for row in ace_gui.plan(recipe).rows]
    [('layers.0.norm.weight', 'merged'), ('layers.0.q_proj.weight', 'merged')]
    """
    return with_output_checks(prepare(recipe_from(recipe))).plan


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
    also compare ACE's covariances with those of the experts' inputs. Each expert then runs once on
    the `calibration` data of its task, on ``device``.

    >>> sorted(ace_gui.inspect(recipe).layers[1].energies)
    ['expert-a', 'expert-b']
    """
    loaded = recipe_from(recipe)
    result = workflow.inspect(loaded, convert=convert)
    matches: tuple[CovarianceMatch, ...] = ()
    if covariances:
        job = CovariancesJob(recipe=loaded, device=device)
        for event in _watched(run(job), progress):
            if isinstance(event, CovariancesCompared) and event.layer is not None:
                matches += event.layer.matches
    return Inspection(
        layers=result.layers, checks=result.checks, plan=result.prepared.plan, covariances=matches
    )


def merge(
    recipe: GivenRecipe,
    out: Path | str,
    *,
    device: str = "auto",
    threads: int | None = None,
    resume: bool = False,
    distil: bool | Mapping[str, Any] | None = None,
    check: bool | None = None,
    progress: Progress | None = None,
    memory_bytes: int | None = None,
    convert: bool = False,
    complete_heads: bool = False,
    evaluate: bool = False,
    cluster: str = "",
) -> MergeResult:
    """Merge into the new folder ``out``, which appears only when it is complete.

    ``device``: auto, cpu or cuda:N. ``threads`` None: torch chooses. ``resume``: continue an
    unfinished merge of the same recipe. ``distil``: align the merge with its experts; True, or the
    keys of the recipe's ``distil``; None: as the recipe says. ``check``: whether a language model
    is tried on usual text; None: as the recipe says. For the rest see ``workflow.Options``. A
    recipe with ``merge_method: moe``, or a file of mergekit-moe, builds a mixture of experts. Then
    ``threads``, ``progress`` and ``convert`` count, and all others are refused.

    >>> ace_gui.merge(recipe, "merged").files
    ('README.md', 'merge_recipe.yaml', 'model.safetensors')
    """
    mixture = mixture_from(recipe)
    if mixture is not None:
        idle = (resume, distil, check, evaluate, memory_bytes, complete_heads, cluster)
        _refuse_idle(device, idle)
        return _built_mixture(mixture, Path(out), threads, progress, convert=convert)
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
    loaded = _with_choices(recipe_from(recipe), distil, check)
    return _result(workflow.merge_to_folder(loaded, Path(out), options), progress)


def _with_choices(
    recipe: Recipe, distil: bool | Mapping[str, Any] | None, check: bool | None
) -> Recipe:
    """The recipe with the arguments of ``merge`` that replace its own choices."""
    if distil is not None:
        recipe = replace(recipe, distil=distillation_of(distil))
    if check is not None:
        recipe = replace(recipe, check=SanityCheck.ON if check else SanityCheck.OFF)
    return recipe


_IDLE = ("resume", "distil", "check", "evaluate", "memory_bytes", "complete_heads", "cluster")
"""Arguments of ``merge`` that a mixture of experts does not use."""


def _refuse_idle(device: str, values: Sequence[object]) -> None:
    options = dict(zip(_IDLE, values, strict=True))
    refuse_options({**options, "device": device not in ("auto", "cpu")})


def _built_mixture(
    mixture: MixtureRecipe,
    out: Path,
    threads: int | None,
    progress: Progress | None,
    *,
    convert: bool,
) -> MergeResult:
    use_threads(threads)
    begin = time.perf_counter()
    built = _last(mixture_to_folder(mixture, out, convert=convert), Exported, progress)
    return MergeResult(
        folder=built.folder,
        seconds=time.perf_counter() - begin,
        warnings=built.notes,
        files=built.files,
    )


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

    ``rank``: the adapter's rank (default 32). ``energy``: instead of a rank, the share of each
    change's squared norm to keep. ``include``, ``exclude``: patterns of tensor names, with ``*``.

    >>> ace_gui.extract("base", "expert-a", "adapter", rank=4).folder.name
    'adapter'
    """
    recipe = recipe_for_extraction(base, model, rank, energy)
    options = workflow.Options(device=device, resume=resume)
    events = workflow.extract_adapter(recipe, Path(out), options, include=include, exclude=exclude)
    return _result(events, progress)


def _result(events: Iterable[Event], progress: Progress | None) -> MergeResult:
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds = 0.0
    exported = None
    distilled: Distilled | None = None
    sanity: SanityResult | None = None
    for event in _watched(events, progress):
        match event:
            case PlanReady(plan=planned):
                warnings = tuple(check.line for check in planned.checks if check.is_worry)
            case MergeFinished():
                warnings = (*event.warnings, *warnings)
                seconds = event.seconds
                notes = event.notes
                distilled = event.distilled
                sanity = event.sanity
            case Exported():
                exported = event
    assert exported is not None
    return MergeResult(
        folder=exported.folder,
        seconds=seconds,
        warnings=tuple(dict.fromkeys(warnings)),
        files=exported.files,
        notes=notes,
        distilled=distilled,
        sanity=sanity,
    )


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
    tried = _several(values) if isinstance(values, str | Sequence) else [values]
    if (parameter is None) != (not tried):
        missing = "values" if parameter else "parameter"
        raise RecipeError(f"`parameter` and `values` go together; name `{missing}`.", key=missing)
    if methods:
        recipes = compare_recipes.by_method(recipes[0], _several(methods))
    if parameter is not None:
        recipes = tuple(
            row
            for single_recipe in recipes
            for row in compare_recipes.by_value(single_recipe, parameter, tried)
        )
    rows = []
    with workers_at(cluster, device, threads) as workers:
        for event in _watched(compare_recipes.compare_all(recipes, device, workers), progress):
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
    by_name = _models(models)
    loaded = None if recipe is None else recipe_from(recipe)
    use_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        job = EvaluateJob(
            recipe=loaded,
            folders=tuple(by_name.values()),
            names=tuple(by_name),
            tasks=_tasks(loaded, tasks, Path(folder)),
            limit=limit,
            device=device,
            cluster=cluster,
            threads=threads,
        )
        return Evaluation(scores=_last(run(job, convert=convert), Evaluated, progress).scores)


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
    result = _last(run(job), Tuned, progress)
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
    loaded = None if recipe is None else recipe_from(recipe)
    folders = _several(models)
    job = RoutesJob(
        recipe=loaded,
        folders=tuple(map(Path, folders)),
        names=tuple(map(str, folders)),
        tasks=_tasks(loaded, tasks),
        limit=limit,
        device=device,
    )
    return _last(run(job, convert=convert), RoutesFound, progress).routes


def diff(
    a: Path | str, b: Path | str, *, convert: bool = False, progress: Progress | None = None
) -> ModelDiff:
    """How far ``b`` is from ``a``, by tensor, block and role; reads a part of a tensor at a time.

    ``a``, ``b``: folders, files, or names in the local Hugging Face cache. ``convert``: convert
    PyTorch pickles first. Raises RecipeError for a missing model, CheckpointError, and
    PickleConsentError for a pickle without ``convert``.

    >>> change = ace_gui.diff("base", "expert-a")
    >>> [(each.name, each.relative > 1) for each in change.by_role]
    [('norm', True), ('query', True)]
    >>> ace_gui.diff("base", "base").total.change
    0.0
    """
    return _last(diff_models(a, b, convert=convert), ModelDiff, progress)


def verify(
    base: Path | str,
    experts: Sequence[Path | str],
    merged: Path | str,
    *,
    convert: bool = False,
    progress: Progress | None = None,
) -> ModelContents:
    """Whether ``merged`` contains the experts: its change from the base as a sum of theirs.

    In each tensor, and over all matrices, the least squares of its change in the experts' changes,
    and what is left over beyond the rounding of the files. Arguments as for ``diff``; experts and
    ``merged`` may be adapters. Raises RecipeError, MismatchError, and the errors of reading.

    >>> kept = ace_gui.merge({**recipe, "merge_method": "linear"}, "plain-mean")
    >>> ace_gui.verify("base", ["expert-a", "expert-b"], "plain-mean").sentences[0]
    'It is the mean of `expert-a` and `expert-b`.'
    """
    events = model_contents(str(base), list(map(str, experts)), str(merged), convert=convert)
    return _last(events, ModelContents, progress)


def report(
    recipe: GivenRecipe,
    out: Path | str,
    *,
    device: str = "auto",
    threads: int | None = None,
    convert: bool = False,
    limit: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write one HTML file about a recipe's merge, and return its path; the model is not kept.

    ``limit``: maximum number of examples per task. ``overwrite``: replace a file that this program
    did not write. Raises OutputError if that is not allowed, and the errors of a merge.

    >>> ace_gui.report(recipe, "report.html").name
    'report.html'
    """
    options = workflow.Options(device=device, threads=threads, convert=convert)
    loaded = recipe_from(recipe)
    loaded = replace(loaded, tasks=limited(loaded.tasks, limit))
    events = workflow.report_to_file(loaded, Path(out), options, inputs=(), overwrite=overwrite)
    return _last(events, Reported, progress).file


def figure(
    recipe: GivenRecipe,
    out: Path | str,
    *,
    panels: Sequence[str] = ("gamma", "spectra"),
    matrices: Sequence[str] = (),
    scores: Sequence[TaskScore] = (),
    sheet: Sheet = Sheet(),  # noqa: B008 - a frozen value
    device: str = "auto",
    convert: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> FigureMade:
    """Draw a figure about a recipe's merge, as PDF, SVG or PNG, with its data as CSV beside it.

    ``panels``: gamma, roles, map, energies, spectra, subspaces, scores. ``matrices``: names or
    patterns for spectra and subspaces; by default the most, the median and the least heterogeneous
    one. Only these are merged. ``scores``: of ``evaluate``. ``sheet``: size, letters and colours.
    Raises RecipeError if a panel has nothing to show, OutputError for a file that cannot be
    written, and the errors of reading and merging.

    >>> ace_gui.figure(recipe, "figure.pdf", panels=["energies"]).caption
    'Energies ‖ΔW‖² of the task vectors of 2 merged tensors of 2 experts.'
    """
    job = FigureJob(
        recipe=recipe_from(recipe),
        kinds=panel_kinds(panels),
        sheet=sheet,
        matrices=tuple(matrices),
        scores=tuple(scores),
        file=Path(out),
        replaces=files_of(Path(out)) if overwrite else (),
        device=device,
    )
    return _last(run(job, convert=convert), FigureMade, progress)


def to_gguf(
    folder: Path | str,
    out: Path | str | None = None,
    *,
    kind: str = "auto",
    llama_cpp: Path | str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> GgufWritten:
    """Make a GGUF file from a folder by the person's own llama.cpp; ``out`` None: beside it.

    ``kind``: auto, f32, f16, bf16, q8_0, or one of llama-quantize, such as q4_k_m. ``llama_cpp``:
    its source folder, which is remembered. Raises OutputError if it is missing, for a folder that
    llama.cpp does not read, and for a file that is there without ``overwrite``.

    >>> ace_gui.to_gguf("merged", kind="q8_0", llama_cpp="llama.cpp").files  # doctest: +SKIP
    (PosixPath('merged-q8_0.gguf'), PosixPath('merged-q8_0.Modelfile'))
    """
    job = GgufJob(
        folder=Path(folder),
        file=None if out is None else Path(out),
        kind=kind,
        llama_cpp=None if llama_cpp is None else Path(llama_cpp),
        overwrite=overwrite,
    )
    return _last(run(job), GgufWritten, progress)


def task(
    model: Path | str, expert: str, out: Path | str, *, base: Path | str | None = None
) -> Path:
    """Rebuild one expert's model from a merged model with modules; returns the new folder.

    ``base``: the base model; None: the recipe's. Raises OutputError for an unknown expert or a
    folder that cannot be written, and CheckpointError.

    >>> kept = ace_gui.merge({**recipe, "merge_method": "tall_masks"}, "with-modules")
    >>> ace_gui.task("with-modules", "expert-a", "expert-a-again").name
    'expert-a-again'
    """
    base_folder = None if base is None else Path(base)
    return write_task_model(Path(model), expert, Path(out), base=base_folder)


def list_methods() -> tuple[MethodInfo, ...]:
    """Every merge method, with its title, formula, parameters and citation.

    >>> [each.title for each in ace_gui.list_methods()][:2]
    ['ACE-Merging', 'WUDI-Merging']
    """
    return tuple(method_info(name) for name in METHODS)


def devices() -> tuple[DeviceInfo, ...]:
    """The devices that can compute: the processor, and GPUs.

    >>> ace_gui.devices()[0].name
    'cpu'
    """
    return available_devices()


def merge_state_dicts(
    base: StateDict,
    experts: Sequence[StateDict] | Mapping[str, StateDict],
    *,
    method: str = "ace",
    device: str = "auto",
    heads: str | None = None,
    **parameters: ParameterValue,
) -> dict[str, Any]:
    """Merge tensors that are in memory; the result has the base's names, shapes and dtypes.

    ``method``: as in a recipe, or ``METHOD:VARIANT``, or ``recommended``; ``parameters``: of the
    method. The numbers are those of a merge of the same tensors in files without a config: roles,
    blocks and ties are guessed from the tensors' names, and matrices are taken as outputs × inputs,
    unlike GPT-2's, so merge folders where these must be right. Tensors that share their memory in
    the base are merged as one if they are equal in all experts. The inputs are not changed.

    Task heads, and poolers that feed only them, stay the base's, because every expert has its own;
    a UserWarning names them, and whatever else is left out. ``heads``: the recipe's key; "merge"
    merges them.

    Tensors pass through temporary files, which need the disk space of all models. Results are on
    the CPU. Raises RecipeError for an unknown method or parameter, MismatchError, CheckpointError
    for names or values that cannot be stored, NonFiniteError and ResourceError.

    >>> experts = [{"w": ones}, {"w": -ones}]
    >>> merged = ace_gui.merge_state_dicts({"w": zeros}, experts, method="linear")
    >>> float(merged["w"].sum())
    0.0
    """
    merged = merged_state_dicts(
        base, experts, method=method, device=device, heads=heads, parameters=parameters
    )
    for sentence in merged.warnings:
        warnings.warn(sentence, UserWarning, stacklevel=2)
    return merged.tensors


def load_model(folder: Path | str, *, task: str | None = None, device: str = "cpu") -> Any:
    """A merged model as a transformers model in evaluation mode, with its modules.

    ``task``: the expert whose task the model does. If the folder has that expert's head, it is
    loaded. Modules for a known task then give the expert's model. Routed modules process every
    example of a batch separately, so that no output depends on the rest of the batch. Float32 if
    memory allows. No code of the folder is run. Raises CheckpointError for an unusable folder or
    modules, ArchitectureError, OutputError for an unknown task, and MismatchError.

    >>> type(ace_gui.load_model(sample.parent / "experts" / "digits")).__name__
    'ViTForImageClassification'
    """
    return loaded_model(Path(folder), task, device)


def _watched(events: Iterable[Any], progress: Progress | None) -> Iterator[Any]:
    """The events, each after ``progress`` was called with it."""
    for event in events:
        if progress is not None and event is not None:
            progress(event)
        yield event


def _last(events: Iterable[Any], result_type: type[Result], progress: Progress | None) -> Result:
    """The last event of a class."""
    *_, last = (event for event in _watched(events, progress) if isinstance(event, result_type))
    return last


def _tasks(
    recipe: Recipe | None, given_tasks: GivenTasks | None, tables: Path | None = None
) -> tuple[Task, ...]:
    """The given tasks, or else the recipe's. ``tables``: a folder to store data from memory."""
    if given_tasks is None:
        return () if recipe is None else recipe.tasks
    if isinstance(given_tasks, str | Path):
        return load_tasks(Path(given_tasks))
    tasks = []
    for number, item in enumerate(given_tasks):
        if isinstance(item, Task):
            tasks.append(item)
            continue
        data: Any = item.get("data")
        if tables is not None and hasattr(data, "to_parquet"):
            path = tables / str(number) / "data.parquet"
            path.parent.mkdir()
            data.to_parquet(path)
            item = {**item, "data": path}
        tasks += tasks_from({"tasks": [item]})
    return tuple(tasks)


def _models(given_models: GivenModels) -> dict[str, Any]:
    """Folders and models in memory, by name. The name of a folder is its path as given."""
    if isinstance(given_models, Mapping):
        named = dict(given_models)
    else:
        models = [given_models] if hasattr(given_models, "state_dict") else _several(given_models)
        named = {}
        for model in models:
            name = str(model) if isinstance(model, str | Path) else type(model).__name__
            number = sum(known_model.partition(" ")[0] == name for known_model in named)
            named[f"{name} {number + 1}" if number else name] = model
    return {k: Path(m) if isinstance(m, str | Path) else m for k, m in named.items()}


def _several(value: str | Path | Sequence[Any]) -> list[Any]:
    """A single text or path counts as one item. As a sequence it would be split into characters."""
    return [value] if isinstance(value, str | Path) else list(value)
