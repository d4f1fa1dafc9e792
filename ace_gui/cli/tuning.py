"""``ace-gui tune``: the curve, the chosen values, and their scores on other data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from ace_gui.cli.console import Outputs, Terminal, shown, table
from ace_gui.cli.evaluating import score_table
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.contract.events import Event, JobProgress
from ace_gui.engine.contract.scored import (
    ParameterRange,
    Tuned,
    TunePoint,
    how_chosen,
    values_of,
)
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.inspecting.tune_parameters import tune
from ace_gui.engine.workflow import prepared_with_consent
from ace_gui.errors import RecipeError
from ace_gui.formatting import printable, value_text
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe

if TYPE_CHECKING:
    from ace_gui.cli.commands import Tune

RECIPE_MARK: Final = b"# Tuned by ACE workbench"


def tune_recipe(given: Tune) -> None:
    """Try values, and print and write what was chosen. Raises RecipeError for a wrong range."""
    if not given.cluster:
        resolve_device(given.device)
    recipe, terminal = load_recipe(given.recipe), Terminal.of(given)
    ranges = [parameter_range(text) for text in given.parameter]
    data = [task.data for task in recipe.tasks]
    inputs = (given.recipe, *recipe.paths, *data)
    outputs = Outputs.of(given, inputs, "points", out=RECIPE_MARK)
    prepared_with_consent(recipe, convert=given.convert)
    how: dict[str, Any] = {name: getattr(given, name) for name in ("merges", "limit", "device")}
    with workers_at(given.cluster, given.device, given.threads) as workers:
        found = terminal.result(_steps(tune(recipe, ranges, workers=workers, **how)), Tuned)
    outputs.write_json(given.json, _record(found))
    if given.out is not None:
        outputs.write(given.out, _tuned_recipe(found, given.out))
    _print(found, terminal.results)


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


def _steps(events: Iterable[TunePoint | Tuned | None]) -> Iterator[Event | None]:
    """The events, and the progress after each merge."""
    for event in events:
        yield event
        if isinstance(event, TunePoint):
            yield JobProgress(done=event.index + 1, total=event.of, title=values_of(event))


def _print(found: Tuned, console: Console) -> None:
    lines = table(*found.best.parameters, "score", "seconds", "")
    for point in found.points:
        values = map(value_text, point.parameters.values())
        score = "" if point.score is None else f"{point.score:.4f}"
        note = "chosen" if point is found.best else point.error
        lines.add_row(*values, score, f"{point.seconds:.1f}", shown(note))
    console.print(lines)
    console.print("\nOn the other half of the data, which was not used for the choice:\n")
    console.print(score_table(found.compared))
    console.print(f"\n{len(found.points) + 2} merges in {found.seconds:.0f} s.")


def _record(found: Tuned) -> dict[str, object]:
    return {
        "points": [asdict(point) for point in found.points],
        "best": dict(found.best.parameters),
        "scores": [each.record() for each in found.compared],
        "seconds": found.seconds,
    }


def _tuned_recipe(found: Tuned, out: Path) -> str:
    """The recipe with the chosen values, and a note on how they were chosen."""
    note = f"{RECIPE_MARK.decode()}: {how_chosen(found)}."
    return f"{printable(note)}\n{dump_recipe(found.recipe, out.resolve().parent)}"
