"""``ace-gui``, ``ace-gui open`` and ``ace-gui demo``: with a window, where there is a display."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from ace_gui.cli.interrupts import starting
from ace_gui.errors import WorkbenchError
from ace_gui.processes import heavy_imports

if TYPE_CHECKING:
    from ace_gui.cli.commands import Demo, Open


def open_window(command: Open) -> None:
    """Open the window, with a recipe or models. Raises WorkbenchError without a display."""
    if not has_display():
        raise WorkbenchError(
            "There is no display to open a window on; use ace-gui merge, inspect or "
            "demo --headless, or run under a display."
        )
    with starting():
        from ace_gui.gui.app import run

    raise SystemExit(run(command.paths))


def demo(command: Demo) -> None:
    """Show a sample project in the window, or print its results, and write them on request."""
    headless = command.headless or command.out is not None
    if not headless and not has_display():
        headless = True
        typer.echo("There is no display, so the demo runs without a window.", err=True)
    if not headless:
        with starting():
            from ace_gui.gui.app import run

        raise SystemExit(run([command.sample.recipe], demo=True))
    with starting(), heavy_imports():
        from ace_gui.cli.demo import run_headless

    run_headless(command.sample.recipe, command.out)


def has_display() -> bool:
    """Whether this machine can show a window."""
    if not sys.platform.startswith("linux"):
        return True
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return any(os.environ.get(name) for name in variables)
