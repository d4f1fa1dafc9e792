"""From a finished store to a model folder or an adapter."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import torch

from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.input_files import changed, file_digest
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.checkpoints.side_files import copy_side_files, set_config_dtype
from ace_gui.checkpoints.staging import claimed_output, discard, promote, staged
from ace_gui.checkpoints.writer import OutputTensor, Shard, indexed, plan_parts
from ace_gui.engine.contract.events import EnergyByRank, Exported, JobProgress, exported
from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.evaluating.sanity_check import kept_result
from ace_gui.engine.merging import store as stores
from ace_gui.engine.merging.distil import found_result
from ace_gui.engine.merging.merge_manifest import AdapterOptions, InputFile, Manifest
from ace_gui.engine.merging.store import (
    MODEL,
    planned_shards,
    read_finished,
    reports,
    verify_shards,
    write_verified,
)
from ace_gui.engine.merging.tensor_merge import rounded
from ace_gui.engine.modules.stored import (
    MODULES,
    has_modules,
    read_manifest,
    write_manifest,
)
from ace_gui.engine.output.adapter_writing import write_adapter
from ace_gui.engine.output.model_card import CARD, model_card
from ace_gui.engine.planning.adapter_plan import adapter_plan, require_adapter
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.recipe_models import HEADS
from ace_gui.engine.planning.slices import open_recipe
from ace_gui.engine.planning.vocabulary import differs, vocabulary_tensors
from ace_gui.errors import OutputError, RecipeError
from ace_gui.linalg.singular import squared_values
from ace_gui.output_files import RECIPE, check_output_folder, staging_folder, writing
from ace_gui.recipe.new_recipes import recipe_for_extraction
from ace_gui.recipe.output_forms import ModelExport, Output
from ace_gui.recipe.recipe_file import dump_recipe
from ace_gui.recipe.values import OutputDtype, Vocabulary
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
    owners = set[int]()
    for row in manifest.rows:
        if row.disposition == Disposition.PER_EXPERT:
            owners.update(row.experts)
    models = [_sources(experts[t], base, merged, manifest) for t in sorted(owners)]
    total = 0
    for sources in models:
        total += sum(file.tensors[expert_name].nbytes for file, expert_name in sources.values())
    done = 0
    for t, sources in zip(sorted(owners), models, strict=True):
        expert = experts[t]
        _require_unchanged(expert, manifest)
        folder = stage / HEADS / expert.name
        folder.mkdir(parents=True)
        for step in _write(folder, sources, shard_bytes, expert.checkpoint.stems):
            yield JobProgress(done=done + step.done, total=total)
        done += sum(file.tensors[expert_name].nbytes for file, expert_name in sources.values())
        copy_side_files({**base.checkpoint.side_files, **expert.checkpoint.side_files}, folder)
        set_config_dtype(folder / "config.json", RECIPE_NAMES.get(merged.dtype or ""))


def _sources(
    expert: OpenedModel, base: OpenedModel, merged: Checkpoint, manifest: Manifest
) -> _Sources:
    """The source of each tensor of an expert, without those that the loader ties.

    The expert's own embeddings are used if the merged ones have other rows.
    """
    own_tensors = {row.name for row in manifest.rows if row.disposition == Disposition.PER_EXPERT}
    rows = vocabulary_tensors(base)
    resized = any(merged.tensors[n].shape != base.shape(n) for n in rows)
    if manifest.recipe.matching is not Vocabulary.POSITION and (resized or differs(base, expert)):
        own_tensors |= set(rows)
    answers = expert.answers
    sources: dict[str, tuple[Checkpoint, str]] = {}
    for own_name in expert.checkpoint.tensors:
        name = answers.get(own_name)
        if name is not None and name not in own_tensors:
            sources[own_name] = (merged, name)
        elif expert.architecture.traits[own_name].tied_to is None:
            sources[own_name] = (expert.checkpoint, own_name)
    return sources


def _write(
    folder: Path, sources: _Sources, shard_bytes: int, stems: Mapping[str, str]
) -> Iterator[JobProgress]:
    """Write the tensors and read them back."""
    outputs = []
    for name, (file, expert_name) in sources.items():
        info = file.tensors[expert_name]
        outputs.append(OutputTensor(name=name, dtype=info.dtype, shape=info.shape))
    shards = plan_parts(outputs, shard_bytes, stems)
    return write_verified(folder, shards, _read(sources))


def _read(sources: _Sources) -> Iterator[tuple[str, torch.Tensor]]:
    for name, (file, expert_name) in sources.items():
        yield name, TensorReader(file).read(expert_name)


def _require_unchanged(expert: OpenedModel, manifest: Manifest) -> None:
    for stamp in expert.checkpoint.files:
        if InputFile.of(stamp) not in manifest.inputs:
            raise changed(stamp.path)


_USUAL: Final = ModelExport()


def export(
    store: Path, folder: Path, chosen: ModelExport = _USUAL
) -> Iterator[JobProgress | Exported]:
    """Write a finished store as a model folder at ``folder``, completely or not at all.

    Raises OutputError, ResourceError or CheckpointError.
    """
    manifest = read_finished(store)
    with claimed_output(folder, manifest.input_folders) as target, staged(target) as stage:
        yield from write_model(store, stage, target, chosen)
        promote(stage, target)
    yield exported(target)


def write_model(
    store: Path, stage: Path, folder: Path, chosen: ModelExport, title: str = ""
) -> Iterator[JobProgress]:
    """Write a finished store as a model into ``stage``, which is to become ``folder``.

    ``title``: of the card, if it is not the folder's name. Raises the errors of ``export``.
    """
    manifest = read_finished(store)
    dtype = chosen.dtype or manifest.recipe.out_dtype
    dtypes = {row.tensor: row.output_dtype(dtype) for row in manifest.rows if row.in_base}
    checkpoint = open_checkpoint(store / MODEL)
    outputs = []
    for name, info in checkpoint.tensors.items():
        outputs.append(OutputTensor(name=name, dtype=dtypes[name], shape=info.shape))
    shards = plan_parts(outputs, chosen.shard_bytes, manifest.stems, manifest.metadata)
    hashes = yield from _convert(checkpoint, stage, shards, dtypes)
    _copy_companions(store / MODEL, stage, planned_shards(manifest))
    if chosen.complete_heads:
        yield from complete_models(stage, manifest, chosen.shard_bytes)
    card = _Card(
        title=title or folder.name,
        dtype=dtype,
        hashes=hashes,
        complete_heads=chosen.complete_heads,
    )
    _add_files(store, stage, folder, card)


def publish(
    store: Path, folder: Path, *, complete_heads: bool = False, scores: tuple[TaskScore, ...] = ()
) -> Exported:
    """Turn a store written in the output's own dtype into the output, without copying.

    ``complete_heads`` as for ``export``; ``scores``: for the card. Raises the errors of ``export``,
    and then leaves a store that can be resumed.
    """
    with writing(store):
        finish_model(store, folder, folder.name, complete_heads=complete_heads, scores=scores)
        promote(store / MODEL, folder)
        discard(store)
    return exported(folder)


def finish_model(
    store: Path, folder: Path, title: str, *, complete_heads: bool, scores: tuple[TaskScore, ...]
) -> None:
    """Make the model in a store complete, which is in the output's own dtype.

    ``folder``: where the model is going to be. ``title``, ``scores``: of the card. Raises the
    errors of ``export``, and OSError.
    """
    manifest = read_finished(store)
    hashes = verify_shards(store / MODEL, planned_shards(manifest), stores.checksums(store))
    if complete_heads:
        for _ in complete_models(store / MODEL, manifest, manifest.shard_bytes):
            pass
    card = _Card(
        title=title,
        dtype=manifest.recipe.out_dtype,
        hashes=hashes,
        complete_heads=complete_heads,
        scores=scores,
    )
    _add_files(store, store / MODEL, folder, card)


@dataclass(frozen=True, kw_only=True)
class _Card:
    """What the card of a model says besides what the store has."""

    title: str
    """Its heading."""

    dtype: str | None
    """The number format that was chosen for the output; None: the base's."""

    hashes: Mapping[str, str]
    """The SHA-256 of each file of weights."""

    complete_heads: bool
    """Whether ``heads/EXPERT/`` has whole models."""

    scores: tuple[TaskScore, ...] = ()
    """Of base, experts and this model."""


def _add_files(store: Path, stage: Path, folder: Path, card: _Card) -> None:
    """Add the files next to the tensors: config, card and recipe."""
    manifest = read_finished(store)
    hashes = card.hashes
    if has_modules(stage):
        hashes = {**hashes, MODULES: file_digest(stage / MODULES)}
        write_manifest(stage, replace(read_manifest(stage), hashes=hashes))
    for part in manifest.stems:
        set_config_dtype(stage / part / "config.json", card.dtype)
    text = model_card(
        card.title,
        stage,
        manifest,
        reports(store),
        _head_names(stage),
        card.dtype,
        hashes,
        complete_heads=card.complete_heads,
        scores=card.scores,
        distilled=found_result(store),
        sanity=kept_result(store),
    )
    (stage / CARD).write_text(text, encoding="utf-8")
    (stage / RECIPE).write_text(dump_recipe(manifest.resolved_recipe, folder), encoding="utf-8")


def _convert(
    checkpoint: Checkpoint, stage: Path, shards: Sequence[Shard], dtypes: Mapping[str, str]
) -> Generator[JobProgress, None, Mapping[str, str]]:
    """Copy every tensor, rounded once to its dtype in the output; return the SHA-256 by file."""
    with TensorReader(checkpoint) as reader:

        def tensors() -> Iterator[tuple[str, torch.Tensor]]:
            for name in checkpoint.tensors:
                yield name, rounded(reader.read(name), torch_dtype(dtypes[name]), name)

        return (yield from write_verified(stage, shards, tensors()))


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
    if copy.exists() and file_digest(copy) != file_digest(model / MODULES):
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
    names = {}
    for path in sorted(folder.glob("*.safetensors")):
        expert = path.name.removesuffix(".safetensors")
        names[expert] = tuple(open_checkpoint(path).tensors)
    return names


def export_adapter(
    store: Path,
    folder: Path,
    *,
    dtype: str | None = None,
    rank: int | None = None,
    energy: float | None = None,
) -> Iterator[JobProgress | Exported]:
    """Write the change of a finished merge as an adapter at ``folder``, completely or not at all.

    ``dtype`` None: the recipe's, else float32. Raises RecipeError for a merge that no adapter can
    hold, and the errors of ``write_adapter``.
    """
    manifest = read_finished(store)
    target = check_output_folder(folder, manifest.input_folders)
    dtype = dtype or manifest.recipe.out_dtype
    prepared = _prepared(store, manifest, rank, energy, dtype)
    written = prepared.recipe
    recipe = replace(
        manifest.recipe,
        output=Output.ADAPTER,
        rank=rank,
        energy=energy,
        out_dtype=written.out_dtype,
    )
    described = replace(manifest, recipe=recipe)
    options = AdapterOptions(balanced=True)
    claimed = False
    events = write_adapter(prepared, target, device="cpu", options=options, described=described)
    try:
        with closing(events):
            for event in events:
                claimed = True
                if isinstance(event, JobProgress | Exported):
                    yield event
    finally:
        if claimed:
            discard(staging_folder(target))


def energy_by_rank(store: Path) -> Iterator[JobProgress | EnergyByRank]:
    """How much of a finished merge's change each rank keeps, one matrix in memory at a time.

    Raises the errors of ``export_adapter``.
    """
    prepared = _prepared(store, read_finished(store), 1, None, None)
    (merged,) = prepared.experts
    factored = adapter_plan(prepared).completed().factored
    shares = torch.ones(max((min(item.sides) for item in factored), default=0)).double()
    total = torch.zeros_like(shares)
    matrices = 0
    with TensorReader(prepared.base.checkpoint) as before, TensorReader(merged.checkpoint) as after:
        for done, item in enumerate(factored):
            yield JobProgress(done=done, total=len(factored))
            names = item.parameter.tensors
            changes = [after.read(name).double() - before.read(name).double() for name in names]
            rows = item.experts * item.sides[1 if item.turned else 0]
            for matrix in torch.cat(changes).reshape(rows, -1).chunk(item.experts):
                squares = squared_values(matrix)
                if squares.any():
                    cumulative = shares.clone()
                    cumulative[: len(squares)] = squares.cumsum(0) / squares.sum()
                    total = total + cumulative
                    matrices = matrices + 1
    yield EnergyByRank(shares=tuple((total / max(matrices, 1)).tolist()), matrices=matrices)


def _prepared(
    store: Path, manifest: Manifest, rank: int | None, energy: float | None, dtype: str | None
) -> Prepared:
    """The extraction from a finished merge."""
    require_adapter(manifest.recipe)
    model = store / MODEL
    if has_modules(model):
        raise RecipeError(
            "The merge has task modules, which an adapter cannot hold. Export the full model.",
            key="output",
        )
    recipe = recipe_for_extraction(manifest.recipe.base_model, model, rank, energy)
    return prepare(replace(recipe, out_dtype=cast("OutputDtype | None", dtype)))
