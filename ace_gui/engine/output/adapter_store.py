"""The store of an unfinished adapter, which can be resumed.

::

    STORE/
      manifest.json     what the adapter depends on, as of a merge, and how it is cut
      journal.jsonl     one line a tensor: its rank, or the checksums of what is written of it
      model/            the adapter
      .made-by-…        marks a folder that may be removed
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

from torch import Tensor

from ace_gui.checkpoints.staging import discard, mark
from ace_gui.checkpoints.writer import OutputTensor, Shard, ShardedWriter, plan_shards
from ace_gui.engine.kept_files import keep_json, open_json
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.engine.merging.store import intact, journal_lines, refuse_links
from ace_gui.engine.streaming import checksum
from ace_gui.errors import CheckpointError, ResumeError
from ace_gui.output_files import writing

MODEL: Final = "model"
_MANIFEST: Final = "manifest.json"
_JOURNAL: Final = "journal.jsonl"
_ONE_FILE: Final = 2**62


class AdapterStore:
    """An open store, to be closed.

    ``lines``: the journal's entry for each tensor. ``model``: folder of the adapter; ``shards``:
    its file.
    """

    def __init__(self, folder: Path, lines: dict[str, dict[str, Any]], journal: IO[str]) -> None:
        self.folder, self.model = folder, folder / MODEL
        self.lines = lines
        self._journal = journal
        self._writer: ShardedWriter | None = None
        self.shards: tuple[Shard, ...] = ()

    @classmethod
    def opened(
        cls, folder: Path, manifest: Manifest, settings: Mapping[str, object], *, resume: bool
    ) -> Self:
        """A new store, or the unfinished one of the same inputs and settings.

        Raises ResumeError if these differ, OutputError or ResourceError if it cannot be written.
        """
        names = ("headers", "code", "libraries", "device", "threads", "added_methods")
        described = {name: getattr(manifest, name) for name in names} | {
            "inputs": [[each.path, each.size, each.mtime_ns] for each in manifest.inputs],
            "recipe": repr(manifest.recipe.absolute()),
            "settings": settings,
        }
        described = json.loads(json.dumps(described))  # as JSON returns it
        refuse_links(folder)
        if resume and (folder / _MANIFEST).is_file():
            lines = _resumed(folder, described)
        else:
            discard(folder)
            (folder / MODEL).mkdir(parents=True)
            mark(folder)
            keep_json(folder / _MANIFEST, described)
            lines = {}
        with writing(folder):
            journal = (folder / _JOURNAL).open("w", encoding="utf-8")
            store = cls(folder, lines, journal)
            for tensor, line in lines.items():
                store._write_line(tensor, line)
        return store

    def note(self, tensor: str, **line: object) -> None:
        """Add facts about a tensor to the journal."""
        self.lines[tensor] = {**self.lines.get(tensor, {}), **line}
        self._write_line(tensor, self.lines[tensor])

    def begin(self, outputs: Sequence[OutputTensor]) -> None:
        """Create the file, or continue it with the intact tensors that the journal lists."""
        self.shards = plan_shards(outputs, _ONE_FILE, stem="adapter_model")
        (shard,), sound = self.shards, set[str]()
        continued = (self.model / shard.file_name).exists()
        written = {tensor: line.get("written", {}) for tensor, line in self.lines.items()}
        if continued:
            ShardedWriter(self.model, self.shards, ())  # checks the file
            recorded = {name: crc for pieces in written.values() for name, crc in pieces.items()}
            sound = set(intact(self.model, self.shards, recorded))
        for tensor, pieces in written.items():  # damaged tensors are written again
            if not sound.issuperset(pieces):
                del self.lines[tensor]["written"]
        kept = [name for pieces in written.values() if sound.issuperset(pieces) for name in pieces]
        self._writer = ShardedWriter(self.model, self.shards, kept if continued else None)

    def write(self, tensor: str, pieces: Mapping[str, Tensor], **line: object) -> None:
        """Write the adapter's tensors for a tensor of the model, by their names in its file."""
        assert self._writer is not None
        for name, piece in pieces.items():
            self._writer.write(name, piece)
        self.note(tensor, written={n: checksum(piece) for n, piece in pieces.items()}, **line)

    def finish(self) -> dict[str, int]:
        """Finish the file; return the checksum of each of its tensors."""
        assert self._writer is not None
        self._writer.finish()
        checksums: dict[str, int] = {}
        for line in self.lines.values():
            checksums |= line.get("written", {})
        return checksums

    def close(self) -> None:
        """Close the journal; the store can be resumed."""
        self._journal.close()

    def _write_line(self, tensor: str, line: Mapping[str, object]) -> None:
        self._journal.write(json.dumps({"tensor": tensor, **line}) + "\n")
        self._journal.flush()


def _resumed(folder: Path, described: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """The journal of an unfinished store, which must have these inputs and settings."""
    try:
        stored = open_json(folder / _MANIFEST)
        text = (folder / _JOURNAL).read_text(encoding="utf-8")
    except (CheckpointError, OSError, ValueError) as error:
        raise ResumeError(
            f"{folder} cannot be read; begin again without resuming.", path=folder
        ) from error
    changed = [name for name, value in described.items() if stored.get(name) != value]
    if changed:
        raise ResumeError(
            f"The unfinished adapter in {folder} cannot be continued: {', '.join(changed)} differ. "
            "Begin again without resuming.",
            path=folder,
        )
    lines: dict[str, dict[str, Any]] = {}
    for line in journal_lines(text):
        if "tensor" not in line:
            break
        lines[line.pop("tensor")] = line
    return lines
