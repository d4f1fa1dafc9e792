"""Adapters on the command line: ``extract``, and merges that are written as adapters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ace_gui.cli.console import merged_with_progress
from ace_gui.engine.workflow import Options, extract_adapter
from ace_gui.errors import RecipeError
from ace_gui.recipe import Recipe
from ace_gui.recipe.new_recipes import recipe_for
from ace_gui.recipe.values import Output


def as_adapter(recipe: Recipe, kind: str | None, rank: int | None, energy: float | None) -> Recipe:
    """The recipe with what ``--as``, ``--rank`` and ``--energy`` ask for. Raises RecipeError."""
    if kind is not None and kind not in set(Output):
        raise RecipeError(f"A merge is written as a model or an adapter, not as {kind!r}.")
    output = recipe.output if kind is None else Output(kind)
    if output == Output.MODEL and (rank is not None or energy is not None):
        raise RecipeError("--rank and --energy go with --as adapter.")
    if rank is None and energy is None:
        return replace(recipe, output=output)
    return replace(recipe, output=output, rank=rank, energy=energy)


def extract_to_folder(
    base: str,
    model: str,
    out: Path,
    options: Options,
    *,
    rank: int | None,
    energy: float | None,
    include: Sequence[str],
    exclude: Sequence[str],
) -> None:
    """``ace-gui extract``: write a model's change as an adapter, with a progress bar."""
    paths = recipe_for(base, [model], "task_arithmetic")
    events = extract_adapter(
        paths.base_model,
        paths.models[0].model,
        out,
        options,
        rank=rank,
        energy=energy,
        include=include,
        exclude=exclude,
    )
    merged_with_progress(events, out, options, Console(stderr=True))
