"""Everything that a merge depends on. A merge can only be resumed with an equal manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Self

import torch

from ace_gui.application import __version__
from ace_gui.checkpoints.derived import ExtendedInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import FileStamp
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.engine.merging.memory_budgets import GPU_AHEAD
from ace_gui.engine.merging.units import Workers
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.overridden_rows import spelled_out
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import matrices_at_once
from ace_gui.linalg.products import product_library
from ace_gui.methods import added_sources
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue, SanityCheck
from ace_gui.versions import COMPUTING, code_digest, library_versions

SHARD_BYTES: Final = 5_000_000_000


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file that the merge reads. Another size or modification time means another merge."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, stamp: FileStamp) -> Self:
        """The file with its current stamp."""
        return cls(path=str(stamp.path), size=stamp.size, mtime_ns=stamp.mtime_ns)


def changed_files(earlier: Sequence[InputFile], later: Sequence[InputFile]) -> list[str]:
    """The files that differ, in words."""
    changed = []
    for mine, theirs in zip(earlier, later, strict=False):
        if mine.path != theirs.path:
            changed.append(theirs.path)
        elif mine != theirs:
            changed.append(f"{mine.path} (changed since)")
    return changed


def changed_libraries(earlier: Mapping[str, str], later: Mapping[str, str]) -> list[str]:
    """The libraries that have another version, in words."""
    changed = []
    for name, now in later.items():
        before = earlier.get(name, "unknown")
        if before != now:
            changed.append(f"{name} {now} (was {before})")
    return changed


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """How a merge, or a model's change, is written as an adapter."""

    include: tuple[str, ...] = ()
    """Patterns of tensors' names that are written; all if it is empty."""

    exclude: tuple[str, ...] = ()
    """Patterns of tensors' names that are left out."""

    balanced: bool = False
    """Whether √S goes into both factors."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything the result of a merge depends on, and what its export needs."""

    recipe: Recipe
    """What was merged."""
    parameters: Mapping[str, ParameterValue]
    """The method's, all resolved."""
    inputs: tuple[InputFile, ...]
    """The files."""
    input_folders: tuple[Path, ...]
    """Model folders, where no output may go."""
    expert_classes: tuple[str | None, ...]
    """transformers class of each expert; None if unknown."""
    rows: tuple[PlanRow, ...]
    """The plan's."""
    headers: str
    """Digest of the tensors' positions in the inputs and of how they are computed
    (``layout_digest``).
    """
    dtypes: Mapping[str, str]
    """Dtype tag of every tensor in the store, in file order."""
    stems: Mapping[str, str]
    """Name stem of the weight files of each part of the model."""
    shard_bytes: int
    """Largest size of a file of weights."""
    device: str
    """What merged."""
    threads: int
    """Of matrix products."""
    side_by_side: int
    """Number of matrices merged at the same time; it fixes the threads of each, on which rounding
    may depend. On a GPU it is the number of batches, whose composition follows from ``rows``.
    """
    products: str = "torch"
    """Library of the matrix products."""
    measurements: tuple[str, ...] = ()
    """Keys of what was measured with the experts' data."""
    program: str = __version__
    """Version of this program."""
    code: str = ""
    """Digest of its source code."""
    added_methods: Mapping[str, str] = field(default_factory=dict)
    """Digest of the source of each method from outside."""
    libraries: Mapping[str, str] = field(default_factory=lambda: dict(library_versions()))
    """Versions by name."""
    warnings: tuple[str, ...] = ()
    """From before the merge; its result does not depend on them."""
    notes: tuple[str, ...] = ()
    """The same for notes."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """That of the base's single file."""
    adapter: AdapterOptions | None = None
    """How it is written as an adapter; None for a model."""

    @property
    def resolved_recipe(self) -> Recipe:
        """The recipe with the values derived from the base model filled in."""
        return spelled_out(self.recipe, self.parameters, self.rows)

    def differences(self, later: Manifest) -> list[str]:
        """The differences in words, for users who want to resume."""
        changed = changed_files(self.inputs, later.inputs)
        # Trying a merge does not change it.
        recipe = replace(self.recipe, check=SanityCheck.AUTO)
        later_recipe = replace(later.recipe, check=SanityCheck.AUTO)
        if recipe != later_recipe:
            changed.append("recipe")
        ignored = {"recipe", "inputs", "libraries", "warnings", "notes", "code", "added_methods"}
        names = [item.name for item in fields(self) if item.name not in ignored]
        changed += [name for name in names if getattr(self, name) != getattr(later, name)]
        changed += changed_libraries(self.libraries, later.libraries)
        for name, now in later.added_methods.items():
            if self.added_methods.get(name) != now:
                changed.append(f"the method {name} (changed since)")
        if self.code != later.code:
            changed.append("this program's own code")
        if len(self.inputs) != len(later.inputs):
            changed.append("the number of input files")
        return changed


def make_manifest(
    prepared: Prepared,
    device: torch.device,
    memory_bytes: int | None,
    warnings: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    *,
    as_output: bool,
    workers: Workers | None = None,
) -> Manifest:
    """Everything the store depends on: recipe, current state of the inputs, layout, versions.

    The number of workers is left out, because each worker merges one unit at a time.
    """
    plan = prepared.plan
    place = _merging_place(prepared, device, memory_bytes, workers)
    statistics_of_needs = prepared.groundwork.statistics.values()
    return Manifest(
        code=code_digest(*COMPUTING),
        added_methods=added_sources(plan.recipe.methods),
        recipe=plan.recipe,
        parameters=plan.parameters,
        inputs=tuple(map(InputFile.of, prepared.files)),
        input_folders=plan.input_folders,
        expert_classes=tuple(expert.architecture.model_class for expert in prepared.experts),
        rows=plan.rows,
        headers=layout_digest(prepared),
        dtypes=_dtypes(plan, as_output=as_output),
        stems=prepared.base.checkpoint.stems,
        metadata=prepared.base.checkpoint.metadata,
        shard_bytes=SHARD_BYTES,
        device=place.device,
        threads=place.threads,
        side_by_side=place.side_by_side,
        products=product_library(),
        measurements=tuple(item.key for item in chain.from_iterable(statistics_of_needs)),
        warnings=warnings,
        notes=notes,
    )


class _MergingPlace(NamedTuple):
    """Where a merge is computed: fields of the manifest."""

    device: str
    threads: int
    side_by_side: int


def _merging_place(
    prepared: Prepared, device: torch.device, memory_bytes: int | None, workers: Workers | None
) -> _MergingPlace:
    if workers is not None:
        return _MergingPlace(device=workers.device, threads=workers.threads, side_by_side=1)
    at_once = GPU_AHEAD
    if device.type == "cpu":
        at_once = matrices_at_once(prepared, memory_bytes)
    return _MergingPlace(device=str(device), threads=torch.get_num_threads(), side_by_side=at_once)


def _dtypes(plan: Plan, *, as_output: bool) -> dict[str, str]:
    """The dtype tag of every tensor in the store, in file order."""
    dtype = plan.recipe.out_dtype
    rows = [row for row in plan.rows if row.in_base]
    if as_output:
        return {row.tensor: row.output_dtype(dtype) for row in rows}
    return {row.tensor: row.store_dtype for row in rows}


def layout_digest(prepared: Prepared) -> str:
    """Digest of names, formats, shapes and file offsets of tensors, adapter scales and row orders.

    Together with the bytes in the files it determines what is merged. File size and modification
    time alone do not show every change of a header or a tokenizer.
    """
    digest = hashlib.sha256()
    for model in (prepared.base, *prepared.experts):
        for part in _determining_values(model):
            if isinstance(part, bytes):
                digest.update(part)
            else:
                digest.update(repr(part).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _determining_values(model: OpenedModel) -> Iterator[object]:
    """What determines which bytes of a model are merged, and how."""
    yield sorted(model.own_names.items())
    yield from _offsets(model.checkpoint)
    for name, token_rows in sorted(model.token_rows.items()):
        yield name
        yield token_rows.tobytes()


def _offsets(checkpoint: Checkpoint) -> Iterator[object]:
    """Everything that determines the values of a checkpoint's tensors, except the files' bytes."""
    for name, info in sorted(checkpoint.tensors.items()):
        yield (name, info)
        if isinstance(info, ExtendedInfo):
            for source in filter(None, (info.own, *info.sources)):
                yield source.info
                yield source.rows.tobytes()
