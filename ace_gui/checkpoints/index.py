"""A model on disk, as its headers describe it. No tensor is read here."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from ace_gui.checkpoints.assembling import assembled
from ace_gui.checkpoints.folder import (
    MAIN,
    PIPELINE,
    STEMS,
    SUFFIX,
    ModelPart,
    Weights,
    find_gguf,
    find_weights,
    full_name,
    holds_weights,
    listed_folders,
    part_of,
    refuse_other_file,
)
from ace_gui.checkpoints.gguf import NO_CONFIG, read_gguf
from ace_gui.checkpoints.gguf import SUFFIX as GGUF_SUFFIX
from ace_gui.checkpoints.header import Header, TensorInfo, read_header
from ace_gui.checkpoints.input_files import (
    FileStamp,
    read_config,
    read_json,
    refusal,
    status_of,
)
from ace_gui.checkpoints.quantised import (
    plain_config,
    quantised_note,
    refuse_unmergeable,
    without_quantisation,
)
from ace_gui.checkpoints.quantised_parts import written_dtype
from ace_gui.checkpoints.side_files import SideFiles, find_side_files
from ace_gui.errors import PickleConsentError
from ace_gui.formatting import NAMES_SHOWN, listing, path_text, plain
from ace_gui.stored_formats import RECIPE_NAMES, is_float

_NAMES: Final = {f"{stem}{SUFFIX}" for stem in STEMS}

INDEX_LIMIT: Final = 50_000_000
"""Largest index of shards in bytes."""

_RESERVED: Final = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\.|$)")
_NUMBERED: Final = re.compile(r"-(\d+)-of-(\d+)\.\w+$")
_HASH: Final = re.compile(r"hash|sha256|checksum|^format$", re.IGNORECASE)

Converted = Callable[[Path], Path | None]
"""From a folder of pickles to that of the converted weights; None if they are not converted."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One model: its tensors in the order of its files, and its other files.

    A pipeline of several models has a part for each, by sub-folder, and their tensors are called
    ``PART/TENSOR``. Any other model has one part, ``MAIN``.
    """

    path: Path
    """What was opened."""
    folder: Path | None
    """What libraries load the model from; None for a bare file, which has neither config nor side
    files, and for GGUF.
    """
    tensors: Mapping[str, TensorInfo]
    """By name, in the order of the files."""
    files: tuple[FileStamp, ...]
    """The files of weights, and those that they depend on."""
    config: Mapping[str, object] | None = None
    """config.json of the main part as plain JSON; None without one."""
    parts: Mapping[str, ModelPart] = field(default_factory=lambda: {MAIN: ModelPart()})
    """By sub-folder."""
    side_files: Mapping[str, Path] = field(default_factory=dict)
    """By their path below the folder."""
    warnings: tuple[str, ...] = ()
    """One sentence each."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """That of a single file, without hashes."""
    changes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """What differs in the output's JSON files, by file and key."""
    output_files: Mapping[str, Path] | None = None
    """The output's files other than weights, by path; None: the side files."""
    adapter: Checkpoint | None = None
    """The stored tensors of an adapter, if this is that adapter on the recipe's base."""
    tied_changes: tuple[str, ...] = ()
    """Of an adapter: a sentence for each change of a tensor that is another one, too."""
    quantised: Mapping[str, int] = field(default_factory=dict)
    """The number of its quantised weights by format; empty for an adapter on a base."""

    @property
    def bytes(self) -> int:
        """Bytes of all tensors; for an adapter on a base, only those of the adapter."""
        return sum(tensor.nbytes for tensor in (self.adapter or self).tensors.values())

    @property
    def dtype(self) -> str | None:
        """Tag of the float format that holds most bytes; None without float tensors."""
        held: Counter[str] = Counter()
        for tensor in self.tensors.values():
            if is_float(tensor.dtype):
                held[tensor.dtype] += tensor.nbytes
        if held:
            return held.most_common(1)[0][0]
        return None

    @property
    def stems(self) -> Mapping[str, str]:
        """The name of each part's file of weights, without ``.safetensors``."""
        return {name: part.stem for name, part in self.parts.items()}

    def tensors_of(self, part: str) -> Mapping[str, TensorInfo]:
        """The tensors of a part, by their names in its file."""
        start = len(full_name(part, ""))
        tensors = {}
        for name, info in self.tensors.items():
            if part_of(name, self.parts) == part:
                tensors[name[start:]] = info
        return tensors

    @property
    def identity(self) -> frozenset[tuple[int, int]]:
        """Device and inode of every file of weights: equal for the same model by another path."""
        return frozenset((file.device, file.inode) for file in self.files)


def open_checkpoint(
    path: str | os.PathLike[str], converted: Converted = lambda _: None
) -> Checkpoint:
    """Open a Hugging Face folder, or a bare file of safetensors or GGUF; reads headers only.

    A file that holds the weights of its folder is opened as that folder. If weights are pickles,
    ``converted`` returns the files to read instead. Raises CheckpointError with one sentence for
    anything that cannot be merged.
    """
    path = Path(path)
    if S_ISDIR(status_of(path).st_mode):
        gguf = find_gguf(path)
        if gguf:
            return _open_gguf(gguf)
        return _open_folder(path, path, converted)
    if path.name.lower().endswith(GGUF_SUFFIX):
        return _open_gguf(path)
    if path.name in _NAMES and (path.parent / "config.json").is_file():
        return _open_folder(path, path.parent, converted)
    if not path.name.lower().endswith(SUFFIX):
        refuse_other_file(path)
    return _assembled(path, None, {MAIN: _read([read_header(path)], ModelPart())})


def _open_gguf(path: Path) -> Checkpoint:
    """A GGUF file, with the config and the tokenizer that may be in its folder."""
    file = path.parent / "config.json"
    if not os.path.lexists(file):
        headers = [read_gguf(path)]
        return _assembled(path, None, {MAIN: _read(headers, ModelPart())}, (NO_CONFIG,))
    config = without_quantisation(read_config(file))
    headers = [read_gguf(path, written_dtype(config, ()))]
    side = find_side_files(path.parent)
    parts = {MAIN: _read(headers, ModelPart(config=config))}
    return _assembled(path, None, parts, _side_warnings(side, [config]), side=side)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """The contents of one part: its tensors by name, and a sentence for each warning."""

    part: ModelPart
    headers: list[Header]
    tensors: Mapping[str, TensorInfo]
    warnings: tuple[str, ...] = ()
    quantised: Mapping[str, int] = field(default_factory=dict)
    """The number of its quantised weights by format."""


def _open_folder(path: Path, folder: Path, converted: Converted) -> Checkpoint:
    inner = [name for name in listed_folders(folder) if holds_weights(folder / name)]
    is_pipeline = bool(inner) and (folder / PIPELINE).is_file()
    if inner and (is_pipeline or not holds_weights(folder)):
        names = inner
    else:
        names = [MAIN, *inner]
    if path == folder:
        chosen = None
    else:
        chosen = path.name
    parts = {}
    for name in names:
        if name == MAIN:
            parts[name] = _read_part(folder / name, converted, chosen)
        else:
            parts[name] = _read_part(folder / name, converted, None)
    side = find_side_files(folder)
    warnings = _side_warnings(side, [read.part.config or {} for read in parts.values()])
    if is_pipeline and holds_weights(folder):
        warnings += ("Only the parts of the pipeline are read, not other weights in its folder.",)
    return _assembled(path, folder, parts, warnings, side=side)


def _read_part(folder: Path, converted: Converted, chosen: str | None = None) -> _Read:
    config_file = folder / "config.json"
    config = None
    if os.path.lexists(config_file):
        config = read_config(config_file)
    try:
        weights = find_weights(folder, chosen)
    except PickleConsentError:
        converted_folder = converted(folder)
        if converted_folder is None:
            raise
        weights = find_weights(converted_folder)
    headers, warnings = _headers(weights)
    read = _read(headers, ModelPart(stem=weights.stem), config, (*weights.warnings, *warnings))
    if config is None:
        return read
    cleaned = plain_config(folder, config, read.tensors.values())
    if cleaned is not config and not read.quantised:
        warning = (
            "config.json calls the weights quantised, but all are floating point of 16 bits or "
            "more. They are read as stored, and the merged model's config lacks that entry."
        )
        read = replace(read, warnings=(*read.warnings, warning))
    return replace(read, part=replace(read.part, config=dict(cleaned)))


def _read(
    headers: list[Header],
    part: ModelPart,
    config: Mapping[str, object] | None = None,
    warnings: tuple[str, ...] = (),
) -> _Read:
    """The part in these files; its config may say how weights are quantised."""
    metadata = {key: text for header in headers for key, text in header.metadata.items()}
    contents = assembled(_by_name(headers), config, metadata)
    formats = Counter(contents.formats)
    for header in headers:
        formats.update(header.quantised)
    if formats:
        warnings += (quantised_note(formats, _written(contents.tensors)),)
    warnings += _tie_warnings(headers, contents.tensors)
    return _Read(
        part=part, headers=headers, tensors=contents.tensors, warnings=warnings, quantised=formats
    )


def _written(tensors: Mapping[str, TensorInfo]) -> str:
    """The name of the number format in which an output has most weights."""
    sizes: Counter[str] = Counter()
    for info in tensors.values():
        sizes[info.written_dtype] += info.nbytes
    return RECIPE_NAMES.get(sizes.most_common(1)[0][0], "float32")


def _headers(weights: Weights) -> tuple[list[Header], tuple[str, ...]]:
    """The headers of every file of weights, and warnings about their index."""
    if not weights.is_index:
        return [read_header(weights.path)], ()
    shards = read_shard_index(weights.path)
    headers = [read_header(file) for file in shard_files(weights.path, shards.values())]
    files = {name: tensor.file for name, tensor in _by_name(headers).items()}
    return headers, check_against_index(weights.path, shards, files)


def _by_name(headers: Iterable[Header]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for header in headers:
        for tensor in header.tensors:
            first = tensors.setdefault(tensor.name, tensor)
            if first is not tensor:
                where = f"in {plain(first.file.name)} and in {plain(tensor.file.name)}"
                sentence = f"Tensor `{plain(tensor.name)}` is defined twice, {where}."
                raise refusal(tensor.file.parent, sentence, tensor=tensor.name)
    return tensors


def _side_warnings(side: SideFiles, configs: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    warnings = []
    if side.code:
        names = listing([file.name for file in side.code])
        warnings.append(f"Code of the model is neither run nor copied: {names}.")
    if any("auto_map" in config for config in configs):
        warnings.append(
            "config.json points to code (`auto_map`), which is neither run nor copied. A copy of "
            "this config still does: add that code to its folder if you need and trust it."
        )
    if side.outside:
        names = listing([file.name for file in side.outside])
        warnings.append(f"Links that lead out of the model's folder are not copied: {names}.")
    return tuple(warnings)


def _tie_warnings(headers: Iterable[Header], tensors: Mapping[str, TensorInfo]) -> tuple[str, ...]:
    """Warnings about ties: safetensors' ``save_model`` has left-out → stored names as metadata."""
    ties = []
    for header in headers:
        for name, stored_name in header.metadata.items():
            if name not in tensors and stored_name in tensors:
                ties.append(f"`{plain(name)}` as `{plain(stored_name)}`")
    if not ties:
        return ()
    if len(ties) > NAMES_SHOWN:
        more = f" and {len(ties) - NAMES_SHOWN} more"
    else:
        more = ""
    return (f"Shared tensors are stored once: {', '.join(ties[:NAMES_SHOWN])}{more}.",)


def _assembled(
    path: Path,
    folder: Path | None,
    parts: Mapping[str, _Read],
    warnings: tuple[str, ...] = (),
    *,
    side: SideFiles | None = None,
) -> Checkpoint:
    """The checkpoint of these parts, unless their tensors cannot be merged."""
    tensors: dict[str, TensorInfo] = {}
    for name, read in parts.items():
        warnings += read.warnings
        for tensor, info in read.tensors.items():
            full = full_name(name, tensor)
            if part_of(full, parts) != name:
                sentence = f"Tensor `{plain(full)}` could be of several parts."
                raise refusal(path, sentence, tensor=full)
            tensors[full] = replace(info, name=full)
    if not tensors:
        raise refusal(path, "Holds no tensors. Download it again.")
    refuse_unmergeable(path, tensors)
    side = side or SideFiles()
    return Checkpoint(
        path=path,
        folder=folder,
        tensors=tensors,
        files=tuple(header.stamp for read in parts.values() for header in read.headers),
        config=parts[MAIN].part.config if MAIN in parts else None,
        parts={name: read.part for name, read in parts.items()},
        side_files=side.files,
        warnings=tuple(f"{path_text(path)}: {warning}" for warning in warnings),
        metadata=_metadata(parts.values()),
        quantised=_sum([read.quantised for read in parts.values()]),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _metadata(parts: Iterable[_Read]) -> dict[str, str]:
    """The metadata of the only file, without hashes, which would be wrong for any other file.

    None of quantised weights, which it may describe.
    """
    parts = list(parts)
    headers = [header for read in parts for header in read.headers]
    if len(headers) > 1 or any(read.quantised for read in parts):
        return {}
    metadata = headers[0].metadata
    return {key: text for key, text in metadata.items() if not _HASH.search(key)}


def read_shard_index(path: Path, suffix: str = SUFFIX) -> dict[str, str]:
    """The file name of each tensor's shard, from the index of safetensors or of a pickled model.

    The index is not trusted: its names must be plain ones that end in ``suffix``. Raises
    CheckpointError, before any shard is touched, if a name could lead out of the folder.
    """
    weight_map = read_json(path, limit=INDEX_LIMIT).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise refusal(path, "The index has no weight map. Download it again.")
    shards = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            raise refusal(path, f"The index names no file for `{plain(name)}`.", tensor=name)
        if not is_plain_shard_name(shard, suffix):
            raise refusal(
                path,
                "The index points outside the model's folder. Refused: the model may be malicious.",
                tensor=name,
            )
        shards[name] = shard
    return shards


def is_plain_shard_name(name: str, suffix: str = SUFFIX) -> bool:
    """Whether it is a file name with ``suffix`` that means the same on every system."""
    return (
        name.endswith(suffix)
        and name.isprintable()  # which also excludes lone surrogates
        and len(name.encode()) <= 255
        and not name.startswith((".", " ", "~"))
        and not set(name) & set('/\\:*?"<>|')
        and not _RESERVED.match(name)
    )


def shard_files(index: Path, shards: Iterable[str]) -> list[Path]:
    """The files of the named shards, sorted by name. Raises CheckpointError if one is missing."""
    names = sorted(set(shards))
    for position, name in enumerate(names, start=1):
        if not os.path.exists(index.parent / name):  # noqa: PTH110 - False also where not allowed
            which = _ordinal(name) or f"{position} of {len(names)}"
            raise refusal(
                index.parent, f"Shard {which} is missing. Download `{plain(name)}` into the folder."
            )
    return [index.parent / name for name in names]


def check_against_index(
    index: Path, shards: Mapping[str, str], files: Mapping[str, Path]
) -> tuple[str, ...]:
    """Warnings about tensors the index does not list; ``files`` has the file of each tensor.

    Raises CheckpointError if a tensor is not in the shard that should hold it.
    """
    for name, shard in shards.items():
        if name not in files or files[name].name != shard:
            number = _ordinal(shard)
            if number:
                where = f"shard {number.split()[0]}"
            else:
                where = f"`{plain(shard)}`"
            sentence = f"`{plain(name)}` should be in {where} but is not. Download that file again."
            raise refusal(index.parent, sentence, tensor=name)
    unlisted = [name for name in files if name not in shards]
    if not unlisted:
        return ()
    return (f"The shards hold tensors that the index does not list: {listing(unlisted)}.",)


def _ordinal(shard: str) -> str | None:
    """``"3 of 7"`` for ``model-00003-of-00007.safetensors``."""
    match = _NUMBERED.search(shard)
    if match:
        return f"{int(match[1])} of {int(match[2])}"
    return None
