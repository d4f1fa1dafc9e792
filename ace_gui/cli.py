"""The command line: the engine without a window, and the door to the window.

Everything heavy is imported by the command that needs it, so that the window opens fast and
``--help`` answers at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from ace_gui.errors import Cancelled, WorkbenchError
from ace_gui.imports import heavy_imports

CANCELLED = 130


app = typer.Typer(
    help="Merge fine-tuned experts in closed form, and see what the merge does. "
    "Without a command: open the window, with a recipe or model folders (the base first) loaded.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show where an error came from, with its traceback.")
]
RecipeFile = Annotated[Path, typer.Argument(metavar="RECIPE.yaml", help="The recipe.")]
Convert = Annotated[
    bool,
    typer.Option(
        "--convert",
        help="Convert PyTorch pickles to safetensors first; nothing in them is run.",
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads for computing (default: as torch chooses).")
]


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _window([], verbose=False)


@app.command("open", hidden=True)
def open_window(
    paths: Annotated[list[Path], typer.Argument(help="A recipe, or model folders, base first.")],
    verbose: Verbose = False,
) -> None:
    """Open the window with a recipe or model folders loaded."""
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise typer.BadParameter(f"{missing[0]} does not exist.")
    _window(paths, verbose=verbose)


@app.command("demo")
def demo(
    headless: Annotated[
        bool, typer.Option("--headless", help="Print the results instead of opening a window.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the merged model and a picture of the window."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Merge the sample project and show what happened."""
    with _reported(verbose):
        if not headless and not has_display():
            headless = True
            typer.echo("There is no display, so the demo runs without a window.", err=True)
        if headless:
            with heavy_imports():
                from ace_gui.demo import run_headless

            run_headless(out)
        else:
            from ace_gui.gui.app import run

            raise SystemExit(run(demo=True))


@app.command("merge")
def merge(
    recipe: RecipeFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="A folder that is new or empty.")],
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda:N")] = "auto",
    threads: Threads = None,
    memory: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="GB", help="Memory to use at most (default: what is free)."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a merge that was stopped.")
    ] = False,
    complete_heads: Annotated[
        bool,
        typer.Option(
            "--complete-heads", help="Also write a whole model for each expert's own head."
        ),
    ] = False,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Merge a recipe and write a folder that transformers loads."""
    with _reported(verbose):
        with heavy_imports():
            from ace_gui.console import merge_to_folder

        merge_to_folder(
            recipe,
            out,
            device=device,
            threads=threads,
            memory_bytes=None if memory is None else int(memory * 1e9),
            resume=resume,
            convert=convert,
            complete_heads=complete_heads,
        )


@app.command("task")
def task(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that merge wrote.")],
    expert: Annotated[str, typer.Argument(metavar="EXPERT", help="The expert's name.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A folder that is new or empty.")],
    base: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The base model (default: where the recipe says)."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Make one expert's model again from a merged one (emr, tall_masks, tsv_c)."""
    with _reported(verbose):
        with heavy_imports():
            from ace_gui.engine.tasks import write_task_model

        typer.echo(f"Written to {write_task_model(model, expert, out, base=base)}.")


@app.command("inspect")
def inspect(
    recipe: RecipeFile,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures as JSON.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures as CSV.")
    ] = None,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Show the plan, γ, energies and regime of every tensor; merge nothing."""
    with _reported(verbose):
        with heavy_imports():
            from ace_gui.console import inspect_recipe

        inspect_recipe(recipe, json_file=json, csv_file=csv, convert=convert)


@app.command("report")
def report(
    recipe: RecipeFile,
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The report; replaced if there.")],
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda:N")] = "auto",
    threads: Threads = None,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Write one HTML file that shows what the merge of a recipe does; write no model."""
    with _reported(verbose):
        with heavy_imports():
            from ace_gui.console import report_recipe

        report_recipe(recipe, out, device=device, threads=threads, convert=convert)


@app.command("compare")
def compare(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE.yaml", help="The recipe, or the word sample.")
    ],
    methods: Annotated[
        str, typer.Option(metavar="a,b,c|all", help="The methods, each with its defaults.")
    ] = "",
    parameter: Annotated[
        str, typer.Option(metavar="NAME=v1,v2", help="Values of one parameter of one method.")
    ] = "",
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures as JSON.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda:N")] = "auto",
    verbose: Verbose = False,
) -> None:
    """Merge by several methods, or with several values, and print one table; keep nothing."""
    with _reported(verbose):
        if not methods and not parameter:
            raise typer.BadParameter("Say which --methods or which --parameter to compare.")
        with heavy_imports():
            from ace_gui.comparing import compare_methods

        compare_methods(recipe, methods=methods, parameter=parameter, json_file=json, device=device)


@app.command("mergekit")
def mergekit(
    recipe: RecipeFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file; replaced if there.")],
    verbose: Verbose = False,
) -> None:
    """Write a recipe as a YAML file for mergekit; merge and the window read its files, too."""
    with _reported(verbose):
        with heavy_imports():
            from ace_gui.comparing import write_mergekit

        write_mergekit(recipe, out)


@app.command("methods")
def methods(
    name: Annotated[str | None, typer.Argument(help="One method, in full.")] = None,
    verbose: Verbose = False,
) -> None:
    """List the merge methods, or show one with its parameters, ranges and citation."""
    with _reported(verbose):
        with heavy_imports():
            from ace_gui.console import show_method, show_methods

        show_methods() if name is None else show_method(name)


def has_display() -> bool:
    """Whether a window can be shown here."""
    if not sys.platform.startswith("linux"):
        return True
    wanted = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return any(os.environ.get(name) for name in wanted)


def main() -> None:
    """Entry point of ``ace-gui``; exits 0, 1 (reported error), 2 (usage) or 130 (cancelled)."""
    arguments = sys.argv[1:]
    commands = {command.name for command in app.registered_commands}
    if arguments and arguments[0] not in commands and Path(arguments[0]).exists():
        arguments.insert(0, "open")  # ace-gui PATH… opens the window
    app(args=arguments)


def _window(paths: list[Path], *, verbose: bool) -> None:
    with _reported(verbose):
        if not has_display():
            raise WorkbenchError(
                "There is no display to open a window on; use ace-gui merge, inspect or "
                "demo --headless, or run under a display."
            )
        from ace_gui.gui.app import run

        raise SystemExit(run(paths))


@contextlib.contextmanager
def _reported(verbose: bool) -> Iterator[None]:
    """Errors as one sentence on stderr and status 1; Ctrl+C and SIGTERM as status 130."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except (KeyboardInterrupt, Cancelled):
        typer.echo("Cancelled.", err=True)
        raise SystemExit(CANCELLED) from None
    except WorkbenchError as error:
        if verbose:
            raise
        typer.echo(f"Error: {error.sentence}", err=True)
        raise SystemExit(1) from None
    except BrokenPipeError:  # the reader of our output went away
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        raise SystemExit(1) from None


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
