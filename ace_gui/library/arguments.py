"""What callers may pass to the library, and the values that its functions make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_tasks, recipe_from, tasks_from
from ace_gui.recipe.values import Task

GivenRecipe = Path | str | Mapping[str, object] | Recipe
GivenTasks = Path | str | Sequence[Mapping[str, object] | Task]
GivenModels = Path | str | Mapping[str, Any] | Sequence[Any] | Any


def recipe_or_none(recipe: GivenRecipe | None) -> Recipe | None:
    """The recipe, if there is one. Raises RecipeError."""
    if recipe is None:
        return None
    return recipe_from(recipe)


def path_or_none(path: Path | str | None) -> Path | None:
    """The path, if there is one."""
    if path is None:
        return None
    return Path(path)


def tasks_of(
    recipe: Recipe | None, given_tasks: GivenTasks | None, tables: Path | None = None
) -> tuple[Task, ...]:
    """The given tasks, or else the recipe's. ``tables``: a folder to store data from memory."""
    if given_tasks is None:
        if recipe is None:
            return ()
        return recipe.tasks
    if isinstance(given_tasks, str | Path):
        return load_tasks(Path(given_tasks))
    tasks = []
    for number, item in enumerate(given_tasks):
        if isinstance(item, Task):
            tasks.append(item)
            continue
        data: Any = item.get("data")
        if tables is not None and hasattr(data, "to_parquet"):
            path = tables / str(number) / "data.parquet"
            path.parent.mkdir()
            data.to_parquet(path)
            item = {**item, "data": path}
        tasks += tasks_from({"tasks": [item]})
    return tuple(tasks)


def models_by_name(given_models: GivenModels) -> dict[str, Any]:
    """Folders and models in memory, by name. The name of a folder is its path as given."""
    if isinstance(given_models, Mapping):
        named = dict(given_models)
    elif hasattr(given_models, "state_dict"):
        named = {type(given_models).__name__: given_models}
    else:
        named = _numbered(as_list(given_models))
    for name, model in named.items():
        if isinstance(model, str | Path):
            named[name] = Path(model)
    return named


def _numbered(models: list[Any]) -> dict[str, Any]:
    """The models by path or class; the second of a name has the number 2."""
    named: dict[str, Any] = {}
    for model in models:
        name = type(model).__name__
        if isinstance(model, str | Path):
            name = str(model)
        number = sum(earlier.partition(" ")[0] == name for earlier in named)
        if number:
            name = f"{name} {number + 1}"
        named[name] = model
    return named


def as_list(value: str | Path | Sequence[Any]) -> list[Any]:
    """A single text or path counts as one item. As a sequence it would be split into characters."""
    return [value] if isinstance(value, str | Path) else list(value)
