"""A model put together from tensors of others, which keep their own files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.read_checksums import ReadChecksums
from ace_gui.checkpoints.reader import TensorReader


@dataclass(frozen=True, kw_only=True)
class ComposedTensor:
    """The tensor ``name`` of ``checkpoint``."""

    checkpoint: Checkpoint
    name: str


@dataclass(frozen=True, kw_only=True)
class ComposedCheckpoint(Checkpoint):
    """A model whose tensors are ``sources``, by name, of any kind of checkpoint.

    ``tensors`` has their formats in the output; a base with an adapter is read in a wider one.
    """

    sources: Mapping[str, ComposedTensor]


def compose(
    model: Checkpoint, sources: Mapping[str, ComposedTensor], **changed: Any
) -> ComposedCheckpoint:
    """A checkpoint of these tensors; all else is that of ``model``, but for what is ``changed``."""
    kept = {each.name: getattr(model, each.name) for each in fields(Checkpoint)}
    files = {f.path: f for source in sources.values() for f in source.checkpoint.files}
    tensors: dict[str, TensorInfo] = {
        name: replace(source.checkpoint.tensors[source.name], name=name)
        for name, source in sources.items()
    }
    made = {**kept, "tensors": tensors, "files": tuple(files.values()), **changed}
    return ComposedCheckpoint(**made, sources=sources)


class ComposedReader(TensorReader):
    """Reads each tensor from the model that has it."""

    def __init__(
        self,
        checkpoint: ComposedCheckpoint,
        readers: Mapping[int, TensorReader],
        checksums: ReadChecksums | None = None,
    ) -> None:
        """``readers``: of the sources' checkpoints, by ``id``."""
        super().__init__(checkpoint, checksums)
        self._sources = checkpoint.sources
        self._readers = readers

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements of a tensor, as the reader of its source gives them."""
        source = self._sources[name]
        return self._readers[id(source.checkpoint)].read_part(source.name, start, stop)

    def will_read(self, name: str) -> None:
        """Ask the system to prefetch a tensor."""
        source = self._sources[name]
        self._readers[id(source.checkpoint)].will_read(source.name)
