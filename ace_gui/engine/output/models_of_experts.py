"""Models of single experts, made from a merged folder and its modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ace_gui.checkpoints.side_files import copy_side_files, set_config_dtype
from ace_gui.checkpoints.staging import claimed_output, promote, staged
from ace_gui.checkpoints.writer import plan_parts
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.merging.merge_manifest import SHARD_BYTES
from ace_gui.engine.merging.store import write_verified
from ace_gui.engine.modules.stored import MANIFEST
from ace_gui.engine.modules.task_tensors import TaskTensors, open_task
from ace_gui.engine.planning.models import open_files
from ace_gui.engine.planning.recipe_models import HEADS
from ace_gui.errors import CheckpointError
from ace_gui.output_files import RECIPE
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.stored_formats import RECIPE_NAMES


def write_task_model(folder: Path, expert: str, out: Path, *, base: Path | None = None) -> Path:
    """Write one expert's model from a merged folder with modules as a folder of its own.

    ``base``: the base model; None: the one in the recipe of ``folder``. ``out`` must be missing or
    empty; it appears only when it is complete. The config is that of ``heads/EXPERT/``, or of
    the expert's own folder if it still exists, else the merged model's. Returns the folder. Raises
    the errors of ``open_task``, OutputError and ResourceError.
    """
    task = open_task(folder, expert, base)
    inputs = [folder, *(() if task.base_folder is None else (task.base_folder,))]
    with claimed_output(out, inputs) as target, staged(target) as stage:
        for _ in _written(task, stage):
            pass
        promote(stage, target)
    return target


def write_task_models(model: Path, experts: Sequence[str], folder: Path) -> Iterator[JobProgress]:
    """Write the models of some experts of a merged ``model`` with modules, as ``folder/EXPERT``.

    Raises the errors of ``open_task``, OutputError and ResourceError.
    """
    for number, expert in enumerate(experts):
        task_folder = folder / expert
        task_folder.mkdir()
        for step in _written(open_task(model, expert), task_folder):
            done = number * step.total + step.done
            yield JobProgress(done=done, total=len(experts) * step.total)


def _written(task: TaskTensors, folder: Path) -> Iterator[JobProgress]:
    """Write an expert's model into an empty folder, with the config and side files."""
    merged = task.modules.merged
    shards = plan_parts(list(task.outputs()), SHARD_BYTES, merged.stems)
    yield from write_verified(folder, shards, task.tensors())
    copy_side_files(_side_files(task), folder)
    set_config_dtype(folder / "config.json", RECIPE_NAMES.get(merged.dtype or ""))


def _side_files(task: TaskTensors) -> Mapping[str, Path]:
    """The merged model's side files, with the expert's config if it has its own."""
    folder = task.modules.folder
    merged = task.modules.merged
    files = dict(merged.side_files)
    folders = (folder / HEADS / task.expert, _own_folder(task))
    config = next(filter(None, (_config_of(task, folder) for folder in folders)), None)
    if config is not None:
        files["config.json"] = config
    return {name: path for name, path in files.items() if name not in (RECIPE, MANIFEST)}


def _own_folder(task: TaskTensors) -> Path | None:
    recipe = load_recipe(task.modules.folder / RECIPE)
    entry = dict(zip(recipe.expert_names, recipe.models, strict=True)).get(task.expert)
    if entry is None:
        return None
    return entry.model


def _config_of(task: TaskTensors, folder: Path | None) -> Path | None:
    """The config.json of a model of this architecture; None if the folder is not such a model.

    The merged folder, which names this folder, is not trusted, so no other file is copied.
    """
    try:
        if folder is None:
            checkpoint = None
        else:
            checkpoint = open_files(folder)
    except CheckpointError:  # it is gone, or never was a model
        return None
    if checkpoint is None:
        config = None
    else:
        config = checkpoint.config
    merged = task.modules.merged.config
    if checkpoint is None or config is None or merged is None:
        return None
    alike = config.get("model_type") == merged.get("model_type")
    if alike:
        return checkpoint.side_files.get("config.json")
    return None
