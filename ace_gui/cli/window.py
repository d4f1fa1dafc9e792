"""``ace-gui``, ``ace-gui open`` and ``ace-gui demo``: with a window, where there is a display."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from ace_gui.cli.interrupts import starting
from ace_gui.engine.contract.engine_process import EngineProcess
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
    _run(command.paths)


def demo(command: Demo) -> None:
    """Show a sample project in the window, or print its results, and write them on request."""
    headless = command.headless or command.out is not None
    if not headless and not has_display():
        headless = True
        typer.echo("There is no display, so the demo runs without a window.", err=True)
    if not headless:
        _run([command.sample.recipe], demo=True)
    with starting(), heavy_imports():
        from ace_gui.cli.demo import run_headless

    run_headless(command.sample.recipe, command.out)


def _run(paths: Sequence[Path], *, demo: bool = False) -> NoReturn:
    """Open the window. The engine imports torch while the window is imported and made."""
    with starting():
        try:
            engine = EngineProcess()
        except OSError:
            engine = None  # the window tries again, and reports it
        from ace_gui.gui.app import run

    raise SystemExit(run(paths, engine, demo=demo))


def has_display() -> bool:
    """Whether this machine can show a window."""
    if not sys.platform.startswith("linux"):
        return True
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return any(os.environ.get(name) for name in variables)
