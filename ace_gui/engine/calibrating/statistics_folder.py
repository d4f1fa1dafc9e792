"""The measurements of one expert, on disk.

::

    FOLDER/
      part-00000.safetensors   some layers, written when measured; described in the metadata
      manifest.json            written last: model, inputs, counts, and the file of every tensor

A folder without a manifest is unfinished; its parts are not measured again. Every part has a
checksum, which is repeated in the manifest. A part that does not match is measured again.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from ace_gui.checkpoints.input_files import refusal
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.kept_files import (
    is_there,
    keep_json,
    keep_tensors,
    open_json,
    open_tensors,
    warn_recomputed,
)
from ace_gui.errors import CheckpointError
from ace_gui.linalg.passes import energy
from ace_gui.methods.shared.measured import Need
from ace_gui.output_files import writing
from ace_gui.versions import library_versions

MANIFEST: Final = "manifest.json"
FACTORS: Final = "factors"
"""Subfolder with the factors of experts' parts while they are learned."""


@dataclass(frozen=True, kw_only=True)
class CalibratedWith:
    """The inputs of one task. ``digest``: SHA-256 of the data's files."""

    task: str
    data: tuple[str, ...]
    digest: str
    examples: int


@dataclass(frozen=True, kw_only=True)
class PartSums:
    """Sums over the tensors of one part. ``rows``: number of inputs or examples behind each mean.

    ``total``, ``squares``, ``count``: sum of the elements, sum of their squares, and their number.
    """

    rows: Mapping[str, int]
    total: float
    squares: float
    count: int


@dataclass(frozen=True, kw_only=True)
class StatisticsManifest:
    """What was measured, on which model, with which inputs."""

    need: Need
    """Which statistics."""
    expert: str
    """The expert's name."""
    model: str
    """Folder of the expert's model."""
    inputs: tuple[CalibratedWith, ...]
    """The data."""
    seed: int
    """With which inputs were drawn."""
    tensors: Mapping[str, str]
    """The stored name for each tensor of the base ("…[3]" for a matrix of a stack)."""
    rows: Mapping[str, int]
    """By stored name, the number of inputs behind the mean."""
    norm: float
    """Euclidean norm of all elements."""
    mean: float
    """Of all elements."""
    parts: Mapping[str, str]
    """The checksum of each file of tensors."""
    key: str
    """The name of the folder."""
    schema: int = 2
    """Version of this layout."""
    libraries: Mapping[str, str] = field(default_factory=lambda: dict(library_versions()))
    """Versions by name."""


_log = logging.getLogger(__name__)
_MANIFEST: Final = TypeAdapter(StatisticsManifest)
_SUMS: Final = TypeAdapter(PartSums)


class Statistics:
    """The measurements of one expert. Reads one tensor at a time; thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Raises CheckpointError if any file has changed since it was written."""
        path = folder / MANIFEST
        try:
            self.manifest = _MANIFEST.validate_python(open_json(path))
        except ValidationError as error:
            raise refusal(path, "Is no manifest of statistics.") from error
        if self.manifest.key != folder.name:
            raise refusal(path, "Belongs to another folder.")
        self.folder = folder
        self.key = folder.name
        self._readers: dict[str, TensorReader] = {}
        for name, digest in self.manifest.parts.items():
            part = open_tensors(folder / Path(name).name)
            if part.digest != digest:
                raise refusal(folder / name, "Does not match its checksum.")
            reader = TensorReader(part.checkpoint)
            self._readers |= dict.fromkeys(part.checkpoint.tensors, reader)

    def stored(self, name: str) -> str | None:
        """The stored name for a tensor of the base; None if nothing was measured."""
        stored = self.manifest.tensors.get(name)
        if stored is not None and self.manifest.rows.get(stored):
            return stored
        return None

    def read(self, stored: str) -> Tensor:
        """A tensor, float32. Raises the errors of ``TensorReader.read``."""
        return self._readers[stored].read(stored)

    def read_part(self, stored: str, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened tensor."""
        return self._readers[stored].read_part(stored, start, stop)


def found_statistics(folder: Path) -> Statistics | None:
    """The measurements in a folder; None if they are missing, incomplete or damaged."""
    if not is_there(folder / MANIFEST):
        return None
    try:
        return Statistics(folder)
    except CheckpointError as error:
        warn_recomputed(folder, error)
        return None


def folder_to_write(folder: Path, owner: object) -> Path:
    """``folder`` if it is writable, else a temporary folder.

    A temporary one exists as long as ``owner``. Raises OutputError if neither is possible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for candidate in (folder, folder.parent):  # its lock is in the parent
            tempfile.TemporaryFile(dir=candidate).close()
        if all(map(_can_be_replaced, folder.iterdir())):
            return folder
        reason = "there is a folder instead of a file"
    except OSError as error:
        reason = str(error.strerror)
    _log.warning("%s cannot be written (%s): the results are not kept.", folder, reason)
    with writing(Path(tempfile.gettempdir())):
        temporary = Path(tempfile.mkdtemp(prefix="ace-statistics-"))
    weakref.finalize(owner, shutil.rmtree, temporary, ignore_errors=True)
    return temporary / folder.name


def _can_be_replaced(item: Path) -> bool:
    if item.name != FACTORS:
        return not item.is_dir() or item.is_symlink()
    inside = not item.is_symlink() and item.is_dir()
    return inside and not any(entry.is_dir() for entry in item.iterdir())


class StatisticsWriter:
    """Writes a folder part by part. Raises the errors of ``writing``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: list[PartSums] = []
        self._parts: dict[str, str] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def has(self, number: int, names: Sequence[str]) -> bool:
        """Whether a part with these tensors exists; it is then included in the sums."""
        path = self._path(number)
        if not is_there(path):
            return False
        try:
            part = open_tensors(path)
            sums = _SUMS.validate_json(part.about)
        except (CheckpointError, ValidationError) as error:
            warn_recomputed(path, error)
            return False
        if set(sums.rows) != set(names):
            return False
        self._add(path, part.digest, sums)
        return True

    def stored(self, number: int) -> dict[str, Tensor]:
        """The tensors of a part. Raises CheckpointError."""
        part = open_tensors(self._path(number))
        return {name: part.read(name) for name in part.checkpoint.tensors}

    def write(self, number: int, tensors: Mapping[str, Tensor], rows: Mapping[str, int]) -> None:
        """Write a part completely or not at all. ``rows``: by tensor, the number of inputs."""
        counted = [tensors[name] for name in rows if tensors[name].is_floating_point()]
        sums = PartSums(
            rows=rows,
            total=math.fsum(float(tensor.sum(dtype=torch.float64)) for tensor in counted),
            squares=math.fsum(map(energy, counted)),
            count=sum(tensor.numel() for tensor in counted),
        )
        path = self._path(number)
        self._add(path, keep_tensors(path, tensors, json.dumps(asdict(sums))), sums)

    def finish(self, **fields: Any) -> Statistics:
        """Write the manifest; ``fields``: those that the writer does not know."""
        rows = {name: count for sums in self._sums for name, count in sums.rows.items()}
        count = sum(sums.count for sums in self._sums)
        manifest = StatisticsManifest(
            **fields,
            rows=rows,
            norm=math.sqrt(math.fsum(sums.squares for sums in self._sums)),
            mean=math.fsum(sums.total for sums in self._sums) / max(count, 1),
            parts=self._parts,
            key=self._folder.name,
        )
        keep_json(self._folder / MANIFEST, _MANIFEST.dump_python(manifest, mode="json"))
        return Statistics(self._folder)

    def _add(self, path: Path, digest: str, sums: PartSums) -> None:
        self._parts[path.name] = digest
        self._sums.append(sums)

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number:05d}.safetensors"
