"""What was measured of one expert, on disk.

::

    FOLDER/
      part-00000.safetensors   some layers, as soon as they are measured; what it is in its metadata
      manifest.json            written last: model, inputs, counts, and where every tensor is

A folder without its manifest is one in the making: what is there is not measured again. Every file
carries a checksum, and the manifest those of the parts: what does not match is measured anew.
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

from ace_gui.checkpoints import TensorReader
from ace_gui.checkpoints.durable_writes import writing
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.kept_files import (
    is_there,
    keep_json,
    keep_tensors,
    open_json,
    open_tensors,
    say_anew,
)
from ace_gui.errors import CheckpointError
from ace_gui.methods.shared.measured import Need
from ace_gui.versions import library_versions

MANIFEST: Final = "manifest.json"
FACTORS: Final = "factors"
"""The only folder in one of statistics: what experts' parts are made of while they are learned."""


@dataclass(frozen=True, kw_only=True)
class CalibratedWith:
    """The inputs of one task. ``digest``: SHA-256 of the data's files."""

    task: str
    data: tuple[str, ...]
    digest: str
    examples: int


@dataclass(frozen=True, kw_only=True)
class PartSums:
    """Of the tensors of one part: ``rows``, of how many inputs or examples each is the mean.

    ``total``, ``squares``, ``count``: the sum of the numbers, of their squares, and how many.
    """

    rows: Mapping[str, int]
    total: float
    squares: float
    count: int


@dataclass(frozen=True, kw_only=True)
class StatisticsManifest:
    """What was measured, of which model, with which inputs.

    ``tensors``: the stored name of what belongs to a tensor of the base ("…[3]" to a matrix of a
    stack). ``rows``: by stored name, of how many inputs it is the mean. ``norm``, ``mean``: of all
    numbers. ``parts``: the checksum of each file of tensors. ``key``: the name of the folder.
    """

    need: Need
    expert: str
    model: str
    inputs: tuple[CalibratedWith, ...]
    seed: int
    tensors: Mapping[str, str]
    rows: Mapping[str, int]
    norm: float
    mean: float
    parts: Mapping[str, str]
    key: str
    schema: int = 2
    libraries: Mapping[str, str] = field(default_factory=lambda: dict(library_versions()))


_log = logging.getLogger(__name__)
_MANIFEST: Final = TypeAdapter(StatisticsManifest)
_SUMS: Final = TypeAdapter(PartSums)


class Statistics:
    """What was measured of one expert. Reads a tensor at a time; safe for several threads."""

    def __init__(self, folder: Path) -> None:
        """Raises CheckpointError where any file is not as it was written."""
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
        """The stored name of what belongs to a tensor of the base; None where nothing was seen."""
        found = self.manifest.tensors.get(name)
        return found if found is not None and self.manifest.rows.get(found) else None

    def read(self, stored: str) -> Tensor:
        """A tensor, float32. Raises as ``TensorReader.read``."""
        return self._readers[stored].read(stored)

    def read_part(self, stored: str, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened tensor."""
        return self._readers[stored].read_part(stored, start, stop)


def found_statistics(folder: Path) -> Statistics | None:
    """What is in a folder; None where it is not there, not whole, or not as it was written."""
    if not is_there(folder / MANIFEST):
        return None
    try:
        return Statistics(folder)
    except CheckpointError as error:
        say_anew(folder, error)
        return None


def folder_to_write(folder: Path, owner: object) -> Path:
    """``folder`` where statistics can be written to it; else a temporary one, which lasts as long
    as ``owner``. Raises OutputError where there is not even that."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for index in (folder, folder.parent):  # its lock lies beside it
            tempfile.TemporaryFile(dir=index).close()
        if all(map(_can_be_replaced, folder.iterdir())):
            return folder
        reason = "a folder stands in the place of a file"
    except OSError as error:
        reason = str(error.strerror)
    _log.warning("%s cannot be written (%s): what is computed is not kept.", folder, reason)
    with writing(Path(tempfile.gettempdir())):
        temporary = Path(tempfile.mkdtemp(prefix="ace-statistics-"))
    weakref.finalize(owner, shutil.rmtree, temporary, ignore_errors=True)
    return temporary / folder.name


def _can_be_replaced(item: Path) -> bool:
    if item.name != FACTORS:
        return not item.is_dir() or item.is_symlink()
    inside = not item.is_symlink() and item.is_dir()
    return inside and not any(each.is_dir() for each in item.iterdir())


class StatisticsWriter:
    """Writes a folder part by part. Errors of writing are those of ``writing``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: list[PartSums] = []
        self._parts: dict[str, str] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def has(self, number: int, names: Sequence[str]) -> bool:
        """Whether a part of these tensors is there, which is then counted in."""
        path = self._path(number)
        if not is_there(path):
            return False
        try:
            part = open_tensors(path)
            sums = _SUMS.validate_json(part.about)
        except (CheckpointError, ValidationError) as error:
            say_anew(path, error)
            return False
        if set(sums.rows) != set(names):
            return False
        self._add(path, part.digest, sums)
        return True

    def write(self, number: int, tensors: Mapping[str, Tensor], rows: Mapping[str, int]) -> None:
        """Write a part: it appears whole or not at all. ``rows``: by tensor, of how many."""
        counted = [tensors[name] for name in rows if tensors[name].is_floating_point()]
        sums = PartSums(
            rows=rows,
            total=math.fsum(float(each.sum(dtype=torch.float64)) for each in counted),
            squares=math.fsum(
                float(torch.linalg.vector_norm(each, dtype=torch.float64)) ** 2 for each in counted
            ),
            count=sum(each.numel() for each in counted),
        )
        path = self._path(number)
        self._add(path, keep_tensors(path, tensors, json.dumps(asdict(sums))), sums)

    def finish(self, **more: Any) -> Statistics:
        """Write the manifest; ``more``: what the writer does not know of it."""
        rows = {name: count for sums in self._sums for name, count in sums.rows.items()}
        count = sum(sums.count for sums in self._sums)
        manifest = StatisticsManifest(
            **more,
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
