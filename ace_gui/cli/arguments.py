"""Arguments and options shared by several commands. Invalid values are usage errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ace_gui.paths import Sample

MOST_THREADS: Final = 1024
MOST_WORKERS: Final = 65_536
MOST_GIGABYTES: Final = 1e6
MOST_SPEED: Final = 1e9


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
    return path if os.path.isfile(path) else samples.get(text, path)  # noqa: PTH113 - Path's fails where it may not look


def model_given(text: str) -> str:
    """A model as in a recipe: a path, or ``org/name``. Raises BadParameter."""
    path_given(text)
    return text


def counts_given(text: str) -> tuple[int, ...]:
    """Numbers of workers, as ``1,8,64``; empty for an empty text. Raises BadParameter."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(
        part.isascii() and part.isdigit() and len(part) < 6 and 1 <= int(part) <= MOST_WORKERS
        for part in parts
    ):
        raise typer.BadParameter(
            f"{text[:40]!r} are not numbers of workers; give some from 1 to {MOST_WORKERS}, "
            "as in 1,8,64."
        )
    return tuple(map(int, parts))


def flag(name: str, about: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=about)


def path_option(metavar: str, about: str) -> Any:
    """An option with a path."""
    return typer.Option(parser=path_given, metavar=metavar, help=about)


RecipeFile = Annotated[
    Path,
    typer.Argument(
        parser=recipe_given, metavar="RECIPE.yaml", help="A recipe file, or: sample, text-sample."
    ),
]
MethodId = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="ID|ID:VARIANT",
        help="The method to use, with its defaults (default: the recommended merge).",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help=(
            "A parameter of the method, or a key of the recipe (heads, out_dtype, after.scale); "
            "repeatable."
        ),
    ),
]
NewFolder = Annotated[Path, path_option("DIR", "The output folder; it must be new or empty.")]
