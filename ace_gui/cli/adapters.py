"""Merges that are written as adapters: ``ace-gui merge --as adapter``."""

from __future__ import annotations

from dataclasses import replace

from ace_gui.errors import RecipeError
from ace_gui.recipe import Recipe
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
