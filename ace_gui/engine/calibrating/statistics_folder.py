"""What was measured of one expert, on disk.

::

    FOLDER/
      part-00000.safetensors   some layers, as soon as they are measured; what it is in its metadata
      manifest.json            written last: model, inputs, counts, and where every tensor is

A folder without its manifest is one in the making: what is there is not measured again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ace_gui.checkpoints import TensorReader, open_checkpoint
from ace_gui.checkpoints.durable_writes import writing
from ace_gui.errors import CheckpointError
from ace_gui.methods.shared.measured import Need
from ace_gui.versions import library_versions

MANIFEST: Final = "manifest.json"
_ABOUT: Final = "about"


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
    numbers.
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
    schema: int = 1
    libraries: Mapping[str, str] = field(default_factory=lambda: dict(library_versions()))


_MANIFEST: Final = TypeAdapter(StatisticsManifest)
_SUMS: Final = TypeAdapter(PartSums)


class Statistics:
    """What was measured of one expert. Reads a tensor at a time; safe for several threads."""

    def __init__(self, folder: Path) -> None:
        """Raises CheckpointError where it cannot be read."""
        path = folder / MANIFEST
        try:
            self.manifest = _MANIFEST.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            sentence = f"{path} cannot be read; remove the folder, so that it is measured again."
            raise CheckpointError(sentence, path=path, details=str(error)) from error
        self.key = folder.name
        self._readers: dict[str, TensorReader] = {}
        for part in sorted(folder.glob("part-*.safetensors")):
            checkpoint = open_checkpoint(part)
            self._readers |= dict.fromkeys(checkpoint.tensors, TensorReader(checkpoint))

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
    """What is in a folder; None where it is not there, or not whole."""
    return Statistics(folder) if (folder / MANIFEST).is_file() else None


class StatisticsWriter:
    """Writes a folder part by part. Errors of writing are those of ``writing``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: list[PartSums] = []
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def has(self, number: int, names: Sequence[str]) -> bool:
        """Whether a part of these tensors is there, which is then counted in."""
        path = self._path(number)
        if not path.is_file():
            return False
        try:
            with safe_open(path, "pt") as file:
                sums = _SUMS.validate_json((file.metadata() or {})[_ABOUT])
        except (OSError, ValueError, KeyError):
            return False
        if set(sums.rows) != set(names):
            return False
        self._sums.append(sums)
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
        fresh = path.with_suffix(".new")
        with writing(self._folder):
            about = {_ABOUT: json.dumps(asdict(sums))}
            save_file({n: t.cpu().contiguous() for n, t in tensors.items()}, fresh, about)
            fresh.replace(path)
        self._sums.append(sums)

    def finish(self, **told: Any) -> Statistics:
        """Write the manifest; ``told``: what the writer does not know of it."""
        rows = {name: count for sums in self._sums for name, count in sums.rows.items()}
        count = sum(sums.count for sums in self._sums)
        manifest = StatisticsManifest(
            **told,
            rows=rows,
            norm=math.sqrt(math.fsum(sums.squares for sums in self._sums)),
            mean=math.fsum(sums.total for sums in self._sums) / max(count, 1),
        )
        fresh = self._folder / f"{MANIFEST}.new"
        with writing(self._folder):
            fresh.write_bytes(_MANIFEST.dump_json(manifest, indent=1))
            fresh.replace(self._folder / MANIFEST)
        return Statistics(self._folder)

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number:05d}.safetensors"
