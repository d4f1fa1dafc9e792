"""From a finished store to a model folder that transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ace_gui.checkpoints import (
    Checkpoint,
    OutputTensor,
    Shard,
    TensorReader,
    claimed_output,
    discard,
    open_checkpoint,
    plan_parts,
    promote,
    staged,
    torch_dtype,
)
from ace_gui.checkpoints.side_files import set_config_dtype
from ace_gui.checkpoints.writer import indexed
from ace_gui.engine.contract.events import Exported, JobProgress
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.merging import store as stores
from ace_gui.engine.merging.read_back import verify_shards, write_verified
from ace_gui.engine.merging.store import MODEL, planned_shards, read_finished, reports
from ace_gui.engine.merging.tensor_merge import rounded
from ace_gui.engine.modules.stored import MODULES, has_modules, read_manifest, write_manifest
from ace_gui.engine.output.expert_models import complete_models
from ace_gui.engine.output.model_card import model_card
from ace_gui.engine.planning.prepared import HEADS
from ace_gui.engine.streaming import sha256
from ace_gui.errors import OutputError
from ace_gui.output_files import RECIPE, writing
from ace_gui.recipe.recipe_file import dump_recipe

CARD = "README.md"


def export(
    store: Path,
    folder: Path,
    *,
    dtype: str | None,
    shard_bytes: int,
    complete_heads: bool = False,
) -> Iterator[JobProgress | Exported]:
    """Write a finished store as a model folder at ``folder``, completely or not at all.

    ``dtype``: name of the output's float dtype; None: the recipe's, else the base's.
    ``complete_heads``: also write a whole model for each expert with a head, in ``heads/EXPERT/``.
    Raises OutputError, ResourceError or CheckpointError.
    """
    manifest = read_finished(store)
    wanted = dtype or manifest.recipe.out_dtype
    dtypes = {row.tensor: row.output_dtype(wanted) for row in manifest.rows if row.in_base}
    with claimed_output(folder, manifest.input_folders) as target, staged(target) as stage:
        checkpoint = open_checkpoint(store / MODEL)
        outputs = [
            OutputTensor(name=name, dtype=dtypes[name], shape=info.shape)
            for name, info in checkpoint.tensors.items()
        ]
        shards = plan_parts(outputs, shard_bytes, manifest.stems, manifest.metadata)
        hashes = yield from _convert(checkpoint, stage, shards, dtypes)
        _copy_companions(store / MODEL, stage, planned_shards(manifest))
        if complete_heads:
            yield from complete_models(stage, manifest, shard_bytes)
        _finish(stage, target, store, wanted, hashes, complete_heads)
        promote(stage, target)
    yield exported(target)


def publish(
    store: Path,
    folder: Path,
    *,
    complete_heads: bool = False,
    scores: tuple[TaskScore, ...] = (),
) -> Exported:
    """Turn a store written in the output's own dtype into the output, without copying.

    ``complete_heads`` as for ``export``; ``scores``: for the card. Raises the errors of ``export``,
    and then leaves a store that can be resumed.
    """
    manifest = read_finished(store)
    shards, checksums = planned_shards(manifest), stores.checksums(store)
    with writing(store):
        hashes = verify_shards(store / MODEL, shards, checksums)
        if complete_heads:
            for _ in complete_models(store / MODEL, manifest, manifest.shard_bytes):
                pass
        dtype = manifest.recipe.out_dtype
        _finish(store / MODEL, folder, store, dtype, hashes, complete_heads, scores)
        promote(store / MODEL, folder)
        discard(store)
    return exported(folder)


def _finish(
    stage: Path,
    folder: Path,
    store: Path,
    dtype: str | None,
    hashes: Mapping[str, str],
    complete_heads: bool,
    scores: tuple[TaskScore, ...] = (),
) -> None:
    """Add the files next to the tensors: config, card and recipe."""
    manifest = read_finished(store)
    if has_modules(stage):
        hashes = {**hashes, MODULES: sha256(stage / MODULES)}
        write_manifest(stage, replace(read_manifest(stage), hashes=hashes))
    for part in manifest.stems:
        set_config_dtype(stage / part / "config.json", dtype)
    card = model_card(
        folder.name,
        stage,
        manifest,
        reports(store),
        _head_names(stage),
        dtype,
        hashes,
        complete_heads=complete_heads,
        scores=scores,
    )
    (stage / CARD).write_text(card, encoding="utf-8")
    (stage / RECIPE).write_text(dump_recipe(manifest.resolved_recipe, folder), encoding="utf-8")


def exported(folder: Path) -> Exported:
    """The contents of a finished output folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return Exported(
        folder=folder,
        files=tuple(path.relative_to(folder).as_posix() for path in files),
        bytes=sum(path.stat().st_size for path in files),
    )


def _convert(
    checkpoint: Checkpoint, stage: Path, shards: Sequence[Shard], dtypes: Mapping[str, str]
) -> Generator[JobProgress, None, Mapping[str, str]]:
    """Copy every tensor, rounded once to its dtype in the output; returns the SHA-256 by file."""
    with TensorReader(checkpoint) as reader:
        tensors = (
            (name, rounded(reader.read(name), torch_dtype(dtypes[name]), name))
            for name in checkpoint.tensors
        )
        return (yield from write_verified(stage, shards, tensors))


def _copy_companions(model: Path, stage: Path, stored: Sequence[Shard]) -> None:
    """Heads and side files, byte for byte. Raises OutputError if modules differ afterwards."""
    weights = {*(shard.file_name for shard in stored), *indexed(stored)}
    for path in sorted(model.rglob("*")):
        name = path.relative_to(model).as_posix()
        if path.is_dir():
            (stage / name).mkdir(exist_ok=True)
        elif name not in weights:
            shutil.copyfile(path, stage / name)
    copy = stage / MODULES
    if copy.exists() and sha256(copy) != sha256(model / MODULES):
        raise OutputError(
            f"{MODULES} was read back and is not what was written. Check the disk, then export "
            "again.",
            path=copy,
        )


def _head_names(stage: Path) -> dict[str, tuple[str, ...]]:
    """The tensors in every file of ``heads/``, by expert."""
    folder = stage / HEADS
    if not folder.exists():
        return {}
    return {
        path.name.removesuffix(".safetensors"): tuple(open_checkpoint(path).tensors)
        for path in sorted(folder.glob("*.safetensors"))
    }
