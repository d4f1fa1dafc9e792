"""The recipe: everything that determines a merge, as typed values and as YAML."""

from ace_gui.recipe.overrides import Override
from ace_gui.recipe.values import ModelEntry, Recipe

__all__ = ["ModelEntry", "Override", "Recipe"]
