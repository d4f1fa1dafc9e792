"""The merge store: a merged model in the making, on disk, with a journal of what is finished.

::

    STORE/
      manifest.json     what this merge is: recipe, inputs, versions, layout
      journal.jsonl     one line a finished tensor, with its checksum and report
      model/            the merged model as it will be exported, heads and side files included
      complete          written last: every tensor is here

A store whose process died is reopened with ``resume`` and goes on after the last journalled
tensor. What the journal calls finished is read back and compared with its checksum first, so that
bytes which never reached the disk are merged again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import prod
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

import ace_gui
from ace_gui.checkpoints import (
    OutputTensor,
    Shard,
    ShardedWriter,
    TensorReader,
    open_checkpoint,
    plan_shards,
)
from ace_gui.checkpoints.output import output_error
from ace_gui.engine.events import LayerReport
from ace_gui.engine.jobs import STORE_COMPLETE
from ace_gui.engine.parts import checksum, parts_of
from ace_gui.engine.plan import PlanRow
from ace_gui.errors import OutputError, ResumeError
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file that the merge reads; another size or time means another merge."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that a merge's result depends on, and what its export needs to know.

    ``input_folders``: model folders, where no output may go. ``expert_classes``: class of each
    expert in transformers, where it is known. ``dtypes``: dtype tag in the store
    of every tensor of the model, in file order.
    """

    recipe: Recipe
    parameters: Mapping[str, ParameterValue]
    inputs: tuple[InputFile, ...]
    input_folders: tuple[Path, ...]
    expert_classes: tuple[str | None, ...]
    rows: tuple[PlanRow, ...]
    dtypes: Mapping[str, str]
    shard_bytes: int
    device: str
    threads: int
    program: str = ace_gui.__version__
    torch: str = field(default_factory=lambda: str(torch.__version__))

    def differences(self, other: Manifest) -> list[str]:
        """What differs, in words, for people who want to resume."""
        changed = [
            f"{mine.path} (changed since)" if mine.path == theirs.path else theirs.path
            for mine, theirs in zip(self.inputs, other.inputs, strict=False)
            if mine != theirs
        ]
        names = [item.name for item in fields(self) if item.name != "inputs"]
        changed += [name for name in names if getattr(self, name) != getattr(other, name)]
        if len(self.inputs) != len(other.inputs):
            changed.append("the number of input files")
        return changed


_MANIFEST = TypeAdapter(Manifest)


class MergeStore:
    """An open store. Use ``create``, ``resume`` or ``finished``, and close it."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        writer: ShardedWriter,
        journal: IO[str],
        done: dict[str, LayerReport],
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.done = done
        self._writer = writer
        self._journal = journal
        self._checksum = 0

    @property
    def model(self) -> Path:
        """The folder of the model in the making."""
        return self.folder / MODEL

    @classmethod
    def create(cls, folder: Path, manifest: Manifest) -> Self:
        """A new store; one that is already there is removed first.

        Raises OutputError or ResourceError where the disk cannot hold it.
        """
        discard(folder)
        model = folder / MODEL
        try:
            model.mkdir(parents=True)
            writer = ShardedWriter(model, planned_shards(manifest))
            (folder / MANIFEST).write_bytes(_MANIFEST.dump_json(manifest, indent=1))
            journal = (folder / JOURNAL).open("x", encoding="utf-8")
        except OSError as error:
            raise output_error(folder, error) from None
        return cls(folder, manifest, writer, journal, {})

    @classmethod
    def resume(cls, folder: Path, manifest: Manifest) -> Self:
        """Go on with an unfinished store, or create it where there is none.

        Raises ResumeError where the store belongs to other inputs, recipe, versions or device.
        """
        if not (folder / MANIFEST).exists():
            return cls.create(folder, manifest)
        changed = _read_manifest(folder).differences(manifest)
        if changed:
            raise ResumeError(
                f"The unfinished merge in {folder} cannot be continued: {', '.join(changed)} "
                "differs. Merge again without resuming.",
                path=folder,
            )
        shards = planned_shards(manifest)
        ShardedWriter.reopen(folder / MODEL, shards, ()).close()  # the files are ours and whole
        verified = _verified(folder, shards)
        (folder / STORE_COMPLETE).unlink(missing_ok=True)
        _rewrite_journal(folder, verified)
        writer = ShardedWriter.reopen(folder / MODEL, shards, verified)
        journal = (folder / JOURNAL).open("a", encoding="utf-8")
        done = {name: report for name, (report, _) in verified.items()}
        return cls(folder, manifest, writer, journal, done)

    def write(self, name: str, start: int, piece: Tensor) -> None:
        """Put some elements of a tensor in their place; pieces come in order."""
        self._writer.write_part(name, start, piece)
        self._checksum = checksum(piece, self._checksum if start else 0)

    def log(self, report: LayerReport) -> None:
        """Every piece of the tensor is written: put it into the journal."""
        self._writer.mark_written(report.name)
        self._journal.write(_line(report, self._checksum))
        self._journal.flush()
        self.done[report.name] = report

    def remove_companions(self) -> None:
        """Remove what stands beside the tensors, where an earlier run died while writing it."""
        shards = {shard.file_name for shard in planned_shards(self.manifest)}
        for item in self.model.iterdir():
            if item.is_dir():
                shutil.rmtree(item)
            elif item.name not in shards:
                item.unlink()

    def complete(self) -> None:
        """Flush everything and say so; the last thing that happens to a store."""
        self._writer.finish()
        self._journal.flush()
        (self.folder / STORE_COMPLETE).touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._journal.close()


def read_finished(folder: Path) -> Manifest:
    """The manifest of a complete store. Raises OutputError where it is not complete."""
    if not (folder / STORE_COMPLETE).exists():
        raise OutputError(f"The merge in {folder} is not complete; merge again.", path=folder)
    return _read_manifest(folder)


def reports(folder: Path) -> dict[str, LayerReport]:
    """What the journal of a store says of every finished tensor."""
    return {name: report for name, (report, _) in _journal(folder).items()}


def checksums(folder: Path) -> dict[str, int]:
    """CRC-32 of every finished tensor's bytes as they were when written."""
    return {name: crc for name, (_, crc) in _journal(folder).items()}


def discard(folder: Path) -> None:
    """Remove a store; anything else that is there is left alone.

    Raises OutputError where the folder holds something else.
    """
    if not folder.exists():
        return
    known = {MANIFEST, JOURNAL, f"{JOURNAL}.new", MODEL, STORE_COMPLETE}
    foreign = [item.name for item in folder.iterdir() if item.name not in known]
    if foreign or folder.is_symlink():
        raise OutputError(
            f"{folder} holds files of someone else ({', '.join(foreign[:3])}); remove the folder "
            "or choose another output.",
            path=folder,
        )
    shutil.rmtree(folder)


def planned_shards(manifest: Manifest) -> tuple[Shard, ...]:
    """The files of the store's model, and what is where in them."""
    shapes = {row.name: row.shape for row in manifest.rows if row.in_base}
    tensors = [
        OutputTensor(name=name, dtype=dtype, shape=shapes[name])
        for name, dtype in manifest.dtypes.items()
    ]
    return plan_shards(tensors, manifest.shard_bytes)


def _read_manifest(folder: Path) -> Manifest:
    try:
        return _MANIFEST.validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValidationError) as error:
        raise ResumeError(
            f"{folder / MANIFEST} cannot be read; merge again without resuming.",
            path=folder,
            details=str(error),
        ) from error


def _journal(folder: Path) -> dict[str, tuple[LayerReport, int]]:
    """Finished tensors; a last line that was cut off is not one."""
    found = {}
    report = TypeAdapter(LayerReport)
    for line in (folder / JOURNAL).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            found[entry["report"]["name"]] = (
                report.validate_python(entry["report"]),
                int(entry["checksum"]),
            )
        except (ValueError, KeyError, TypeError):
            break
    return found


def _verified(folder: Path, shards: Sequence[Shard]) -> dict[str, tuple[LayerReport, int]]:
    """The journal's tensors whose bytes are on disk as they were journalled."""
    journalled = _journal(folder)
    verified = {}
    for shard in shards:
        reader = TensorReader(open_checkpoint(folder / MODEL / shard.file_name))
        for tensor in shard.tensors:
            entry = journalled.get(tensor.name)
            if entry is not None and _checksum_on_disk(reader, tensor) == entry[1]:
                verified[tensor.name] = entry
    return verified


def _rewrite_journal(folder: Path, entries: Mapping[str, tuple[LayerReport, int]]) -> None:
    """Drop what was not verified, and a last line that was cut off, in one step."""
    fresh = folder / f"{JOURNAL}.new"
    fresh.write_text("".join(_line(*entry) for entry in entries.values()), encoding="utf-8")
    fresh.replace(folder / JOURNAL)


def _line(report: LayerReport, checksum: int) -> str:
    return json.dumps({"checksum": checksum, "report": asdict(report)}) + "\n"


def _checksum_on_disk(reader: TensorReader, tensor: OutputTensor) -> int:
    running = 0
    for start, stop in parts_of(prod(tensor.shape)):
        running = checksum(reader.read_part(tensor.name, start, stop), running)
    return running
