"""``ace-gui demo --headless``: merge a sample and print the results."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ace_gui.cli.console import Terminal, print_checks, print_warnings, safe_text
from ace_gui.cli.evaluating import merged_and_measured, score_table
from ace_gui.cli.inspecting import print_layers
from ace_gui.engine.contract.events import Evaluated, Exported
from ace_gui.engine.contract.jobs import EvaluateJob
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.inspecting.compare_recipes import by_method
from ace_gui.engine.service import run
from ace_gui.engine.workflow import Options, inspect, merge_to_folder
from ace_gui.output_files import check_output_folder
from ace_gui.processes import is_bundled, part_command
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.recipe_file import load_recipe

PICTURE = "window.png"
COMPARED = ("linear", "task_arithmetic", "ace", "ace:automatic", recommended.NAME)
"""The merges of the table: methods with their defaults, and the recommended merge."""


def run_headless(recipe_file: Path, out: Path | None) -> None:
    """Print γ of every layer and the scores; write the merged model and a screenshot to ``out``.

    Raises WorkbenchError. If ``out`` cannot be written, it is raised before anything else is done.
    """
    recipe = load_recipe(recipe_file)
    if out is None:
        target = None
    else:
        target = check_output_folder(out, recipe.paths)
    inspected = inspect(recipe)
    console = Terminal().results
    print_layers(inspected.prepared.plan, inspected.layers, console)
    print_warnings(inspected.prepared.plan.warnings, console)
    print_checks(inspected.checks, console)
    console.print(
        "\nScores on held-out data: methods with their defaults, and the recommended merge:\n"
    )
    console.print(score_table(_scores(recipe), errors=False))
    if target is not None:
        _write(recipe, recipe_file, target, console)


def _scores(recipe: Recipe) -> tuple[TaskScore, ...]:
    """Scores of the base, of each expert on its own task, and of the merges."""
    *_, last = run(EvaluateJob(recipe=recipe, device="cpu"))
    assert isinstance(last, Evaluated)
    rows = merged_and_measured(by_method(recipe, COMPARED), "cpu")
    merged = (replace(score, model=row.title) for row in rows for score in row.scores)
    return (*last.scores, *merged)


def _write(recipe: Recipe, recipe_file: Path, target: Path, console: Console) -> None:
    *_, result = merge_to_folder(recipe, target, Options(device="cpu"))
    assert isinstance(result, Exported)
    console.print(safe_text(f"The merged model is in {target}: {', '.join(result.files)}"))
    problem = take_picture(recipe_file, target / PICTURE)
    if problem:
        console.print(f"No picture of the window could be taken: {problem}")
    else:
        console.print(safe_text(f"A picture of the window is in {target / PICTURE}."))


def take_picture(recipe: Path, file: Path) -> str:
    """Render a merge in the real window, off screen. Returns the error, or an empty text.

    It runs in a process of its own. The window's libraries may be missing on a server, and a
    missing library ends the process that loads it.
    """
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    from_source = [sys.executable, "-m", "ace_gui.gui.picture"]
    if is_bundled():
        command = part_command("take-picture")
    else:
        command = from_source
    with tempfile.TemporaryDirectory(prefix="ace-settings-") as settings:
        environment["XDG_CONFIG_HOME"] = settings
        result = subprocess.run(
            [*command, str(recipe), str(file)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode == 0 and file.exists():
        return ""
    lines = result.stderr.strip().splitlines()
    if lines:
        return lines[-1]
    return f"exit status {result.returncode}"
