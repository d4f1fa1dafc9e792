"""``ace-gui evaluate``, ``compare`` and ``tune``: scores of models and merges, in tables, JSON."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from rich.console import Console
from rich.table import Table

from ace_gui.cli.console import USUAL, Outputs, Terminal, print_warnings, safe_text, table
from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.contract.events import Evaluated, Event, JobProgress, MethodCompared
from ace_gui.engine.contract.jobs import EvaluateJob, RoutesJob, TuneJob
from ace_gui.engine.contract.noise import chance_notes, why_nothing_chosen
from ace_gui.engine.contract.scored import (
    MeanScore,
    ParameterRange,
    RoutesFound,
    TaskRoutes,
    TaskScore,
    Tuned,
    TunePoint,
    how_chosen,
    line_of,
    means,
    missing,
    notes,
    values_of,
)
from ace_gui.engine.evaluating.harness import Harness
from ace_gui.engine.inspecting.compare_recipes import (
    by_method,
    by_value,
    compare_all,
    compared_record,
)
from ace_gui.engine.service import run
from ace_gui.engine.streaming import Executor
from ace_gui.engine.workflow import prepared_with_consent
from ace_gui.errors import MethodError, RecipeError, WorkbenchError
from ace_gui.formatting import human_bytes, printable, value_text
from ace_gui.methods import every_variant
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe, load_tasks
from ace_gui.recipe.recommended import SHELF_NAMES
from ace_gui.recipe.values import ParameterValue, Task, limited

if TYPE_CHECKING:
    from ace_gui.cli.commands import Compare, Evaluate, Tune


MARK: Final = "†"
"""Marks an undefined score or mean."""
_RECIPES: Final = frozenset((".yaml", ".yml"))


def evaluate_models(command: Evaluate) -> None:
    """Score a recipe's base and experts, and folders, on tasks of the recipe or a file."""
    terminal = Terminal.of(command)
    recipe, folders, tasks, inputs = _inputs_of(command)
    outputs = Outputs.of(command, inputs, "scores")
    if command.harness:
        harness = Harness(command.harness.split(","), command.harness_tasks)
    else:
        harness = None
    common: dict[str, Any] = {"recipe": recipe, "folders": tuple(folders), "tasks": tasks}
    common["device"] = command.device
    scores: tuple[TaskScore, ...] = ()
    routes: tuple[TaskRoutes, ...] = ()
    if command.routing:
        events = run(RoutesJob(**common), convert=command.convert)
        routes = terminal.result(events, RoutesFound).routes
        if not routes:
            sentence = "None of these models has a router; give a merge such as one by smile."
            raise RecipeError(sentence, key="routing")
    if tasks or harness is None:
        job = EvaluateJob(**common, cluster=command.cluster, threads=command.threads)
        scores = terminal.result(run(job, convert=command.convert), Evaluated).scores
    by_harness: list[TaskScore] = []
    content: dict[str, Any] = {
        "scores": [score.record() for score in scores],
        "means": [mean.record() for mean in means(scores)],
    }
    if command.routing:
        content["routes"] = [route.record() for route in routes]
    if harness is not None:
        device = str(resolve_device(command.device))
        for folder in folders:
            by_harness += harness.scores(
                folder, limit=command.limit, device=device, quiet=command.quiet
            )
        content["harness"] = [score.record() for score in by_harness]
    outputs.write_json(command.json, content)
    _print(scores, routes, by_harness, terminal.results)


def _inputs_of(
    command: Evaluate,
) -> tuple[Recipe | None, list[Path], tuple[Task, ...], tuple[Path, ...]]:
    """The recipe, folders and tasks to score, and every path they read. Raises RecipeError."""
    recipes = [path for path in command.models if path.suffix in _RECIPES]
    folders = list(dict.fromkeys(path for path in command.models if path not in recipes))
    if len(recipes) > 1 or not (recipes or command.tasks or command.harness):
        raise RecipeError("Give one recipe, or folders with --tasks FILE.", key="tasks")
    if command.harness and not folders:
        raise RecipeError("--harness runs on folders; give the merged one.", key="harness")
    if recipes:
        recipe = load_recipe(recipes[0])
    else:
        recipe = None
    tasks, models = ((), ()) if recipe is None else (recipe.tasks, recipe.paths)
    tasks = limited(tasks if command.tasks is None else load_tasks(command.tasks), command.limit)
    data = (path for task in tasks for path in (task.data, task.calibration))
    paths = (*recipes, command.tasks, *folders, *models, *data)
    return recipe, folders, tasks, tuple(path for path in paths if path is not None)


def _print(
    scores: Sequence[TaskScore],
    routes: Sequence[TaskRoutes],
    by_harness: Sequence[TaskScore],
    console: Console,
) -> None:
    if scores:
        console.print(score_table(scores))
        for remark in missing(scores):
            console.print(safe_text(f"{MARK} {remark}", style="yellow"))
    for model in dict.fromkeys(route.model for route in routes):
        console.print(_routes_table([route for route in routes if route.model == model]))
    if by_harness:
        console.print(_harness_table(by_harness))
    for remark in dict.fromkeys((*notes(scores), *chance_notes(scores), *notes(by_harness))):
        console.print(safe_text(remark))


def _routes_table(routes: Sequence[TaskRoutes]) -> Table:
    """One line per task: the experts' mean shares over the layers, and the time."""
    title = f"routes of {printable(routes[0].model)}"
    experts = map(printable, routes[0].experts)
    lines = table(
        "task", *experts, "ms per example", "without modules", left_aligned=["task"], title=title
    )
    for route in routes:
        shares = [f"{share:.2f}" for share in route.mean_T]
        times = [f"{1000 * seconds:.1f}" for seconds in (route.seconds, route.plain_seconds)]
        lines.add_row(safe_text(route.task), *shares, *times)
    return lines


def _harness_table(scores: Sequence[TaskScore]) -> Table:
    """One line per score, because the harness has several metrics per task."""
    folded = ("model", "task", "metric")
    lines = table(*folded, "n", "score", folded=folded, title="lm-eval")
    for score in scores:
        words = map(safe_text, (score.model, score.task, score.metric, str(score.n)))
        lines.add_row(*words, _cell(score, errors=True))
    return lines


def score_table(scores: Sequence[TaskScore], *, errors: bool = True) -> Table:
    """One line per model: score by task, mean, and mean share of the experts' scores.

    ``errors``: add standard errors.
    """
    tasks = {score.task: score for score in scores}
    headings = (_heading(score) for score in tasks.values())
    lines = table(
        "model", *headings, "mean", "of experts", "base to expert", left_aligned=["model"]
    )
    for mean in means(scores):
        by_task = {score.task: score for score in scores if line_of(score) == mean.model}
        cells = [_cell(by_task.get(task), errors) for task in tasks]
        lines.add_row(safe_text(mean.model), *cells, *mean_cells(mean), _number(mean.gain))
    return lines


def _heading(score: TaskScore) -> str:
    """The task, its metric and number of examples, and what answers at random reach."""
    lines = [printable(score.task), f"{score.metric}, n {score.n}"]
    if score.chance is not None:
        lines.append(f"chance {score.chance:.3f}")
    return "\n".join(lines)


def mean_cells(mean: MeanScore) -> tuple[str, str]:
    """The mean score and the mean share of the experts' scores, marked if undefined."""
    share = _number(mean.normalised) or (MARK if mean.unmeasured or mean.undefined else "")
    return _number(mean.score) or (MARK if mean.undefined else ""), share


def _cell(score: TaskScore | None, errors: bool) -> str:
    if score is None:
        return ""
    error = score.standard_error
    if not math.isfinite(score.score):
        return MARK
    return _number(score.score) + (f" ± {error:.3f}" if errors and math.isfinite(error) else "")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}"


ALL = "all"


def compare_methods(command: Compare) -> None:
    """Merge with each method or value, and print one table.

    Raises RecipeError for an unknown name, and MethodError if every merge failed.
    """
    recipe = load_recipe(command.recipe)
    terminal = Terminal.of(command)
    recipe = replace(recipe, tasks=limited(recipe.tasks, command.limit))
    if command.shelf:
        methods = ",".join(SHELF_NAMES)
    else:
        methods = command.methods
    recipes = variants(recipe, methods, command.parameter)
    outputs = Outputs.of(command, (command.recipe, *recipe.paths), "methods")
    if command.convert:
        with contextlib.suppress(WorkbenchError):  # the row of a merge has its error
            prepared_with_consent(recipe, convert=True)
    with workers_at(command.cluster, command.device, command.threads) as workers:
        rows = merged_and_measured(recipes, command.device, workers, terminal)
    outputs.write_json(command.json, {"methods": [compared_record(row) for row in rows]})
    console = terminal.results
    console.print(comparison_table(rows))
    for remark in dict.fromkeys(remark for row in rows for remark in row.mean.remarks):
        console.print(safe_text(f"{MARK} {remark}", style="yellow"))
    for row in rows:
        if row.error:
            console.print(safe_text(f"{row.title}: {row.error}", style="yellow"))
    warnings = dict.fromkeys(warning for row in rows for warning in row.warnings)
    print_warnings(tuple(warnings), terminal.notes)
    if all(row.error for row in rows):
        raise MethodError("No merge succeeded; the reasons are above.")


def variants(recipe: Recipe, methods: str, parameter: str) -> tuple[Recipe, ...]:
    """The recipes to compare. Raises RecipeError."""
    chosen = (recommended.NAME, *every_variant()) if methods == ALL else methods.split(",")
    names = [name.strip() for name in chosen if name.strip()]
    if names:
        recipes = by_method(recipe, names)
    else:
        recipes = (recipe,)
    if not parameter:
        return recipes
    name, equals, values = parameter.partition("=")
    if not equals or not values or len(recipes) != 1:
        raise RecipeError(
            "Give --parameter name=value,value with at most one method.", key="parameter"
        )
    return by_value(recipes[0], name.strip(), [_value(text) for text in values.split(",")])


def _value(text: str) -> ParameterValue:
    """A number, true, false, or text, read as in a recipe."""
    try:
        value = float(text) if "e" in text.lower() else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return text
    if isinstance(value, bool | int | float | str):
        return value
    return str(value)


def merged_and_measured(
    recipes: Sequence[Recipe],
    device: str = "auto",
    workers: Executor | None = None,
    terminal: Terminal = USUAL,
) -> list[MethodCompared]:
    """Merge and measure each recipe. The merged models are removed afterwards."""
    events = terminal.progressed(compare_all(recipes, device, workers))
    return [event for event in events if isinstance(event, MethodCompared)]


def comparison_table(rows: Sequence[MethodCompared]) -> Table:
    """One line per merge: scores if there are tasks, norm, distances, health, time, memory."""
    tasks = next((row.by_task for row in rows if row.scores), {})
    if tasks:
        scores = (*map(printable, tasks), "mean", "of experts")
    else:
        scores = ()
    figures = ("norm", "distance", "cosine", "warned", "seconds", "memory")
    lines = table("method", *scores, *figures, left_aligned=["method"])
    for row in rows:
        if not row.error:
            lines.add_row(safe_text(row.title), *_score_cells(row), *_cells(row))
    return lines


def _score_cells(row: MethodCompared) -> list[str]:
    if not row.scores:
        return []
    cells = [f"{value:.3f}" if math.isfinite(value) else MARK for value in row.by_task.values()]
    return [*cells, *mean_cells(row.mean)]


def _cells(row: MethodCompared) -> list[str]:
    cosines = list(row.cosines.values())
    return [
        f"{row.relative_norm:.2f}",
        f"{row.mean_distance or 0.0:.2f}",
        f"{sum(cosines) / len(cosines):.2f}" if cosines else "",
        str(row.warned),
        f"{row.seconds:.1f}",
        human_bytes(row.peak_bytes),
    ]


RECIPE_MARK: Final = b"# Tuned by ACE workbench"


def tune_recipe(command: Tune) -> None:
    """Try values, and print and write what was chosen. Raises RecipeError for a wrong range."""
    recipe = load_recipe(command.recipe)
    terminal = Terminal.of(command)
    ranges = tuple(map(parameter_range, command.parameter))
    data = [task.data for task in recipe.tasks]
    inputs = (command.recipe, *recipe.paths, *data)
    outputs = Outputs.of(command, inputs, "points", out=RECIPE_MARK)
    names = ("merges", "limit", "device", "cluster", "threads")
    job = TuneJob(recipe=recipe, ranges=ranges, **{name: getattr(command, name) for name in names})
    tuned = terminal.result(_steps(run(job, convert=command.convert)), Tuned)
    outputs.write_json(command.json, _record(tuned))
    if command.out is not None:
        outputs.write(command.out, _tuned_recipe(tuned, command.out))
    _print_tuned(tuned, terminal.results)


def parameter_range(text: str) -> ParameterRange:
    """``NAME=a..b``. Raises RecipeError."""
    name, _, span = text.partition("=")
    low, dots, high = span.partition("..")
    try:
        range_ = ParameterRange(name=name.strip(), low=float(low), high=float(high))
    except ValueError:
        range_ = None
    if range_ is None or not dots or not range_.low < range_.high:
        raise RecipeError(
            f"{text!r} is not a range; give --parameter NAME=a..b with a below b.", key="parameter"
        )
    return range_


def _steps(events: Iterable[Event]) -> Iterator[Event]:
    """The events; after each merge also its progress."""
    for event in events:
        yield event
        if isinstance(event, TunePoint):
            yield JobProgress(done=event.index + 1, total=event.of, title=values_of(event))


def _print_tuned(tuned: Tuned, console: Console) -> None:
    lines = table(*tuned.best.parameters, "score", "seconds", "")
    for point in tuned.points:
        values = map(value_text, point.parameters.values())
        if point.score is None:
            score = ""
        else:
            score = f"{point.score:.4f}"
        if point is tuned.best:
            note = "chosen"
        else:
            note = point.error
        lines.add_row(*values, score, f"{point.seconds:.1f}", safe_text(note))
    console.print(lines)
    console.print("\nOn the other half of the data, which was not used for the choice:\n")
    console.print(score_table(tuned.compared))
    if nothing := why_nothing_chosen(tuned):
        console.print(f"\n{nothing}")
    console.print(f"\n{len(tuned.points) + 2} merges in {tuned.seconds:.0f} s.")


def _record(tuned: Tuned) -> dict[str, object]:
    return {
        "points": [asdict(point) for point in tuned.points],
        "best": dict(tuned.best.parameters),
        "scores": [comparison.record() for comparison in tuned.compared],
        "seconds": tuned.seconds,
    }


def _tuned_recipe(tuned: Tuned, out: Path) -> str:
    """The recipe with the chosen values, and a note on how they were chosen."""
    note = f"{RECIPE_MARK.decode()}: {how_chosen(tuned)}."
    return f"{printable(note)}\n{dump_recipe(tuned.recipe, out.resolve().parent)}"
