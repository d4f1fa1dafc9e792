"""Which stored tensors are a quantised weight together, and whether they fit each other.

The table ``FORMATS`` has every format that is read, with the tensor by which it is recognised.
Names, shapes and settings are checked here, before anything is allocated. ``assembling.py`` goes
through a model's tensors, and ``quantised_weights.py`` reads the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from ace_gui.checkpoints.bitsandbytes_weights import bitsandbytes_4, bitsandbytes_8
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.quantised_parts import (
    Candidate,
    is_count,
    json_of,
)
from ace_gui.checkpoints.quantised_weights import (
    ColumnsInfo,
    QuantisedInfo,
    RowsInfo,
    StackInfo,
    StretchesInfo,
)
from ace_gui.errors import CheckpointError
from ace_gui.formatting import alternatives, dimensions, plain

_FLOATS: Final = ("F32", "BF16", "F16")
_EXPONENTS: Final = ("U8", "F8_E8M0")
_WORDS: Final = "I32"
_FP8: Final = "F8_E4M3"
_SCALES_OF_FP8: Final = ("weight_scale_inv", "weight_scale", "scale_weight")
_USUAL: Final = (2, 4, 8)
"""Bits of packed integers; others are read only if the settings name them."""
_NVFP4_GROUP: Final = 16
"""Inputs with one scale."""
_OF_INPUTS: Final = (".pre_quant_scale", ".svdquant_lora_a", ".svdquant_lora_b")
"""What ModelOpt computes beside a weight with some of its methods (AWQ, SVDQuant)."""
MODELOPT_FILE: Final = "hf_quant_config.json"
"""What ModelOpt writes beside its weights; older versions write nothing into the config."""
_HQQ_SETTINGS: Final = (
    *("nbits", "group_size", "shape", "axis", "packing", "unpack_view_dtype", "view_as_float"),
    *("quant_scale", "quant_zero", "compute_dtype", "offload_meta", "encoded_state_dict"),
    *("stores_quant_config", "channel_wise", "optimize", "round_zero"),
)


def gptq_or_awq(candidate: Candidate) -> QuantisedInfo | None:
    """Integers stored by inputs; AWQ has its words along the outputs, GPTQ along the inputs."""
    info = candidate.info
    zero = candidate.part(".qzeros")
    scale = candidate.part(".scales")
    if zero is None or scale is None:
        return None
    flat = all(len(part.shape) == 2 and prod(part.shape) for part in (info, zero, scale))
    candidate.require(flat, "its parts are not matrices")
    groups, outputs = scale.shape
    is_awq = info.shape[1] * 8 == outputs
    if is_awq:
        bits = 4
    else:
        bits = zero.shape[1] * 32 // outputs
    _require_layout(candidate, is_awq=is_awq)
    candidate.require(bits in (2, 3, 4, 8), f"{bits} bits a number are not known")
    if is_awq:
        inputs = info.shape[0]
    else:
        inputs = info.shape[0] * 32 // bits
    if is_awq:
        columns = outputs // 8
    else:
        columns = outputs
    height = inputs if is_awq else inputs * bits // 32
    candidate.require_part(info, (_WORDS,), (height, columns))
    candidate.require(outputs * bits % 32 == 0, f"{outputs} outputs of {bits} bits fill no words")
    candidate.require_part(zero, (_WORDS,), (groups, outputs * bits // 32))
    candidate.require(scale.dtype in _FLOATS, f"its scales are {scale.dtype}")
    order = None if is_awq else candidate.part(".g_idx")
    if order is not None:
        candidate.require_groups(order, inputs, groups)
    else:
        candidate.require(inputs % groups == 0, f"{inputs} inputs are not {groups} equal groups")
    kind = f"{'AWQ' if is_awq else 'GPTQ'} {bits} bits"
    return ColumnsInfo(
        **candidate.fields(f"{candidate.owner}.weight", (outputs, inputs), kind),
        scale=scale,
        zero=zero,
        order=order,
        bits=bits,
        is_awq=is_awq,
        less_one=candidate.settings.get("checkpoint_format") != "gptq_v2",
    )


def _require_layout(candidate: Candidate, *, is_awq: bool) -> None:
    """Raise CheckpointError for layouts of GPTQ and AWQ that are not known here."""
    settings = candidate.settings
    method = str(settings.get("quant_method", "gptq")).lower()
    candidate.require(method in ("gptq", "awq"), f"its method `{plain(method)}` is not read")
    key = "checkpoint_format"
    layouts: tuple[str, ...] = ("gptq", "gptq_v2")
    if is_awq or method == "awq":
        key = "version"
        layouts = ("gemm",)
    layout = str(settings.get(key, layouts[0])).lower()
    candidate.require(
        layout in layouts, f"its layout `{plain(layout)}` is not {' or '.join(layouts)}"
    )


def compressed(candidate: Candidate) -> QuantisedInfo | None:
    """compressed-tensors' packed formats: integers in words, NVFP4 and MXFP4 in bytes."""
    scale = candidate.part(".weight_scale")
    if scale is None or len(candidate.info.shape) != 2 or not prod(candidate.info.shape):
        return None
    if candidate.info.dtype == _WORDS:
        return _packed_integers(candidate, scale)
    rows, packed = candidate.info.shape
    candidate.require(candidate.info.dtype == "U8", f"its codes are {candidate.info.dtype}")
    divisor = candidate.part(".weight_global_scale")
    if divisor is None:
        size = 32
    else:
        size = 16
    candidate.require(2 * packed % size == 0, f"{2 * packed} inputs are not in groups of {size}")
    scales = _EXPONENTS if divisor is None else (_FP8,)
    candidate.require_part(scale, scales, (rows, 2 * packed // size))
    if divisor is not None:
        candidate.require_part(divisor, ("F32",), (1,), ())
    if divisor is None:
        kind = "MXFP4"
    else:
        kind = "NVFP4"
    return RowsInfo(
        **candidate.fields(f"{candidate.owner}.weight", (rows, 2 * packed), kind),
        scale=scale,
        block=(1, size),
        bits=4,
        floats=True,
        divisor=1.0 if divisor is None else divisor,
    )


def nvfp4_of_modelopt(candidate: Candidate) -> QuantisedInfo | None:
    """NVFP4 of ModelOpt: a scale for 16 inputs of a row, times one of the whole weight.

    It is read only where a file of ModelOpt's says so: other programs have tensors of the same
    names and sizes, with the scales in another order.
    """
    info = candidate.info
    scale = candidate.part(".weight_scale")
    factor = candidate.part(".weight_scale_2")
    if scale is None or factor is None or not _is_of_modelopt(candidate):
        return None
    flat = len(info.shape) == 2 and prod(info.shape) > 0
    candidate.require(flat, f"its codes are {dimensions(info.shape)}, not a matrix")
    for end in _OF_INPUTS:
        candidate.require(
            candidate.part(end) is None, "its inputs are changed, too, which is not read"
        )
    rows, packed = info.shape
    columns = 2 * packed
    candidate.require(columns % _NVFP4_GROUP == 0, f"{columns} inputs are not in groups of 16")
    candidate.require_part(scale, (_FP8,), (rows, columns // _NVFP4_GROUP))
    candidate.require_part(factor, ("F32",), (), (1,))
    return RowsInfo(
        **candidate.fields(info.name, (rows, columns), "NVFP4 of ModelOpt"),
        scale=scale,
        block=(1, _NVFP4_GROUP),
        bits=4,
        floats=True,
        factor=factor,
    )


def _is_of_modelopt(candidate: Candidate) -> bool:
    """Whether the config, or ModelOpt's own file beside the weights, says so."""
    method = candidate.settings.get("quant_method")
    if method is None:
        return (candidate.info.file.parent / MODELOPT_FILE).is_file()
    return str(method).lower() in ("modelopt", "modelopt_fp4")


def _packed_integers(candidate: Candidate, scale: TensorInfo) -> QuantisedInfo:
    info = candidate.info
    shape = candidate.numbers(".weight_shape")
    matrix = shape is not None and len(shape) == 2 and min(shape) > 0
    candidate.require(matrix, "its shape is missing")
    assert shape is not None
    rows, columns = shape
    named = [bits for bits in _bits_named(candidate.settings) if 1 < bits <= 8]
    told = [bits for bits in named if _words_of(columns, bits) == info.shape[1]]
    fitting = [bits for bits in _USUAL if _words_of(columns, bits) == info.shape[1]]
    # Words of 7 bits were once as many as those of 8.
    unlike = [bits for bits in named if bits not in _USUAL]
    if rows != info.shape[0] or not (told or fitting) or (unlike and not told):
        candidate.refuse(
            f"it is {dimensions(info.shape)}, which is no matrix {dimensions(shape)} of "
            f"{alternatives([str(bits) for bits in named or _USUAL])} bits"
        )
    bits = (told or fitting)[-1]
    order = candidate.part(".weight_g_idx")
    block = _block(candidate, scale, (rows, columns), any_groups=order is not None)
    if order is None:
        groups = -(-columns // block[1])
    else:
        groups = scale.shape[1]
    if order is not None:
        candidate.require_groups(order, columns, groups)
    zero = candidate.part(".weight_zero_point")
    if zero is not None:
        candidate.require_part(zero, (_WORDS,), (-(-rows * bits // 32), groups))
    kind = f"compressed-tensors {bits} bits"
    fields = candidate.fields(f"{candidate.owner}.weight", (rows, columns), kind)
    return RowsInfo(**fields, scale=scale, block=block, bits=bits, zero=zero, order=order)


def _words_of(columns: int, bits: int) -> int:
    """Words of a row, in which the codes follow each other without gaps."""
    return -(-columns * bits // 32)


def _bits_named(settings: Mapping[str, Any]) -> list[int]:
    """The numbers of bits in the settings of compressed-tensors."""
    return [group["num_bits"] for group in _weight_groups(settings) if is_count(group["num_bits"])]


def _weight_groups(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the groups in the settings of compressed-tensors say of weights."""
    groups = settings.get("config_groups")
    values = groups.values() if isinstance(groups, dict) else ()
    weights = [group.get("weights") for group in values if isinstance(group, dict)]
    return [{"num_bits": None, **group} for group in weights if isinstance(group, dict)]


def one_byte(candidate: Candidate) -> QuantisedInfo | None:
    """fp8 and int8 with scales per tensor, row, group or block."""
    info = candidate.info
    scales = (candidate.part(f".{end}") for end in _SCALES_OF_FP8)
    scale = next((part for part in scales if part is not None), None)
    is_matrix = len(info.shape) in (2, 3) and prod(info.shape) > 0
    if scale is None or not is_matrix:
        return None
    if info.dtype == "I8" and len(scale.shape) < 2 and prod(scale.shape) > 1:
        return None  # of a format that is not known
    if not _says_fp8(candidate):
        return None
    floats = info.dtype == _FP8
    if floats:
        zero = None
    else:
        zero = candidate.part(".weight_zero_point")
    block = _block(candidate, scale, info.shape, (*_FLOATS, *_EXPONENTS) if floats else _FLOATS)
    if zero is not None:
        candidate.require_part(zero, ("I8",), scale.shape)
    fields = candidate.fields(info.name, info.shape, "fp8" if floats else "int8")
    return RowsInfo(**fields, scale=scale, block=block, floats=floats, zero=zero)


def _says_fp8(candidate: Candidate) -> bool:
    """Whether a marker of ComfyUI, if there is one, is of a weight of this kind."""
    marks = [candidate.part(end) for end in (".comfy_quant", ".weight.comfy_quant")]
    for mark in marks:
        if mark is not None:
            try:
                settings = candidate.json(mark)
            except CheckpointError:
                return False
            if settings.get("format") != "float8_e4m3fn":
                return False
    return True


def _block(
    candidate: Candidate,
    scale: TensorInfo,
    shape: tuple[int, ...],
    dtypes: tuple[str, ...] = _FLOATS,
    *,
    any_groups: bool = False,
) -> tuple[int, int]:
    """Rows and columns of a weight that have one scale. Raises CheckpointError.

    ``any_groups``: whether the columns of a group need not be consecutive.
    """
    candidate.require(scale.dtype in dtypes, f"its scales are {scale.dtype}")
    rows, columns = shape[-2:]
    stack = prod(shape[:-2])
    blocks = [(min(high, rows), min(wide, columns)) for high, wide in _blocks(candidate.settings)]
    grouped = len(scale.shape) > 1 and scale.shape[-2] == rows and scale.shape[-1] > 0
    if grouped and (any_groups or columns % scale.shape[-1] == 0):
        blocks.append((1, max(1, columns // scale.shape[-1])))
    for block in (*blocks, (1, columns), (rows, columns)):
        height = -(-rows // block[0])
        width = -(-columns // block[1])
        if any_groups and grouped:
            return block
        full_grid = scale.shape[-2:] == (height, width)
        if prod(scale.shape) == stack * height * width and (full_grid or block[1] == columns):
            return block
    raise candidate.misfit(
        f"scales {dimensions(scale.shape)} do not fit a weight {dimensions(shape)}"
    )


def _blocks(settings: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The sizes of blocks in the settings: rows and columns."""
    sizes = [settings.get("weight_block_size")]
    sizes += [group.get("block_structure") for group in _weight_groups(settings)]
    pairs = [size for size in sizes if isinstance(size, list) and len(size) == 2]
    return [(a, b) for a, b in pairs if type(a) is int and type(b) is int and a > 0 and b > 0]


def torchao(candidate: Candidate) -> QuantisedInfo | None:
    """int8 and fp8 of torchao, whose kind is in the metadata of the file."""
    scale = candidate.part("_scale")
    module, _, parameter = candidate.owner.rpartition("._")
    name = f"{module}.{parameter}"
    kind = _torchao_kind(candidate.metadata.get(name))
    if kind not in (None, "Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor"):
        candidate.refuse(f"its kind `{plain(kind)}` of torchao is not read")
    info = candidate.info
    if not module or scale is None or info.dtype not in ("I8", _FP8) or len(info.shape) != 2:
        return None
    candidate.require(prod(info.shape), "it is empty")
    before = candidate.part("_act_pre_scale")
    candidate.require(
        before is None, "its inputs are scaled, too, which no plain weight can express"
    )
    block = _block(candidate, scale, info.shape)
    zero = candidate.part("_zero_point")
    if zero is not None:
        candidate.require_part(zero, ("I8", "I32", "I64", *_FLOATS), scale.shape)
    floats = info.dtype == _FP8
    fields = candidate.fields(name, info.shape, f"torchao {'fp8' if floats else 'int8'}")
    return RowsInfo(**fields, scale=scale, block=block, floats=floats, zero=zero)


def _torchao_kind(text: str | None) -> str | None:
    """The kind of a weight in torchao's metadata; None if it is not named."""
    if text is None:
        content = None
    else:
        content = json_of(text)
    if isinstance(content, dict):
        return str(content.get("_type"))
    return None


def hqq(candidate: Candidate) -> QuantisedInfo | None:
    """HQQ of 2, 3, 4 and 8 bits, in rows of the reshaped weight."""
    info = candidate.info
    scale = candidate.part(".scale")
    zero = candidate.part(".zero")
    if scale is None or zero is None:
        return None
    flat = len(info.shape) == 2 and prod(info.shape) > 0
    candidate.require(flat, f"its codes are {dimensions(info.shape)}, not a matrix")
    shape = candidate.numbers(".shape")
    matrix = shape is not None and len(shape) == 2 and 0 < min(shape) <= max(shape) < 2**31
    candidate.require(matrix, "its shape is missing")
    assert shape is not None
    axis = _hqq_setting(candidate, "axis", 1)
    candidate.require(axis in (0, 1), f"its axis {axis} is not 0 or 1")
    height, width = info.shape
    rows = prod(shape) // width
    candidate.require(prod(shape) == rows * width, f"{dimensions(shape)} is not rows of {width}")
    bits = _hqq_setting(candidate, "nbits", 8 * height // rows if info.dtype == "U8" else 3)
    candidate.require(bits in (2, 3, 4, 8), f"{bits} bits a number are not read")
    candidate.require(info.dtype == ("I32" if bits == 3 else "U8"), f"its codes are {info.dtype}")
    if height != -(-rows // (10 if bits == 3 else 8 // bits)):
        candidate.refuse(f"{rows} rows of {bits} bits are not in {height} rows of words")
    if axis == 1:
        scales = (rows, 1)
    else:
        scales = (1, width)
    candidate.require_part(scale, _FLOATS, scales)
    candidate.require_part(zero, _FLOATS, scales)
    fields = candidate.fields(f"{candidate.owner}.weight", shape, f"HQQ {bits} bits")
    return StretchesInfo(**fields, scale=scale, zero=zero, bits=bits, axis=axis)


def _hqq_setting(candidate: Candidate, name: str, otherwise: int) -> int:
    """A setting beside the weight, or else in the config."""
    beside = candidate.numbers(f".{name}")
    if beside is not None:
        return beside[0]
    inner = candidate.settings.get("quant_config")
    if isinstance(inner, dict):
        inner = inner.get("weight_quant_params")
    else:
        inner = None
    for settings in (inner, candidate.settings):
        if isinstance(settings, dict) and type(settings.get(name)) is int:
            return int(settings[name])
    return otherwise


def stack_of_experts(candidate: Candidate) -> QuantisedInfo | None:
    """MXFP4 of gpt-oss: a matrix for each expert."""
    info = candidate.info
    scale = candidate.part("_scales")
    if scale is None or candidate.owner in candidate.tensors:
        return None
    fits = len(info.shape) == 4 and info.shape[3] == 16 and scale.shape == info.shape[:3]
    if not fits or (info.dtype, scale.dtype) != ("U8", "U8") or not prod(info.shape):
        return None
    experts, outputs, groups, _ = info.shape
    fields = candidate.fields(candidate.owner, (experts, 32 * groups, outputs), "MXFP4")
    return StackInfo(**fields, scale=scale)


@dataclass(frozen=True, kw_only=True)
class WeightFormat:
    """One format: what it is called, how it is recognised, and what belongs to a weight."""

    title: str
    end: str
    """The end of the name of the tensor by which it is recognised; the owner stands before it."""
    assemble: Callable[[Candidate], QuantisedInfo | None]
    """Makes the weight of its parts; None if it is of another format. Raises CheckpointError."""
    dtypes: tuple[str, ...] = ()
    """Those that the tensor may have; empty: ``assemble`` says it."""
    companions: tuple[str, ...] = ()
    """Ends of the owner's other tensors that go with the weight."""


FORMATS: Final = (
    WeightFormat(
        title="bitsandbytes, 4 bits",
        end=".absmax",
        assemble=bitsandbytes_4,
        companions=(
            *("", ".quant_map", ".nested_absmax", ".nested_quant_map"),
            *(".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"),
        ),
    ),
    WeightFormat(
        title="bitsandbytes, 8 bits",
        end=".weight",
        assemble=bitsandbytes_8,
        dtypes=("I8",),
        companions=(".SCB", ".weight_format"),
    ),
    WeightFormat(
        title="GPTQ or AWQ",
        end=".qweight",
        assemble=gptq_or_awq,
        companions=(".qzeros", ".scales", ".g_idx"),
    ),
    WeightFormat(
        title="compressed-tensors",
        end=".weight_packed",
        assemble=compressed,
        companions=(
            *(".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx"),
            ".weight_global_scale",
        ),
    ),
    WeightFormat(
        title="NVFP4 of ModelOpt",
        end=".weight",
        assemble=nvfp4_of_modelopt,
        dtypes=("U8",),
        companions=(".weight_scale", ".weight_scale_2"),
    ),
    WeightFormat(
        title="fp8 or int8 with scales",
        end=".weight",
        assemble=one_byte,
        dtypes=(_FP8, "I8"),
        companions=(
            *(f".{end}" for end in _SCALES_OF_FP8),
            *(".weight_zero_point", ".comfy_quant", ".weight.comfy_quant"),
        ),
    ),
    WeightFormat(
        title="HQQ",
        end=".W_q",
        assemble=hqq,
        companions=(".scale", ".zero", *(f".{name}" for name in _HQQ_SETTINGS)),
    ),
    WeightFormat(
        title="torchao",
        end="_qdata",
        assemble=torchao,
        companions=("_scale", "_zero_point", "_act_quant_scale", "_act_quant_zero_point"),
    ),
    WeightFormat(title="MXFP4", end="_blocks", assemble=stack_of_experts, companions=("_scales",)),
)
"""Every format of safetensors files that is read. A weight has the first one that fits."""
