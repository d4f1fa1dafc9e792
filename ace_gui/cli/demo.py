"""``ace-gui demo --headless``: merge the sample and print the results."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ace_gui.bundled import is_bundled, part_command
from ace_gui.checkpoints import check_output_folder
from ace_gui.cli.console import print_checks, print_layers, wide_console
from ace_gui.engine.contract.events import Exported, SampleAccuracy
from ace_gui.engine.contract.scores import EXPERTS
from ace_gui.engine.merging.merge import models_of
from ace_gui.engine.sample import sample_accuracies, sample_recipe
from ace_gui.engine.workflow import Options, inspect, merge_to_folder
from ace_gui.paths import resource_path
from ace_gui.recipe import Recipe

PICTURE = "window.png"


def run_headless(out: Path | None) -> None:
    """Print γ of every layer and the accuracies; write the merged model and a picture to ``out``.

    Raises WorkbenchError, before anything else where ``out`` cannot be written.
    """
    recipe = sample_recipe()
    target = None if out is None else check_output_folder(out, models_of(recipe))
    found = inspect(recipe)
    print_layers(found.prepared.plan, found.layers)
    console = wide_console()
    print_checks(found.checks, console)
    console.print("\nHeld-out accuracy of the sample, each merge with its method's defaults:\n")
    console.print(accuracy_table([row for row in sample_accuracies() if row is not None]))
    if target is not None:
        _write(recipe, target, console)


def accuracy_table(rows: list[SampleAccuracy]) -> Table:
    """One line a model: accuracy by task, mean, and mean relative to the experts."""
    experts = next(row for row in rows if row.model == EXPERTS)
    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for heading in (*experts.by_task, "mean", "of experts"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        relative = [row.by_task[task] / top for task, top in experts.by_task.items()]
        values = (*row.by_task.values(), row.mean, sum(relative) / len(relative))
        title = "experts, each on its own task" if row is experts else row.model
        table.add_row(Text(title), *(f"{value:.3f}" for value in values))
    return table


def _write(recipe: Recipe, target: Path, console: Console) -> None:
    *_, result = merge_to_folder(recipe, target, Options(device="cpu"))
    assert isinstance(result, Exported)
    console.print(f"\nThe merged model is in {target}: {', '.join(result.files)}")
    problem = take_picture(target / PICTURE)
    if problem:
        console.print(f"No picture of the window could be taken: {problem}")
    else:
        console.print(f"A picture of the window is in {target / PICTURE}.")


def take_picture(file: Path) -> str:
    """Draw the sample in the real window, off screen. Returns the error, or an empty text.

    In a process of its own: the window's libraries may be missing on a server, and a missing one
    ends the process that asks for it.
    """
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    from_source = [sys.executable, "-m", "ace_gui.gui.picture"]
    command = part_command("take-picture") if is_bundled() else from_source
    recipe = resource_path("sample/sample.yaml")
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
    return lines[-1] if lines else f"exit status {result.returncode}"
