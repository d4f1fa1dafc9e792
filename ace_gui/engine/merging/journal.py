"""The journal of an unfinished output, a model or an adapter, and the manifest beside it.

::

    STORE/
      manifest.json     what the output depends on: recipe, files, versions, layout
      journal.jsonl     one line for each tensor, and before it lines with the checksums of what was
                        read for it

An output can be continued with an equal manifest, if its inputs still have the content that was
read. Lines count up to the first that is damaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from ace_gui.checkpoints.reader import ReadChecksums, Readings
from ace_gui.checkpoints.staging import mark
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.errors import CheckpointError, ResumeError
from ace_gui.formatting import path_text
from ace_gui.output_files import replacing, sync

MANIFEST: Final = "manifest.json"
JOURNAL: Final = "journal.jsonl"
_READ: Final = "read"

_READINGS: Final = TypeAdapter(dict[str, list[tuple[int, int, int]]])


class Dependencies(Protocol):
    """What an output depends on: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def differences(self, later: Any) -> list[str]:
        """The differences from what it would depend on now, in words."""


class JournalEntry(Protocol):
    """A line about one tensor: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def tensor(self) -> str:
        """The tensor's name."""


Entry = TypeVar("Entry", bound=JournalEntry)
Kind = TypeVar("Kind", bound=Dependencies)


@lru_cache(maxsize=8)
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Reads and writes a class as JSON."""
    return TypeAdapter(kind)


class Journal(Generic[Entry]):
    """An open journal, to be closed. Use ``begin`` or ``resume``."""

    def __init__(self, folder: Path, checksums: ReadChecksums) -> None:
        self.entries: dict[str, Entry] = {}
        """The newest entry of each tensor."""
        self.readings: list[Readings] = []
        """What earlier runs have read."""
        self._folder = folder
        self._checksums = checksums
        self._file = (folder / JOURNAL).open("a", encoding="utf-8")

    @classmethod
    def begin(cls, folder: Path, manifest: Dependencies, checksums: ReadChecksums) -> Self:
        """An empty journal in a folder of its own. Raises OSError.

        ``checksums``: of what this run reads.
        """
        (folder / JOURNAL).touch()
        # Written last and in one step: a folder with a manifest is a store that can be resumed.
        with replacing(folder / MANIFEST) as fresh:
            adapter = _adapter(type(manifest))
            fresh.write_bytes(adapter.dump_json(manifest, indent=1, warnings=False))
        return cls(folder, checksums)

    @classmethod
    def resume(
        cls, folder: Path, manifest: Dependencies, checksums: ReadChecksums, kind: type[Entry]
    ) -> Self:
        """The journal of an unfinished output, whose lines are read as ``kind``.

        The inputs are read again, as sizes and modification times do not show every change. Raises
        ResumeError if it belongs to other inputs, another recipe, version or device, if it cannot
        be read, or if the folder has a link in it.
        """
        refuse_links(folder)
        changed = _read_as(type(manifest), folder).differences(manifest)
        if changed:
            raise ResumeError(
                f"The unfinished output in {folder} cannot be continued: {', '.join(changed)} "
                "differs. Begin again without resuming.",
                path=folder,
            )
        mark(folder)
        readings, entries = read_journal(folder, kind)
        _verify_inputs(folder, readings, checksums)
        journal = cls(folder, checksums)
        journal.readings = readings
        journal.entries = entries
        return journal

    def keep(self, entries: Iterable[Entry]) -> None:
        """Write the journal anew, in one step, with these entries and all earlier readings."""
        self.entries = {entry.tensor: entry for entry in entries}
        lines = [json.dumps({_READ: reading}) + "\n" for reading in self.readings]
        lines += [_line(entry) for entry in self.entries.values()]
        self._file.close()
        with replacing(self._folder / JOURNAL) as fresh:
            fresh.write_text("".join(lines), encoding="utf-8")
        self._file = (self._folder / JOURNAL).open("a", encoding="utf-8")

    def add(self, entry: Entry) -> None:
        """Write an entry, after the checksums of what was read for it."""
        self.log_readings()
        self.entries[entry.tensor] = entry
        self._file.write(_line(entry))
        self._file.flush()

    def log_readings(self) -> None:
        """Write the checksums of new reads, before the tensors made from them."""
        readings = self._checksums.fresh()
        if readings:
            self._file.write(json.dumps({_READ: readings}) + "\n")
            self._file.flush()

    def sync(self) -> None:
        """Flush everything to the disk."""
        self._file.flush()
        sync(self._folder / JOURNAL)

    def close(self) -> None:
        """Close the file; the output can be resumed."""
        self._file.close()


def can_resume(folder: Path) -> bool:
    """Whether there is an unfinished output."""
    return (folder / MANIFEST).exists()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a merge. Raises ResumeError."""
    return _read_as(Manifest, folder)


def _read_as(kind: type[Kind], folder: Path) -> Kind:
    """What an output depends on, as this class. Raises ResumeError."""
    try:
        content: Kind = _adapter(kind).validate_json((folder / MANIFEST).read_bytes())
        return content
    except (OSError, ValidationError) as error:
        raise _unreadable(folder / MANIFEST, error) from error


def read_journal(folder: Path, kind: type[Entry]) -> tuple[list[Readings], dict[str, Entry]]:
    """The recorded reads and the entries, up to a truncated or damaged line. Raises ResumeError."""
    try:
        text = (folder / JOURNAL).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise _unreadable(folder / JOURNAL, error) from None
    readings: list[Readings] = []
    entries: dict[str, Entry] = {}
    lines = TypeAdapter(kind)
    try:
        for content in _objects(text):
            if _READ in content:
                readings.append(_READINGS.validate_python(content[_READ]))
            else:
                entry = lines.validate_python(content)
                entries[entry.tensor] = entry
    except ValidationError:
        pass  # the lines after a damaged one are not read
    return readings, entries


def refuse_links(folder: Path) -> None:
    """Raise ResumeError if a store has a link in it.

    Stores never have links, and writing through one would change files elsewhere.
    """
    for item in (folder, *folder.rglob("*")):
        if item.is_symlink():
            raise ResumeError(
                f"{path_text(item)}: The unfinished output has a link here, which is not followed. "
                "Begin again without resuming.",
                path=item,
            )


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a journal, up to a line that is none."""
    for line in text.splitlines():
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(content, dict):
            return
        yield content


def _line(entry: JournalEntry) -> str:
    return json.dumps(asdict(entry)) + "\n"


def _unreadable(path: Path, error: Exception) -> ResumeError:
    return ResumeError(
        f"{path_text(path)} cannot be read; begin again without resuming.",
        path=path.parent,
        details=str(error),
    )


def _verify_inputs(folder: Path, readings: Sequence[Readings], checksums: ReadChecksums) -> None:
    """Verify the recorded reads of an earlier run against the current files."""
    try:
        for reading in readings:
            checksums.verify(reading)
    except CheckpointError as error:
        raise ResumeError(
            f"The unfinished output in {folder} cannot be continued: {error.path} has another "
            "content than when it began. Begin again without resuming.",
            path=folder,
            details=error.sentence,
        ) from None
