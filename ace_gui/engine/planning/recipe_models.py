"""A recipe's opened models without a plan: what scores need to know of base and experts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.engine.planning.models import OpenedModel
from ace_gui.recipe import Recipe

HEADS: Final = "heads"
"""The folder of a merged model with the heads kept for single experts."""


def experts_with_heads(folder: Path) -> list[str]:
    """Names of the experts whose heads a merged model's folder has, sorted."""
    return sorted(file.stem for file in (folder / HEADS).glob("*.safetensors"))


@dataclass(frozen=True, kw_only=True)
class RecipeModels:
    """The opened base and experts of a recipe, with the tensors that stay with each expert."""

    recipe: Recipe
    base: OpenedModel
    experts: tuple[OpenedModel, ...]
    kept_T: tuple[tuple[str, ...], ...]
    """By expert, its own names of the tensors that a merge saves in ``heads/``."""
