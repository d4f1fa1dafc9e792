"""The recipe: everything that determines a merge, as typed values and as YAML."""

from __future__ import annotations

import os
from pathlib import Path

from ace_gui.output_files import write_file
from ace_gui.recipe.overrides import Override
from ace_gui.recipe.values import ModelEntry, Recipe

__all__ = ["ModelEntry", "Override", "Recipe"]


def load(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe of this application or mergekit. Relative paths start from its folder.

    Raises RecipeError with the file, and the key where one is at fault.

    >>> Recipe.load("recipe.yaml").merge_method
    'linear'
    """
    from ace_gui.recipe.recipe_file import load_recipe  # pydantic's import takes long

    return load_recipe(Path(path))


def save(self: Recipe, path: str | os.PathLike[str]) -> None:
    """Write the recipe as YAML; models are written relative to the file's folder.

    An existing file is replaced, in one step. Raises OutputError.

    >>> recipe = Recipe.load("recipe.yaml")
    >>> recipe.save("copy.yaml")
    >>> Recipe.load("copy.yaml") == recipe
    True
    """
    from ace_gui.recipe.recipe_file import dump_recipe

    file = Path(path)
    text = dump_recipe(self, file.resolve().parent)
    write_file(file, text.encode(), tuple(entry.model for entry in self.models), overwrite=True)


Recipe.load = staticmethod(load)  # type: ignore[method-assign]
Recipe.save = save  # type: ignore[method-assign]
