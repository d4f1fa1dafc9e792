"""The model of one task, made again from a merged folder: merged weights, base and modules.

For the output of methods that leave something for each expert (EMR, TALL masks, TSV-Compress);
``modules`` describes the file. Needs neither the experts nor a window::

    from ace_gui.engine.output.task_model import reconstruct

    state = dict(reconstruct("path/to/merged", "cola"))
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ace_gui.checkpoints import (
    Checkpoint,
    OutputTensor,
    ShardedWriter,
    TensorReader,
    claimed_output,
    copy_side_files,
    listing,
    open_checkpoint,
    place,
    plain,
    plan_parts,
    promote,
    require_finite,
    staged,
)
from ace_gui.checkpoints.input_files import refusal
from ace_gui.checkpoints.side_files import own_file
from ace_gui.engine.contract.plan import MatrixPart
from ace_gui.engine.merging.merge import SHARD_BYTES
from ace_gui.engine.merging.output_config import set_config_dtype
from ace_gui.engine.merging.read_back import verify_shards
from ace_gui.engine.merging.task_modules import MODULES
from ace_gui.engine.merging.tensor_merge import rounded
from ace_gui.engine.output.merged_modules import Rows, checked_rows, read_layout
from ace_gui.engine.planning.expert_files import HEADS
from ace_gui.engine.planning.models import open_files
from ace_gui.engine.streaming import checksum
from ace_gui.errors import CheckpointError, MismatchError, OutputError
from ace_gui.methods.shared.expert_modules import unpacked
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.stored_formats import RECIPE_NAMES, is_float

RECIPE: Final = "merge_recipe.yaml"


def reconstruct(
    folder: str | os.PathLike[str], expert: str, *, base: str | os.PathLike[str] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of one expert's model, by name, one after another, in the merged model's dtype.

    ``folder``: a merged model with ``modules.safetensors``. ``base``: the base model; None: where
    the folder's ``merge_recipe.yaml`` says it is. The expert's own head, where it has one, replaces
    what the merged model has by that name. Tensors that were not masked or factorised are the
    merged model's. Raises CheckpointError, MismatchError for another base, or OutputError where the
    folder has no such expert.
    """
    return _open(Path(folder), expert, base).tensors()


def write_task_model(
    folder: str | os.PathLike[str],
    expert: str,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None = None,
) -> Path:
    """Write ``reconstruct``'s tensors and the side files as a model folder, whole or not at all.

    ``out`` must not exist or be empty. The config is that of ``heads/EXPERT/`` or of the expert's
    own folder if it is still there, else the merged model's. Returns the folder. Raises as
    ``reconstruct`` does, OutputError and ResourceError.
    """
    task = _open(Path(folder), expert, base)
    inputs = [Path(folder), task.base_folder]
    with claimed_output(Path(out), inputs) as target, staged(target) as stage:
        shards = plan_parts(list(task.outputs()), SHARD_BYTES, task.merged.stems)
        checksums = {}
        with ShardedWriter(stage, shards) as writer:
            for name, tensor in task.tensors():
                writer.write(name, tensor)
                checksums[name] = checksum(tensor)
            writer.finish()
        verify_shards(stage, shards, checksums)
        copy_side_files(task.side_files(), stage)
        set_config_dtype(stage / "config.json", RECIPE_NAMES.get(task.merged.dtype or ""))
        promote(stage, target)
    return target


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One expert of a merged folder. ``rows``: by stored tensor, the rows that lie in it."""

    folder: Path
    base_folder: Path
    expert: str
    merged: Checkpoint
    base: Checkpoint
    modules: Checkpoint
    head: Checkpoint | None
    rows: Rows

    def outputs(self) -> Iterator[OutputTensor]:
        """Names, dtypes and shapes of ``tensors``."""
        own = {} if self.head is None else self.head.tensors
        for name, info in {**self.merged.tensors, **own}.items():
            yield OutputTensor(name=name, dtype=info.dtype, shape=info.shape)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor, one at a time."""
        own = {} if self.head is None else self.head.tensors
        merged, base = TensorReader(self.merged), TensorReader(self.base)
        modules = TensorReader(self.modules)
        for name in self.merged.tensors:
            if name in own:
                continue
            tensor = merged.read(name)
            if name in self.rows:
                tensor = self._remade(name, tensor, base.read(name), modules)
            yield name, tensor
        if self.head is not None:
            head = TensorReader(self.head)
            for name in own:
                yield name, head.read(name)

    def side_files(self) -> Mapping[str, Path]:
        """The merged model's, and the expert's config where it has one of its own."""
        files = dict(self.merged.side_files)
        own = (self.folder / HEADS / self.expert, self._own_folder())
        config = next(filter(None, map(self._config_of, own)), None)
        if config is not None:
            files["config.json"] = config
        return {name: path for name, path in files.items() if name != RECIPE}

    def _own_folder(self) -> Path | None:
        recipe = load_recipe(self.folder / RECIPE)
        own = dict(zip(recipe.expert_names, recipe.models, strict=True)).get(self.expert)
        return None if own is None else own.model

    def _config_of(self, folder: Path | None) -> Path | None:
        """The config.json of a model of this architecture; None where the folder is none.

        The merged folder says which it is, and may say anything: no other file is copied.
        """
        try:
            checkpoint = None if folder is None else open_files(folder)
        except CheckpointError:  # it is no longer there, or never was a model
            return None
        config = None if checkpoint is None else checkpoint.config
        if checkpoint is None or config is None or self.merged.config is None:
            return None
        alike = config.get("model_type") == self.merged.config.get("model_type")
        return checkpoint.side_files.get("config.json") if alike else None

    def _remade(self, name: str, merged: Tensor, base: Tensor, modules: TensorReader) -> Tensor:
        wide = torch.float64 if merged.dtype == torch.float64 else torch.float32
        result, start = merged.to(wide).reshape(-1).clone(), base.to(wide).reshape(-1)
        for row, part in self.rows[name].items():
            mine, original = _elements(result, part), _elements(start, part)
            mine.copy_(original + self._change(row, mine - original, modules))
        return rounded(result.reshape(merged.shape), merged.dtype, name)

    def _change(self, row: str, shared: Tensor, modules: TensorReader) -> Tensor:
        """The expert's task vector on a row, in the shape of ``shared``, the merged one."""
        prefix = f"{self.expert}/{row}/"
        if f"{prefix}mask" in self.modules.tensors:
            chosen = unpacked(modules.read(f"{prefix}mask"), shared.numel())
            scale = float(self._finite(modules, f"{prefix}scale"))
            return torch.where(chosen.reshape(shared.shape), shared * scale, 0)
        factors = (self._finite(modules, prefix + what) for what in ("u", "s", "vh"))
        u, s, vh = (factor.to(shared.dtype) for factor in factors)
        return ((u * s) @ vh).reshape(shared.shape)

    def _finite(self, modules: TensorReader, name: str) -> Tensor:
        tensor = modules.read(name)
        require_finite(tensor, name, self.folder.name, self.folder / MODULES)
        return tensor


def _elements(flat: Tensor, part: MatrixPart) -> Tensor:
    """A view of a row's elements in its stored tensor: repetitions × elements of each."""
    return flat[part.start : part.stop].view(-1, part.period)[:, part.first : part.last]


def _open(folder: Path, expert: str, base: str | os.PathLike[str] | None) -> _Task:
    if not (folder / MODULES).is_file():
        raise OutputError(
            f"{place(folder)}: There is no {MODULES} here. Merge with a method that leaves "
            "something for each expert: emr, tall_masks or tsv_c.",
            path=folder,
        )
    layout = read_layout(folder)
    known = layout.names
    if expert not in known:
        raise OutputError(
            f"{place(folder)}: There is no expert {plain(expert)!r}; there are {listing(known)}.",
            path=folder,
        )
    merged = open_checkpoint(folder)
    base_folder = load_recipe(folder / RECIPE).base_model if base is None else Path(base)
    modules = open_checkpoint(folder / MODULES)
    task = _Task(
        folder=folder,
        base_folder=base_folder,
        expert=expert,
        merged=merged,
        base=open_files(base_folder),
        modules=modules,
        head=_head(folder, expert),
        rows=checked_rows(folder, expert, layout, merged, modules),
    )
    _require_base(task)
    return task


def _head(folder: Path, expert: str) -> Checkpoint | None:
    """The expert's own tensors beside the merged ones, if it has any."""
    place = f"{HEADS}/{expert}.safetensors"
    if not (folder / place).is_file():
        return None
    if own_file(folder / place, place) is None:
        sentence = "This link leads out of the merged folder. Put the file itself there."
        raise refusal(folder / place, sentence)
    return open_checkpoint(folder / place)


def _require_base(task: _Task) -> None:
    for name in task.rows:
        shape, there = task.merged.tensors[name].shape, task.base.tensors.get(name)
        if there is None or there.shape != shape or not is_float(there.dtype):
            raise MismatchError(
                f"{place(task.base_folder)} is not the base of this merge: `{plain(name)}` "
                "differs. Name the base model.",
                path=task.base_folder,
                tensor=name,
                shapes={"merged": shape, **({"base": there.shape} if there else {})},
            )
