"""Writes a mixture of experts as a folder, one tensor in memory at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ace_gui.architecture.mixture_layouts import MATRICES, dense_matrix
from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import ReadChecksums, TensorReader, require_finite
from ace_gui.checkpoints.side_files import copy_side_files
from ace_gui.checkpoints.staging import claimed_output, discard, promote
from ace_gui.checkpoints.writer import OutputTensor, plan_parts
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.merging.merge_manifest import SHARD_BYTES, InputFile
from ace_gui.engine.merging.tensor_merge import rounded
from ace_gui.engine.mixtures.mixture_plan import MixturePlan, RouterWeights, mixture_checkpoint
from ace_gui.engine.mixtures.mixture_store import ROUTERS, MixtureManifest, MixtureStore
from ace_gui.formatting import path_text
from ace_gui.output_files import staging_folder, writing
from ace_gui.stored_formats import RECIPE_NAMES, RECIPE_TAGS, is_float

_CONFIG: Final = "config.json"


@dataclass(frozen=True, kw_only=True)
class MixtureOutput:
    """How a mixture is written."""

    dtype: str | None = None
    """A recipe's name of the format of all weights; None: the base's formats."""
    shard_bytes: int = SHARD_BYTES
    """Largest size of a file of weights."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Further files by name, which replace those of the base."""
    recipe: str = ""
    """What a mixture that is resumed must have been made of, beside the models, as text."""
    device: str = "cpu"
    """What computes the routers."""
    resume: bool = False
    """Continue an unfinished mixture."""


def write_mixture(
    plan: MixturePlan, routers: RouterWeights, out: Path, output: MixtureOutput = MixtureOutput()
) -> Iterator[JobProgress]:
    """Write the mixture as a model at ``out``, completely or not at all.

    Yields the routers done, then the bytes done. ``out`` must be missing or empty. What is
    unfinished stays beside it, and can be resumed. Raises OutputError, ResourceError, ResumeError,
    NonFiniteError, CheckpointError, and the errors of computing the routers.
    """
    mixture = mixture_checkpoint(plan, routers)
    outputs = _outputs(plan, mixture, output.dtype)
    models = (plan.models.base, *plan.models.sources)
    inputs = [model.checkpoint.folder or model.checkpoint.path for model in models]
    shards = plan_parts(list(outputs.values()), output.shard_bytes, mixture.stems)
    manifest = MixtureManifest(
        recipe=output.recipe,
        inputs=tuple(InputFile.of(stamp) for stamp in mixture.files),
        layout=_layout(mixture, outputs, output.shard_bytes),
        device=output.device,
    )
    checksums = ReadChecksums()
    with claimed_output(out, inputs) as target:
        folder = staging_folder(target)
        with closing(
            MixtureStore.opened(folder, manifest, shards, checksums, resume=output.resume)
        ) as store:
            yield from routers.computed(folder / ROUTERS, checksums)
            with TensorReader(mixture, checksums) as reader:
                yield from _written(mixture, reader, outputs, store)
            store.finish()
        with writing(folder):
            _write_side_files(plan, mixture, store.model, output)
            promote(store.model, target)
        discard(folder)


def _layout(mixture: Checkpoint, outputs: Mapping[str, OutputTensor], shard_bytes: int) -> str:
    """Digest of what each tensor is read from, and of the form in which it is written."""
    digest = hashlib.sha256(f"{shard_bytes}".encode())
    for name, info in mixture.tensors.items():
        digest.update(repr((info, outputs[name])).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _write_side_files(
    plan: MixturePlan, mixture: Checkpoint, folder: Path, output: MixtureOutput
) -> None:
    """The config, the base's other files, and further texts. Raises OSError, OutputError."""
    files = mixture.side_files
    made = {_CONFIG, *output.texts}
    copy_side_files({name: files[name] for name in files if name not in made}, folder)
    config = _config(plan, mixture, output.dtype)
    (folder / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name, text in output.texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _outputs(plan: MixturePlan, mixture: Checkpoint, dtype: str | None) -> dict[str, OutputTensor]:
    """The tensors to be written, by name; experts have the format of the base's own MLP."""
    base = plan.models.base.checkpoint.tensors
    formats = {}
    for block in range(plan.blocks):
        for matrix in MATRICES:
            tag = base[dense_matrix(block, matrix)].written_dtype
            for number in range(len(plan.models.experts)):
                formats[plan.layout.expert(block, number, matrix)] = tag
            formats[plan.layout.shared_expert(block, matrix)] = tag
    outputs = {}
    for name, info in mixture.tensors.items():
        tag = formats.get(name, info.written_dtype)
        if dtype is not None and is_float(tag):
            tag = RECIPE_TAGS[dtype]
        outputs[name] = OutputTensor(name=name, dtype=tag, shape=info.shape)
    return outputs


def _written(
    mixture: Checkpoint,
    reader: TensorReader,
    outputs: Mapping[str, OutputTensor],
    store: MixtureStore,
) -> Iterator[JobProgress]:
    """Write each tensor in its output format, unless an earlier run did; yields the bytes done.

    Raises NonFiniteError for one with NaN or Inf.
    """
    total = sum(tensor.nbytes for tensor in outputs.values())
    done = 0
    for name, info in mixture.tensors.items():
        if not store.has(name):
            tensor = reader.read(name)
            require_finite(tensor, name, path_text(info.file.parent), info.file)
            store.write(name, rounded(tensor, torch_dtype(outputs[name].dtype), name))
        done += outputs[name].nbytes
        yield JobProgress(done=done, total=total, title=name)


def _config(plan: MixturePlan, mixture: Checkpoint, dtype: str | None) -> dict[str, object]:
    """The config with the format of the weights."""
    config = dict(plan.config)
    written = dtype or RECIPE_NAMES.get(mixture.dtype or "")
    keys = [key for key in ("dtype", "torch_dtype") if key in config] or ["dtype"]
    if written is not None:
        config |= dict.fromkeys(keys, written)
    return config
