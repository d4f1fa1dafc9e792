"""The model of one task as a folder of its own, reconstructed from a merged folder with modules.

It needs neither the experts nor a window. It needs the base only if the modules change base weights
(EMR, TALL masks, TSV-Compress)::

    from ace_gui.engine.output.task_model import reconstruct

    state = dict(reconstruct("path/to/merged", "cola"))
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor

from ace_gui.checkpoints import (
    claimed_output,
    copy_side_files,
    plan_parts,
    promote,
    staged,
)
from ace_gui.checkpoints.side_files import set_config_dtype
from ace_gui.engine.merging.merge_manifest import SHARD_BYTES
from ace_gui.engine.merging.read_back import write_verified
from ace_gui.engine.modules.stored import MANIFEST
from ace_gui.engine.modules.task_tensors import TaskTensors, open_task
from ace_gui.engine.planning.expert_files import HEADS
from ace_gui.engine.planning.models import open_files
from ace_gui.errors import CheckpointError
from ace_gui.output_files import RECIPE
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.stored_formats import RECIPE_NAMES


def reconstruct(
    folder: str | os.PathLike[str], expert: str, *, base: str | os.PathLike[str] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of one expert's model, by name, one after another, in the merged model's dtype.

    ``folder``: a merged model with ``modules.safetensors``. ``base``: the base model; None: the one
    in the folder's ``merge_recipe.yaml``. The expert's own head, if it has one, replaces the merged
    model's. Tensors that were not masked or factorised are the merged model's. Raises
    CheckpointError, MismatchError for another base, or OutputError if the folder has no such
    expert.
    """
    return open_task(Path(folder), expert, None if base is None else Path(base)).tensors()


def write_task_model(
    folder: str | os.PathLike[str],
    expert: str,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None = None,
) -> Path:
    """Write ``reconstruct``'s tensors and the side files as a model folder, or nothing at all.

    ``out`` must not exist or be empty. The config is that of ``heads/EXPERT/``, or of the expert's
    own folder if it still exists, else the merged model's. Returns the folder. Raises the errors of
    ``reconstruct``, OutputError and ResourceError.
    """
    task = open_task(Path(folder), expert, None if base is None else Path(base))
    inputs = [Path(folder), *(() if task.base_folder is None else (task.base_folder,))]
    with claimed_output(Path(out), inputs) as target, staged(target) as stage:
        shards = plan_parts(list(task.outputs()), SHARD_BYTES, task.modules.merged.stems)
        for _ in write_verified(stage, shards, task.tensors()):
            pass
        copy_side_files(_side_files(task), stage)
        set_config_dtype(stage / "config.json", RECIPE_NAMES.get(task.modules.merged.dtype or ""))
        promote(stage, target)
    return target


def _side_files(task: TaskTensors) -> Mapping[str, Path]:
    """The merged model's side files, with the expert's config if it has its own."""
    folder, merged = task.modules.folder, task.modules.merged
    files = dict(merged.side_files)
    own = (folder / HEADS / task.expert, _own_folder(task))
    config = next(filter(None, (_config_of(task, each) for each in own)), None)
    if config is not None:
        files["config.json"] = config
    return {name: path for name, path in files.items() if name not in (RECIPE, MANIFEST)}


def _own_folder(task: TaskTensors) -> Path | None:
    recipe = load_recipe(task.modules.folder / RECIPE)
    own = dict(zip(recipe.expert_names, recipe.models, strict=True)).get(task.expert)
    return None if own is None else own.model


def _config_of(task: TaskTensors, folder: Path | None) -> Path | None:
    """The config.json of a model of this architecture; None if the folder is not such a model.

    The merged folder names this folder and is not trusted: no other file is copied.
    """
    try:
        checkpoint = None if folder is None else open_files(folder)
    except CheckpointError:  # it is gone, or never was a model
        return None
    config = None if checkpoint is None else checkpoint.config
    merged = task.modules.merged.config
    if checkpoint is None or config is None or merged is None:
        return None
    alike = config.get("model_type") == merged.get("model_type")
    return checkpoint.side_files.get("config.json") if alike else None
