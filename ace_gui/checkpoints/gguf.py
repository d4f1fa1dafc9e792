"""GGUF files of every type, read tensor by tensor under Hugging Face's names.

The format (ggml's ``docs/gguf.md``): magic, version, two counts, the metadata, an entry for each
tensor, then the tensors, each at a multiple of the alignment. llama.cpp's converter renames the
tensors, reorders the rows of Llama's queries and keys, and adds 1 to Gemma's norms; all three are
undone here. Quantised types are dequantised as they are read. Lengths and counts in a file are
not trusted.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Final

from torch import Tensor

from ace_gui.checkpoints.gguf_types import OTHER_TYPES, PLAIN_TYPES, QUANTISED_TYPES
from ace_gui.checkpoints.header import TENSOR_LIMIT, Header, TensorInfo, byte_count
from ace_gui.checkpoints.input_files import FileStamp, open_regular, read_bytes, refusal
from ace_gui.checkpoints.plain_weights import GGUF
from ace_gui.checkpoints.quantised_weights import GgufInfo
from ace_gui.checkpoints.reader import DerivedInfo, TensorReader
from ace_gui.errors import CheckpointError
from ace_gui.formatting import dimensions, plain
from ace_gui.stored_formats import FORMATS, is_float

SUFFIX: Final = ".gguf"
HEADER_LIMIT: Final = 64_000_000
"""Largest header in bytes, most of which is the vocabulary."""

NO_CONFIG: Final = (
    "A GGUF file has no config.json and no tokenizer for transformers. Put those of the original "
    "model into its folder if it is the base, so that the merged model loads."
)

_MALFORMED: Final = "The header of this GGUF file is malformed. Download it again."
_VERSIONS: Final = (2, 3)
_KEYS_LIMIT: Final = 100_000
_TEXTS_LIMIT: Final = 4_000_000
"""Most texts in the arrays of a file; the largest vocabularies have a quarter of a million."""
_RANK_LIMIT: Final = 4
_STRING = 8
_ARRAY = 9
_NUMBERS: Final = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_AROUND: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_BLOCK: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OF_GEMMA: Final = {
    **_IN_BLOCK,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_ARCHITECTURES: Final = {
    "llama": _IN_BLOCK,
    "qwen2": _IN_BLOCK,
    "qwen3": _IN_BLOCK,
    "phi3": {**_IN_BLOCK, "ffn_up": "mlp.gate_up_proj"},
    "gemma2": _OF_GEMMA,
    "gemma3": _OF_GEMMA,
}
_BLOCK: Final = re.compile(r"blk\.(\d{1,6})\.(\w+)$")
_COMPUTED: Final = re.compile(r"rope_(freqs|factors_long|factors_short)\.weight$")
"""Names of tensors that llama.cpp computes from the config."""


@dataclass(frozen=True, kw_only=True)
class StoredInfo(DerivedInfo):
    """A tensor whose ``stored`` form differs from the model's."""

    stored: TensorInfo

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The tensor in the file."""
        return (self.stored,)

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the weight, as the file has them."""
        return reader.elements(self.stored, start, stop)

    def rounding(self, reader: TensorReader) -> float:
        """The share of a quantisation's rounding in its energy."""
        if isinstance(self.stored, DerivedInfo):
            return self.stored.rounding(reader)
        return 0.0


@dataclass(frozen=True, kw_only=True)
class HeadsInfo(StoredInfo):
    """Queries or keys, whose ``heads`` have pairs of rows side by side in the file.

    Row 2i + h of a head in the file is row h·D/2 + i of the model (``permute`` of llama.cpp's
    converter, undone).
    """

    heads: int

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the weight, in its stored dtype; whole heads are read."""
        size = max(1, prod(self.shape) // self.heads)
        first = start // size
        last = -(-stop // size)
        pairs = reader.elements(self.stored, first * size, last * size)
        rows = self.shape[0] // self.heads // 2
        ordered = pairs.reshape(last - first, rows, 2, *self.shape[1:]).transpose(1, 2).reshape(-1)
        return ordered[start - first * size : stop - first * size].clone()


@dataclass(frozen=True, kw_only=True)
class NormInfo(StoredInfo):
    """A norm of Gemma; the file has its values plus 1."""

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the weight, in its stored dtype."""
        return reader.elements(self.stored, start, stop).sub_(1)


class _Cursor:
    """Reads values from the beginning of a file; ``at`` counts bytes."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._data = data
        self._texts = 0
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes. Raises CheckpointError if there are fewer."""
        if count > len(self._data) - self.at:
            raise self.malformed()
        self.at += count
        return self._data[self.at - count : self.at]

    def number(self, letter: str) -> int:
        """A number in a format of ``struct``."""
        (value,) = struct.unpack(f"<{letter}", self.take(struct.calcsize(f"<{letter}")))
        if letter not in "fd":
            return int(value)
        return 0

    def text(self) -> str:
        """A string after its length."""
        try:
            return self.take(self.number("Q")).decode("utf-8")
        except UnicodeDecodeError:
            raise self.malformed() from None

    def value(self, kind: int) -> int | str | None:
        """A value of the metadata; None for fractions and arrays, which are skipped."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.take(self.number("Q")).decode("utf-8", "replace")
        if kind != _ARRAY:
            raise self.malformed()
        item = self.number("I")
        count = self.number("Q")
        if item in _NUMBERS:
            self.take(count * struct.calcsize(f"<{_NUMBERS[item]}"))
        elif item == _STRING:
            self._texts += count
            if self._texts > _TEXTS_LIMIT:
                raise self.malformed()
            for _ in range(count):
                self.take(self.number("Q"))
        else:
            raise self.malformed()
        return None

    def malformed(self) -> CheckpointError:
        """The error for a header that cannot be read."""
        return refusal(self._path, _MALFORMED)


def read_gguf(path: Path, written: str = "") -> Header:
    """Read and check the header of a GGUF file.

    ``written``: the dtype tag in an output, if the file is quantised; empty: as it is read. Raises
    CheckpointError with the path, and the tensor if one is at fault. Types that nothing here
    dequantises and architectures with unknown names are refused too.
    """
    with open_regular(path) as (descriptor, stamp):
        data = read_bytes(descriptor, path, 0, min(stamp.size, HEADER_LIMIT))
    cursor = _Cursor(path, bytes(data))
    if cursor.take(4) != b"GGUF":
        raise refusal(path, "This is not a GGUF file, despite its name.")
    version = cursor.number("I")
    count = cursor.number("Q")
    keys = cursor.number("Q")
    if version not in _VERSIONS or count > TENSOR_LIMIT or keys > _KEYS_LIMIT:
        raise cursor.malformed()
    metadata: dict[str, int | str | None] = {}
    for _ in range(keys):
        key = cursor.text()
        if key in metadata:
            raise refusal(path, f"The key `{plain(key)}` stands twice. Download it again.")
        metadata[key] = cursor.value(cursor.number("I"))
    entries = [_entry(path, cursor) for _ in range(count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0 or alignment.bit_count() != 1:
        raise cursor.malformed()
    placed = _placed([entry.info for entry in entries], cursor.at, alignment, stamp)
    tensors = [_dequantised(entry, info) for entry, info in zip(entries, placed, strict=True)]
    types = Counter(info.format for info in tensors if isinstance(info, GgufInfo))
    renamed = _renamed(path, metadata, tensors)
    if types:
        renamed = tuple(_as_written(info, written) for info in renamed)
    return Header(stamp=stamp, tensors=renamed, metadata={}, quantised=types)


@dataclass(frozen=True, kw_only=True)
class _MetadataEntry:
    """A tensor in the header. ``info``: its bytes, if it is quantised."""

    info: TensorInfo
    shape: tuple[int, ...]
    kind: int


def _dequantised(entry: _MetadataEntry, placed: TensorInfo) -> TensorInfo:
    """The tensor in numbers, read from its place in the file."""
    if entry.kind not in QUANTISED_TYPES:
        return placed
    type_ = QUANTISED_TYPES[entry.kind]
    read_as = {"dtype": "F32", "shape": entry.shape, "nbytes": 4 * prod(entry.shape)}
    return GgufInfo(
        **{**placed.fields, **read_as},
        codes=placed,
        format=f"GGUF {type_.name}",
        kind=entry.kind,
        typical_rounding=type_.rounding,
    )


def _as_written(info: TensorInfo, written: str) -> TensorInfo:
    """The tensor of a quantised file, whose norms are wider than those of the original model."""
    if isinstance(info, DerivedInfo):
        return replace(info, written=written)
    if is_float(info.dtype):
        return StoredInfo(**info.fields, stored=info, written=written)
    return info


def _entry(path: Path, cursor: _Cursor) -> _MetadataEntry:
    """One tensor under its name in the file; ``start`` counts from the first tensor's byte."""
    name = cursor.text()
    rank = cursor.number("I")
    if rank > _RANK_LIMIT:
        raise cursor.malformed()
    shape = tuple(reversed([cursor.number("Q") for _ in range(rank)]))
    kind = cursor.number("I")
    start = cursor.number("Q")
    if kind in QUANTISED_TYPES:
        info = _blocks(path, name, shape, kind, start)
    elif kind in PLAIN_TYPES:
        nbytes = byte_count(FORMATS[PLAIN_TYPES[kind]].bits, shape)
        if nbytes is None:
            raise refusal(path, f"`{plain(name)}` declares an impossible size.", tensor=name)
        tag = PLAIN_TYPES[kind]
        info = TensorInfo(name=name, dtype=tag, shape=shape, file=path, start=start, nbytes=nbytes)
    else:
        type_ = OTHER_TYPES.get(kind, f"type {kind}")
        sentence = f"`{plain(name)}` is quantised (GGUF {type_}), which is not read here. "
        sentence += f"{GGUF.sentence} Or open the original weights."
        raise refusal(path, sentence, tensor=name)
    return _MetadataEntry(info=info, shape=shape, kind=kind)


def _blocks(path: Path, name: str, shape: tuple[int, ...], kind: int, start: int) -> TensorInfo:
    """The bytes of a quantised tensor, rows × bytes."""
    type_ = QUANTISED_TYPES[kind]
    if shape:
        columns = shape[-1]
    else:
        columns = 0
    if columns == 0 or columns % type_.block or byte_count(32, shape) is None:
        sentence = (
            f"`{plain(name)}` is quantised (GGUF {type_.name}), which needs rows of whole blocks "
            f"of {type_.block}; it is {dimensions(shape)}. Download it again."
        )
        raise refusal(path, sentence, tensor=name)
    sizes = (prod(shape[:-1]), columns // type_.block * type_.bytes)
    return TensorInfo(
        name=name, dtype="U8", shape=sizes, file=path, start=start, nbytes=prod(sizes)
    )


def _placed(
    stored: Sequence[TensorInfo], header_end: int, alignment: int, stamp: FileStamp
) -> list[TensorInfo]:
    """The tensors with their positions in the file.

    As in llama.cpp, each begins where the one before ends, rounded up to the ``alignment`` in
    bytes. Raises CheckpointError for another offset, which would be another tensor's bytes.
    """
    data_start = -(-header_end // alignment) * alignment
    expected = 0
    placed = []
    for info in stored:
        if info.start != expected:
            sentence = (
                f"`{plain(info.name)}` begins at byte {info.start} of the data instead of "
                f"{expected}; the file is malformed. Download or convert it again."
            )
            raise refusal(stamp.path, sentence, tensor=info.name)
        if data_start + expected + info.nbytes > stamp.size:
            sentence = f"Incomplete: `{plain(info.name)}` ends after the file. Download it again."
            raise refusal(stamp.path, sentence, tensor=info.name)
        placed.append(replace(info, start=data_start + expected))
        expected += -(-info.nbytes // alignment) * alignment
    return placed


def _renamed(
    path: Path, metadata: Mapping[str, object], tensors: list[TensorInfo]
) -> tuple[TensorInfo, ...]:
    """The tensors under Hugging Face's names; reading them undoes the converter's changes."""
    architecture = metadata.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        architectures = ", ".join(_ARCHITECTURES)
        sentence = (
            f"This is a GGUF file of `{plain(str(architecture))}`; {architectures} are read. "
        )
        raise refusal(path, f"{sentence}Open the original weights instead.")
    renamed: dict[str, TensorInfo] = {}
    for info in tensors:
        if _COMPUTED.match(info.name):
            continue
        kind, _, end = info.name.rpartition(".")
        name = f"{_module(str(architecture), kind)}.{end}"
        if name.startswith("None.") or end not in ("weight", "bias") or name in renamed:
            sentence = f"`{plain(info.name)}` is not known here. Open the original weights instead."
            raise refusal(path, sentence, tensor=info.name)
        model_info = replace(info, name=name)
        if architecture == "llama" and kind.endswith((".attn_q", ".attn_k")):
            model_info = HeadsInfo(**model_info.fields, stored=info, heads=_heads(info, metadata))
        elif str(architecture).startswith("gemma") and name.endswith("norm.weight"):
            model_info = NormInfo(**model_info.fields, stored=info)
        renamed[name] = model_info
    return tuple(renamed.values())


def _module(architecture: str, name: str) -> str | None:
    if name in _AROUND:
        return _AROUND[name]
    block = _BLOCK.match(name)
    if block:
        inner = _ARCHITECTURES[architecture].get(block[2])
    else:
        inner = None
    if block and inner:
        return f"model.layers.{int(block[1])}.{inner}"
    return None


def _heads(info: TensorInfo, metadata: Mapping[str, object]) -> int:
    """The number of heads of a query or key tensor. Raises CheckpointError."""
    count = metadata.get("llama.attention.head_count")
    if ".attn_k." in info.name:
        count = metadata.get("llama.attention.head_count_kv", count)
    if not isinstance(count, int) or count < 1 or not info.shape or info.shape[0] % (2 * count):
        sentence = f"The number of heads does not fit `{plain(info.name)}`. Download it again."
        raise refusal(info.file, sentence, tensor=info.name)
    return count
