"""``ace-gui compare`` and ``ace-gui mergekit``: several merges in a table, and recipes for
mergekit."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from ace_gui.cli.console import Outputs, print_warnings, shown, wide_console
from ace_gui.cli.evaluating import MARK, mean_cells
from ace_gui.engine.cluster.ray_cluster import workers_at
from ace_gui.engine.contract.events import CompareProgress, MethodCompared
from ace_gui.engine.devices import use_threads
from ace_gui.engine.executor import Executor
from ace_gui.engine.inspecting.compare_recipes import (
    by_method,
    by_value,
    compare_all,
    compared_record,
)
from ace_gui.engine.merging.merge import models_of
from ace_gui.errors import MethodError, RecipeError
from ace_gui.formatting import human_bytes, printable
from ace_gui.methods import checked_parameters, every_variant, get_method
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.mergekit.writing import dump_mergekit
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import ParameterValue

# First bytes of the files, as in ``ace_gui.cli.console``.
JSON_MARK: Final = b'{\n "methods": ['
MERGEKIT_MARK: Final = b"# A recipe for mergekit, made by ACE workbench."

ALL = "all"


def compare_methods(
    recipe_file: Path,
    *,
    methods: str,
    parameter: str,
    json_file: Path | None,
    device: str,
    cluster: str = "",
    overwrite: bool = False,
) -> None:
    """``ace-gui compare``: merge with each method or value, and print one table.

    ``methods``: names separated by commas, or all. ``parameter``: ``name=value,value``. Either may
    be empty. Raises RecipeError for an unknown one, and
    MethodError if every merge failed.
    """
    use_threads(None)
    recipe = load_recipe(recipe_file)
    recipes = variants(recipe, methods, parameter)
    outputs = Outputs((recipe_file, *models_of(recipe)), overwrite=overwrite)
    outputs.check({json_file: JSON_MARK})
    with workers_at(cluster, device) as workers:
        rows = run(recipes, device, workers)
    if json_file is not None:
        content = {"methods": [compared_record(row) for row in rows]}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        outputs.write(json_file, text + "\n", JSON_MARK)
    console = wide_console()
    console.print(comparison_table(rows))
    for said in dict.fromkeys(said for row in rows for said in row.mean.remarks):
        console.print(shown(f"{MARK} {said}", style="yellow"))
    for row in rows:
        if row.error:
            console.print(shown(f"{row.title}: {row.error}", style="yellow"))
    warnings = dict.fromkeys(warning for row in rows for warning in row.warnings)
    print_warnings(tuple(warnings), Console(stderr=True))
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
        return float(text) if "e" in text.lower() else _scalar(yaml.safe_load(text))
    except (ValueError, yaml.YAMLError):
        return text


def _scalar(value: object) -> ParameterValue:
    return value if isinstance(value, bool | int | float | str) else str(value)


def run(
    recipes: Sequence[Recipe], device: str = "auto", workers: Executor | None = None
) -> list[MethodCompared]:
    """Merge and measure each recipe. The merged models are removed afterwards."""
    rows = []
    columns = (TextColumn("{task.description}", markup=False), BarColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        for event in compare_all(recipes, device, workers):
            match event:
                case CompareProgress():
                    title = printable(f"{event.index + 1}/{event.of} {event.title}")
                    total = event.total or None
                    progress.update(task, description=title, total=total, completed=event.done)
                case MethodCompared():
                    rows.append(event)
    return rows


def comparison_table(rows: Sequence[MethodCompared]) -> Table:
    """One line per merge: scores if there are tasks, norm, distances, health, time, memory."""
    tasks = next((row.by_task for row in rows if row.scores), {})
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    headings = (*map(printable, tasks), "mean", "of experts") if tasks else ()
    for heading in (*headings, "norm", "distance", "cosine", "warned", "seconds", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if not row.error:
            table.add_row(shown(row.title), *_score_cells(row), *_cells(row))
    return table


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


def write_mergekit(recipe_file: Path, out: Path, *, overwrite: bool = False) -> None:
    """``ace-gui mergekit``: a recipe as mergekit's YAML. Raises RecipeError or OutputError."""
    recipe = load_recipe(recipe_file)
    outputs = Outputs((recipe_file, *models_of(recipe)), overwrite=overwrite)
    parameters = checked_parameters(get_method(recipe.merge_method), recipe.parameters)
    text = dump_mergekit(recipe, dataclasses.asdict(parameters), out.resolve().parent)
    outputs.write(out, f"{MERGEKIT_MARK.decode()}\n{text}", MERGEKIT_MARK)
    for line in text.splitlines():
        if line.startswith("# "):
            Console(stderr=True).print(shown(f"Note: {line[2:]}", style="yellow"))
