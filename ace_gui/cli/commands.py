"""The command line: runs the engine without a window, or opens the window.

Each command imports its heavy modules itself, so the window opens fast and ``--help`` is immediate.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ace_gui import __version__
from ace_gui.cli.arguments import (
    MOST_SPEED,
    Cluster,
    Convert,
    Device,
    Energy,
    JsonFile,
    Limit,
    MethodId,
    NewFolder,
    Overwrite,
    Rank,
    RecipeFile,
    Settings,
    Threads,
    Verbose,
    counts_given,
    gigabytes_given,
    model_given,
    path_given,
    recipe_given,
)
from ace_gui.cli.error_reporting import finished, reported
from ace_gui.cli.interrupts import ignore, interruptible, starting
from ace_gui.cli.streams import prepare_streams, say
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import printable
from ace_gui.imports import heavy_imports
from ace_gui.offline import go_offline
from ace_gui.paths import Sample

WRONG_USAGE: Final[Any] = typer.BadParameter.__base__
"""Typer's usage errors. Their module depends on Typer's version."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ace-gui {__version__}")
        raise typer.Exit


app = typer.Typer(
    help=(
        "Merge fine-tuned models in closed form, and inspect the result. Without a command, the "
        "window opens; a recipe or model folders (base first) can be given."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _default(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        _window([], verbose=False)


@app.command("open", hidden=True)
def open_window(
    paths: Annotated[
        list[Path],
        typer.Argument(parser=path_given, help="A recipe, or model folders with the base first."),
    ],
    verbose: Verbose = False,
) -> None:
    """Open the window with a recipe or model folders loaded."""
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise typer.BadParameter(f"{missing[0]} does not exist.")
    _window(paths, verbose=verbose)


@app.command("demo")
def demo(
    sample: Annotated[
        Sample, typer.Option("--sample", help="The sample project to merge.")
    ] = Sample.IMAGES,
    headless: Annotated[
        bool, typer.Option("--headless", help="Print the results instead of opening a window.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path_given,
            metavar="DIR",
            help="Write the merged model and a screenshot of the window to this folder.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Merge a sample project and show the results."""
    with _reported(verbose):
        if not headless and not has_display():
            headless = True
            typer.echo("There is no display, so the demo runs without a window.", err=True)
        if headless:
            with starting(), heavy_imports():
                from ace_gui.cli.demo import run_headless

            run_headless(sample.recipe, out)
        else:
            with starting():
                from ace_gui.gui.app import run

            raise SystemExit(run([sample.recipe], demo=True))


@app.command("init")
def init(
    models: Annotated[
        list[str],
        typer.Argument(
            parser=model_given,
            metavar="BASE EXPERT…",
            help="Model folders, files, or names in the local Hugging Face cache.",
        ),
    ],
    method: MethodId = None,
    settings: Settings = None,
    verbose: Verbose = False,
) -> None:
    """Print a commented recipe; merge nothing."""
    with _reported(verbose):
        if len(models) < 2:
            raise typer.BadParameter("Give a base and at least one expert.")
        with starting(), heavy_imports():
            from ace_gui.cli.from_models import init_recipe

        typer.echo(init_recipe(models, method, settings or ()), nl=False)


@app.command("merge")
def merge(
    models: Annotated[
        list[str],
        typer.Argument(
            parser=model_given,
            metavar="RECIPE.yaml|BASE EXPERT…",
            help="A recipe (or: sample, text-sample), or a base model and its experts.",
        ),
    ],
    out: NewFolder,
    method: MethodId = None,
    settings: Settings = None,
    device: Device = "auto",
    threads: Threads = None,
    memory: Annotated[
        float | None,
        typer.Option(
            parser=gigabytes_given,
            metavar="GB",
            help="Memory limit (default: the free memory).",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted merge.")
    ] = False,
    complete_heads: Annotated[
        bool,
        typer.Option(
            "--complete-heads",
            help=("Also write one whole model per expert, with the expert's own head."),
        ),
    ] = False,
    evaluate: Annotated[
        bool,
        typer.Option(
            "--evaluate", help=("Score the result on the recipe's tasks, for the model card.")
        ),
    ] = False,
    convert: Convert = False,
    cluster: Cluster = "",
    kind: Annotated[
        str | None,
        typer.Option("--as", metavar="model|adapter", help="What to write (default: a model)."),
    ] = None,
    rank: Rank = None,
    energy: Energy = None,
    verbose: Verbose = False,
) -> None:
    """Merge a recipe, or a base and experts, into a folder that transformers loads.

    Without a recipe and without --method, this is the recommended merge, as printed by init.
    """
    with _reported(verbose):
        if len(models) == 1 and (method or settings):
            raise typer.BadParameter(
                "--method and --set go with a base and experts; change the recipe instead."
            )
        with starting(), heavy_imports():
            from ace_gui.cli.adapters import as_adapter
            from ace_gui.cli.console import merge_to_folder
            from ace_gui.cli.from_models import recipe_of
            from ace_gui.engine.workflow import Options

        options = Options(
            device=device,
            threads=threads,
            memory_bytes=None if memory is None else int(memory * 1e9),
            resume=resume,
            convert=convert,
            complete_heads=complete_heads,
            evaluate=evaluate,
            cluster=cluster,
        )
        recipe = as_adapter(recipe_of(models, method, settings or ()), kind, rank, energy)
        merge_to_folder(recipe, out, options)


@app.command("extract")
def extract(
    base: Annotated[str, typer.Argument(parser=model_given, metavar="BASE")],
    model: Annotated[str, typer.Argument(parser=model_given, metavar="MODEL")],
    out: NewFolder,
    rank: Rank = None,
    energy: Energy = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar="PATTERN", help="Only tensors with such names (*); repeatable."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="PATTERN", help="None with such names; repeatable."),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted extraction.")
    ] = False,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Write the change from a base to a model as an adapter in PEFT's format."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.cli.adapters import extract_to_folder
            from ace_gui.engine.workflow import Options

        options = Options(device=device, threads=threads, resume=resume, convert=convert)
        extract_to_folder(
            base,
            model,
            out,
            options,
            rank=rank,
            energy=energy,
            include=include or (),
            exclude=exclude or (),
        )


@app.command("task")
def task(
    model: Annotated[
        Path, typer.Argument(parser=path_given, metavar="MODEL", help="A folder written by merge.")
    ],
    expert: Annotated[str, typer.Argument(metavar="EXPERT", help="The expert's name.")],
    out: NewFolder,
    base: Annotated[
        Path | None,
        typer.Option(
            parser=path_given,
            metavar="DIR",
            help="The base model (default: the recipe's).",
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Rebuild one expert's model from a merged model with modules for each task."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.engine.output.task_model import write_task_model

        typer.echo(printable(f"Written to {write_task_model(model, expert, out, base=base)}."))


@app.command("inspect")
def inspect(
    recipe: RecipeFile,
    json: JsonFile = None,
    csv: Annotated[
        Path | None,
        typer.Option(parser=path_given, metavar="FILE|-", help="Also write the figures as CSV."),
    ] = None,
    covariances: Annotated[
        bool,
        typer.Option(
            "--covariances",
            help=("Also compare ACE's covariances with those of the experts' own inputs."),
        ),
    ] = False,
    overwrite: Overwrite = False,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Show the plan, γ, energies and regime of every tensor; merge nothing."""
    with _reported(verbose):
        if json is not None and json == csv:
            raise typer.BadParameter("--json and --csv need a file each.")
        with starting(), heavy_imports():
            from ace_gui.cli.console import inspect_recipe

        inspect_recipe(
            recipe,
            json_file=json,
            csv_file=csv,
            convert=convert,
            covariances=covariances,
            overwrite=overwrite,
        )


@app.command("plan")
def plan(
    recipe: RecipeFile,
    cluster: Cluster = "",
    workers: Annotated[
        str, typer.Option(metavar="N,M,…", help="Numbers of workers to estimate the time for.")
    ] = "",
    speed: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=MOST_SPEED,
            metavar="GFLOPS",
            help=("Speed of one worker (default: measured here)."),
        ),
    ] = None,
    disk: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=MOST_SPEED,
            metavar="MB/S",
            help=("Disk speed for reading and writing (default: measured here)."),
        ),
    ] = None,
    threads: Threads = None,
    json: JsonFile = None,
    overwrite: Overwrite = False,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Estimate the work and time of a merge; merge nothing."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.cli.planning import Given, plan_recipe

        given = Given(workers=counts_given(workers), gigaflops=speed, disk=disk, threads=threads)
        plan_recipe(
            recipe, given, cluster=cluster, json_file=json, convert=convert, overwrite=overwrite
        )


@app.command("report")
def report(
    recipe: RecipeFile,
    out: Annotated[
        Path,
        typer.Option(parser=path_given, metavar="FILE.html", help="The HTML file to write."),
    ],
    device: Device = "auto",
    threads: Threads = None,
    overwrite: Overwrite = False,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Write one HTML report about a recipe's merge; write no model."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.cli.console import report_recipe
            from ace_gui.engine.workflow import Options

        options = Options(device=device, threads=threads, convert=convert)
        report_recipe(recipe, out, options, overwrite=overwrite)


@app.command("compare")
def compare(
    recipe: RecipeFile,
    methods: Annotated[
        str,
        typer.Option(
            metavar="a,b,c|all",
            help="The methods to compare, each with its defaults; also: recommended.",
        ),
    ] = "",
    parameter: Annotated[
        str,
        typer.Option(
            metavar="NAME=v1,v2", help=("Values to compare for one parameter of one method.")
        ),
    ] = "",
    json: JsonFile = None,
    device: Device = "auto",
    cluster: Cluster = "",
    overwrite: Overwrite = False,
    verbose: Verbose = False,
) -> None:
    """Merge with several methods or parameter values, print one table, and keep no model."""
    with _reported(verbose):
        if not methods and not parameter:
            raise typer.BadParameter("Give --methods or --parameter to compare.")
        with starting(), heavy_imports():
            from ace_gui.cli.comparing import compare_methods

        compare_methods(
            recipe,
            methods=methods,
            parameter=parameter,
            json_file=json,
            device=device,
            cluster=cluster,
            overwrite=overwrite,
        )


@app.command("evaluate")
def evaluate(
    models: Annotated[
        list[Path],
        typer.Argument(
            parser=recipe_given,
            metavar="RECIPE_OR_FOLDER…",
            help="A recipe, to score its base and experts, and folders with models.",
        ),
    ],
    tasks: Annotated[
        Path | None,
        typer.Option(
            parser=path_given,
            metavar="FILE",
            help="A YAML file with tasks (default: the recipe's tasks).",
        ),
    ] = None,
    harness: Annotated[
        str,
        typer.Option(metavar="a,b,c", help="Also run these lm-eval tasks on the folders."),
    ] = "",
    harness_tasks: Annotated[
        Path | None,
        typer.Option(
            parser=path_given, metavar="DIR", help="A folder with your own lm-eval tasks."
        ),
    ] = None,
    routing: Annotated[
        bool,
        typer.Option(
            "--routing", help=("Also show which experts the routers of merged models choose.")
        ),
    ] = False,
    limit: Limit = None,
    json: JsonFile = None,
    device: Device = "auto",
    cluster: Cluster = "",
    overwrite: Overwrite = False,
    convert: Convert = False,
    verbose: Verbose = False,
) -> None:
    """Score base, experts and other models on your own data; see the help page on tasks."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.cli.evaluating import evaluate_models

        evaluate_models(
            models,
            tasks_file=tasks,
            harness=harness,
            harness_tasks=harness_tasks,
            limit=limit,
            json_file=json,
            device=device,
            cluster=cluster,
            routing=routing,
            convert=convert,
            overwrite=overwrite,
        )


@app.command("tune")
def tune(
    recipe: RecipeFile,
    parameter: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=a..b", help=("A parameter of the method and its range; repeatable.")
        ),
    ],
    merges: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help=("Number of merges to try (default: 9, or 25 for several parameters)."),
        ),
    ] = None,
    limit: Limit = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path_given, metavar="FILE", help=("Write the recipe with the chosen values.")
        ),
    ] = None,
    json: JsonFile = None,
    device: Device = "auto",
    cluster: Cluster = "",
    overwrite: Overwrite = False,
    verbose: Verbose = False,
) -> None:
    """Choose parameter values on one half of the tasks' data, and score on the other half."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.cli.tuning import tune_recipe

        tune_recipe(
            recipe,
            parameters=parameter,
            merges=merges,
            limit=limit,
            out=out,
            json_file=json,
            device=device,
            cluster=cluster,
            overwrite=overwrite,
        )


@app.command("mergekit")
def mergekit(
    recipe: RecipeFile,
    out: Annotated[
        Path, typer.Option(parser=path_given, metavar="FILE", help=("The YAML file to write."))
    ],
    overwrite: Overwrite = False,
    verbose: Verbose = False,
) -> None:
    """Write a recipe as a mergekit YAML file. Merge and the window also read mergekit files."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.cli.comparing import write_mergekit

        write_mergekit(recipe, out, overwrite=overwrite)


@app.command("methods")
def methods(
    name: Annotated[str | None, typer.Argument(help="Show this method in detail.")] = None,
    folder: Annotated[
        bool, typer.Option("--folder", help="Print the folder for files with your own methods.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """List the merge methods, or show one with its parameters, ranges and citation."""
    with _reported(verbose):
        if folder:
            from ace_gui.paths import methods_folder

            print(methods_folder())  # noqa: T201
            return
        with starting(), heavy_imports():
            from ace_gui.cli.console import show_method, show_methods

        show_methods() if name is None else show_method(name)


@app.command("devices")
def devices(verbose: Verbose = False) -> None:
    """List the devices for merges, and explain why a GPU is not usable."""
    with _reported(verbose):
        with starting(), heavy_imports():
            from ace_gui.cli.console import show_devices

        show_devices()


def has_display() -> bool:
    """Whether this machine can show a window."""
    if not sys.platform.startswith("linux"):
        return True
    wanted = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return any(os.environ.get(name) for name in wanted)


def main() -> None:
    """Run the command line, and exit with 0, 1 (reported error), 2 (usage) or 130."""
    prepare_streams()
    go_offline()
    arguments = sys.argv[1:]
    status: object = 0
    try:
        with reported("--verbose" in arguments, WRONG_USAGE):
            status = app(args=_with_command(arguments), standalone_mode=False)
    except WRONG_USAGE as error:
        say(f"Error: {error.format_message().rstrip('.')}. Try ace-gui --help.")
        status = error.exit_code
    except SystemExit as end:
        status = end.code
    ignore()
    sys.exit(finished(status if isinstance(status, int) else 0))


def _with_command(arguments: list[str]) -> list[str]:
    """Insert ``open`` where the first argument is a path."""
    first = next(iter(arguments), "-")
    commands = {command.name for command in app.registered_commands}
    if first.startswith("-") or first in commands:
        return arguments
    if os.path.exists(first) or Path(first).suffix or os.sep in first:  # noqa: PTH110
        return ["open", *arguments]
    return arguments


def _window(paths: list[Path], *, verbose: bool) -> None:
    with _reported(verbose):
        if not has_display():
            raise WorkbenchError(
                "There is no display to open a window on; use ace-gui merge, inspect or "
                "demo --headless, or run under a display."
            )
        with starting():
            from ace_gui.gui.app import run

        raise SystemExit(run(paths))


@contextlib.contextmanager
def _reported(verbose: bool) -> Iterator[None]:
    with reported(verbose, WRONG_USAGE, typer.Exit), interruptible():
        yield
