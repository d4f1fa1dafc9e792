"""Recipes over models on disk: as values, and as files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.models import Family


def recipe_over(base: Path, experts: Iterable[Path], **changes: object) -> Recipe:
    """A recipe for these models."""
    models = tuple(ModelEntry(model=path) for path in experts)
    return Recipe(base_model=base, models=models, **changes)


def recipe_of(family: Family, **changes: object) -> Recipe:
    """A recipe for all experts of a family."""
    return recipe_over(family.base, family.experts.values(), **changes)


def file_over(folder: Path, base: Path, experts: Iterable[Path], **keys: object) -> Path:
    """A recipe for these models as a file in ``folder``, which is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [{"model": str(path)} for path in experts]
    file = folder / "recipe.yaml"
    document = {"schema": 1, "base_model": str(base), "models": models, **keys}
    file.write_text(yaml.safe_dump(document))
    return file


def file_of(folder: Path, family: Family, **keys: object) -> Path:
    """A recipe for all experts of a family as a file in ``folder``."""
    return file_over(folder, family.base, family.experts.values(), **keys)
