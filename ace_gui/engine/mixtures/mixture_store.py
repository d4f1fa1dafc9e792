"""The store of an unfinished mixture of experts, which can be resumed.

::

    STORE/
      manifest.json, journal.jsonl      see ``merging.journal``
      routers.safetensors               routers of prompts, as far as they are computed
      model/            the mixture as it will be
      .made-by-…        marks a folder that may be removed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from torch import Tensor

from ace_gui.checkpoints.reader import ReadChecksums
from ace_gui.checkpoints.staging import discard, mark
from ace_gui.checkpoints.writer import Shard, ShardedWriter
from ace_gui.engine.merging.journal import Journal, can_resume, refuse_links
from ace_gui.engine.merging.merge_manifest import InputFile, changed_files, changed_libraries
from ace_gui.engine.merging.store import MODEL, continued_writer, verify_shards
from ace_gui.engine.streaming import checksum
from ace_gui.output_files import writing
from ace_gui.versions import COMPUTING, code_digest, library_versions

ROUTERS: Final = "routers.safetensors"


@dataclass(frozen=True)
class WrittenTensor:
    """The journal's entry for a tensor of the mixture."""

    tensor: str

    checksum: int
    """The CRC-32 of its bytes."""


@dataclass(frozen=True, kw_only=True)
class MixtureManifest:
    """Everything that a mixture depends on. It can only be resumed with an equal one."""

    recipe: str
    """The mixture's recipe, and the tokens of its prompts, as text."""
    inputs: tuple[InputFile, ...]
    """The files that are read."""
    layout: str
    """Digest of its tensors: names, shapes, formats, and where each comes from."""
    device: str
    """What computes the routers."""
    code: str = field(default_factory=lambda: code_digest(*COMPUTING))
    """Digest of this program's source."""
    libraries: Mapping[str, str] = field(default_factory=lambda: dict(library_versions()))
    """Versions by name."""

    def differences(self, later: MixtureManifest) -> list[str]:
        """The differences in words, for users who want to resume."""
        changed = changed_files(self.inputs, later.inputs)
        for name in ("recipe", "layout", "device"):
            if getattr(self, name) != getattr(later, name):
                changed.append(name)
        changed += changed_libraries(self.libraries, later.libraries)
        if self.code != later.code:
            changed.append("this program's own code")
        if not changed and self.inputs != later.inputs:
            changed.append("number of input files")
        return changed


class MixtureStore:
    """An open store, to be closed. Use ``opened``."""

    def __init__(
        self,
        folder: Path,
        shards: Sequence[Shard],
        writer: ShardedWriter,
        journal: Journal[WrittenTensor],
    ) -> None:
        self.folder = folder
        self.model = folder / MODEL
        self._shards = shards
        self._writer = writer
        self._journal = journal

    @classmethod
    def opened(
        cls,
        folder: Path,
        manifest: MixtureManifest,
        shards: Sequence[Shard],
        checksums: ReadChecksums,
        *,
        resume: bool,
    ) -> Self:
        """A new store, or with ``resume`` the unfinished one with an equal manifest.

        Raises ResumeError as ``Journal.resume`` does, OutputError or ResourceError if it cannot be
        written.
        """
        with writing(folder):
            if resume and can_resume(folder):
                return cls._continued(folder, manifest, shards, checksums)
            refuse_links(folder)
            discard(folder)
            (folder / MODEL).mkdir(parents=True)
            mark(folder)
            writer = ShardedWriter(folder / MODEL, shards)
            journal = Journal[WrittenTensor].begin(folder, manifest, checksums)
            return cls(folder, shards, writer, journal)

    @classmethod
    def _continued(
        cls,
        folder: Path,
        manifest: MixtureManifest,
        shards: Sequence[Shard],
        checksums: ReadChecksums,
    ) -> Self:
        """The unfinished store, with the tensors whose bytes are still what was written."""
        journal = Journal[WrittenTensor].resume(folder, manifest, checksums, WrittenTensor)
        writer = continued_writer(folder / MODEL, shards, journal)
        return cls(folder, shards, writer, journal)

    def has(self, tensor: str) -> bool:
        """Whether a tensor was written by an earlier run."""
        return tensor in self._journal.entries

    def write(self, name: str, tensor: Tensor) -> None:
        """Write a whole tensor."""
        self._writer.write(name, tensor)
        self._journal.add(WrittenTensor(tensor=name, checksum=checksum(tensor)))

    def finish(self) -> None:
        """Finish the files of weights, and read them back. Raises OutputError, ResourceError."""
        self._writer.finish()
        written = {name: entry.checksum for name, entry in self._journal.entries.items()}
        verify_shards(self.model, self._shards, written)

    def close(self) -> None:
        """Close the journal; the store can be resumed."""
        self._journal.close()
