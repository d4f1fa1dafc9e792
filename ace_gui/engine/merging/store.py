"""The merge store: an unfinished merged model on disk, with a journal of the finished tensors.

::

    STORE/
      manifest.json, journal.jsonl      see ``journal``; an entry has a finished tensor's checksum
                        and reports
      survey.json       findings on the whole model, for methods that need them
      model/            the merged model as it will be exported, heads and side files included
      complete          written last: every tensor is finished
      .made-by-…        marks a folder that may be removed

A store whose process died is reopened with ``resume`` and continues after the last tensor in the
journal. Tensors that the journal calls finished are first read back and compared with their
checksums; those whose bytes never reached the disk are merged again.

The output is read back before it is reported as finished, with the safetensors library instead of
our own reader, so that an error in writing a header is not repeated in reading it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from pathlib import Path
from typing import Protocol, Self, TypeVar

from safetensors import SafetensorError, safe_open
from torch import Tensor

from ace_gui.checkpoints.header import tag_of
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import file_digest
from ace_gui.checkpoints.reader import ReadChecksums, TensorReader
from ace_gui.checkpoints.staging import discard, mark
from ace_gui.checkpoints.writer import OutputTensor, Shard, ShardedWriter, plan_parts
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.kept_files import opened_file
from ace_gui.engine.merging.journal import (
    Journal,
    JournalEntry,
    can_resume,
    read_journal,
    read_manifest,
    refuse_links,
)
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.engine.streaming import Assembly, checksum, parts_of, single_threads
from ace_gui.errors import CheckpointError, OutputError
from ace_gui.formatting import path_text, plain
from ace_gui.linalg.passes import is_finite
from ace_gui.output_files import STORE_COMPLETE, output_error, sync

SURVEY = "survey.json"
MODEL = "model"


@dataclass(frozen=True)
class FinishedTensor:
    """The journal's entry for a tensor."""

    tensor: str
    """Its name."""
    checksum: int
    """CRC-32 of its bytes."""
    reports: tuple[LayerReport, ...]
    """Of its rows, in order."""


@dataclass
class _PartlyWritten:
    """A tensor of which some rows are written."""

    assembly: Assembly = field(default_factory=Assembly)
    """Rows that wait for others before them."""
    reports: list[LayerReport] = field(default_factory=list)
    """Of the rows so far."""
    checksum: int = 0
    """CRC-32 of the bytes so far."""


class MergeStore:
    """An open store. Use ``create`` or ``resume``, and close it."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        writer: ShardedWriter,
        journal: Journal[FinishedTensor],
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.done = {name: entry.reports for name, entry in journal.entries.items()}
        """By finished tensor, the reports of its rows."""
        self._writer = writer
        self._journal = journal
        self._unfinished: defaultdict[str, _PartlyWritten] = defaultdict(_PartlyWritten)
        self.rows_done = sum(map(len, self.done.values()))
        """Number of merged rows, including those of an unfinished tensor."""

    @property
    def model(self) -> Path:
        """The folder of the unfinished model."""
        return self.folder / MODEL

    @classmethod
    def create(cls, folder: Path, manifest: Manifest, checksums: ReadChecksums) -> Self:
        """Create a store; an existing one is removed first.

        Raises OutputError or ResourceError if it does not fit on the disk.
        """
        discard(folder)
        model = folder / MODEL
        try:
            folder.mkdir(parents=True, exist_ok=True)
            mark(folder)
            model.mkdir()
            writer = ShardedWriter(model, planned_shards(manifest))
            journal = Journal[FinishedTensor].begin(folder, manifest, checksums)
        except OSError as error:
            raise output_error(folder, error) from None
        return cls(folder, manifest, writer, journal)

    @classmethod
    def resume(cls, folder: Path, manifest: Manifest, checksums: ReadChecksums) -> Self:
        """Continue an unfinished store, or create it if there is none.

        Raises ResumeError as ``Journal.resume`` does, or if its weight files are not the planned
        ones.
        """
        if not can_resume(folder):
            refuse_links(folder)
            return cls.create(folder, manifest, checksums)
        journal = Journal[FinishedTensor].resume(folder, manifest, checksums, FinishedTensor)
        shards = planned_shards(manifest)
        ShardedWriter(folder / MODEL, shards, ())  # checks the files before anything is removed
        if not journal.readings:  # a version without these records: what its survey read is unknown
            (folder / SURVEY).unlink(missing_ok=True)
        (folder / STORE_COMPLETE).unlink(missing_ok=True)
        writer = continued_writer(folder / MODEL, shards, journal)
        return cls(folder, manifest, writer, journal)

    def write(self, row: PlanRow, start: int, piece: Tensor) -> None:
        """Write elements of a row at their offset; those of one tensor come in order.

        A matrix that lies between others in the tensor waits in memory until the earlier ones are
        written.
        """
        tensor = self._unfinished[row.tensor]
        if row.part is not None:
            complete = tensor.assembly.add(row.part, piece)
            if complete is None:
                return
            start = row.part.start
            piece = complete
        self._writer.write_part(row.tensor, start, piece)
        if start == 0:  # also where the merge of a row starts again
            tensor.checksum = 0
        tensor.checksum = checksum(piece, tensor.checksum)

    def was_written(self, row: PlanRow, crc: int) -> None:
        """Record that another process has written a whole tensor; ``crc``: CRC-32 of its bytes.

        The bytes need not be on the disk yet: ``complete`` ensures that.
        """
        self._unfinished[row.tensor].checksum = crc

    def log(self, row: PlanRow, report: LayerReport) -> None:
        """Record that a row is written; the tensor goes into the journal once all its rows are."""
        self._unfinished[row.tensor].reports.append(report)
        self.rows_done += 1
        if not row.ends_tensor:
            return
        tensor = self._unfinished.pop(row.tensor)
        self._writer.mark_written(row.tensor)
        reports_of_rows = tuple(tensor.reports)
        self.done[row.tensor] = reports_of_rows
        self._journal.add(
            FinishedTensor(tensor=row.tensor, checksum=tensor.checksum, reports=reports_of_rows)
        )

    def reader(self) -> Callable[[str], Tensor]:
        """A function that reads a finished tensor by name, as it is stored.

        Raises CheckpointError.
        """
        files: dict[str, Checkpoint] = {}  # by tensor
        stored_names: dict[str, str] = {}
        for shard in planned_shards(self.manifest):
            file, _ = opened_file(self.model / shard.file_name)
            for tensor in shard.tensors:
                files[tensor.name] = file
                stored_names[tensor.name] = shard.stored_name(tensor.name)

        def read(name: str) -> Tensor:
            return TensorReader(files[name]).read(stored_names[name])

        return read

    def replace(self, tensor: str, values: Tensor) -> None:
        """Write other values of a finished tensor, in its dtype; its reports stay.

        If this is interrupted, the tensor is merged again when the store is resumed.
        """
        self._writer.write_part(tensor, 0, values)
        self._journal.add(
            FinishedTensor(tensor=tensor, checksum=checksum(values), reports=self.done[tensor])
        )

    def log_readings(self) -> None:
        """Write the checksums of new reads into the journal, before the tensors made from them."""
        self._journal.log_readings()

    def finish_weights(self) -> None:
        """Finish the weight files. The model can be loaded, but the store is not complete."""
        self._writer.finish()

    def complete(self) -> None:
        """Flush everything to disk and mark the store as complete. This is its last change."""
        self._journal.sync()
        (self.folder / STORE_COMPLETE).touch()
        sync(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()


def read_finished(folder: Path) -> Manifest:
    """The manifest of a complete store. Raises OutputError if it is not complete."""
    if not (folder / STORE_COMPLETE).exists():
        raise OutputError(f"The merge in {folder} is not complete; merge again.", path=folder)
    return read_manifest(folder)


def reports(folder: Path) -> dict[str, LayerReport]:
    """The reports of all finished rows in the journal of a store, by row name."""
    _, finished = read_journal(folder, FinishedTensor)
    by_row: dict[str, LayerReport] = {}
    for entry in finished.values():
        for report in entry.reports:
            by_row[report.name] = report
    return by_row


def is_outdated(manifest: Manifest) -> bool:
    """Whether any file that was read has changed in size or modification time, or is gone."""
    try:
        for stamp in manifest.inputs:
            status = Path(stamp.path).stat()
            if (status.st_size, status.st_mtime_ns) != (stamp.size, stamp.mtime_ns):
                return True
    except OSError:
        return True
    return False


def checksums(folder: Path) -> dict[str, int]:
    """CRC-32 of the bytes of every finished tensor when it was written."""
    _, finished = read_journal(folder, FinishedTensor)
    return {name: entry.checksum for name, entry in finished.items()}


def planned_shards(manifest: Manifest) -> tuple[Shard, ...]:
    """The weight files of the store's model and the tensors in each."""
    shapes = {row.tensor: row.tensor_shape for row in manifest.rows if row.in_base}
    tensors = []
    for name, dtype in manifest.dtypes.items():
        tensors.append(OutputTensor(name=name, dtype=dtype, shape=shapes[name]))
    return plan_parts(tensors, manifest.shard_bytes, manifest.stems, manifest.metadata)


def _remove_companions(model: Path, shards: Sequence[Shard]) -> None:
    """Remove the side files, as an earlier run may have stopped while writing them."""
    files = {model / shard.file_name for shard in shards}
    for item in sorted(model.rglob("*"), reverse=True):  # contents before their folder
        if item.is_dir() and not item.is_symlink():
            if not any(item.iterdir()):
                item.rmdir()
        elif item not in files:
            item.unlink()


class _WrittenEntry(JournalEntry, Protocol):
    """A line about a tensor that was written."""

    @property
    def checksum(self) -> int:
        """The CRC-32 of its bytes."""


_Entry = TypeVar("_Entry", bound=_WrittenEntry)


def continued_writer(
    model: Path, shards: Sequence[Shard], journal: Journal[_Entry]
) -> ShardedWriter:
    """A writer of the tensors that are not yet on the disk, or are damaged there.

    The journal keeps only the others. Raises ResumeError if the files are not the planned ones.
    """
    ShardedWriter(model, shards, ())  # checks the files
    _remove_companions(model, shards)
    recorded = {name: entry.checksum for name, entry in journal.entries.items()}
    verified = intact(model, shards, recorded)
    journal.keep([journal.entries[name] for name in verified])
    return ShardedWriter(model, shards, verified)


def intact(folder: Path, shards: Sequence[Shard], checksums: Mapping[str, int]) -> list[str]:
    """The tensors whose bytes on disk have these checksums, in the order of the files."""
    intact_tensors = []
    for shard in shards:
        file, _ = opened_file(folder / shard.file_name)
        reader = TensorReader(file)
        for tensor in shard.tensors:
            if tensor.name not in checksums:
                continue
            checksum_on_disk = 0
            name = shard.stored_name(tensor.name)
            for start, stop in parts_of(prod(tensor.shape)):
                checksum_on_disk = checksum(reader.read_part(name, start, stop), checksum_on_disk)
            if checksum_on_disk == checksums[tensor.name]:
                intact_tensors.append(tensor.name)
    return intact_tensors


def write_verified(
    folder: Path, shards: Sequence[Shard], tensors: Iterable[tuple[str, Tensor]]
) -> Generator[JobProgress, None, Mapping[str, str]]:
    """Write tensors by name and read them back; yields the bytes done, returns the SHA-256s.

    Raises OutputError and ResourceError.
    """
    planned = chain.from_iterable(shard.tensors for shard in shards)
    total = sum(tensor.nbytes for tensor in planned)
    done = 0
    writer = VerifiedWriter(folder, shards)
    for name, tensor in tensors:
        writer.write(name, tensor)
        done += tensor.nbytes
        yield JobProgress(done=done, total=total)
    return writer.finish()


class VerifiedWriter:
    """Writes tensors, whole or in parts, and reads them back. Raises OutputError, ResourceError."""

    def __init__(self, folder: Path, shards: Sequence[Shard]) -> None:
        self._folder = folder
        self._shards = shards
        self._writer = ShardedWriter(folder, shards)
        self._checksums: dict[str, int] = {}

    def write(self, name: str, tensor: Tensor) -> None:
        """Write a whole tensor."""
        self._checksums[name] = checksum(tensor)
        self._writer.write(name, tensor)

    def write_part(self, name: str, start: int, values: Tensor) -> None:
        """Write elements of a tensor, whose parts come in order; ``mark_written`` follows."""
        self._writer.write_part(name, start, values)
        self._checksums[name] = checksum(values, self._checksums.get(name, 0))

    def mark_written(self, name: str) -> None:
        """Every part of the tensor is written; one without elements has none."""
        self._writer.mark_written(name)
        self._checksums.setdefault(name, 0)

    def finish(self) -> Mapping[str, str]:
        """The SHA-256s of the files, which are read back."""
        self._writer.finish()
        return verify_shards(self._folder, self._shards, self._checksums)


def verify_shards(
    folder: Path, shards: Sequence[Shard], checksums: Mapping[str, int]
) -> Mapping[str, str]:
    """SHA-256 of every shard by file name, after its content was compared with plan and result.

    ``checksums``: CRC-32 by tensor of the bytes in memory when they were written. Raises
    OutputError if a name, shape, dtype or byte differs, a value is not finite, or a file cannot be
    read.
    """
    digests = {}
    for shard in shards:
        name = shard.file_name
        digests[name] = _digest_of_verified(folder / name, shard, checksums)
    return digests


def _digest_of_verified(path: Path, shard: Shard, checksums: Mapping[str, int]) -> str:
    """The SHA-256 of a shard, after its content was compared."""
    try:
        with single_threads(2) as pool:  # hashing releases the GIL and takes as long as the rest
            digest = pool.submit(file_digest, path)
            pool.submit(_require_planned, path, shard, checksums).result()
            return digest.result()
    except (SafetensorError, OSError, CheckpointError) as error:
        raise _wrong(path, str(error)) from error


def _require_planned(path: Path, shard: Shard, checksums: Mapping[str, int]) -> None:
    """Raise OutputError unless a shard's content is what was planned and written."""
    with safe_open(path, framework="pt", backend="pread") as file:
        if set(file.keys()) != {shard.stored_name(tensor.name) for tensor in shard.tensors}:
            raise _wrong(path, "the names of its tensors differ")
        for planned in shard.tensors:
            tensor = file.get_tensor(shard.stored_name(planned.name))
            if tuple(tensor.shape) != planned.shape or tag_of(tensor.dtype) != planned.dtype:
                raise _wrong(path, f"`{planned.name}` has another shape or number format")
            if checksum(tensor) != checksums[planned.name]:
                raise _wrong(path, f"bytes of `{planned.name}` differ")
            if not is_finite(tensor):
                raise OutputError(
                    f"`{plain(planned.name)}` holds NaN or Inf: its merge left the range of "
                    f"{planned.dtype}. Lower the experts' weights or the method's scale, or choose "
                    "a wider number format.",
                    path=path,
                    tensor=planned.name,
                )


def _wrong(path: Path, what: str) -> OutputError:
    return OutputError(
        f"{path_text(path)} was read back and is not what was written: {what}. "
        "Check the disk, then merge again.",
        path=path,
    )
