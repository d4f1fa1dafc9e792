"""``ace-gui figure``: a figure for print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ace_gui.cli.console import Terminal, safe_text
from ace_gui.engine.contract.events import FigureMade
from ace_gui.engine.contract.jobs import FigureJob
from ace_gui.engine.contract.scored import TaskScore, score_from
from ace_gui.engine.service import run
from ace_gui.errors import RecipeError
from ace_gui.figures.charts import panel_kinds
from ace_gui.figures.printing import files_of
from ace_gui.figures.sheet import Colours, Sheet
from ace_gui.formatting import listing
from ace_gui.recipe.recipe_file import load_recipe

if TYPE_CHECKING:
    from ace_gui.cli.commands import Figure


def draw(command: Figure) -> None:
    """Draw the figure and write it with the table of its data."""
    terminal = Terminal.of(command)
    job = FigureJob(
        recipe=load_recipe(command.recipe),
        kinds=panel_kinds(command.panels.split(",")),
        sheet=sheet_of(command),
        matrices=tuple(command.matrices or ()),
        scores=() if command.scores is None else scores_in(command.scores),
        file=command.out,
        replaces=files_of(command.out) if command.overwrite else (),
        device=command.device,
    )
    made = terminal.result(run(job, convert=command.convert), FigureMade)
    if command.caption:
        terminal.results.print(safe_text(made.caption), soft_wrap=True)
    files = listing([str(file) for file in made.files])
    size = f"{made.width:g} × {made.height:g} mm"
    terminal.results.print(safe_text(f"The figure ({size}) is in {files}."), soft_wrap=True)


def sheet_of(command: Figure) -> Sheet:
    """The sheet of a figure. Raises RecipeError for a size that cannot be printed."""
    return Sheet(
        width=command.width,
        height=command.height,
        points=command.points,
        letters=command.letters,
        colours=Colours.GREY if command.grey else Colours.SAFE,
        limits=not command.plain,
        before=not command.plain,
        crosses=not command.plain,
        names=command.names,
    )


def scores_in(file: Path) -> tuple[TaskScore, ...]:
    """The scores that ``evaluate --json`` wrote. Raises RecipeError for another file."""
    try:
        records = json.loads(file.read_text("utf-8"))["scores"]
        return tuple(map(score_from, records))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecipeError(
            f"{file} does not hold the scores of evaluate --json; write it again.",
            path=file,
            details=str(error),
        ) from None
