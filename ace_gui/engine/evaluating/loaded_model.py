"""A merged folder as a model in memory, for one of its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.model_with_head import load
from ace_gui.engine.evaluating.subjects import loading_of
from ace_gui.engine.modules.manifest import has_modules, read_manifest
from ace_gui.engine.planning.expert_files import HEADS
from ace_gui.errors import OutputError
from ace_gui.formatting import listing, path_text, plain


def loaded_model(folder: Path, task: str | None, device: str) -> Any:
    """The model with its modules. Raises the errors of ``ace_gui.load_model``."""
    where = resolve_device(device)
    if task is not None:
        known = _tasks(folder)
        if task not in known:
            there = f"there are {listing(sorted(known))}" if known else "it has none"
            raise OutputError(
                f"{path_text(folder)}: There is no task {plain(task)!r}; {there}.", path=folder
            )
    return load(loading_of(folder, task), where)


def _tasks(folder: Path) -> set[str]:
    """Names of the tasks that have heads or modules of their own in a folder."""
    heads = {path.stem for path in (folder / HEADS).glob("*.safetensors")}
    return heads | (set(read_manifest(folder).experts) if has_modules(folder) else set())
