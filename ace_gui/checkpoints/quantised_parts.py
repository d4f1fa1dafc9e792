"""One stored tensor that may be part of a quantised weight, and what stands around it.

Small tensors and settings that describe a weight are read here, with limits; each refusal is one
sentence that names the weight.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NoReturn, TypeGuard

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import open_regular, read_blocks, read_bytes, refusal
from ace_gui.checkpoints.plain_weights import way_to_plain
from ace_gui.errors import CheckpointError
from ace_gui.formatting import dimensions, plain
from ace_gui.stored_formats import RECIPE_TAGS

CONFIG_KEYS: Final = ("quantization_config", "compression_config", "quantization")
"""Keys of a config that have the settings of a quantisation."""

LARGEST_BLOCK: Final = 1 << 20
"""Largest block, in numbers, that is believed."""
_JSON_LIMIT: Final = 4096
"""Most bytes of the JSON beside a weight; it has a handful of settings."""
_VALUES_LIMIT: Final = 16
"""Most numbers of a small tensor that describes a weight: its shape, or a setting."""
_INTEGER_BYTES: Final = {"I64": 8, "I32": 4, "I16": 2, "U8": 1, "BOOL": 1}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A tensor by which a format is recognised, with what stands around it."""

    info: TensorInfo
    """The tensor by which the format is recognised."""
    owner: str
    """The name of the module, or of the weight, to which ``info`` belongs."""
    format: str
    """The format's name."""
    tensors: Mapping[str, TensorInfo]
    """The tensors around it, by name."""
    settings: Mapping[str, Any]
    """The quantisation's settings in the model's config; empty without any."""
    metadata: Mapping[str, str]
    """The metadata of the files."""

    def part(self, end: str) -> TensorInfo | None:
        """The tensor beside it whose name ends so; None if there is none."""
        return self.tensors.get(f"{self.owner}{end}")

    def fields(
        self, name: str, shape: Iterable[int], format_: str, codes: TensorInfo | None = None
    ) -> dict[str, Any]:
        """The fields of the weight that it is read as. ``codes``: None: the tensor itself."""
        codes = codes or self.info
        sizes = tuple(shape)
        read_as = {"name": name, "dtype": "F32", "shape": sizes, "nbytes": 4 * prod(sizes)}
        return {**codes.fields, **read_as, "codes": codes, "format": format_}

    def require(self, fits: object, sentence: str) -> None:
        """Raise CheckpointError with the weight's name unless ``fits``."""
        if not fits:
            self.refuse(sentence)

    def require_part(
        self, info: TensorInfo, dtypes: Iterable[str], *shapes: tuple[int, ...]
    ) -> None:
        """Raise CheckpointError unless a part has one of these formats and one of these shapes."""
        if info.dtype in dtypes and info.shape in shapes:
            return
        expected = " or ".join(dict.fromkeys(map(dimensions, shapes)))
        self.refuse(
            f"its `{plain(info.name)}` is {dimensions(info.shape)} in {info.dtype} instead of "
            f"{expected} in {' or '.join(dtypes)}"
        )

    def refuse(self, sentence: str) -> NoReturn:
        """Raise CheckpointError."""
        raise self.misfit(sentence)

    def misfit(self, sentence: str) -> CheckpointError:
        """The error for a quantised weight whose parts do not fit."""
        info = self.info
        way = way_to_plain(self.settings.get("quant_method"), self.format)
        advice = "open the original weights."
        if way is not None:
            advice = f"open the original weights, or make plain ones. {way.sentence}"
        return refusal(
            info.file,
            f"`{plain(info.name)}` is quantised ({self.format}), but {sentence}. The file is "
            f"damaged, or of a form that is not known here: download it again, or {advice}",
            tensor=info.name,
        )

    def json(self, info: TensorInfo) -> Mapping[str, Any]:
        """The JSON object in a small tensor of bytes. Raises CheckpointError."""
        if info.nbytes <= _JSON_LIMIT:
            content = json_of(_bytes_of(info))
        else:
            content = None
        if not isinstance(content, dict):
            self.refuse(f"its settings `{plain(info.name)}` are not a JSON object")
        return content

    def numbers(self, end: str) -> tuple[int, ...] | None:
        """The integers in a small tensor beside it; None if there is no such tensor."""
        info = self.part(end)
        if info is None:
            return None
        size = _INTEGER_BYTES.get(info.dtype)
        if size is None or not 0 < prod(info.shape) <= _VALUES_LIMIT:
            self.refuse(f"its `{plain(info.name)}` holds no few integers")
        raw = _bytes_of(info)
        chunks = (raw[at : at + size] for at in range(0, len(raw), size))
        return tuple(int.from_bytes(chunk, "little", signed=size > 1) for chunk in chunks)

    def require_groups(self, order: TensorInfo, inputs: int, groups: int) -> None:
        """Raise CheckpointError unless a tensor has the number of a group for every input."""
        self.require_part(order, ("I32",), (inputs,))
        with open_regular(order.file) as (descriptor, _):
            stop = order.start + order.nbytes
            for block in read_blocks(descriptor, order.file, order.start, stop):
                numbers = memoryview(block).cast("i")
                if min(numbers) < 0 or max(numbers) >= groups:
                    self.refuse(
                        f"its `{plain(order.name)}` names groups that are not there "
                        f"(there are {groups})"
                    )


def _bytes_of(info: TensorInfo) -> bytes:
    with open_regular(info.file) as (descriptor, _):
        return bytes(read_bytes(descriptor, info.file, info.start, info.nbytes))


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def is_count(value: object, limit: int = LARGEST_BLOCK) -> TypeGuard[int]:
    """Whether a value of JSON is a natural number up to a limit."""
    return type(value) is int and 0 < value <= limit


def json_of(text: bytes | str) -> object:
    """A short text of JSON; None if it is too long or no JSON."""
    if len(text) > _JSON_LIMIT:
        return None
    try:
        content: object = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return content


def settings_of(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The settings of a quantisation in a config or in a nested one; empty without any."""
    config = config or {}
    nested = [value for value in config.values() if isinstance(value, dict)]
    for level in (config, *nested):
        for key in CONFIG_KEYS:
            settings = level.get(key)
            if isinstance(settings, dict) and settings:
                return settings
    return {}


def written_dtype(config: Mapping[str, Any] | None, plain_tensors: Iterable[TensorInfo]) -> str:
    """The tag in which an output has quantised weights: the config's, or else that of the others.

    Empty if neither names one of 16 bits; they are written as float32 then.
    """
    config = config or {}
    nested = [value for value in config.values() if isinstance(value, dict)]
    for level in (config, *nested):
        for key in ("dtype", "torch_dtype"):
            name = level.get(key)
            if isinstance(name, str) and (tag := RECIPE_TAGS.get(name.removeprefix("torch."))):
                if tag in ("F32", "F64"):
                    return ""
                return tag
    sizes: Counter[str] = Counter()
    for info in plain_tensors:
        if info.dtype in ("F16", "BF16"):
            sizes[info.dtype] += info.nbytes
    if sizes:
        return sizes.most_common(1)[0][0]
    return ""
