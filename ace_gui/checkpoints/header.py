"""The header of a safetensors file, checked before anything else sees the file.

The format: eight bytes of header length (little-endian), the header as JSON, then the tensors'
bytes without a gap. This reader is stricter than the library: it accepts only a regular file, no
repeated names, no unknown fields, and the limits below.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from ace_gui.checkpoints.input_files import FileStamp, open_regular, read_bytes, refusal
from ace_gui.formatting import plain
from ace_gui.stored_formats import FORMATS

HEADER_LIMIT: Final = 10_000_000
"""Largest header in bytes; the biggest published models need about 1 MB a file."""

TENSOR_LIMIT: Final = 200_000
RANK_LIMIT: Final = 8

LENGTH_BYTES: Final = 8
METADATA_KEY: Final = "__metadata__"

SNIFF_BYTES: Final = 512
"""Number of bytes at the beginning of a file that show its format."""

_IMPOSSIBLE: Final = 2**63
_PICKLE_STARTS: Final = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_FIELDS: Final = frozenset({"dtype", "shape", "data_offsets"})


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorInfo:
    """One tensor as its header describes it."""

    name: str
    """Its name in the file."""
    dtype: str
    """A safetensors tag."""
    shape: tuple[int, ...]
    """As stored."""
    file: Path
    """The file that holds it."""
    start: int
    """Bytes from the beginning of ``file``."""
    nbytes: int
    """Its size in bytes."""

    @property
    def stored_bytes(self) -> int:
        """Bytes in the file."""
        return self.nbytes

    @property
    def written_dtype(self) -> str:
        """The dtype tag in an output of the model's own formats."""
        return self.dtype

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields by name, to make another tensor from it."""
        return {name: getattr(self, name) for name in TensorInfo.__slots__}


@dataclass(frozen=True, kw_only=True)
class Header:
    """A valid header; ``tensors`` in the order of their bytes."""

    stamp: FileStamp
    tensors: tuple[TensorInfo, ...]
    metadata: Mapping[str, str]
    quantised: Mapping[str, int] = field(default_factory=dict)
    """The number of quantised tensors by type, of a GGUF file."""


class _Repeated:
    """Represents a JSON object with a repeated key."""

    def __init__(self, key: str) -> None:
        self.key = key


def read_header(path: Path) -> Header:
    """Read and check the header of one file.

    Raises CheckpointError with the path, and the tensor if one is at fault.
    """
    with open_regular(path) as (descriptor, stamp):
        beginning = bytes(read_bytes(descriptor, path, 0, min(stamp.size, SNIFF_BYTES)))
        length = _header_length(stamp, beginning)
        text = bytes(read_bytes(descriptor, path, LENGTH_BYTES, length))
    entries = _parse(path, text)
    metadata = _metadata(path, entries.pop(METADATA_KEY, {}))
    if len(entries) > TENSOR_LIMIT:
        raise refusal(path, f"{len(entries)} tensors; the limit is {TENSOR_LIMIT}.")
    data_start = LENGTH_BYTES + length
    tensors = sorted(
        (_tensor(path, name, entry, data_start) for name, entry in entries.items()),
        key=lambda tensor: (tensor.start, tensor.nbytes),
    )
    _check_layout(stamp, tensors, data_start)
    return Header(stamp=stamp, tensors=tuple(tensors), metadata=metadata)


def _header_length(stamp: FileStamp, beginning: bytes) -> int:
    """The length of the header in bytes. Raises CheckpointError if there is no header."""
    path = stamp.path
    size = stamp.size
    if size == 0:
        raise refusal(path, "File is empty (0 bytes). Download it again.")
    length = int.from_bytes(beginning[:LENGTH_BYTES], "little")
    fits = length <= min(size - LENGTH_BYTES, HEADER_LIMIT)
    if fits and beginning[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{":
        return length
    if disguise := _disguise(beginning, length):
        raise refusal(path, disguise)
    if length > HEADER_LIMIT and beginning[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
        raise refusal(path, "This is not a safetensors file. Name a model, or download it again.")
    if size < LENGTH_BYTES:
        raise refusal(path, f"File has {size} bytes, too few for a header. Download it again.")
    if length > size - LENGTH_BYTES:
        raise refusal(path, f"Header claims {length} bytes; the file has {size}. Likely truncated.")
    if length > HEADER_LIMIT:
        raise refusal(path, f"Header too large ({length}); the limit is {HEADER_LIMIT}.")
    raise refusal(path, "This is not a safetensors file. Download it again.")


def _disguise(beginning: bytes, length: int) -> str:
    """A sentence on the format of a file that is not safetensors; empty if unknown."""
    # A truncated file whose header is 640 bytes long begins like a pickle, but claims far less.
    pickle = length > HEADER_LIMIT and beginning[:2] in _PICKLE_STARTS
    if pickle or beginning.startswith(b"PK\x03\x04"):
        return "Contents are a PyTorch pickle despite the name."
    return not_weights(beginning)


def not_weights(beginning: bytes) -> str:
    """A sentence on a file that is not weights, by its beginning; empty if unknown."""
    text = beginning.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if beginning.startswith(b"version https://git-lfs.github.com/spec/"):
        return "This is a Git LFS placeholder, not the weights. Run `git lfs pull`."
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml")):
        return "This is a web page, not a model."
    if beginning.startswith(b"GGUF"):
        return "This is a GGUF file by another name; the name needs the ending `.gguf`."
    return ""


def _parse(path: Path, text: bytes) -> dict[str, object]:
    """The header's JSON: name to entry. It begins with a brace, so it can only be an object."""
    try:
        entries: dict[str, object] | _Repeated = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_natural,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except UnicodeDecodeError:
        raise refusal(path, "The header is not UTF-8. Download the file again.") from None
    except (ValueError, RecursionError):
        raise refusal(path, "The header is not valid JSON. Download the file again.") from None
    if isinstance(entries, _Repeated):
        name = entries.key
        raise refusal(path, f"Tensor `{plain(name)}` is defined twice.", tensor=name)
    return entries


def _object(pairs: list[tuple[str, object]]) -> dict[str, object] | _Repeated:
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
    return _Repeated(key)


def _natural(digits: str) -> int | None:
    """A natural number; None for a negative one (and -0, which the library refuses)."""
    if digits.startswith("-"):
        return None
    if len(digits) <= len(str(_IMPOSSIBLE)):
        return int(digits)
    return _IMPOSSIBLE


def _no_number(_text: str) -> None:
    """Fractions, exponents, NaN and Infinity are not allowed in a header."""


def _metadata(path: Path, value: object) -> Mapping[str, str]:
    if isinstance(value, dict) and all(map(is_text, (*value, *value.values()))):
        return value
    raise refusal(path, "The header's metadata are not text. Download the file again.")


def _tensor(path: Path, name: str, entry: object, data_start: int) -> TensorInfo:
    plain_name = plain(name)
    if not is_text(name) or not isinstance(entry, dict) or entry.keys() != _FIELDS:
        raise refusal(path, f"The header's entry of `{plain_name}` is malformed.", tensor=name)
    tag = entry["dtype"]
    shape = entry["shape"]
    offsets = entry["data_offsets"]
    if not isinstance(tag, str) or tag not in FORMATS:
        unknown = plain(str(tag))
        raise refusal(path, f"Unknown number format `{unknown}` in `{plain_name}`.", tensor=name)
    if not _are_naturals(shape) or not _are_naturals(offsets) or len(offsets) != 2:
        raise refusal(path, f"The shape or offset of `{plain_name}` is malformed.", tensor=name)
    if len(shape) > RANK_LIMIT:
        sentence = f"`{plain_name}` has {len(shape)} dimensions; the limit is {RANK_LIMIT}."
        raise refusal(path, sentence, tensor=name)
    begin, end = offsets
    nbytes = byte_count(FORMATS[tag].bits, shape)
    if nbytes is None or end >= _IMPOSSIBLE or begin > end:
        raise refusal(path, f"Tensor `{plain_name}` declares an impossible size.", tensor=name)
    if end - begin != nbytes:
        sentence = (
            f"`{plain_name}` needs {nbytes} bytes by its shape; the header gives {end - begin}."
        )
        raise refusal(path, sentence, tensor=name)
    return TensorInfo(
        name=name, dtype=tag, shape=tuple(shape), file=path, start=data_start + begin, nbytes=nbytes
    )


def is_text(value: object) -> bool:
    """Whether it is a string without lone surrogates, which are not Unicode text."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _are_naturals(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def byte_count(bits: int, shape: Iterable[int]) -> int | None:
    """Bytes of a tensor; None if this is no whole number, or a product of sizes is too large.

    Zeros count as ones in the check of the product, so that ``[0, 2**63]`` is refused as well.
    """
    sizes = list(shape)
    if math.prod(max(size, 1) for size in sizes) * bits >= _IMPOSSIBLE:
        return None
    nbytes, remainder = divmod(math.prod(sizes) * bits, 8)
    if remainder == 0:
        return nbytes
    return None


def _check_layout(stamp: FileStamp, tensors: Iterable[TensorInfo], data_start: int) -> None:
    """Raise CheckpointError unless the tensors, sorted by offset, exactly fill the file."""
    path = stamp.path
    expected = data_start
    previous = ""
    for tensor in tensors:
        plain_name = plain(tensor.name)
        missing = tensor.start - expected
        if missing < 0:
            sentence = f"`{plain_name}` overlaps `{plain(previous)}`; the file is malformed."
            raise refusal(path, sentence, tensor=tensor.name)
        if missing > 0:
            raise refusal(
                path, f"Gap of {missing} bytes before `{plain_name}`.", tensor=tensor.name
            )
        expected = tensor.start + tensor.nbytes
        previous = tensor.name
    if stamp.size < expected:
        raise refusal(path, f"Incomplete: expected {expected} bytes, found {stamp.size}.")
    if stamp.size > expected:
        extra = stamp.size - expected
        raise refusal(path, f"{extra} unexpected bytes after the last tensor.")


_DTYPES: Final[dict[str, torch.dtype]] = {
    tag: getattr(torch, number_format.torch)
    for tag, number_format in FORMATS.items()
    if number_format.torch is not None
}
TAGS: Final = {dtype: tag for tag, dtype in _DTYPES.items()}


def torch_dtype(tag: str) -> torch.dtype:
    """The torch dtype of a tag. Raises KeyError for quantised and unknown formats."""
    return _DTYPES[tag]


def tag_of(dtype: torch.dtype) -> str:
    """The tag of a torch dtype. Raises KeyError for one that is never written here."""
    return TAGS[dtype]
