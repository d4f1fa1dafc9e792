"""How commands are declared, and the arguments and options that several of them share.

A command is a class. Its fields are the arguments and options, and its docstring is the help. A
shared option is declared once, in a class that commands inherit. Invalid values are usage errors.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, dataclass_transform, get_type_hints

import typer

from ace_gui.cli.interrupts import interruptible, starting
from ace_gui.cli.streams import reported
from ace_gui.errors import PickleConsentError
from ace_gui.paths import Sample
from ace_gui.processes import heavy_imports

_TYPER: Final = "typer"

MOST_WORKERS: Final = 65_536

WRONG_USAGE: Final[Any] = typer.BadParameter.__base__
"""Typer's usage errors. Their module depends on Typer's version."""


def path_given(text: str) -> Path:
    """A path given on the command line. Raises BadParameter if it is not a possible path."""
    if not text:
        raise typer.BadParameter("The path is empty.")
    if "\0" in text:
        raise typer.BadParameter("The path holds a NUL character.")
    try:
        os.path.abspath(text).encode()  # noqa: PTH100
    except OSError as error:  # the working folder was removed
        raise typer.BadParameter(f"The working folder is gone: {error.strerror}.") from None
    except UnicodeEncodeError:
        raise typer.BadParameter(
            f"{text!a} is not UTF-8, or lies in a folder that is not; rename it."
        ) from None
    return Path(text)


def recipe_given(text: str) -> Path:
    """The path of a recipe, or the bundled recipe for ``sample`` or ``text-sample`` without such a
    file.
    """
    path = path_given(text)
    samples = {sample.recipe.parent.name: sample.recipe for sample in Sample}
    return path if os.path.isfile(path) else samples.get(text, path)  # noqa: PTH113 - Path.is_file raises without permission


def model_given(text: str) -> str:
    """A model as in a recipe: a path, or ``org/name``. Raises BadParameter."""
    path_given(text)
    return text


def _is_worker_count(text: str) -> bool:
    is_short_number = text.isascii() and text.isdigit() and len(text) < 6
    return is_short_number and 1 <= int(text) <= MOST_WORKERS


def counts_given(text: str) -> tuple[int, ...]:
    """Numbers of workers, as ``1,8,64``; empty for an empty text. Raises BadParameter."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(map(_is_worker_count, parts)):
        raise typer.BadParameter(
            f"{text[:40]!r} are not numbers of workers; give numbers from 1 to {MOST_WORKERS}, "
            "as in 1,8,64."
        )
    return tuple(map(int, parts))


def argument(
    metavar: str | None, about: str | None = None, *, parser: Any = None, default: Any = ...
) -> Any:
    """An argument of a command, which must be given unless it has a default."""
    return _declared(typer.Argument(default, metavar=metavar, help=about, parser=parser))


def flag(name: str, about: str) -> Any:
    """An option without a value."""
    return _declared(typer.Option(False, name, help=about))


def switch(names: str, about: str) -> Any:
    """An option that is on, off, or not given: ``--check/--no-check``."""
    return _declared(typer.Option(None, names, help=about))


def option(metavar: str, about: str, *names: str, default: Any = None, **more: Any) -> Any:
    """An option with a value. ``names``: if not the field's. ``default``: ``...`` if required.

    ``more``: ``min``, ``max``, or a ``parser``.
    """
    return _declared(typer.Option(default, *names, metavar=metavar, help=about, **more))


def _declared(info: Any) -> Any:
    """A dataclass field for an argument or option of a command."""
    if info.default is ...:
        default = MISSING
    else:
        default = info.default
    return field(default=default, metadata={_TYPER: info})


def path_option(metavar: str, about: str, *, default: Any = None) -> Any:
    """An option with a path."""
    return option(metavar, about, default=default, parser=path_given)


def recipe_file() -> Any:
    """The recipe of a command."""
    about = "A recipe file, or: sample, text-sample."
    return argument("RECIPE.yaml", about, parser=recipe_given)


def method_option() -> Any:
    """The method of a merge without a recipe."""
    about = "The method to use, with its defaults (default: the recommended merge)."
    return option("ID|ID:VARIANT", about, "--method")


def settings_option() -> Any:
    """Settings of a merge without a recipe."""
    about = (
        "A parameter of the method, or a key of the recipe (heads, out_dtype, after.scale); "
        "repeatable."
    )
    return option("KEY=VALUE", about, "--set")


def llama_cpp_option() -> Any:
    """The folder of the person's llama.cpp."""
    about = "The source folder of llama.cpp; it is remembered."
    return path_option("DIR", about)


def new_folder() -> Any:
    """The folder that a command writes."""
    return path_option("DIR", "The output folder; it must be new or empty.", default=...)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(argument, flag, switch, option, path_option),
)
@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """The options of every command. Subclasses are dataclasses like this one."""

    quiet: bool = flag("--quiet", "Print only results and errors: no progress, notes or warnings.")
    verbose: bool = flag("--verbose", "Show the traceback of an error.")

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def check(self) -> None:
        """Raise BadParameter for options that do not go together."""


class Reading(CommandOptions):
    """Commands that read models."""

    threads: int | None = option(
        "N", "Number of compute threads (default: one per processor).", min=1, max=1024
    )
    convert: bool = flag(
        "--convert",
        "Convert PyTorch pickles to safetensors first, without running code in them.",
    )


class Computing(Reading):
    """Commands that compute on a device."""

    device: str = option("auto|cpu|cuda:N", "The device to compute on.", default="auto")


class WithCluster(CommandOptions):
    """Commands whose work several processes can share."""

    cluster: str = option(
        "local:N|auto|ray://HOST:PORT",
        "Distribute the work: N local processes, or the workers of a Ray cluster.",
        default="",
    )


class WithLimit(CommandOptions):
    """Commands that score models on tasks."""

    limit: int | None = option("N", "Maximum number of examples per task, drawn at random.", min=1)


class WithOverwrite(CommandOptions):
    """Commands that write single files."""

    overwrite: bool = flag(
        "--overwrite", "Replace existing files even if this program did not write them."
    )


class WithJson(WithOverwrite):
    """Commands whose figures can be written as JSON."""

    json: Path | None = path_option(
        "FILE|-", "Also write the figures as JSON; - is the standard output, instead of tables."
    )


class WithRank(CommandOptions):
    """Commands that write an adapter."""

    rank: int | None = option("N", "The adapter's rank.", min=1)
    energy: float | None = option(
        "SHARE",
        "Instead of --rank: the share of each change's squared norm to keep.",
        min=1e-6,
        max=1.0,
    )


Command = TypeVar("Command", bound=CommandOptions)


def command(
    app: typer.Typer, name: str, work: str, *, hidden: bool = False
) -> Callable[[type[Command]], type[Command]]:
    """Add a command to ``app``; ``work``: the function that it calls, as ``module:function``.

    The module is imported when the command runs, so that others and ``--help`` start quickly. A
    command's own options come before the shared ones.
    """

    def added(options: type[Command]) -> type[Command]:
        def call(**values: Any) -> None:
            instance = options(**values)
            instance.check()
            run(instance, work)

        hints = get_type_hints(options)
        parameters = []
        for item in sorted(fields(options), key=lambda f: f.name not in options.__annotations__):
            kind = inspect.Parameter.KEYWORD_ONLY
            info = item.metadata[_TYPER]
            hint = hints[item.name]
            parameters.append(inspect.Parameter(item.name, kind, default=info, annotation=hint))
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {}
        call.__doc__ = options.__doc__
        app.command(name, hidden=hidden)(call)
        return options

    return added


def run(options: CommandOptions, work: str) -> None:
    """Import the module of a command's function, and call it.

    An error about a pickle gets the option for consent, where the command has it.
    """
    with reported(options.verbose, WRONG_USAGE, typer.Exit), interruptible():
        module, _, function = work.partition(":")
        with starting(), heavy_imports():
            imported = import_module(f"ace_gui.cli.{module}")
            if isinstance(options, Reading):
                from ace_gui.engine.capabilities import use_threads

                use_threads(options.threads)
        try:
            getattr(imported, function)(options)
        except PickleConsentError as error:
            if error.path is not None and not getattr(options, "convert", True):
                error.sentence += " Add --convert to convert it."
            raise
