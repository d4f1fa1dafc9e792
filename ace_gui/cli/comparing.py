"""``ace-gui compare`` and ``ace-gui mergekit``: several merges in a table, and recipes for
mergekit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import yaml
from rich.table import Table

from ace_gui.cli.console import USUAL, Outputs, Terminal, print_warnings, shown, table
from ace_gui.cli.evaluating import MARK, mean_cells
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.contract.events import MethodCompared
from ace_gui.engine.executor import Executor
from ace_gui.engine.inspecting.compare_recipes import (
    by_method,
    by_value,
    compare_all,
    compared_record,
)
from ace_gui.engine.workflow import prepared_with_consent
from ace_gui.errors import MethodError, RecipeError, WorkbenchError
from ace_gui.formatting import human_bytes, printable
from ace_gui.methods import checked_parameters, every_variant, get_method
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.mergekit.writing import dump_mergekit
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.recommended import SHELF_NAMES
from ace_gui.recipe.tasks import limited
from ace_gui.recipe.values import ParameterValue

if TYPE_CHECKING:
    from ace_gui.cli.commands import Compare, Mergekit

MERGEKIT_MARK: Final = b"# A recipe for mergekit, made by ACE workbench."

ALL = "all"


def compare_methods(given: Compare) -> None:
    """Merge with each method or value, and print one table.

    Raises RecipeError for an unknown one, and MethodError if every merge failed.
    """
    recipe, terminal = load_recipe(given.recipe), Terminal.of(given)
    recipe = replace(recipe, tasks=limited(recipe.tasks, given.limit))
    methods = ",".join(SHELF_NAMES) if given.shelf else given.methods
    recipes = variants(recipe, methods, given.parameter)
    outputs = Outputs.of(given, (given.recipe, *recipe.paths), "methods")
    if given.convert:
        with contextlib.suppress(WorkbenchError):  # the row of a merge has its error
            prepared_with_consent(recipe, convert=True)
    with workers_at(given.cluster, given.device, given.threads) as workers:
        rows = run(recipes, given.device, workers, terminal)
    outputs.write_json(given.json, {"methods": [compared_record(row) for row in rows]})
    console = terminal.results
    console.print(comparison_table(rows))
    for remark in dict.fromkeys(remark for row in rows for remark in row.mean.remarks):
        console.print(shown(f"{MARK} {remark}", style="yellow"))
    for row in rows:
        if row.error:
            console.print(shown(f"{row.title}: {row.error}", style="yellow"))
    warnings = dict.fromkeys(warning for row in rows for warning in row.warnings)
    print_warnings(tuple(warnings), terminal.notes)
    if all(row.error for row in rows):
        raise MethodError("No merge succeeded; the reasons are above.")


def variants(recipe: Recipe, methods: str, parameter: str) -> tuple[Recipe, ...]:
    """The recipes to compare. Raises RecipeError."""
    asked = (recommended.NAME, *every_variant()) if methods == ALL else methods.split(",")
    names = [name.strip() for name in asked if name.strip()]
    recipes = by_method(recipe, names) if names else (recipe,)
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
    return value if isinstance(value, bool | int | float | str) else str(value)


def run(
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
    scores = (*map(printable, tasks), "mean", "of experts") if tasks else ()
    figures = ("norm", "distance", "cosine", "warned", "seconds", "memory")
    lines = table("method", *scores, *figures, left=["method"])
    for row in rows:
        if not row.error:
            lines.add_row(shown(row.title), *_score_cells(row), *_cells(row))
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


def write_mergekit(given: Mergekit) -> None:
    """Write a recipe as mergekit's YAML. Raises RecipeError or OutputError."""
    recipe = load_recipe(given.recipe)
    outputs = Outputs.of(given, (given.recipe, *recipe.paths), out=MERGEKIT_MARK)
    folder = given.out.resolve().parent
    text = dump_mergekit(recipe, _every_parameter(recipe), folder, _every_parameter)
    outputs.write(given.out, f"{MERGEKIT_MARK.decode()}\n{text}")
    for line in text.splitlines():
        if line.startswith("# "):
            Terminal.of(given).notes.print(shown(f"Note: {line[2:]}", style="yellow"))


def _every_parameter(recipe: Recipe) -> dict[str, ParameterValue]:
    """The parameters of the recipe's method, its defaults too."""
    method = get_method(recipe.merge_method)
    return asdict(checked_parameters(method, recipe.parameters))
