"""The command line: runs the engine without a window, or opens the window.

Each command names its function; the function's module is imported when the command runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ace_gui.application import __version__
from ace_gui.cli.interrupts import ignore
from ace_gui.cli.options import (
    WRONG_USAGE,
    CommandOptions,
    Computing,
    Reading,
    WithCluster,
    WithJson,
    WithLimit,
    WithOverwrite,
    WithRank,
    argument,
    command,
    counts_given,
    flag,
    llama_cpp_option,
    method_option,
    model_given,
    new_folder,
    option,
    path_given,
    path_option,
    recipe_file,
    recipe_given,
    run,
    settings_option,
    switch,
)
from ace_gui.cli.streams import finished, prepare_streams, reported, say
from ace_gui.figures.charts import PanelKind
from ace_gui.figures.sheet import Letters
from ace_gui.paths import Sample
from ace_gui.processes import go_offline
from ace_gui.recipe.distillation import How
from ace_gui.recipe.output_forms import Output


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ace-gui {__version__}")
        raise typer.Exit


app = typer.Typer(
    help=(
        "Merge fine-tuned models in closed form, and inspect the result. Without a command, the "
        "window opens; a recipe or model folders (base first) can be given."
    ),
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
        run(Open(paths=[], quiet=False, verbose=False), "window:open_window")


@command(app, "open", "window:open_window", hidden=True)
class Open(CommandOptions):
    """Open the window with a recipe or model folders loaded."""

    paths: list[Path] = argument(
        None, "A recipe, or model folders with the base first.", parser=path_given
    )

    def check(self) -> None:
        """Raise BadParameter for a path that does not exist."""
        missing = [path for path in self.paths if not path.exists()]
        if missing:
            raise typer.BadParameter(f"{missing[0]} does not exist.")


@command(app, "demo", "window:demo")
class Demo(CommandOptions):
    """Merge a sample project and show the results."""

    sample: Sample = option("|".join(Sample), "The sample project to merge.", default=Sample.IMAGES)
    headless: bool = flag("--headless", "Print the results instead of opening a window.")
    out: Path | None = path_option(
        "DIR",
        "Write the merged model and a screenshot of the window to this folder; implies --headless.",
    )


@command(app, "init", "recipes:init")
class Init(CommandOptions):
    """Print a commented recipe; merge nothing."""

    models: list[str] = argument(
        "BASE EXPERT…",
        "Model folders, files, or names in the local Hugging Face cache.",
        parser=model_given,
    )
    method: str | None = method_option()
    settings: list[str] | None = settings_option()

    def check(self) -> None:
        """Raise BadParameter without an expert."""
        if len(self.models) < 2:
            raise typer.BadParameter("Give a base and at least one expert.")


@command(app, "merge", "merging:merge")
class Merge(Computing, WithLimit, WithCluster, WithRank, WithJson):
    """Merge a recipe, or a base and experts, into a folder that transformers loads.

    Without a recipe and without --method, this is the recommended merge, as printed by init.
    """

    models: list[str] = argument(
        "RECIPE.yaml|BASE EXPERT…",
        "A recipe (or: sample, text-sample), or a base model and its experts.",
        parser=model_given,
    )
    out: Path | None = path_option("DIR", "The output folder; it must be new or empty.")
    method: str | None = method_option()
    settings: list[str] | None = settings_option()
    dry_run: bool = flag("--dry-run", "Print the plan, memory, disk space and time; write nothing.")
    memory: float | None = option(
        "GB", "Memory limit (default: the free memory).", min=0.001, max=1e6
    )
    resume: bool = flag("--resume", "Continue an interrupted merge.")
    complete_heads: bool = flag(
        "--complete-heads", "Also write one whole model per expert, with the expert's own head."
    )
    evaluate: bool = flag(
        "--evaluate", "Score the result on the recipe's tasks, for the model card."
    )
    distil: bool = flag(
        "--distil",
        "Align the merge with its experts, on inputs of the recipe's tasks without labels (64 of "
        "each; fewer by --limit).",
    )
    distil_how: How | None = option(
        "|".join(How),
        "With --distil: train the whole model at once, or one block after another (default: blocks "
        "only if the memory is too small for the whole).",
    )
    sanity: bool | None = switch(
        "--check/--no-check",
        "Try a merged language model on usual text, beside base and experts (default: if quick).",
    )
    kind: str | None = option("|".join(Output), "What to write (default: a model).", "--as")
    gguf: str | None = option(
        "auto|f16|bf16|q8_0|…", "Then also make a GGUF file of this format, beside the folder."
    )
    llama_cpp: Path | None = llama_cpp_option()

    def check(self) -> None:
        """Raise BadParameter for options that do not go together."""
        if len(self.models) == 1 and (self.method or self.settings):
            raise typer.BadParameter(
                "--method and --set go with a base and experts; change the recipe instead."
            )
        if self.out is None and not self.dry_run:
            raise typer.BadParameter("Missing option '--out'.")
        if self.limit and not (self.evaluate or self.distil):
            raise typer.BadParameter("--limit goes with --evaluate or --distil.")
        if self.distil_how and not self.distil:
            raise typer.BadParameter("--distil-how goes with --distil.")
        if self.dry_run and self.convert:
            raise typer.BadParameter("--dry-run writes nothing; leave out --convert.")


@command(app, "extract", "merging:extract")
class Extract(Computing, WithRank, WithJson):
    """Write the change from a base to a model as an adapter in PEFT's format."""

    base: str = argument("BASE", parser=model_given)
    model: str = argument("MODEL", parser=model_given)
    out: Path = new_folder()
    include: list[str] | None = option(
        "PATTERN", "Only tensors with names like this (* is any text); repeatable."
    )
    exclude: list[str] | None = option("PATTERN", "No tensors with names like this; repeatable.")
    resume: bool = flag("--resume", "Continue an interrupted extraction.")


@command(app, "task", "merging:task")
class RebuildTask(CommandOptions):
    """Rebuild one expert's model from a merged model with modules for each task."""

    model: Path = argument("MODEL", "A folder written by merge.", parser=path_given)
    expert: str = argument("EXPERT", "The expert's name.")
    out: Path = new_folder()
    base: Path | None = path_option("DIR", "The base model (default: the recipe's).")


@command(app, "inspect", "inspecting:inspect_recipe")
class Inspect(Computing, WithJson):
    """Show the plan, γ, energies and regime of every tensor; merge nothing."""

    recipe: Path = recipe_file()
    csv: Path | None = path_option(
        "FILE|-", "Also write the figures as CSV; - is the standard output, instead of tables."
    )
    covariances: bool = flag(
        "--covariances", "Also compare ACE's covariances with those of the experts' own inputs."
    )

    def check(self) -> None:
        """Raise BadParameter if JSON and CSV have the same file."""
        if self.json is not None and self.json == self.csv:
            raise typer.BadParameter("--json and --csv need different files.")


@command(app, "diff", "inspecting:diff_models")
class Diff(Reading, WithJson):
    """Show how far one model is from another, by tensor, block and role."""

    first: str = argument(
        "A", "A model folder, a file, or a name in the cache.", parser=model_given
    )
    second: str = argument("B", "The model to compare with it.", parser=model_given)
    picture: Path | None = path_option("FILE.svg|-", "Also draw the change of every tensor.")

    def check(self) -> None:
        """Raise BadParameter if JSON and picture have the same file."""
        if self.json is not None and self.json == self.picture:
            raise typer.BadParameter("--json and --picture need different files.")


@command(app, "verify", "verifying:verify_model")
class Verify(Reading, WithJson):
    """Show whether a merged folder contains these experts, and what else; change nothing."""

    models: list[str] = argument(
        "BASE EXPERT… MERGED",
        "Models or adapters: the base first, the merged one last.",
        parser=model_given,
    )

    def check(self) -> None:
        """Raise BadParameter without an expert."""
        if len(self.models) < 3:
            raise typer.BadParameter("Give a base, at least one expert, and the merged model.")


@command(app, "estimate", "estimating:estimate_recipe")
@command(app, "plan", "estimating:under_old_name", hidden=True)  # until the next release
class Estimate(Computing, WithCluster, WithJson):
    """Estimate the work, memory, disk space and time of a merge; merge nothing."""

    recipe: Path = recipe_file()
    workers: str = option("N,M,…", "Numbers of workers to estimate the time for.", default="")
    speed: float | None = option(
        "GFLOPS", "Speed of one worker (default: measured here).", min=0.01, max=1e9
    )
    disk: float | None = option(
        "MB/S",
        "Disk speed for reading and writing (default: measured here).",
        min=0.01,
        max=1e9,
    )

    def check(self) -> None:
        """Raise BadParameter for impossible numbers of workers."""
        counts_given(self.workers)


@command(app, "report", "merging:report")
class Report(Computing, WithLimit, WithJson):
    """Write one HTML report about a recipe's merge; write no model."""

    recipe: Path = recipe_file()
    out: Path = path_option("FILE.html", "The HTML file to write.", default=...)


@command(app, "figure", "figures:draw")
class Figure(Computing, WithOverwrite):
    """Draw a figure about a recipe's merge, for print; write no model."""

    recipe: Path = recipe_file()
    out: Path = path_option(
        "FILE.pdf|svg|png", "The figure; the table FILE.csv beside it has its data.", default=...
    )
    panels: str = option(
        ",".join(PanelKind),
        "What it shows, in this order (default: gamma,spectra).",
        default="gamma,spectra",
    )
    matrices: list[str] | None = option(
        "NAME|PATTERN", "A matrix for spectra and subspaces; repeatable (default: three of them)."
    )
    scores: Path | None = path_option("FILE.json", "Scores of evaluate --json, for that panel.")
    width: float = option("MM", "The width: 90, 140, 190 (default).", default=190.0)
    height: float | None = option("MM", "The height (default: 66 for each row of panels).")
    points: float = option("PT", "The size of letters (default: 8).", default=8.0)
    letters: Letters = option("|".join(Letters), "The kind of letters.", default=Letters.SANS)
    grey: bool = flag("--grey", "Use greys and dashes instead of colours.")
    names: bool = flag("--names", "Write the names of curves at their ends, without a legend.")
    plain: bool = flag("--plain", "Leave out thresholds, crosses, and curves before refinement.")
    caption: bool = flag("--caption", "Print the caption.")


@command(app, "compare", "evaluating:compare_methods")
class Compare(Computing, WithLimit, WithCluster, WithJson):
    """Merge with several methods or parameter values, print one table, and keep no model."""

    recipe: Path = recipe_file()
    methods: str = option(
        "a,b,c|all",
        "The methods to compare, each with its defaults; also: recommended.",
        default="",
    )
    shelf: bool = flag("--shelf", "Compare the methods to try first; ace-gui methods lists them.")
    parameter: str = option(
        "NAME=v1,v2", "Values to compare for one parameter of a method.", default=""
    )

    def check(self) -> None:
        """Raise BadParameter without anything to compare, or if --shelf is not alone."""
        if not (self.methods or self.parameter or self.shelf):
            raise typer.BadParameter("Give --methods, --shelf or --parameter to compare.")
        if self.shelf and (self.methods or self.parameter):
            raise typer.BadParameter("Use --shelf without --methods and --parameter.")


@command(app, "evaluate", "evaluating:evaluate_models")
class Evaluate(Computing, WithLimit, WithCluster, WithJson):
    """Score base, experts and other models on your own data; see the help page on tasks."""

    models: list[Path] = argument(
        "RECIPE_OR_FOLDER…",
        "A recipe, to score its base and experts, and folders with models.",
        parser=recipe_given,
    )
    tasks: Path | None = path_option(
        "FILE", "A YAML file with tasks (default: the recipe's tasks)."
    )
    harness: str = option("a,b,c", "Also run these lm-eval tasks on the folders.", default="")
    harness_tasks: Path | None = path_option("DIR", "A folder with your own lm-eval tasks.")
    routing: bool = flag(
        "--routing", "Also show which experts the routers of merged models choose."
    )


@command(app, "tune", "evaluating:tune_recipe")
class Tune(Computing, WithLimit, WithCluster, WithJson):
    """Choose parameter values on one half of the tasks' data, and score on the other half."""

    recipe: Path = recipe_file()
    parameter: list[str] = option(
        "NAME=a..b", "A parameter of the method and its range; repeatable.", default=...
    )
    merges: int | None = option(
        "N", "Number of merges to try (default: 9, or 25 for several parameters).", min=2
    )
    out: Path | None = path_option("FILE", "Write the recipe with the chosen values.")


@command(app, "gguf", "gguf_files:convert")
class Gguf(WithOverwrite):
    """Make a GGUF file from a model's or an adapter's folder, by your own llama.cpp."""

    folder: Path = argument("DIR", "The folder of a model or an adapter.", parser=path_given)
    out: Path | None = path_option("FILE.gguf", "The file (default: beside the folder).")
    kind: str = option(
        "auto|f16|bf16|q8_0|…", "The format; auto: the model's 16 bits.", "--type", default="auto"
    )
    llama_cpp: Path | None = llama_cpp_option()
    base: Path | None = path_option("DIR", "An adapter's base, if its config names no folder.")


@command(app, "mergekit", "recipes:write_mergekit")
class Mergekit(WithOverwrite):
    """Write a recipe as a mergekit YAML file. Merge and the window also read mergekit files."""

    recipe: Path = recipe_file()
    out: Path | None = path_option("FILE", "The YAML file to write.")
    explain: bool = flag(
        "--explain",
        "Instead, for a file of mergekit's: list what becomes of each of its keys, and why.",
    )

    def check(self) -> None:
        """Raise BadParameter without something to do, or with both."""
        if self.explain and self.out is not None:
            raise typer.BadParameter("--explain writes nothing; leave out --out.")
        if not self.explain and self.out is None:
            raise typer.BadParameter("Missing option '--out'.")


@command(app, "methods", "listing:methods")
class Methods(WithJson):
    """List the merge methods to try first, or show one with its parameters and citation."""

    name: str | None = argument(None, "Show this method in detail.", default=None)
    all: bool = flag("--all", "List every method, by family.")
    folder: bool = flag("--folder", "Print the folder for files with your own methods.")


@command(app, "devices", "merging:devices")
class Devices(WithJson):
    """List the devices for merges, and explain why a GPU is not usable."""


@command(app, "cache", "kept_results:cache")
class Caches(WithJson):
    """List what is kept to save time, where, and when it is used; or empty it."""

    empty: str | None = option(
        "a,b,c|all", "Empty these caches; what they held is made again when it is needed."
    )


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
        message = error.format_message().rstrip(".")
        say(f"Error: {message}{'' if message.endswith('?') else '.'} Try ace-gui --help.")
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
