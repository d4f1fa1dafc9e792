"""``ace-gui evaluate``: models on tasks, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from ace_gui.cli.console import Outputs, Terminal, said_to_convert, shown
from ace_gui.engine.cluster.ray_cluster import workers_at
from ace_gui.engine.contract.events import Evaluated, Event
from ace_gui.engine.contract.scored.routes import RoutesFound, TaskRoutes
from ace_gui.engine.contract.scored.scores import (
    MeanScore,
    TaskScore,
    line_of,
    means,
    missing,
    notes,
)
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.harness import Harness
from ace_gui.engine.workflow import routes, score
from ace_gui.errors import Cancelled, RecipeError
from ace_gui.formatting import printable
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe, load_tasks
from ace_gui.recipe.tasks import Task

if TYPE_CHECKING:
    from ace_gui.cli.commands import Evaluate

JSON_MARK: Final = b'{\n "scores": ['
MARK: Final = "†"
"""Marks an undefined score or mean."""
_RECIPES: Final = frozenset((".yaml", ".yml"))


def evaluate_models(given: Evaluate) -> None:
    """Score a recipe's base and experts, and folders, on its tasks or a file's."""
    paths, terminal = given.models, Terminal.of(given)
    recipes = [path for path in paths if path.suffix in _RECIPES]
    folders = list(dict.fromkeys(path for path in paths if path not in recipes))
    if len(recipes) > 1 or not (recipes or given.tasks or given.harness):
        raise RecipeError("Give one recipe, or folders with --tasks FILE.", key="tasks")
    if given.harness and not folders:
        raise RecipeError("--harness runs on folders; give the merged one.", key="harness")
    recipe = load_recipe(recipes[0]) if recipes else None
    tasks = () if recipe is None else recipe.tasks
    tasks = tasks if given.tasks is None else load_tasks(given.tasks)
    data = [path for task in tasks for path in (task.data, task.calibration) if path is not None]
    files = [*recipes, *([] if given.tasks is None else [given.tasks])]
    models = [] if recipe is None else [*recipe.paths]
    outputs = Outputs((*files, *folders, *models, *data), overwrite=given.overwrite)
    outputs.check({given.json: JSON_MARK})
    run = Harness(given.harness.split(","), given.harness_tasks) if given.harness else None
    how: dict[str, Any] = {name: getattr(given, name) for name in ("limit", "device", "convert")}
    found: tuple[TaskScore, ...] = ()
    with said_to_convert(given.convert):
        if tasks or run is None:
            with workers_at(given.cluster, given.device) as workers:
                events = score(recipe, folders, tasks, workers=workers, **how)
                found = _scores_of(terminal.progressed(events))
        taken = _routes_of(recipe, folders, tasks, how) if given.routing else ()
    harness_scores = () if run is None else _by_harness(run, folders, given.limit, given.device)
    content = {
        "scores": [each.record() for each in found],
        "means": [each.record() for each in means(found)],
    }
    if given.routing:
        content["routes"] = [each.record() for each in taken]
    if run is not None:
        content["harness"] = [each.record() for each in harness_scores]
    outputs.write_json(given.json, content, JSON_MARK)
    console = terminal.results
    if found:
        console.print(score_table(found))
        print_remarks(found, console)
    for model in dict.fromkeys(each.model for each in taken):
        console.print(_routes_table([each for each in taken if each.model == model]))
    if run is not None:
        console.print(_harness_table(harness_scores))
        _print_notes(harness_scores, console)


def _routes_of(
    recipe: Recipe | None,
    folders: Sequence[Path],
    tasks: Sequence[Task],
    how: dict[str, Any],
) -> tuple[TaskRoutes, ...]:
    found: tuple[TaskRoutes, ...] = ()
    for event in routes(recipe, folders, tasks, names=list(map(str, folders)), **how):
        if isinstance(event, RoutesFound):
            found = event.routes
    if not found:
        sentence = "None of these models has a router; give a merge by smile, twin_merging, …"
        raise RecipeError(sentence, key="routing")
    return found


def _routes_table(found: Sequence[TaskRoutes]) -> Table:
    """One line per task: the experts' mean shares over the layers, and the time."""
    title = f"routes of {printable(found[0].model)}"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("task", no_wrap=True)
    for name in (*found[0].experts, "ms an example", "without modules"):
        table.add_column(printable(name), justify="right", no_wrap=True)
    for each in found:
        shares = [f"{share:.2f}" for share in each.mean_T]
        times = [f"{1000 * seconds:.1f}" for seconds in (each.seconds, each.plain_seconds)]
        table.add_row(shown(each.task), *shares, *times)
    return table


def _by_harness(
    run: Harness, folders: Sequence[Path], limit: int | None, device: str
) -> tuple[TaskScore, ...]:
    where = str(resolve_device(device))
    return tuple(
        each
        for folder in folders
        for each in run.scores(folder, str(folder), limit=limit, device=where)
    )


def _harness_table(scores: Sequence[TaskScore]) -> Table:
    """One line per score, because the harness has several metrics per task."""
    table = Table(box=None, pad_edge=False, title="lm-eval", title_justify="left")
    for heading in ("model", "task", "metric", "n", "score"):
        table.add_column(heading, justify="right" if heading in ("n", "score") else "left")
    for each in scores:
        words = map(shown, (each.model, each.task, each.metric, str(each.n)))
        table.add_row(*words, _cell(each, errors=True))
    return table


def _scores_of(events: Iterator[Event]) -> tuple[TaskScore, ...]:
    for event in events:
        if isinstance(event, Evaluated):
            return event.scores
    raise Cancelled


def score_table(scores: Sequence[TaskScore], *, errors: bool = True) -> Table:
    """One line per model: score by task, mean, and mean share of the experts' scores.

    ``errors``: add standard errors.
    """
    tasks = {each.task: each for each in scores}
    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for task, one in tasks.items():
        heading = f"{printable(task)}\n{one.metric}, n {one.n}"
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("mean", "of experts", "base to expert"):
        table.add_column(heading, justify="right", no_wrap=True)
    for mean in means(scores):
        own = {each.task: each for each in scores if line_of(each) == mean.model}
        cells = [_cell(own.get(task), errors) for task in tasks]
        table.add_row(shown(mean.model), *cells, *mean_cells(mean), _number(mean.gain))
    return table


def mean_cells(mean: MeanScore) -> tuple[str, str]:
    """The mean score and the mean share of the experts' scores, marked if undefined."""
    share = _number(mean.normalised) or (MARK if mean.unmeasured or mean.undefined else "")
    return _number(mean.score) or (MARK if mean.undefined else ""), share


def print_remarks(scores: Sequence[TaskScore], console: Console) -> None:
    """Print footnotes of a table: why means are missing, and how models were asked."""
    for remark in missing(scores):
        console.print(shown(f"{MARK} {remark}", style="yellow"))
    _print_notes(scores, console)


def _print_notes(scores: Sequence[TaskScore], console: Console) -> None:
    for remark in notes(scores):
        console.print(shown(remark))


def _cell(score: TaskScore | None, errors: bool) -> str:
    if score is None:
        return ""
    error = score.standard_error
    if not math.isfinite(score.score):
        return MARK
    return _number(score.score) + (f" ± {error:.3f}" if errors and math.isfinite(error) else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
