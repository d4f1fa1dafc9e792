"""The tensors of a PyTorch pickle, read by torch's loader, which calls nothing that a file names.

``torch.load`` with ``weights_only`` allows what a state dict needs and nothing else. It believes a
file's sizes, so the archive and the number of the pickle's steps are checked first, and the tensors
afterwards. ``mmap`` leaves the tensors of a zip on the disk until they are copied.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import torch
from torch import Tensor

from ace_gui.checkpoints.header import (
    METADATA_KEY,
    RANK_LIMIT,
    SNIFF_BYTES,
    TAGS,
    TENSOR_LIMIT,
    byte_count,
    is_text,
    not_weights,
)
from ace_gui.checkpoints.input_files import FileStamp, changed, open_regular, refusal
from ace_gui.formatting import listing, plain

STEP_LIMIT: Final = 500_000
"""Maximum number of steps in a pickle; a tensor of a state dict takes about 40."""

PICKLE_LIMIT: Final = 10_000_000
"""Largest pickle of a zip in bytes, tensors aside."""

_ZIP_START: Final = b"PK\x03\x04"
_MAGIC: Final = 0x1950A86A20F9469CFC6C
_LEGACY_START: Final = pickle.dumps(_MAGIC, protocol=2)
_LEGACY_PICKLES: Final = 5  # magic number, version, system, state dict, keys of the storages

_LARGEST: Final = 2**63
"""Larger integers have no use in a state dict, and can be chosen so that their hashes are equal."""

_DAMAGED: Final = "The archive is damaged or cut short. Download it again."
_UNKNOWN: Final = "This is not a PyTorch state dict, or it is damaged. Nothing in it was run."
_OF_STATE_DICTS: Final = re.compile(
    r"collections\.OrderedDict|torch\._utils\._rebuild\w+|torch\.(cuda\.|storage\.)?\w+Storage|"
    r"torch\.[a-z]\w*|torch\.Size|torch\.serialization\._get_layout"
)
"""Names in state dicts: storages, formats, and functions that build tensors."""

_WRAPPERS: Final = (
    *("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights"),
    *("ema", "model_ema", "state_dict_ema", "ema_state_dict", "params_ema"),
)
_DEEPEST: Final = 4


@dataclass(frozen=True, kw_only=True)
class PickledFile:
    """One file. ``ties``: name of a repeated tensor → its name in ``tensors``.

    ``tensors`` of a zip stay in the file. ``entries``: the zip's entries with a checksum.
    """

    stamp: FileStamp
    tensors: Mapping[str, Tensor]
    ties: Mapping[str, str]
    entries: tuple[ZipInfo, ...]


def open_pickle(path: Path) -> PickledFile:
    """The tensors of a pickled state dict.

    Known wrappers around the state dict are removed. Raises CheckpointError unless there are only
    dense tensors by name, none of which claims more bytes than the file has for it.
    """
    with open_regular(path) as (descriptor, stamp), open(descriptor, "rb", closefd=False) as file:
        beginning = file.read(SNIFF_BYTES)
        _refuse_other(stamp, beginning)
        file.seek(0)
        entries: tuple[ZipInfo, ...] = ()
        zipped, legacy = map(beginning.startswith, (_ZIP_START, _LEGACY_START))
        if zipped:
            entries, names = _checked_archive(file, stamp)
        else:
            pickle_count = _LEGACY_PICKLES if legacy else 1
            names = []
            for _ in range(pickle_count):  # one after the other in the file
                names += _named(file, path)
    if not (zipped or legacy):
        sentence = "This is a pickle, but not a PyTorch checkpoint."
        raise refusal(path, _blocked(names) or sentence)
    content = _loaded(path, names, mmap=zipped)
    with open_regular(path) as (_, now):
        if now != stamp:
            raise changed(path)
    tensors, ties = _without_ties(_state_dict(path, content))
    for name, tensor in tensors.items():
        _refuse_impossible(path, name, tensor)
    _refuse_overlapping(path, tensors)
    return PickledFile(stamp=stamp, tensors=tensors, ties=ties, entries=entries)


def _refuse_other(stamp: FileStamp, beginning: bytes) -> None:
    if stamp.size == 0:
        raise refusal(stamp.path, "File is empty (0 bytes). Download it again.")
    if sentence := not_weights(beginning):
        raise refusal(stamp.path, sentence)
    if beginning[8:9] == b"{" and not beginning.startswith(_ZIP_START):
        raise refusal(
            stamp.path, "Contents are safetensors despite the name. Rename it to `.safetensors`."
        )
    if beginning[257:262] == b"ustar":
        raise refusal(
            stamp.path,
            "This is a tar of PyTorch before 0.2, which is not read; save it with a newer one.",
        )


def _checked_archive(file: BinaryIO, stamp: FileStamp) -> tuple[tuple[ZipInfo, ...], list[str]]:
    """Check an archive; returns its entries with a checksum, and the names in its pickle."""
    path = stamp.path
    try:
        with ZipFile(file) as archive:
            entries = archive.infolist()
            for entry in entries:
                if not entry.CRC:
                    del entry.CRC  # torch wrote no checksum; ``zipfile`` would report a wrong one
            _refuse_compressed(stamp, entries)
            names = [entry.filename for entry in entries]
            if len(set(names)) < len(names):
                raise refusal(path, "Holds a file twice. Download it again.")
            if any("/code/" in name or name.endswith("/constants.pkl") for name in names):
                raise refusal(
                    path, "Contains a program (TorchScript), not just weights. Ask for safetensors."
                )
            roots = [name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl")]
            if len(roots) != 1:
                raise refusal(path, "This archive is not a PyTorch checkpoint.")
            order = f"{roots[0]}byteorder"
            if order in names and archive.read(order) != b"little":
                raise refusal(
                    path, "Its numbers are big-endian. Save it on a little-endian computer."
                )
            text = archive.getinfo(f"{roots[0]}data.pkl")
            if text.file_size > PICKLE_LIMIT:
                raise refusal(
                    path, f"Pickle too large ({text.file_size} bytes); the limit is {PICKLE_LIMIT}."
                )
            names_called = _named(io.BytesIO(archive.read(text)), path)
            return tuple(entry for entry in entries if hasattr(entry, "CRC")), names_called
    except (BadZipFile, NotImplementedError, EOFError, ValueError, OverflowError) as error:
        failure = refusal(path, _DAMAGED)
        failure.details = str(error)
        raise failure from None


def _refuse_compressed(stamp: FileStamp, entries: list[ZipInfo]) -> None:
    if len(entries) > TENSOR_LIMIT:
        raise refusal(
            stamp.path, f"The archive lists {len(entries)} entries; the limit is {TENSOR_LIMIT}."
        )
    held = sum(entry.compress_size for entry in entries)
    claimed = sum(entry.file_size for entry in entries)
    stored = all(entry.compress_type == ZIP_STORED for entry in entries)
    if not stored or any(entry.compress_size != entry.file_size for entry in entries):
        raise refusal(
            stamp.path,
            f"The archive is compressed: {held} bytes would expand to {claimed}. Refused; save it "
            "again with `torch.save`.",
        )
    if any(entry.flag_bits & 1 for entry in entries):
        raise refusal(stamp.path, "The archive is encrypted. Save it again with `torch.save`.")
    if claimed > stamp.size:
        raise refusal(
            stamp.path, f"The archive claims {claimed} bytes; the file has {stamp.size}. Refused."
        )


def _named(stream: BinaryIO, path: Path) -> list[str]:
    """The names in the next pickle; none is looked up. Raises CheckpointError if it is damaged or
    takes too long.
    """
    names: list[str] = []
    texts = ["", ""]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a text with invalid escapes is damage
            for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
                if step >= STEP_LIMIT:
                    raise refusal(path, f"The pickle has more than {STEP_LIMIT} steps. Refused.")
                if opcode.name in ("GLOBAL", "INST"):
                    names.append(str(argument).replace(" ", ".", 1))
                elif opcode.name == "STACK_GLOBAL":
                    names.append(".".join(texts))
                elif isinstance(argument, str):
                    texts = [texts[1], argument]
                elif isinstance(argument, int) and abs(argument) >= _LARGEST and argument != _MAGIC:
                    raise ValueError("a number of more than 64 bits")
    except (ValueError, OverflowError, MemoryError, Warning) as error:  # also for a false length
        failure = refusal(path, _blocked(names) or _UNKNOWN)
        failure.details = str(error)
        raise failure from None
    return names


def _loaded(path: Path, names: Sequence[str], *, mmap: bool) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old kinds of storages
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # a hostile file can cause any error in the loader
        failure = refusal(path, _blocked(names) or _UNKNOWN)
        failure.details = str(error)
        raise failure from None


def _blocked(names: Iterable[str]) -> str:
    """The message about the first name that no state dict needs; empty if there is none."""
    foreign = next((name for name in names if not _OF_STATE_DICTS.fullmatch(name)), "")
    if not foreign:
        return ""
    if foreign.startswith(("torch.", "numpy.")):
        return f"Contains a program (`{plain(foreign)}`), not just weights. Ask for safetensors."
    return f"Contains executable code (`{plain(foreign)}`). Blocked; nothing was run."


def _state_dict(path: Path, value: object) -> dict[str, Tensor]:
    """The tensors by name, out of the known wrappers."""
    for _ in range(_DEEPEST):
        wrappers = _wrapped(value)
        if len(wrappers) > 1:
            sentence = f"Holds several sets of weights ({listing(wrappers)}). Save one separately."
            raise refusal(path, sentence)
        if not wrappers or not isinstance(value, dict):
            break
        value = value[wrappers[0]]
    if not isinstance(value, dict) or not value:
        raise refusal(path, "Holds no tensors by name. Only a state dict can be read.")
    return {_checked_name(path, name): _checked(path, name, item) for name, item in value.items()}


def _wrapped(value: object) -> list[str]:
    """The known wrappers that a dictionary has."""
    if not isinstance(value, dict):
        return []
    return [key for key in _WRAPPERS if isinstance(value.get(key), dict)]


def _checked_name(path: Path, name: object) -> str:
    if not isinstance(name, str) or not is_text(name) or name == METADATA_KEY:
        raise refusal(path, f"`{plain(str(name))}` is not the name of a tensor.")
    return name


def _checked(path: Path, name: str, item: object) -> Tensor:
    if not isinstance(item, Tensor):
        sentence = f"`{plain(name)}` is not a tensor. Save the model's state dict separately."
        raise refusal(path, sentence, tensor=name)
    kind = ""
    if item.layout != torch.strided:
        kind = "sparse"
    elif item.is_quantized:
        kind = "quantised"
    elif item.is_conj() or item.is_neg():
        kind = "a lazily conjugated tensor"
    elif item.dtype not in TAGS:
        kind = f"quantised or of an unknown format ({item.dtype})"
    elif item.device.type != "cpu" or type(item) not in (Tensor, torch.nn.Parameter):
        kind = "not a plain tensor with numbers"
    elif item.ndim > RANK_LIMIT:
        kind = f"of {item.ndim} dimensions, more than {RANK_LIMIT}"
    if kind:
        sentence = f"`{plain(name)}` is {kind}. Merging needs dense BF16, FP16 or FP32."
        raise refusal(path, sentence, tensor=name)
    return item.detach()


def _without_ties(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, under its first name, as ``save_pretrained`` does; the rest as ties."""
    first: dict[tuple[object, ...], str] = {}
    ties = {}
    for name, tensor in tensors.items():
        view = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and first.setdefault(view, name) != name:
            ties[name] = first[view]
    return {name: tensor for name, tensor in tensors.items() if name not in ties}, ties


def _refuse_impossible(path: Path, name: str, tensor: Tensor) -> None:
    """Raise CheckpointError unless every element has bytes of its own in the storage."""
    claimed = math.prod(tensor.shape) * tensor.element_size()
    held = tensor.untyped_storage().nbytes()
    if claimed > held or byte_count(8 * tensor.element_size(), tuple(tensor.shape)) is None:
        raise refusal(
            path,
            f"`{plain(name)}` claims {claimed} bytes; its storage holds {held}. "
            "Refused: the file may be malicious.",
            tensor=name,
        )
    if claimed and _repeats(tensor):
        sentence = f"`{plain(name)}` uses the same bytes repeatedly. Save a `contiguous()` copy."
        raise refusal(path, sentence, tensor=name)


def _repeats(tensor: Tensor) -> bool:
    """Whether two elements may share bytes: some stride is within the dimensions inside it."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return True
            reach += (size - 1) * stride
    return False


def _refuse_overlapping(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if tensors that share a storage claim more bytes than it has."""
    claimed: Counter[int] = Counter()
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        claimed[storage.data_ptr()] += tensor.nbytes
        if claimed[storage.data_ptr()] > storage.nbytes():
            raise refusal(
                path,
                f"`{plain(name)}` and others claim {claimed[storage.data_ptr()]} bytes of a "
                f"storage of {storage.nbytes()}. Refused; save copies of them.",
                tensor=name,
            )


def unique_names(files: Iterable[PickledFile]) -> dict[str, Path]:
    """The file of every tensor, ties included. Raises CheckpointError for a name in two files."""
    owners: dict[str, Path] = {}
    for file in files:
        for name in (*file.tensors, *file.ties):
            if name in owners:
                where = f"in {plain(owners[name].name)} and in {plain(file.stamp.path.name)}"
                sentence = f"Tensor `{plain(name)}` is defined twice, {where}."
                raise refusal(file.stamp.path.parent, sentence, tensor=name)
            owners[name] = file.stamp.path
    return owners
