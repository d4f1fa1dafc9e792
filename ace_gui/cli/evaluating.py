"""``ace-gui evaluate``: models on tasks, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from ace_gui.cli.console import Outputs, Terminal, shown, table
from ace_gui.engine.contract.events import Evaluated
from ace_gui.engine.contract.scored import (
    MeanScore,
    RoutesFound,
    TaskRoutes,
    TaskScore,
    line_of,
    means,
    missing,
    notes,
)
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.harness import Harness
from ace_gui.engine.workflow import routes, score
from ace_gui.errors import RecipeError
from ace_gui.formatting import printable
from ace_gui.recipe.recipe_file import load_recipe, load_tasks
from ace_gui.recipe.tasks import limited

if TYPE_CHECKING:
    from ace_gui.cli.commands import Evaluate

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
    tasks = limited(tasks if given.tasks is None else load_tasks(given.tasks), given.limit)
    data = [path for task in tasks for path in (task.data, task.calibration) if path is not None]
    files = [*recipes, *([] if given.tasks is None else [given.tasks])]
    models = [] if recipe is None else [*recipe.paths]
    outputs = Outputs.of(given, (*files, *folders, *models, *data), "scores")
    run = Harness(given.harness.split(","), given.harness_tasks) if given.harness else None
    how: dict[str, Any] = {name: getattr(given, name) for name in ("device", "threads", "convert")}
    how["names"] = [str(folder) for folder in folders]
    found: tuple[TaskScore, ...] = ()
    taken: tuple[TaskRoutes, ...] = ()
    if given.routing:
        taken = terminal.result(routes(recipe, folders, tasks, **how), RoutesFound).routes
        if not taken:
            sentence = "None of these models has a router; give a merge by smile, …"
            raise RecipeError(sentence, key="routing")
    if tasks or run is None:
        events = score(recipe, folders, tasks, cluster=given.cluster, **how)
        found = terminal.result(events, Evaluated).scores
    by_harness: tuple[TaskScore, ...] = ()
    content: dict[str, Any] = {
        "scores": [each.record() for each in found],
        "means": [each.record() for each in means(found)],
    }
    if given.routing:
        content["routes"] = [each.record() for each in taken]
    if run is not None:
        where = str(resolve_device(given.device))
        scored = (
            run.scores(folder, limit=given.limit, device=where, quiet=given.quiet)
            for folder in folders
        )
        by_harness = tuple(chain.from_iterable(scored))
        content["harness"] = [each.record() for each in by_harness]
    outputs.write_json(given.json, content)
    _print(found, taken, by_harness, terminal.results)


def _print(
    found: Sequence[TaskScore],
    taken: Sequence[TaskRoutes],
    by_harness: Sequence[TaskScore],
    console: Console,
) -> None:
    if found:
        console.print(score_table(found))
        for remark in missing(found):
            console.print(shown(f"{MARK} {remark}", style="yellow"))
    for model in dict.fromkeys(each.model for each in taken):
        console.print(_routes_table([each for each in taken if each.model == model]))
    if by_harness:
        console.print(_harness_table(by_harness))
    for remark in dict.fromkeys((*notes(found), *notes(by_harness))):
        console.print(shown(remark))


def _routes_table(found: Sequence[TaskRoutes]) -> Table:
    """One line per task: the experts' mean shares over the layers, and the time."""
    title = f"routes of {printable(found[0].model)}"
    experts = map(printable, found[0].experts)
    lines = table("task", *experts, "ms an example", "without modules", left=["task"], title=title)
    for each in found:
        shares = [f"{share:.2f}" for share in each.mean_T]
        times = [f"{1000 * seconds:.1f}" for seconds in (each.seconds, each.plain_seconds)]
        lines.add_row(shown(each.task), *shares, *times)
    return lines


def _harness_table(scores: Sequence[TaskScore]) -> Table:
    """One line per score, because the harness has several metrics per task."""
    folded = ("model", "task", "metric")
    lines = table(*folded, "n", "score", folded=folded, title="lm-eval")
    for each in scores:
        words = map(shown, (each.model, each.task, each.metric, str(each.n)))
        lines.add_row(*words, _cell(each, errors=True))
    return lines


def score_table(scores: Sequence[TaskScore], *, errors: bool = True) -> Table:
    """One line per model: score by task, mean, and mean share of the experts' scores.

    ``errors``: add standard errors.
    """
    tasks = {each.task: each for each in scores}
    own = (f"{printable(name)}\n{one.metric}, n {one.n}" for name, one in tasks.items())
    lines = table("model", *own, "mean", "of experts", "base to expert", left=["model"])
    for mean in means(scores):
        by_task = {each.task: each for each in scores if line_of(each) == mean.model}
        cells = [_cell(by_task.get(task), errors) for task in tasks]
        lines.add_row(shown(mean.model), *cells, *mean_cells(mean), _number(mean.gain))
    return lines


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
    return "" if value is None else f"{value:.3f}"
