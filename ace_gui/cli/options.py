"""How commands are declared, and the options that several of them share.

A command is a class: its fields are the arguments and options, its docstring is the help. A shared
option is declared once, in a class that commands inherit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, dataclass_transform, get_type_hints

import typer

from ace_gui.cli.arguments import MOST_THREADS, flag, path_option
from ace_gui.cli.error_reporting import reported
from ace_gui.cli.interrupts import interruptible, starting
from ace_gui.processes import heavy_imports

WRONG_USAGE: Final[Any] = typer.BadParameter.__base__
"""Typer's usage errors. Their module depends on Typer's version."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every command. Subclasses are dataclasses like this one."""

    quiet: Annotated[
        bool, flag("--quiet", "Print only results and errors: no progress, notes or warnings.")
    ] = False
    verbose: Annotated[bool, flag("--verbose", "Show the traceback of an error.")] = False

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def check(self) -> None:
        """Raise BadParameter for options that do not go together."""


class Reading(Options):
    """Commands that read models."""

    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_THREADS,
            metavar="N",
            help="Number of compute threads (default: one per processor).",
        ),
    ] = None
    convert: Annotated[
        bool,
        flag(
            "--convert",
            "Convert PyTorch pickles to safetensors first, without running code in them.",
        ),
    ] = False


class Computing(Reading):
    """Commands that compute on a device."""

    device: Annotated[
        str, typer.Option(metavar="auto|cpu|cuda:N", help="The device to compute on.")
    ] = "auto"


class WithCluster(Options):
    """Commands whose work several processes can share."""

    cluster: Annotated[
        str,
        typer.Option(
            metavar="local:N|auto|ray://HOST:PORT",
            help="Distribute the work: N local processes, or the workers of a Ray cluster.",
        ),
    ] = ""


class WithLimit(Options):
    """Commands that score models on tasks."""

    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum number of examples per task, drawn at random."
        ),
    ] = None


class WithOverwrite(Options):
    """Commands that write single files."""

    overwrite: Annotated[
        bool, flag("--overwrite", "Replace existing files even if this program did not write them.")
    ] = False


class WithJson(WithOverwrite):
    """Commands whose figures can be written as JSON."""

    json: Annotated[
        Path | None,
        path_option(
            "FILE|-", "Also write the figures as JSON; - is the standard output, instead of tables."
        ),
    ] = None


class WithRank(Options):
    """Commands that write an adapter."""

    rank: Annotated[int | None, typer.Option(min=1, metavar="N", help="The adapter's rank.")] = None
    energy: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            max=1.0,
            metavar="SHARE",
            help="Instead of --rank: the share of each change's squared norm to keep.",
        ),
    ] = None


Command = TypeVar("Command", bound=Options)


def command(
    app: typer.Typer, name: str, work: str, *, hidden: bool = False
) -> Callable[[type[Command]], type[Command]]:
    """Add a command to ``app``; ``work``: the function that it calls, as ``module:function``.

    The module is imported when the command runs, so that others and ``--help`` start quickly.
    """

    def added(options: type[Command]) -> type[Command]:
        def call(**values: Any) -> None:
            given = options(**values)
            given.check()
            run(given, work)

        call.__signature__ = inspect.Signature(_parameters(options))  # type: ignore[attr-defined]
        call.__annotations__, call.__doc__ = {}, options.__doc__
        app.command(name, hidden=hidden)(call)
        return options

    return added


def run(given: Options, work: str) -> None:
    """Import the module of a command's function, and call it."""
    with _reported(given.verbose):
        module, _, function = work.partition(":")
        with starting(), heavy_imports():
            loaded = import_module(f"ace_gui.cli.{module}")
        getattr(loaded, function)(given)


def _parameters(options: type[Options]) -> list[inspect.Parameter]:
    """The fields as parameters of a function, a command's own before the shared ones."""
    hints = get_type_hints(options, include_extras=True)
    own = [field for field in dataclasses.fields(options) if field.name in options.__annotations__]
    shared = [field for field in dataclasses.fields(options) if field not in own]
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for field in (*own, *shared)
    ]


@contextlib.contextmanager
def _reported(verbose: bool) -> Iterator[None]:
    with reported(verbose, WRONG_USAGE, typer.Exit), interruptible():
        yield
