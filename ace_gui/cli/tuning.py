"""``ace-gui tune``: the curve, the chosen values, and their scores on other data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ace_gui.cli.console import Outputs, shown, wide_console
from ace_gui.cli.evaluating import score_table
from ace_gui.engine.cluster.ray_cluster import workers_at
from ace_gui.engine.contract.scored.scores import TaskScore
from ace_gui.engine.contract.scored.tuned import (
    ParameterRange,
    Tuned,
    TunePoint,
    how_chosen,
    values_of,
)
from ace_gui.engine.devices import resolve_device, use_threads
from ace_gui.engine.inspecting.tune_parameters import tune
from ace_gui.engine.merging.merge import models_of
from ace_gui.errors import Cancelled, RecipeError
from ace_gui.formatting import printable, value_text
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe

JSON_MARK: Final = b'{\n "points": ['
RECIPE_MARK: Final = b"# Tuned by ACE workbench"


def tune_recipe(
    recipe_file: Path,
    *,
    parameters: Sequence[str],
    merges: int | None,
    limit: int | None,
    out: Path | None,
    json_file: Path | None,
    device: str,
    cluster: str = "",
    overwrite: bool = False,
) -> None:
    """``ace-gui tune``. ``parameters``: each ``NAME=a..b``. Raises RecipeError otherwise."""
    use_threads(None)
    if not cluster:
        resolve_device(device)
    recipe = load_recipe(recipe_file)
    ranges = [parameter_range(text) for text in parameters]
    data = [task.data for task in recipe.tasks]
    outputs = Outputs((recipe_file, *models_of(recipe), *data), overwrite=overwrite)
    outputs.check({json_file: JSON_MARK, out: RECIPE_MARK})
    with workers_at(cluster, device) as workers:
        how: dict[str, Any] = {
            "merges": merges,
            "limit": limit,
            "device": device,
            "workers": workers,
        }
        found = _driven(tune(recipe, ranges, **how))
    if json_file is not None:
        text = json.dumps(_record(found), indent=1, ensure_ascii=False, allow_nan=False)
        outputs.write(json_file, text + "\n", JSON_MARK)
    if out is not None:
        outputs.write(out, _tuned_recipe(found, out), RECIPE_MARK)
    _print(found, wide_console())


def parameter_range(text: str) -> ParameterRange:
    """``NAME=a..b``. Raises RecipeError."""
    name, _, span = text.partition("=")
    low, dots, high = span.partition("..")
    try:
        found = ParameterRange(name=name.strip(), low=float(low), high=float(high))
    except ValueError:
        found = None
    if found is None or not dots or not found.low < found.high:
        raise RecipeError(
            f"{text!r} is not a range; give --parameter NAME=a..b with a below b.", key="parameter"
        )
    return found


def _driven(events: Iterator[TunePoint | Tuned | None]) -> Tuned:
    columns = (BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=None)
        for event in events:
            match event:
                case TunePoint():
                    what = printable(values_of(event))
                    progress.update(
                        bar, total=event.of, completed=event.index + 1, description=what
                    )
                case Tuned():
                    return event
    raise Cancelled


def _print(found: Tuned, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in (*found.best.parameters, "score", "seconds", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in found.points:
        values = map(value_text, point.parameters.values())
        score = "" if point.score is None else f"{point.score:.4f}"
        note = "chosen" if point is found.best else point.error
        table.add_row(*values, score, f"{point.seconds:.1f}", shown(note))
    console.print(table)
    console.print("\nOn the other half of the data, which was not used for the choice:\n")
    console.print(score_table(_scores_before_and_after(found)))
    console.print(f"\n{len(found.points) + 2} merges in {found.seconds:.0f} s.")


def _scores_before_and_after(found: Tuned) -> tuple[TaskScore, ...]:
    before = (replace(each, model="as it was") for each in found.before)
    return (*before, *(replace(each, model="chosen") for each in found.scores))


def _record(found: Tuned) -> dict[str, object]:
    return {
        "points": [asdict(point) for point in found.points],
        "best": dict(found.best.parameters),
        "scores": [each.record() for each in _scores_before_and_after(found)],
        "seconds": found.seconds,
    }


def _tuned_recipe(found: Tuned, out: Path) -> str:
    """The recipe with the chosen values, and a note on how they were chosen."""
    note = f"{RECIPE_MARK.decode()}: {how_chosen(found)}."
    return f"{printable(note)}\n{dump_recipe(found.recipe, out.resolve().parent)}"
