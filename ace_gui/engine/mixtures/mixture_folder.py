"""Writes a mixture of experts as a folder, one tensor in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from torch import Tensor

from ace_gui.architecture.mixture_layouts import MATRICES, dense_matrix
from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import TensorReader, require_finite
from ace_gui.checkpoints.side_files import copy_side_files
from ace_gui.checkpoints.staging import claimed_output, promote, staged
from ace_gui.checkpoints.writer import OutputTensor, plan_parts
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.merging.merge_manifest import SHARD_BYTES
from ace_gui.engine.merging.store import write_verified
from ace_gui.engine.merging.tensor_merge import rounded
from ace_gui.engine.mixtures.mixture_plan import MixturePlan, RouterWeights, mixture_checkpoint
from ace_gui.formatting import path_text
from ace_gui.stored_formats import RECIPE_NAMES, RECIPE_TAGS, is_float

_CONFIG: Final = "config.json"


def write_mixture(
    plan: MixturePlan,
    routers: RouterWeights,
    out: Path,
    *,
    dtype: str | None = None,
    shard_bytes: int = SHARD_BYTES,
    texts: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[JobProgress]:
    """Write the mixture as a model at ``out``, completely or not at all; yields the bytes done.

    ``out`` must be missing or empty. ``dtype``: a recipe's name of the format of all weights; None:
    the base's formats. ``texts``: further files by name, which replace those of the base. Raises
    OutputError, ResourceError, NonFiniteError and CheckpointError.
    """
    mixture = mixture_checkpoint(plan, routers)
    outputs = _outputs(plan, mixture, dtype)
    models = (plan.models.base, *plan.models.sources)
    inputs = [model.checkpoint.folder or model.checkpoint.path for model in models]
    shards = plan_parts(list(outputs.values()), shard_bytes, mixture.stems)
    with claimed_output(out, inputs) as target, staged(target) as stage:
        with TensorReader(mixture) as reader:
            yield from write_verified(stage, shards, _tensors(mixture, reader, outputs))
        files = mixture.side_files
        made = {_CONFIG, *texts}
        copy_side_files({name: files[name] for name in files if name not in made}, stage)
        config = _config(plan, mixture, dtype)
        (stage / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        for name, text in texts.items():
            (stage / name).write_text(text, encoding="utf-8")
        promote(stage, target)


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


def _tensors(
    mixture: Checkpoint, reader: TensorReader, outputs: Mapping[str, OutputTensor]
) -> Iterator[tuple[str, Tensor]]:
    """Each tensor in its output format. Raises NonFiniteError for one with NaN or Inf."""
    for name, info in mixture.tensors.items():
        tensor = reader.read(name)
        require_finite(tensor, name, path_text(info.file.parent), info.file)
        yield name, rounded(tensor, torch_dtype(outputs[name].dtype), name)


def _config(plan: MixturePlan, mixture: Checkpoint, dtype: str | None) -> dict[str, object]:
    """The config with the format of the weights."""
    config = dict(plan.config)
    written = dtype or RECIPE_NAMES.get(mixture.dtype or "")
    keys = [key for key in ("dtype", "torch_dtype") if key in config] or ["dtype"]
    if written is not None:
        config |= dict.fromkeys(keys, written)
    return config
