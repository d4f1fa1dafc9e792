"""Which stored tensors are a quantised weight together, and whether they fit each other.

The table ``FORMATS`` has every format that is read, with the tensor by which it is recognised.
Names, shapes and settings are checked here, before anything is allocated. ``assembling.py`` goes
through a model's tensors, and ``quantised_weights.py`` reads the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, Final

from ace_gui.checkpoints.header import RANK_LIMIT, TensorInfo
from ace_gui.checkpoints.quantised_parts import (
    Candidate,
    is_count,
    json_of,
)
from ace_gui.checkpoints.quantised_weights import (
    BlocksInfo,
    ColumnsInfo,
    NestedScales,
    QuantisedInfo,
    RowsInfo,
    StackInfo,
    StretchesInfo,
)
from ace_gui.errors import CheckpointError
from ace_gui.formatting import dimensions, plain

_FLOATS: Final = ("F32", "BF16", "F16")
_EXPONENTS: Final = ("U8", "F8_E8M0")
_WORDS: Final = "I32"
_FP8: Final = "F8_E4M3"
_SCALES_OF_FP8: Final = ("weight_scale_inv", "weight_scale", "scale_weight")
_MOST: Final = 2**48
"""Most numbers of a weight that are believed."""
_BY_ROWS: Final = 0
"""bitsandbytes' number of the layout of 8 bits; others belong to old GPUs."""
_HQQ_SETTINGS: Final = (
    *("nbits", "group_size", "shape", "axis", "packing", "unpack_view_dtype", "view_as_float"),
    *("quant_scale", "quant_zero", "compute_dtype", "offload_meta", "encoded_state_dict"),
    *("stores_quant_config", "channel_wise", "optimize", "round_zero"),
)


def bitsandbytes_4(candidate: Candidate) -> QuantisedInfo | None:
    """NF4 and FP4, in blocks of the flattened weight."""
    weight = candidate.part("")
    table = candidate.part(".quant_map")
    states = (candidate.part(f".quant_state.bitsandbytes__{kind}") for kind in ("nf4", "fp4"))
    state = next((part for part in states if part is not None), None)
    if weight is None or table is None or state is None:
        return None
    settings = candidate.json(state)
    shape = _shape(candidate, settings.get("shape"))
    blocksize = settings.get("blocksize")
    if not is_count(blocksize) or blocksize % 2:
        candidate.refuse("its blocksize is not an even number up to a million")
    count = prod(shape)
    size = -(-count // 2)
    if weight.nbytes != size:
        candidate.refuse(
            f"{dimensions(shape)} numbers need {size} bytes, and it has {weight.nbytes}"
        )
    blocks = -(-count // blocksize)
    candidate.require_part(table, ("F32",), (16,))
    nested = _nested(candidate, settings, blocks)
    candidate.require_part(
        candidate.info, ("F32",) if nested is None else ("U8",), (blocks,), (blocks, 1)
    )
    if state.name.endswith("nf4"):
        kind = "NF4"
    else:
        kind = "FP4"
    return BlocksInfo(
        **candidate.fields(weight.name, shape, f"bitsandbytes {kind}", weight),
        absmax=candidate.info,
        table=table,
        blocksize=blocksize,
        nested=nested,
    )


def _shape(candidate: Candidate, value: object) -> tuple[int, ...]:
    """The shape in a weight's settings. Raises CheckpointError."""
    if isinstance(value, list):
        sizes = value
    else:
        sizes = []
    natural = 0 < len(sizes) <= RANK_LIMIT and all(is_count(size, _MOST) for size in sizes)
    if natural and prod(sizes) <= _MOST:
        return tuple(sizes)
    raise candidate.misfit("its settings have no shape that can be read")


def _nested(candidate: Candidate, settings: Mapping[str, Any], blocks: int) -> NestedScales | None:
    """How bitsandbytes' largest values are quantised; None if they are not."""
    absmax = candidate.part(".nested_absmax")
    table = candidate.part(".nested_quant_map")
    if absmax is None and table is None:
        return None
    blocksize = settings.get("nested_blocksize")
    offset = settings.get("nested_offset")
    number = isinstance(offset, float | int) and isfinite(offset)
    if absmax is None or table is None or not is_count(blocksize) or not number:
        candidate.refuse("what its nested scales need is not complete")
    candidate.require_part(absmax, ("F32",), (-(-blocks // blocksize),))
    candidate.require_part(table, ("F32",), (256,))
    return NestedScales(absmax=absmax, table=table, blocksize=blocksize, offset=float(offset or 0))


def bitsandbytes_8(candidate: Candidate) -> QuantisedInfo | None:
    """W = q · SCB / 127, row by row (Dettmers et al. 2022, section 3), stored by rows."""
    info = candidate.info
    scale = candidate.part(".SCB")
    if scale is None or len(info.shape) != 2 or not prod(info.shape):
        return None
    layout = candidate.numbers(".weight_format")
    candidate.require(layout in (None, (_BY_ROWS,)), "its layout belongs to old GPUs")
    candidate.require_part(scale, ("F32",), info.shape[:1])
    block = (1, info.shape[1])
    fields = candidate.fields(info.name, info.shape, "bitsandbytes int8")
    return RowsInfo(**fields, scale=scale, block=block, divisor=127.0)


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


def _packed_integers(candidate: Candidate, scale: TensorInfo) -> QuantisedInfo:
    info = candidate.info
    shape = candidate.numbers(".weight_shape")
    matrix = shape is not None and len(shape) == 2 and min(shape) > 0
    candidate.require(matrix, "its shape is missing")
    assert shape is not None
    rows, columns = shape
    fitting = [bits for bits in (2, 4, 8) if -(-columns * bits // 32) == info.shape[1]]
    told = [bits for bits in _bits_named(candidate.settings) if bits in fitting]
    if rows != info.shape[0] or not fitting:
        candidate.refuse(
            f"it is {dimensions(info.shape)}, which is no matrix {dimensions(shape)} of 2, 4 or 8 "
            "bits"
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
