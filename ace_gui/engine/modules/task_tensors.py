"""Reconstructs the tensors of one task's model from a merged folder and its modules.

They are merged weights plus differences, or base weights plus changes, depending on the form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path

import torch
from torch import Tensor

from ace_gui.architecture.names import match_names
from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.input_files import refusal
from ace_gui.checkpoints.reader import TensorReader, require_finite
from ace_gui.checkpoints.side_files import own_file
from ace_gui.checkpoints.writer import OutputTensor
from ace_gui.engine.modules.stored import (
    BLOCK_ROUTER,
    CORRECTION,
    MASK,
    MERGED_SHARES,
    MODEL_ROUTER,
    MODULES,
    TRAINED,
    TRIPLETS,
    Layout,
    ModulesManifest,
    Rows,
    block_of,
    checked_rows,
    has_modules,
    read_layout,
    read_manifest,
    require_hashes,
    suffixes_of,
)
from ace_gui.engine.planning.models import open_files
from ace_gui.engine.planning.recipe_models import HEADS
from ace_gui.engine.streaming import elements_of, tensors_digest
from ace_gui.errors import MismatchError, OutputError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.linalg.passes import is_finite
from ace_gui.methods.shared.expert_modules import ROUTED_ONCE, ModuleKind, unpacked
from ace_gui.output_files import RECIPE
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.stored_formats import is_float


@dataclass(frozen=True, kw_only=True)
class StoredModules:
    """The modules of a merged folder, with all fields checked."""

    folder: Path
    """The merged folder."""
    manifest: ModulesManifest
    """The content of ``modules.json``."""
    layout: Layout
    """The rows that the modules belong to."""
    merged: Checkpoint
    """The weights that the modules belong to."""
    tensors: Checkpoint
    """The modules' own tensors."""

    def rows(self, expert: str) -> Rows:
        """The rows of one expert by stored tensor: the tensors, or matrices in them, that change.

        Raises CheckpointError.
        """
        trained = _trained_names(self.manifest, self.layout)
        return checked_rows(self.folder, expert, self.layout, self.merged, self.tensors, trained)

    def require_entries(self, prefix: str, elements: int) -> None:
        """Raise CheckpointError unless indices of chosen elements ascend and fit the tensor."""
        name = f"{prefix}index"
        if name not in self.tensors.tensors:
            return
        index = self.read(name)
        if not len(index):
            return
        ascends = bool((index[1:] > index[:-1]).all())
        is_inside = int(index[0]) >= 0 and int(index[-1]) < elements
        if not ascends or not is_inside:
            sentence = f"{MODULES} has `{plain(name)}` with entries that are not in the tensor."
            raise refusal(self.folder, f"{sentence} Merge again.", tensor=name)

    def difference(self, expert: str, row: str, elements: int) -> Tensor:
        """D of a row with this number of elements, flat as stored, float32.

        The row is stored as a difference, not as a mask or change of the base (``_changes_base``).
        Raises CheckpointError.
        """
        prefix = f"{expert}/{row}/"
        suffixes = suffixes_of(prefix, self.tensors)
        tensors = [self.read(prefix + suffix) for suffix in suffixes]
        if suffixes[0] == "left":
            return (tensors[0] @ tensors[1]).reshape(-1)
        if suffixes[0] == "index":
            self.require_entries(prefix, elements)
            return torch.zeros(elements).index_copy_(0, tensors[0].long(), tensors[1])
        return tensors[0].reshape(-1)

    def read(self, name: str) -> Tensor:
        """A tensor, checked to be finite. Raises CheckpointError."""
        tensor = TensorReader(self.tensors).read(name)
        if tensor.is_floating_point():
            require_finite(tensor, name, path_text(self.folder), self.folder / MODULES)
        return tensor

    def merged_shares(self) -> Tensor:
        """Each expert's share in the merged blocks, T. Raises CheckpointError."""
        shares = self.read(TRAINED + MERGED_SHARES).reshape(-1)
        experts = self.manifest.experts
        if len(shares) != len(experts):
            sentence = (
                f"{MODULES} has {len(shares)} shares for {len(experts)} experts; merge again."
            )
            raise refusal(self.folder, sentence)
        return shares

    def read_whole(self, expert: str, row: str) -> Tensor:
        """D of a row that is stored whole; zero for an expert without one."""
        name = f"{expert}/{row}/whole"
        if name in self.tensors.tensors:
            return self.read(name)
        return torch.zeros(self.layout.parts[row].tensor_shape)


def _trained_names(manifest: ModulesManifest, layout: Layout) -> list[str]:
    """The trained tensors that modules of this kind have."""
    if manifest.kind in ROUTED_ONCE:
        return list(MODEL_ROUTER)
    if manifest.kind is ModuleKind.SURGERY:
        return [f"{expert}/{name}" for expert, name in product(manifest.experts, CORRECTION)]
    if manifest.kind is ModuleKind.BLOCKS:
        blocks = dict.fromkeys(block_of(part.tensor) for part in layout.parts.values())
        routers = [f"{block}/{name}" for block, name in product(blocks, BLOCK_ROUTER)]
        return [MERGED_SHARES, *routers]
    return []


def read_described(folder: Path) -> tuple[ModulesManifest, Layout]:
    """The manifest and layout of a merged folder's modules, checked to list the same experts.

    Raises CheckpointError.
    """
    manifest = read_manifest(folder)
    layout = read_layout(folder)
    if layout.listed_experts is None:
        experts = manifest.experts
    else:
        experts = layout.listed_experts
    are_listed = set(layout.experts_with_tensors) <= set(experts)
    if experts != manifest.experts or not are_listed:
        raise refusal(folder, f"{MODULES} and modules.json name different experts; merge again.")
    return manifest, layout


def open_modules(folder: Path) -> StoredModules:
    """The modules of a merged folder, checked. Raises CheckpointError."""
    manifest, layout = read_described(folder)
    modules = StoredModules(
        folder=folder,
        manifest=manifest,
        layout=layout,
        merged=open_checkpoint(folder),
        tensors=open_checkpoint(folder / MODULES),
    )
    modules.rows(manifest.experts[0])  # checks the tensors of all experts
    require_hashes(folder, manifest)
    return modules


@dataclass(frozen=True, kw_only=True)
class TaskTensors:
    """One expert's model."""

    modules: StoredModules
    """The stored modules."""
    expert: str
    """Its name."""
    rows: Rows
    """By stored tensor, the rows in it."""
    base_folder: Path | None
    """The base's folder; None if the modules need none."""
    base: Checkpoint | None
    """The base; None if the modules need none."""
    head: Checkpoint | None
    """The expert's own tensors, such as its task's head; None without any."""

    def outputs(self) -> Iterator[OutputTensor]:
        """Names, dtypes and shapes of ``tensors``."""
        infos = dict(self.modules.merged.tensors)
        if self.head is not None:
            for name, expert_name in self._head_names.items():
                infos[name] = self.head.tensors[expert_name]
        for name, info in infos.items():
            yield OutputTensor(name=name, dtype=info.dtype, shape=info.shape)

    @property
    def _head_names(self) -> dict[str, str]:
        """The merged model's names of the expert's own tensors → the expert's names of them."""
        if self.head is None:
            return {}
        expert_names = tuple(self.head.tensors)
        merged_names = match_names(self.modules.merged.tensors, expert_names)
        return {merged_names.get(name, name): name for name in expert_names}

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor, one at a time, in the merged model's dtype. Raises CheckpointError."""
        head_names = self._head_names
        merged = TensorReader(self.modules.merged)
        if self.base is None:
            base = None
        else:
            base = TensorReader(self.base)
        for name in self.modules.merged.tensors:
            if name in head_names:
                continue
            tensor = merged.read(name)
            if name in self.rows:
                base_tensor = None
                if base is not None:
                    base_tensor = base.read(name)
                tensor = self._remade(name, tensor, base_tensor)
            yield name, tensor
        if self.head is not None:
            head = TensorReader(self.head)
            for name, expert_name in head_names.items():
                yield name, head.read(expert_name)

    def _remade(self, name: str, merged: Tensor, base: Tensor | None) -> Tensor:
        """The expert's tensor of this name, in the merged one's dtype. Raises OutputError."""
        if merged.dtype == torch.float64:
            computing_dtype = torch.float64
        else:
            computing_dtype = torch.float32
        result = merged.to(computing_dtype).reshape(-1).clone()
        flat_base = None
        if base is not None:
            flat_base = base.to(computing_dtype).reshape(-1)
        for row, part in self.rows[name].items():
            elements = elements_of(result, part)
            if flat_base is not None and _changes_base(self.modules, self.expert, row):
                base_elements = elements_of(flat_base, part)
                change = self._change(row, merged_change=elements - base_elements)
                elements.copy_(base_elements + change)
            else:
                difference = self._difference_to_merged(row, elements.numel())
                elements.add_(difference.reshape(elements.shape))
        remade = result.reshape(merged.shape).to(merged.dtype)
        if not is_finite(remade):
            raise OutputError(
                f"Values of `{name}` do not fit into {str(merged.dtype).removeprefix('torch.')}; "
                "export the merge in bfloat16 or float32.",
                tensor=name,
            )
        return remade

    def _difference_to_merged(self, row: str, elements: int) -> Tensor:
        """The expert's tensor minus the merged one, flat."""
        stored = self.modules
        difference = stored.difference(self.expert, row, elements)
        if stored.manifest.kind is not ModuleKind.BLOCKS:
            return difference
        # Those of blocks are differences D_t to the base, and the merged block is the base plus
        # Σ_t share_t D_t.
        shares = stored.merged_shares().tolist()
        for expert, share in zip(stored.manifest.experts, shares, strict=True):
            if expert in stored.layout.experts[row]:
                difference = difference - share * stored.difference(expert, row, elements)
        return difference

    def _change(self, row: str, merged_change: Tensor) -> Tensor:
        """The expert's task vector of a row, in the shape and dtype of the merged one."""
        prefix = f"{self.expert}/{row}/"
        stored = self.modules
        if f"{prefix}mask" in stored.tensors.tensors:
            mask = unpacked(stored.read(f"{prefix}mask"), merged_change.numel())
            scale = float(stored.read(f"{prefix}scale"))
            return torch.where(mask.reshape(merged_change.shape), merged_change * scale, 0)
        u = stored.read(f"{prefix}u").to(merged_change.dtype)
        s = stored.read(f"{prefix}s").to(merged_change.dtype)
        vh = stored.read(f"{prefix}vh").to(merged_change.dtype)
        return ((u * s) @ vh).reshape(merged_change.shape)


def _changes_base(modules: StoredModules, expert: str, row: str) -> bool:
    """Whether an expert's tensors of a row change the base's weights instead of the merged ones."""
    suffixes = suffixes_of(f"{expert}/{row}/", modules.tensors)
    return suffixes in (MASK, TRIPLETS)


def open_task(folder: Path, expert: str, base: Path | None = None) -> TaskTensors:
    """One expert of a merged folder. ``base``: of its model; None: the one in the recipe.

    Raises OutputError if the folder has no such expert, CheckpointError, and MismatchError for
    another base.
    """

    def unusable(what: str) -> OutputError:
        return OutputError(f"{path_text(folder)}: {what}", path=folder)

    if not has_modules(folder):
        raise unusable(
            f"There is no {MODULES} here. Merge with a method that stores modules for each expert, "
            "such as emr, tsv_c or byom."
        )
    modules = open_modules(folder)
    experts = modules.manifest.experts
    if expert not in experts:
        raise unusable(f"There is no expert {plain(expert)!r}; there are {listing(experts)}.")
    if modules.manifest.kind is ModuleKind.SURGERY:
        raise unusable(
            f"The modules of {plain(modules.manifest.method)} are no change of weights; load the "
            "model with ace_gui.load_model, which attaches them."
        )
    rows = modules.rows(expert)
    row_names = chain.from_iterable(parts_by_row.keys() for parts_by_row in rows.values())
    base_folder = base
    opened_base = None
    if any(_changes_base(modules, expert, row) for row in row_names):
        base_folder = base or base_of(folder)
        opened_base = open_files(base_folder)
    task = TaskTensors(
        modules=modules,
        expert=expert,
        rows=rows,
        base_folder=base_folder,
        base=opened_base,
        head=kept_head(folder, expert),
    )
    _require_base(task)
    return task


def base_of(folder: Path) -> Path:
    """The folder of the base, from a merged folder's recipe. Raises RecipeError."""
    return load_recipe(folder / RECIPE).base_model


def kept_head(folder: Path, expert: str) -> Checkpoint | None:
    """The expert's own tensors next to the merged ones, if it has any. Raises CheckpointError."""
    name = f"{HEADS}/{expert}.safetensors"
    if not (folder / name).is_file():
        return None
    if own_file(folder / name, name) is None:
        sentence = "This link leads out of the merged folder. Put the file itself there."
        raise refusal(folder / name, sentence)
    return open_checkpoint(folder / name)


def _require_base(task: TaskTensors) -> None:
    """Raise MismatchError if names, shapes or values differ from those of the merge's base."""
    if task.base is None or task.base_folder is None:
        return
    start = f"{path_text(task.base_folder)} is not the base of this merge: "
    for name in task.rows:
        shape = task.modules.merged.tensors[name].shape
        info = task.base.tensors.get(name)
        if info is None or info.shape != shape or not is_float(info.dtype):
            shapes = {"merged": shape}
            if info is not None:
                shapes["base"] = info.shape
            raise MismatchError(
                f"{start}`{plain(name)}` differs. Name the base model.",
                path=task.base_folder,
                tensor=name,
                shapes=shapes,
            )
    expected_digest = task.modules.manifest.base
    if expected_digest is None:
        return
    names = sorted({part.tensor for part in task.modules.layout.parts.values()})
    reader = TensorReader(task.base)
    digest = tensors_digest((name, reader.read(name)) for name in names)
    if digest != expected_digest:
        sentence = f"{start}its weights are others. Name the base model."
        raise MismatchError(sentence, path=task.base_folder)
