"""Weights that are not plain: quantised ones with scales are read as float32, others are refused.

Formats with scales are fp8 (E4M3) of FBGEMM, compressed-tensors and DeepSeek's models, int8 of
bitsandbytes, and MXFP4 of gpt-oss: W = scale · q, per tensor, row or block. An adapter in place of
a whole model is refused, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import open_regular, read_bytes, refusal
from ace_gui.checkpoints.reader import DerivedInfo, TensorReader
from ace_gui.errors import CheckpointError
from ace_gui.formatting import counted, path_text, plain
from ace_gui.stored_formats import FORMATS, is_float

ADAPTER_SENTENCE: Final = (
    "This is an adapter (LoRA), not a whole model. Add it as an expert of the base model it was "
    "trained on."
)

_CONFIG_KEYS: Final = ("quantization_config", "compression_config", "quantization")

# Companions that only a quantised weight has, by the last part of their names.
_COMPANIONS: Final = {
    "qweight": "GPTQ or AWQ",
    "qzeros": "GPTQ or AWQ",
    "weight_scale_inv": "fp8 with block scales",
    "weight_packed": "compressed-tensors",
    "absmax": "bitsandbytes",
    "SCB": "bitsandbytes",
    "W_q": "HQQ",
    "codebooks": "AQLM",
    "q_weight": "EXL2",
}

_INTEGER_SCALES: Final = frozenset({"scales", "scale", "weight_scale", "weight_scales"})

LORA_FACTOR: Final = re.compile(
    r"\.lora_(A|B|up|down|embedding_A|embedding_B)\b|[._]lora(_linear_layer)?\.(up|down)\b"
)
OF_PEFT: Final = re.compile(r"^base_model\.")

# By patterns of names that only they have.
OTHER_ADAPTERS: Final = {
    "LoHa": re.compile(r"\bhada_[wt][12]"),
    "LoKr": re.compile(r"\blokr_[wt][12]"),
    "IA³": re.compile(r"\bia3_l\b|^(lora|lycoris)_\w+\.on_input$"),
    "GLoRA": re.compile(r"^(lora|lycoris)_\w+\.[ab][12]\.weight$"),
    "full differences of LyCORIS": re.compile(r"^(lora|lycoris)_\w+\.diff(_b)?$"),
    "T-LoRA": re.compile(r"^(lora|lycoris)_\w+\.lambda_layer$"),
    "LoRA of XLabs": re.compile(r"\.processor\.\w+_lora[12]\.(down|up)\.weight$"),
    "OFT": re.compile(r"\b(oft_[rs]|oft_blocks|oft_diag)\b"),
    "DoRA": re.compile(r"\b(dora_scale|lora_magnitude_vector)\b"),
    "VeRA": re.compile(r"\bvera_lambda_[bd]\b"),
}


_AS_EXPERT: Final = "Its file can be added as an expert of the model that it was trained on."
_BY_ITS_TOOL: Final = (
    "Merge it into its base with the tool that made it, and open the model you get."
)


def plain_config(
    path: Path, config: Mapping[str, object], tensors: Iterable[TensorInfo]
) -> Mapping[str, object]:
    """The config without quantisation settings, if no weight is quantised.

    Raises CheckpointError if a tensor may be quantised: all must be floating point of 16 bits or
    more, without companions.
    """
    plainer = without_quantisation(config)
    if plainer == config:
        return config
    known = {tensor.name: tensor for tensor in tensors}
    for tensor in known.values():
        wide = is_float(tensor.dtype) and FORMATS[tensor.dtype].bits >= 16
        if not wide or _quantisation(tensor, known):
            raise _quantised(path, path_text(path), _method(config))
    return plainer


def without_quantisation(config: Mapping[str, object]) -> dict[str, object]:
    """A config without its quantisation settings, including those of nested configs."""
    kept = {key: value for key, value in config.items() if not _of_quantisation(key, value)}
    return {
        key: without_quantisation(value)
        if isinstance(value, dict) and any(_of_quantisation(*each) for each in value.items())
        else value
        for key, value in kept.items()
    }


def _of_quantisation(key: str, value: object) -> bool:
    return key in _CONFIG_KEYS and isinstance(value, dict) and bool(value)


def _method(config: Mapping[str, object]) -> str:
    """The quantisation method in a config or a nested one."""
    nested = [value for value in config.values() if isinstance(value, dict)]
    for level in (config, *nested):
        for key, settings in level.items():
            if isinstance(settings, dict) and _of_quantisation(key, settings):
                return plain(str(settings.get("quant_method") or settings.get("quant_type") or key))
    return ""


def refuse_unmergeable(path: Path, tensors: Mapping[str, TensorInfo]) -> None:
    """Raise CheckpointError, naming a tensor, if the tensors are quantised or an adapter's."""
    refuse_quantised(tensors)
    for name in tensors:
        if kind := next((k for k, mark in OTHER_ADAPTERS.items() if mark.search(name)), None):
            sentence = f"This is an adapter ({kind}), not a whole model. "
            sentence += _AS_EXPERT if kind in ("LoHa", "LoKr") else _BY_ITS_TOOL
            raise refusal(path, sentence, tensor=name)
        if LORA_FACTOR.search(name):
            raise refusal(path, _lora_sentence(name, tensors[name].file), tensor=name)


def _lora_sentence(name: str, file: Path) -> str:
    """The message about a file with a LoRA factor of this name."""
    if (file.parent / "adapter_config.json").is_file():
        return f"{ADAPTER_SENTENCE} Name its folder."
    if OF_PEFT.search(name):
        return (
            "This is an adapter (LoRA), not a whole model. Download its adapter_config.json, too, "
            "and its folder can be added as an expert."
        )
    return (
        f"This is a LoRA as diffusers or kohya's trainer writes it (`{plain(name)}`), not a whole "
        f"model. {_AS_EXPERT}"
    )


def refuse_quantised(tensors: Mapping[str, TensorInfo]) -> None:
    """Raise CheckpointError, naming a tensor, if the tensors are quantised."""
    for name, tensor in tensors.items():
        if how := _quantisation(tensor, tensors):
            raise _quantised(tensor.file, plain(name), how, tensor=name)


def _quantisation(tensor: TensorInfo, tensors: Mapping[str, TensorInfo]) -> str | None:
    """How a tensor is quantised, None if it is not."""
    if FORMATS[tensor.dtype].quantised:
        return tensor.dtype
    owner, _, last = tensor.name.rpartition(".")
    if last in _COMPANIONS:
        return _COMPANIONS[last]
    if last.endswith("_blocks") and f"{tensor.name.removesuffix('_blocks')}_scales" in tensors:
        return "MXFP4"
    # `scales` alone is an ordinary name; with an integer weight it is MLX's or another format's.
    weight = tensors.get(f"{owner}.weight")
    if last in _INTEGER_SCALES and weight is not None and weight.dtype.startswith(("I", "U")):
        return "integers with scales"
    return None


def _quantised(path: Path, what: str, how: str, *, tensor: str | None = None) -> CheckpointError:
    sentence = f"`{what}` is quantised ({how}). Merging needs BF16, FP16 or FP32; dequantise first."
    return refusal(path, sentence, tensor=tensor)


_FP4: Final = tuple(sign * x for sign in (1.0, -1.0) for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6))
_FP8: Final = "F8_E4M3"
_FP8_SCALES: Final = ("weight_scale_inv", "weight_scale")
_SCALE_FORMATS: Final = ("F32", "BF16", "F16")
_FORMAT: Final = ".weight_format"
_BY_ROWS: Final = 0
"""bitsandbytes' number of the layout; others belong to old GPUs."""
_COMFY_MARKER: Final = "comfy_quant"
"""ComfyUI's JSON beside a weight, as bytes: how it is quantised."""
_COMFY_LIMIT: Final = 4096
"""Most bytes of such a marker; it has a format and a few switches."""
_OF_RUNNING: Final = (
    "input_scale",
    "input_activation_scale",
    "input_scale_ub",  # FBGEMM's upper limit
    "q_scale",  # of a quantised cache of keys and values
    "k_scale",
    "v_scale",
)
"""Scales that only a running quantised model needs; a merged one is not quantised."""


@dataclass(frozen=True, kw_only=True)
class QuantisedInfo(DerivedInfo):
    """A weight read as float32, from the stored ``quantised`` weight and its ``scale``."""

    quantised: TensorInfo
    scale: TensorInfo

    @property
    def stored_bytes(self) -> int:
        """Bytes in the file."""
        return self.quantised.nbytes

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The quantised weight and its scales."""
        return self.quantised, self.scale


@dataclass(frozen=True, kw_only=True)
class ScaledInfo(QuantisedInfo):
    """A weight in fp8 or int8. ``block``: rows and columns per scale. W = scale·q/``divisor``."""

    block: tuple[int, int]
    divisor: float = 1.0

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the weight, multiplied by the scales of their rows."""
        raw = reader.elements(replace(self.quantised, dtype="U8"), start, stop)
        is_int8 = self.quantised.dtype == "I8"
        part = raw.view(torch.int8 if is_int8 else torch.float8_e4m3fn).to(torch.float32)
        if start < stop:
            width = self.shape[-1]
            first, last = start // width, -(-stop // width)
            scales = reader.whole(self.scale)
            factors = self._factors(scales, first, last).reshape(-1)
            part.mul_(factors[start - first * width : stop - first * width]).div_(self.divisor)
        return part

    def _factors(self, scales: Tensor, first: int, last: int) -> Tensor:
        """The scale of each element of the rows ``first`` to ``last``, numbered through a stack."""
        rows, columns = self.shape[-2:]
        grid = scales.to(torch.float32).reshape(-1, max(1, -(-columns // self.block[1])))
        per_matrix = -(-rows // self.block[0])
        at = torch.arange(first, last)
        wanted = grid[at // rows * per_matrix + at % rows // self.block[0]]
        return wanted.repeat_interleave(self.block[1], dim=1)[:, :columns]


@dataclass(frozen=True, kw_only=True)
class PackedInfo(QuantisedInfo):
    """A stack of experts in MXFP4, as gpt-oss has it: experts × inputs × outputs when read.

    The file has experts × outputs × groups × 16 bytes with two numbers each, the lower four bits
    first, and an exponent of 2 for each group of 32 numbers.
    """

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements of the stack; one expert's matrix is unpacked at a time."""
        size = prod(self.shape[1:])
        part = torch.empty(stop - start)
        for expert in range(start // size, -(-stop // size)):
            at = expert * size
            first, last = max(start, at), min(stop, at + size)
            matrix = self._matrix(reader, expert)
            part[first - start : last - start] = matrix[first - at : last - at]
        return part

    def _matrix(self, reader: TensorReader, expert: int) -> Tensor:
        outputs, groups, packed = self.quantised.shape[1:]
        count = outputs * groups
        size = count * packed
        raw = reader.elements(self.quantised, expert * size, (expert + 1) * size)
        exponents = reader.elements(self.scale, expert * count, (expert + 1) * count)
        nibbles = torch.stack([raw & 15, raw >> 4], dim=-1).reshape(count, 2 * packed)
        values = torch.ldexp(
            torch.tensor(_FP4)[nibbles.long()], exponents[:, None].to(torch.int32) - 127
        )
        return values.reshape(outputs, -1).T.reshape(-1)


def with_scales(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, Any] | None
) -> tuple[dict[str, TensorInfo], tuple[str, ...]]:
    """The tensors, in which quantised weights with scales are float32, and a note on the cost.

    ``config``: the model's config, which may have the size of the blocks. Weights without scales,
    or with scales that do not fit, are returned unchanged and refused later.
    """
    scaled = {
        name: read
        for name, info in tensors.items()
        if (read := _scaled(info, tensors, _blocks(config)) or _packed(info, tensors)) is not None
    }
    if not scaled:
        return dict(tensors), ()
    ends = tuple(f".{end}" for end in _OF_RUNNING)
    used = {read.scale.name for read in scaled.values()}
    used |= {name.replace(".SCB", _FORMAT) for name in used if name.endswith(".SCB")}
    used |= {f"{name.removesuffix('.weight')}.{_COMFY_MARKER}" for name in scaled}
    kept = {
        scaled[name].name if name in scaled else name: scaled.get(name, info)
        for name, info in tensors.items()
        if name not in used and not name.endswith(ends)
    }
    weights = counted(len(scaled), "quantised weight is", "quantised weights are")
    note = (
        f"{weights} read as float32 (fp8, int8 or MXFP4, with scales). The merged model is not "
        "quantised: its weights are four times as large as fp8 and int8, eight times as large as "
        "MXFP4, and half of that with `out_dtype: bfloat16`. Their rounding errors are in every "
        "change."
    )
    return kept, (note,)


def _blocks(config: Mapping[str, Any] | None) -> tuple[int, int] | None:
    settings = (config or {}).get("quantization_config")
    sizes = settings.get("weight_block_size") if isinstance(settings, dict) else None
    if isinstance(sizes, list) and len(sizes) == 2 and all(type(n) is int and n > 0 for n in sizes):
        return sizes[0], sizes[1]
    return None


def _scaled(
    info: TensorInfo, tensors: Mapping[str, TensorInfo], blocks: tuple[int, int] | None
) -> ScaledInfo | None:
    owner, _, last = info.name.rpartition(".")
    if info.dtype == "I8" and last == "weight" and len(info.shape) == 2:
        return _int8(info, tensors, owner)
    if info.dtype != _FP8 or last != "weight" or len(info.shape) not in (2, 3):
        return None
    named = (tensors.get(f"{owner}.{end}") for end in _FP8_SCALES)
    scale = next((each for each in named if each is not None), None)
    if scale is None or scale.dtype not in _SCALE_FORMATS or not prod(info.shape):
        return None
    marker = tensors.get(f"{owner}.{_COMFY_MARKER}")
    if marker is not None and not _says_fp8(marker):
        return None
    rows, columns = info.shape[-2:]
    stack = prod(info.shape[:-2])
    for block in (blocks, (1, columns), (rows, columns)):
        if block is None:
            continue
        block = min(block[0], rows), min(block[1], columns)
        grid = stack * -(-rows // block[0]) * -(-columns // block[1])
        whole = scale.shape[-2:] == (-(-rows // block[0]), -(-columns // block[1]))
        if prod(scale.shape) == grid and (whole or block[1] == columns):
            return _as_float32(info, scale, block)
    return None


def _says_fp8(marker: TensorInfo) -> bool:
    """Whether a marker of ComfyUI is of a weight of this kind, W = scale · q."""
    if marker.nbytes > _COMFY_LIMIT:
        return False
    with open_regular(marker.file) as (descriptor, _):
        content = read_bytes(descriptor, marker.file, marker.start, marker.nbytes)
    try:
        settings = json.loads(content.decode())
    except (ValueError, RecursionError):
        return False
    return isinstance(settings, dict) and settings.get("format") == "float8_e4m3fn"


def _int8(info: TensorInfo, tensors: Mapping[str, TensorInfo], owner: str) -> ScaledInfo | None:
    """W = q · SCB / 127, row by row (Dettmers et al. 2022, section 3), stored by rows."""
    scale, layout = tensors.get(f"{owner}.SCB"), tensors.get(f"{owner}{_FORMAT}")
    if scale is None or scale.dtype != "F32" or scale.shape != info.shape[:1]:
        return None
    if layout is not None:
        with open_regular(layout.file) as (descriptor, _):
            byte = read_bytes(descriptor, layout.file, layout.start, 1)
        if layout.nbytes != 1 or byte[0] != _BY_ROWS:
            return None
    return _as_float32(info, scale, (1, info.shape[1]), divisor=127.0)


def _as_float32(
    info: TensorInfo, scale: TensorInfo, block: tuple[int, int], divisor: float = 1.0
) -> ScaledInfo:
    fields = info.fields | {"dtype": "F32", "nbytes": 4 * prod(info.shape)}
    return ScaledInfo(**fields, quantised=info, scale=scale, block=block, divisor=divisor)


def _packed(info: TensorInfo, tensors: Mapping[str, TensorInfo]) -> PackedInfo | None:
    name = info.name.removesuffix("_blocks")
    scale = tensors.get(f"{name}_scales")
    if name == info.name or name in tensors or scale is None:
        return None
    fits = len(info.shape) == 4 and info.shape[3] == 16 and scale.shape == info.shape[:3]
    if not fits or (info.dtype, scale.dtype) != ("U8", "U8") or not prod(info.shape):
        return None
    experts, outputs, groups, _ = info.shape
    shape = (experts, 32 * groups, outputs)
    replaced = {"name": name, "dtype": "F32", "shape": shape, "nbytes": 4 * prod(shape)}
    return PackedInfo(**{**info.fields, **replaced}, quantised=info, scale=scale)
