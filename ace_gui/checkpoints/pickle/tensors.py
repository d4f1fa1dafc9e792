"""The tensors of a PyTorch pickle and where their bytes lie; nothing in the file is run.

Two forms are read: the zip of PyTorch 1.6 and later, and the sequence of pickles before it. Neither
pickle nor ``torch.load`` ever sees the file: ``pickle_program`` follows the pickle as data, and the
tensors' bytes are plain ranges of the file.
"""

from __future__ import annotations

import io
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from ace_gui.checkpoints.header import (
    METADATA_KEY,
    SNIFF_BYTES,
    TensorInfo,
    byte_count,
    is_text,
    not_weights,
)
from ace_gui.checkpoints.input_files import FileStamp, changed, open_regular, read_at, refusal
from ace_gui.checkpoints.pickle.program import Program, Storage, Unusable, View, follow
from ace_gui.checkpoints.pickle.zip_archive import ZIP_START, Entry, read_entries
from ace_gui.errors import CheckpointError
from ace_gui.formatting import listing, plain
from ace_gui.stored_formats import FORMATS

PICKLE_LIMIT: Final = 10_000_000
"""Largest pickle in bytes, tensors aside."""

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_PROTOCOL: Final = 1001

_EMA: Final = ("ema", "model_ema", "state_dict_ema", "ema_state_dict", "params_ema")
_WRAPPERS: Final = (
    *("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights"),
    *_EMA,
)
_DEEPEST: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class PickledTensor:
    """A tensor: ``span`` has the elements it lies among, in one dimension and in its dtype.

    ``strides`` count elements from the span's beginning.
    """

    span: TensorInfo
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def name(self) -> str:
        """Its key in the state dict."""
        return self.span.name

    @property
    def contiguous(self) -> bool:
        """Whether the span is the tensor, in order."""
        expected = 1
        for size, stride in reversed(list(zip(self.shape, self.strides, strict=True))):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


@dataclass(frozen=True, kw_only=True)
class PickledFile:
    """One file. ``ties``: name of a tensor → name of the same one, which is in ``tensors``.

    ``storages``: the parts of the file that have a checksum.
    """

    stamp: FileStamp
    tensors: tuple[PickledTensor, ...]
    ties: Mapping[str, str]
    storages: tuple[Entry, ...]


def open_pickle(path: Path) -> PickledFile:
    """Find the tensors of a pickled state dict; reads no tensor.

    Known wrappers round the state dict are taken off. Raises CheckpointError for anything but
    dense tensors by name, of which none claims more bytes than the file has for it.
    """
    with open_regular(path) as (descriptor, stamp):
        beginning = _read(descriptor, stamp, 0, SNIFF_BYTES)
        _refuse_other(stamp, beginning)
        if beginning.startswith(ZIP_START):
            program, places = _zipped(descriptor, stamp)
        else:
            program, places = _sequence(descriptor, stamp)
    views = _state_dict(path, program.value)
    views, ties = _without_ties(views)
    for name, view in views.items():
        _refuse_impossible(path, name, view)
    _refuse_overlapping(path, views)
    tensors = tuple(
        _tensor(path, name, view, places[view.storage.key]) for name, view in views.items()
    )
    return PickledFile(stamp=stamp, tensors=tensors, ties=ties, storages=tuple(places.values()))


def _refuse_other(stamp: FileStamp, beginning: bytes) -> None:
    if stamp.size == 0:
        raise refusal(stamp.path, "File is empty (0 bytes). Download it again.")
    if sentence := not_weights(beginning):
        raise refusal(stamp.path, sentence)
    if beginning[8:9] == b"{" and not beginning.startswith(ZIP_START):
        raise refusal(
            stamp.path, "Contents are safetensors despite the name. Rename it to `.safetensors`."
        )
    if beginning[257:262] == b"ustar":
        raise refusal(
            stamp.path, "This is a tar of PyTorch before 0.2, which is not read. Save it anew."
        )


def _zipped(descriptor: int, stamp: FileStamp) -> tuple[Program, dict[str, Entry]]:
    """The pickle of a zip, and the entry of each storage by key."""
    entries = read_entries(descriptor, stamp)
    if any("/code/" in name or name.endswith("/constants.pkl") for name in entries):
        raise refusal(
            stamp.path,
            "Contains a program (TorchScript), not just weights. Ask for safetensors.",
        )
    roots = [name.removesuffix("data.pkl") for name in entries if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise refusal(stamp.path, "This archive is not a PyTorch checkpoint.")
    order = entries.get(f"{roots[0]}byteorder")
    if order and _read(descriptor, stamp, order.start, min(order.size, 9)) != b"little":
        raise refusal(stamp.path, "Its numbers are big-endian. Save it on an ordinary computer.")
    pickle = entries[f"{roots[0]}data.pkl"]
    if pickle.size > PICKLE_LIMIT:
        raise refusal(
            stamp.path, f"Pickle too large ({pickle.size} bytes); the limit is {PICKLE_LIMIT}."
        )
    text = _read(descriptor, stamp, pickle.start, pickle.size)
    if pickle.crc and zlib.crc32(text) != pickle.crc:
        raise refusal(stamp.path, "Its list of tensors is damaged. Download it again.")
    program = follow(io.BytesIO(text), stamp.path)
    places = {}
    for key, storage in program.storages.items():
        entry = entries.get(f"{roots[0]}data/{key}")
        if entry is None or entry.size != storage.nbytes:
            raise _too_much(stamp, key, storage.nbytes, entry.size if entry else 0)
        places[key] = entry
    return program, places


def _sequence(descriptor: int, stamp: FileStamp) -> tuple[Program, dict[str, Entry]]:
    """The older form: magic number, version, system, state dict, keys, then the storages."""
    stream = io.BytesIO(_read(descriptor, stamp, 0, PICKLE_LIMIT))
    magic = follow(stream, stamp.path).value
    if magic != _MAGIC:
        raise refusal(stamp.path, "This is a pickle, but not a PyTorch checkpoint.")
    version = follow(stream, stamp.path).value
    system = follow(stream, stamp.path).value
    little = isinstance(system, dict) and system.get("little_endian") is True
    if version != _PROTOCOL or not little:
        raise refusal(stamp.path, "This form of PyTorch checkpoint is not read. Save it anew.")
    program = follow(stream, stamp.path)
    keys = follow(stream, stamp.path).value
    return program, _in_sequence(descriptor, stamp, program.storages, keys, stream)


def _in_sequence(
    descriptor: int,
    stamp: FileStamp,
    storages: Mapping[str, Storage],
    keys: object,
    stream: BinaryIO,
) -> dict[str, Entry]:
    """Where each storage lies: in the order of the keys, each after its number of elements."""
    known = isinstance(keys, list) and all(type(key) is str for key in keys)
    if not isinstance(keys, list) or not known or set(keys) != set(storages):
        raise refusal(stamp.path, "The list of its storages is malformed. Download it again.")
    places: dict[str, Entry] = {}
    start = stream.tell() + 8
    for key in keys:
        storage = storages[key]
        if start + storage.nbytes > stamp.size:
            raise _too_much(stamp, key, storage.nbytes, max(stamp.size - start, 0))
        count = int.from_bytes(_read(descriptor, stamp, start - 8, 8), "little")
        itemsize = FORMATS[storage.tag].bits // 8 if storage.tag else 1
        if count * itemsize != storage.nbytes:
            raise _too_much(stamp, key, storage.nbytes, count * itemsize)
        places[key] = Entry(name=key, start=start, size=storage.nbytes, crc=0)
        start += storage.nbytes + 8
    return places


def _state_dict(path: Path, value: object) -> dict[str, View]:
    """The tensors by name, out of the known wrappers."""
    for _ in range(_DEEPEST):
        wrappers = _wrapped(value)
        if len(wrappers) > 1:
            sentence = f"Holds several sets of weights ({listing(wrappers)}). Save one by itself."
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


def _checked(path: Path, name: str, item: object) -> View:
    if isinstance(item, Unusable):
        sentence = f"`{plain(name)}` is {item.kind}. Merging needs dense BF16, FP16 or FP32."
        raise refusal(path, sentence, tensor=name)
    if not isinstance(item, View):
        sentence = f"`{plain(name)}` is not a tensor. Save the model's state dict by itself."
        raise refusal(path, sentence, tensor=name)
    return item


def _without_ties(views: Mapping[str, View]) -> tuple[dict[str, View], dict[str, str]]:
    """Each tensor once, under its first name, as ``save_pretrained`` does; the rest as ties."""
    first: dict[View, str] = {}
    ties = {}
    for name, view in views.items():
        if first.setdefault(view, name) != name and 0 not in view.shape:
            ties[name] = first[view]
    return {name: view for name, view in views.items() if name not in ties}, ties


def _refuse_impossible(path: Path, name: str, view: View) -> None:
    """Raise CheckpointError unless every element has bytes of its own in the storage."""
    itemsize = FORMATS[view.tag].bits // 8
    claimed = math.prod(view.shape) * itemsize
    if claimed > view.storage.nbytes or byte_count(FORMATS[view.tag].bits, view.shape) is None:
        raise refusal(
            path,
            f"`{plain(name)}` claims {claimed} bytes; its storage holds {view.storage.nbytes}. "
            "Refused: the file may be malicious.",
            tensor=name,
        )
    if claimed and (view.offset + _extent(view)) * itemsize > view.storage.nbytes:
        sentence = f"`{plain(name)}` reaches beyond its storage. Refused: the file is malformed."
        raise refusal(path, sentence, tensor=name)
    if claimed and _repeats(view):
        sentence = f"`{plain(name)}` uses the same bytes repeatedly. Save a `contiguous()` copy."
        raise refusal(path, sentence, tensor=name)


def _extent(view: View) -> int:
    """Elements from the first to the last one, both included."""
    return 1 + sum(
        (size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)
    )


def _repeats(view: View) -> bool:
    """Whether two elements may share bytes: some stride is within the dimensions inside it."""
    reach = 1
    for stride, size in sorted(zip(view.strides, view.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return True
            reach += (size - 1) * stride
    return False


def _refuse_overlapping(path: Path, views: Mapping[str, View]) -> None:
    """Different tensors may share a storage, but not to claim more than it has."""
    claimed: Counter[str] = Counter()
    for name, view in views.items():
        key = view.storage.key
        claimed[key] += math.prod(view.shape) * FORMATS[view.tag].bits // 8
        if claimed[key] > view.storage.nbytes:
            raise refusal(
                path,
                f"`{plain(name)}` and others claim {claimed[key]} bytes of a storage of "
                f"{view.storage.nbytes}. Refused; save copies of them.",
                tensor=name,
            )


def _tensor(path: Path, name: str, view: View, place: Entry) -> PickledTensor:
    itemsize = FORMATS[view.tag].bits // 8
    count = _extent(view) if math.prod(view.shape) else 0
    span = TensorInfo(
        name=name,
        dtype=view.tag,
        shape=(count,),
        file=path,
        start=place.start + view.offset * itemsize,
        nbytes=count * itemsize,
    )
    return PickledTensor(span=span, shape=view.shape, strides=view.strides)


def _too_much(stamp: FileStamp, key: str, claimed: int, held: int) -> CheckpointError:
    return refusal(
        stamp.path,
        f"Storage `{plain(key)}` claims {claimed} bytes; the file holds {held}. Refused: it is "
        "cut short or malicious.",
    )


def _read(descriptor: int, stamp: FileStamp, start: int, count: int) -> bytes:
    """At most ``count`` bytes from ``start`` on, fewer only at the file's end."""
    buffer = bytearray(max(min(count, stamp.size - start), 0))
    if read_at(descriptor, memoryview(buffer), start) < len(buffer):
        raise changed(stamp.path)
    return bytes(buffer)


def unique_names(files: Iterable[PickledFile]) -> dict[str, Path]:
    """The file of every tensor, ties included. Raises CheckpointError for a name in two files."""
    owners: dict[str, Path] = {}
    for file in files:
        for name in (*(tensor.name for tensor in file.tensors), *file.ties):
            if name in owners:
                where = f"in {plain(owners[name].name)} and in {plain(file.stamp.path.name)}"
                sentence = f"Tensor `{plain(name)}` is defined twice, {where}."
                raise refusal(file.stamp.path.parent, sentence, tensor=name)
            owners[name] = file.stamp.path
    return owners
