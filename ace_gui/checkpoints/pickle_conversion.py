"""Converts a PyTorch pickle, once and with consent, to a model folder in a cache."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from stat import S_ISDIR
from typing import Final, TypeVar
from zipfile import BadZipFile, ZipFile

from ace_gui.checkpoints.folder import (
    ADAPTER_CONFIG,
    PICKLED_ADAPTER,
    find_pickled_weights,
    is_pickle,
)
from ace_gui.checkpoints.header import tag_of
from ace_gui.checkpoints.index import check_against_index, read_shard_index, shard_files
from ace_gui.checkpoints.input_files import (
    changed,
    content_digest,
    open_regular,
    read_json,
    refusal,
    status_of,
)
from ace_gui.checkpoints.pickled_weights import PickledFile, open_pickle, unique_names
from ace_gui.checkpoints.side_files import copy_side_files, find_side_files
from ace_gui.checkpoints.staging import Claim, discard, promote, staged
from ace_gui.checkpoints.writer import OutputTensor, ShardedWriter, plan_shards
from ace_gui.errors import CheckpointError, PickleConsentError
from ace_gui.output_files import MARK

_BLOCK: Final = 1 << 26
"""Bytes of a tensor in memory at a time."""

_ONE_FILE: Final = 2**63

_RECORD: Final = ".conversion.json"
"""Digests of the sources and of the files made from them."""
_RECORD_LIMIT: Final = 10_000_000

Opened = TypeVar("Opened")

_PAUSE: Final = 0.1
"""Seconds between two checks of a conversion in another process."""


@dataclass(frozen=True, kw_only=True)
class _PickleSource:
    """The input of a conversion: ``files`` of weights, their index and side files."""

    name: str
    stem: str
    files: tuple[Path, ...]
    index: Path | None = None
    side: Mapping[str, Path] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file of the source."""
        return (*self.files, *((self.index,) if self.index else ()), *self.side.values())


def convert_pickle(path: Path, cache_folder: Path) -> Path:
    """Convert a pickled model, and return the folder to open instead.

    Call it only with the user's consent. ``path`` is what ``open_checkpoint`` refused with
    PickleConsentError. No code in the pickle is run. The folder, ``CACHE/HASH/NAME/``, holds one
    safetensors file and copies of the side files. It is created atomically, and reused as long as
    the source files and its own files are unchanged. Raises CheckpointError, OutputError, or
    ResourceError if the disk is full.
    """
    deque(converting(path, cache_folder), maxlen=0)
    return _target(_source(Path(path).absolute()), cache_folder)


def converting(path: Path, cache_folder: Path) -> Iterator[tuple[int, int]]:
    """As ``convert_pickle``, step by step: yields the bytes done and the bytes to do.

    Closing the iterator stops the conversion and leaves nothing behind.
    """
    source = _source(Path(path).absolute())
    target = _target(source, cache_folder)
    while (claim := Claim.take(target)) is None:  # another process is converting it
        yield 0, 1
        time.sleep(_PAUSE)
    with claim:
        if not _is_sound(target, source.all):
            discard(target)  # outdated or damaged
            yield from _converting(source, target)


def _converting(source: _PickleSource, target: Path) -> Iterator[tuple[int, int]]:
    before = _digests(target, map(str, source.all))
    files = [open_pickle(file) for file in source.files]
    names = unique_names(files)
    if source.index is not None:
        check_against_index(source.index, read_shard_index(source.index, ".bin"), names)
    with staged(target) as stage:
        yield from _convert(files, source, stage)
        copy_side_files(source.side, stage)
        _write_record(stage, before)
        promote(stage, target, keep_mark=True)


def with_consent(opened: Callable[[], Opened], cache_folder: Path, *, convert: bool) -> Opened:
    """The result of ``opened``. With ``convert``, pickles that it refuses are converted first.

    Raises its errors, including PickleConsentError, and those of ``convert_pickle``.
    """
    refused = set[Path]()
    while True:
        try:
            return opened()
        except PickleConsentError as error:
            if error.path is None or error.path in refused or not convert:
                raise
            refused.add(error.path)
            convert_pickle(error.path, cache_folder)


def find_converted(path: Path, cache_folder: Path) -> Path | None:
    """The folder of an earlier conversion of ``path``, None if there is none or it is outdated.

    Opens no pickle. ``path`` is what ``open_checkpoint`` refused with PickleConsentError. Consent
    was given earlier, for the same files. The conversion and the files are read once per process,
    because bits may have changed in either without a trace in size and time.
    """
    try:
        source = _source(Path(path).absolute())
        target = _target(source, cache_folder)
        if _is_sound(target, source.all):
            return target
        return None
    except CheckpointError:
        return None


def _source(path: Path) -> _PickleSource:
    """The files that belong to a folder of pickled weights, or to a bare pickle."""
    if S_ISDIR(status_of(path).st_mode):
        return _folder_source(path)
    if not is_pickle(path.name):
        raise refusal(path, "This is not a PyTorch pickle.")
    if (path.parent / "config.json").is_file():
        weights = find_pickled_weights(path.parent)
        if weights is not None and weights.path == path:
            return _folder_source(path.parent)
    return _PickleSource(name=path.stem, stem="model", files=(path,))


def _folder_source(folder: Path) -> _PickleSource:
    weights = find_pickled_weights(folder)
    if weights is None:
        raise refusal(folder, "Holds no PyTorch pickle of weights.")
    side = find_side_files(folder).files
    if weights.path.name == PICKLED_ADAPTER:
        side = {ADAPTER_CONFIG: folder / ADAPTER_CONFIG, **side}
    if weights.path.name == PICKLED_ADAPTER:
        stem = "adapter_model"
    else:
        stem = weights.stem
    name = folder.name
    if not weights.is_index:
        return _PickleSource(name=name, stem=stem, files=(weights.path,), side=side)
    shards = read_shard_index(weights.path, ".bin")
    files = shard_files(weights.path, shards.values())
    return _PickleSource(name=name, stem=stem, files=tuple(files), index=weights.path, side=side)


def _target(source: _PickleSource, cache_folder: Path) -> Path:
    """``CACHE/HASH/NAME``; the hash is of the paths, sizes and times of all files."""
    digest = hashlib.sha256()
    for path in source.all:
        status = status_of(path)
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return Path(cache_folder) / digest.hexdigest()[:16] / source.name


def _convert(
    files: Sequence[PickledFile], source: _PickleSource, stage: Path
) -> Iterator[tuple[int, int]]:
    outputs = []
    ties: dict[str, str] = {}
    for file in files:
        ties |= file.ties
        for name, tensor in file.tensors.items():
            shape = tuple(tensor.shape)
            outputs.append(OutputTensor(name=name, dtype=tag_of(tensor.dtype), shape=shape))
    (shard,) = plan_shards(outputs, _ONE_FILE, stem=source.stem)
    shard = replace(
        shard,
        metadata=ties,
    )
    checked = sum(entry.file_size for file in files for entry in file.entries)
    total = checked + sum(output.nbytes for output in outputs)
    done = 0
    writer = ShardedWriter(stage, [shard])
    for file in files:
        for step in chain(_check_entries(file), _copy(file, writer)):
            done += step
            yield done, total
    writer.finish()


def _check_entries(file: PickledFile) -> Iterator[int]:
    """Compare with the zip's checksums, where it has them, so that bit rot is not converted."""
    with open_regular(file.stamp.path) as (descriptor, stamp):
        if stamp != file.stamp:
            raise changed(stamp.path)
        if not file.entries:
            return
        with open(descriptor, "rb", closefd=False) as opened, ZipFile(opened) as archive:
            for entry in file.entries:
                try:
                    with archive.open(entry) as content:
                        while block := content.read(_BLOCK):
                            yield len(block)
                except (BadZipFile, EOFError):
                    sentence = f"`{entry.filename}` does not match its checksum. Download it again."
                    raise refusal(stamp.path, sentence) from None


def _copy(file: PickledFile, writer: ShardedWriter) -> Iterator[int]:
    """Copy each tensor in blocks; one whose elements are not in order is first gathered."""
    for name, tensor in file.tensors.items():
        flat = tensor.reshape(-1)
        step = _BLOCK // tensor.element_size()
        for start in range(0, len(flat), step):
            part = flat[start : start + step]
            writer.write_part(name, start, part)
            yield part.nbytes
        writer.mark_written(name)


def _write_record(folder: Path, before: Mapping[str, str]) -> None:
    """Store the digest of every source, as it was ``before``, and of every file in ``folder``.

    Raises OSError, and CheckpointError if a source changed meanwhile.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARK)
    if (now := _digests(folder, before)) != before:
        raise changed(next(Path(name) for name in before if now[name] != before[name]))
    record = {**before, **_digests(folder, [str(path.relative_to(folder)) for path in files])}
    (folder / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _is_sound(folder: Path, sources: Sequence[Path]) -> bool:
    """Whether the conversion in ``folder`` is intact, and these source files are unchanged.

    Reads all of both, once per process and state of a file.
    """
    try:
        record = read_json(folder / _RECORD, limit=_RECORD_LIMIT)
        return record.keys() >= set(map(str, sources)) and record == _digests(folder, record)
    except CheckpointError:
        return False


def _digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of each file: a name in ``folder``, or an absolute path. Raises CheckpointError."""
    return {name: content_digest(folder / name) for name in names}
