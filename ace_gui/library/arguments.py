"""What callers may pass to the library, and the values that its functions make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_tasks, tasks_from
from ace_gui.recipe.values import Task

GivenRecipe = Path | str | Mapping[str, object] | Recipe
GivenTasks = Path | str | Sequence[Mapping[str, object] | Task]
GivenModels = Path | str | Mapping[str, Any] | Sequence[Any] | Any


def tasks_of(
    recipe: Recipe | None, given_tasks: GivenTasks | None, tables: Path | None = None
) -> tuple[Task, ...]:
    """The given tasks, or else the recipe's. ``tables``: a folder to store data from memory."""
    if given_tasks is None:
        return () if recipe is None else recipe.tasks
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
    else:
        models = [given_models] if hasattr(given_models, "state_dict") else as_list(given_models)
        named = {}
        for model in models:
            name = str(model) if isinstance(model, str | Path) else type(model).__name__
            number = sum(known_model.partition(" ")[0] == name for known_model in named)
            named[f"{name} {number + 1}" if number else name] = model
    return {k: Path(m) if isinstance(m, str | Path) else m for k, m in named.items()}


def as_list(value: str | Path | Sequence[Any]) -> list[Any]:
    """A single text or path counts as one item. As a sequence it would be split into characters."""
    return [value] if isinstance(value, str | Path) else list(value)
