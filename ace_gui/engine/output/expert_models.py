"""Whole models of single experts: with its own head on the merged backbone, or from modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ace_gui.checkpoints import (
    Checkpoint,
    OutputTensor,
    TensorReader,
    claimed_output,
    copy_side_files,
    open_checkpoint,
    plan_parts,
    promote,
    staged,
)
from ace_gui.checkpoints.input_files import changed
from ace_gui.checkpoints.side_files import set_config_dtype
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.merging.merge_manifest import SHARD_BYTES, InputFile, Manifest
from ace_gui.engine.merging.read_back import write_verified
from ace_gui.engine.modules.stored import MANIFEST
from ace_gui.engine.modules.task_tensors import TaskTensors, open_task
from ace_gui.engine.planning.models import OpenedModel, open_files
from ace_gui.engine.planning.prepared import HEADS
from ace_gui.engine.planning.slices import open_recipe
from ace_gui.engine.planning.vocabulary import differs, vocabulary_tensors
from ace_gui.errors import CheckpointError
from ace_gui.output_files import RECIPE
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import Vocabulary
from ace_gui.steps import result_of
from ace_gui.stored_formats import RECIPE_NAMES

_Sources = Mapping[str, tuple[Checkpoint, str]]
"""Tensor of a complete model → its checkpoint and its name there."""


def complete_models(stage: Path, manifest: Manifest, shard_bytes: int) -> Iterator[JobProgress]:
    """Write ``heads/EXPERT/`` into the merged model at ``stage``, for each expert with a head.

    Each has the merged tensors and the expert's own, under the expert's names, with its config and
    side files (the base's if it has none), and loads on its own. Heads are read from the experts'
    folders. Raises FileChangedError if these changed since the merge, CheckpointError, OutputError
    or ResourceError.
    """
    merged = open_checkpoint(stage)
    base, experts = result_of(open_recipe(manifest.recipe))
    owners = {
        t for row in manifest.rows if row.disposition == Disposition.PER_EXPERT for t in row.experts
    }
    models = [_sources(experts[t], base, merged, manifest) for t in sorted(owners)]
    total = sum(found.tensors[own].nbytes for model in models for found, own in model.values())
    done = 0
    for t, sources in zip(sorted(owners), models, strict=True):
        expert = experts[t]
        _require_unchanged(expert, manifest)
        folder = stage / HEADS / expert.name
        folder.mkdir(parents=True)
        for step in _write(folder, sources, shard_bytes, expert.checkpoint.stems):
            yield JobProgress(done=done + step.done, total=total)
        done += sum(found.tensors[own].nbytes for found, own in sources.values())
        copy_side_files({**base.checkpoint.side_files, **expert.checkpoint.side_files}, folder)
        set_config_dtype(folder / "config.json", RECIPE_NAMES.get(merged.dtype or ""))


def _sources(
    expert: OpenedModel, base: OpenedModel, merged: Checkpoint, manifest: Manifest
) -> _Sources:
    """The source of each tensor of an expert; tied ones that the loader ties are left out.

    Its tokenizer is included, and so are its embeddings if the merged ones have other rows.
    """
    own_tensors = {row.name for row in manifest.rows if row.disposition == Disposition.PER_EXPERT}
    rows = vocabulary_tensors(base)
    resized = any(merged.tensors[n].shape != base.shape(n) for n in rows)
    if manifest.recipe.matching is not Vocabulary.POSITION and (resized or differs(base, expert)):
        own_tensors |= set(rows)
    answers = expert.answers
    sources: dict[str, tuple[Checkpoint, str]] = {}
    for own in expert.checkpoint.tensors:
        name = answers.get(own)
        if name is not None and name not in own_tensors:
            sources[own] = (merged, name)
        elif expert.architecture.traits[own].tied_to is None:
            sources[own] = (expert.checkpoint, own)
    return sources


def _write(
    folder: Path, sources: _Sources, shard_bytes: int, stems: Mapping[str, str]
) -> Iterator[JobProgress]:
    """Write the tensors and read them back."""
    outputs = [
        OutputTensor(name=name, dtype=found.tensors[own].dtype, shape=found.tensors[own].shape)
        for name, (found, own) in sources.items()
    ]
    shards = plan_parts(outputs, shard_bytes, stems)
    tensors = ((name, TensorReader(found).read(own)) for name, (found, own) in sources.items())
    return write_verified(folder, shards, tensors)


def _require_unchanged(expert: OpenedModel, manifest: Manifest) -> None:
    for stamp in expert.checkpoint.files:
        if InputFile.of(stamp) not in manifest.inputs:
            raise changed(stamp.path)


def write_task_model(folder: Path, expert: str, out: Path, *, base: Path | None = None) -> Path:
    """Write one expert's model from a merged folder with modules as a folder of its own.

    ``base``: the base model; None: the one in the recipe of ``folder``. ``out`` must not exist or
    be empty; it appears only when it is complete. The config is that of ``heads/EXPERT/``, or of
    the expert's own folder if it still exists, else the merged model's. Returns the folder. Raises
    the errors of ``open_task``, OutputError and ResourceError.
    """
    task = open_task(folder, expert, base)
    inputs = [folder, *(() if task.base_folder is None else (task.base_folder,))]
    with claimed_output(out, inputs) as target, staged(target) as stage:
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
