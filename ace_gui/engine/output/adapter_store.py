"""The store of an unfinished adapter, which can be resumed.

::

    STORE/
      manifest.json, journal.jsonl      see ``merging.journal``
      survey.json       findings on the whole model, for methods that need them
      model/            the adapter
      .made-by-…        marks a folder that may be removed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field
from torch import Tensor

from ace_gui.checkpoints.reader import ReadChecksums
from ace_gui.checkpoints.staging import discard, mark
from ace_gui.checkpoints.writer import OutputTensor, Shard, ShardedWriter, plan_shards
from ace_gui.engine.merging.journal import Journal, can_resume, refuse_links
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.engine.merging.store import MODEL, intact
from ace_gui.engine.streaming import checksum
from ace_gui.output_files import writing

_ONE_FILE: Final = 2**62


@dataclass(frozen=True)
class AdapterTensor:
    """The journal's entry for a parameter, by its first tensor in the base's files."""

    tensor: str

    rank: Annotated[int, Field(ge=0)] | None = None
    """The rank of its change, 0 if it has none; None if it was not asked for."""

    kept: float | None = None
    """The share of the energy that its factors keep; None for a whole one."""

    written: Mapping[str, int] = field(default_factory=dict)
    """The CRC-32 of each of its tensors in the adapter's file; empty if it is not written."""


class AdapterStore:
    """An open store, to be closed. ``shards``: the file of the adapter, once it is begun."""

    def __init__(self, folder: Path, journal: Journal[AdapterTensor]) -> None:
        self.folder = folder
        self.model = folder / MODEL
        self.shards: tuple[Shard, ...] = ()
        self._journal = journal
        self._writer: ShardedWriter | None = None

    @classmethod
    def opened(
        cls, folder: Path, manifest: Manifest, checksums: ReadChecksums, *, resume: bool
    ) -> Self:
        """A new store, or with ``resume`` the unfinished one with an equal manifest.

        Raises ResumeError as ``Journal.resume`` does, OutputError or ResourceError if it cannot be
        written.
        """
        with writing(folder):
            if resume and can_resume(folder):
                resumed = Journal[AdapterTensor].resume(folder, manifest, checksums, AdapterTensor)
                return cls(folder, resumed)
            refuse_links(folder)
            discard(folder)
            (folder / MODEL).mkdir(parents=True)
            mark(folder)
            return cls(folder, Journal[AdapterTensor].begin(folder, manifest, checksums))

    def entry(self, tensor: str) -> AdapterTensor:
        """What the journal has about a parameter."""
        return self._journal.entries.get(tensor, AdapterTensor(tensor=tensor))

    def note_rank(self, tensor: str, rank: int) -> None:
        """Add the rank of a parameter's change to the journal."""
        self._journal.add(replace(self.entry(tensor), rank=rank))

    def begin(self, outputs: Sequence[OutputTensor]) -> None:
        """Create the file, or continue it with the intact tensors that the journal lists."""
        self.shards = plan_shards(outputs, _ONE_FILE, stem="adapter_model")
        (shard,) = self.shards
        path = self.model / shard.file_name
        entries = list(self._journal.entries.values())
        recorded: dict[str, int] = {}
        for entry in entries:
            recorded |= entry.written
        if not recorded:  # perhaps a full disk ended an earlier run here
            path.unlink(missing_ok=True)
            self._writer = ShardedWriter(self.model, self.shards)
            return
        ShardedWriter(self.model, self.shards, ())  # checks the file
        sound = set(intact(self.model, self.shards, recorded))
        verified = []
        names: list[str] = []
        for entry in entries:
            if sound.issuperset(entry.written):
                verified.append(entry)
                names += entry.written
            else:
                verified.append(replace(entry, written={}, kept=None))
        self._journal.keep(verified)
        self._writer = ShardedWriter(self.model, self.shards, names)

    def write(self, tensor: str, pieces: Mapping[str, Tensor], share: float | None = None) -> None:
        """Write the adapter's tensors for a parameter, by their names in its file."""
        assert self._writer is not None
        for name, piece in pieces.items():
            self._writer.write(name, piece)
        written = {name: checksum(piece) for name, piece in pieces.items()}
        self._journal.add(replace(self.entry(tensor), written=written, kept=share))

    def finish(self) -> dict[str, int]:
        """Finish the file; return the checksum of each of its tensors."""
        assert self._writer is not None
        self._writer.finish()
        checksums: dict[str, int] = {}
        for entry in self._journal.entries.values():
            checksums |= entry.written
        return checksums

    def close(self) -> None:
        """Close the journal; the store can be resumed."""
        self._journal.close()
