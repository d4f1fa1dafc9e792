"""Quantised weights made of random codes, with what they mean: each format's formula, literally.

The values are computed by NumPy and bit by bit, as the formats' descriptions have it, not with the
program's functions. A weight is outputs × inputs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Draw = np.random.Generator
Parts = dict[str, Tensor]
Shape = tuple[int, int]
GROUP = 32
FP8 = torch.float8_e4m3fn
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


@dataclass(frozen=True)
class Quantised:
    """A format: how its stored tensors are made, and what the config says."""

    make: Callable[[str, Shape, Draw], tuple[Parts, NDArray[np.float32]]]
    """From a module's name, a shape and a source of random numbers."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """``quantization_config``."""
    title: str = ""
    """Its name in messages."""


def words(codes: NDArray[Any], bits: int) -> Tensor:
    """Codes along the last axis as a stream of bits in int32, low bits first."""
    digits = (codes[..., None].astype(np.uint8) >> np.arange(bits, dtype=np.uint8)) & 1
    stream = digits.reshape(*codes.shape[:-1], -1)
    padded = np.pad(stream, [(0, 0)] * (codes.ndim - 1) + [(0, -stream.shape[-1] % 32)])
    return torch.from_numpy(np.packbits(padded, axis=-1, bitorder="little").view(np.int32))


def half(draw: Draw, *shape: int) -> NDArray[np.float16]:
    return (draw.uniform(0.002, 0.01, shape)).astype(np.float16)


def bitsandbytes(
    name: str, shape: Shape, draw: Draw, *, nested: bool, kind: str = "nf4"
) -> tuple[Parts, NDArray[np.float32]]:
    count = shape[0] * shape[1]
    codes = draw.integers(0, 16, count, dtype=np.uint8)
    table = np.sort(draw.uniform(-1, 1, 16)).astype(np.float32)
    even = np.pad(codes, (0, count % 2))
    packed = torch.from_numpy(even[::2] << 4 | even[1::2])[:, None]
    settings: dict[str, Any] = {"quant_type": kind, "blocksize": 64, "dtype": "bfloat16"}
    settings["shape"] = list(shape)
    blocks = -(-count // 64)
    absmax = draw.uniform(0.01, 0.1, blocks).astype(np.float32)
    parts = {"weight": packed, "weight.quant_map": torch.from_numpy(table)}
    if nested:
        inner = draw.integers(0, 256, blocks, dtype=np.uint8)
        largest = draw.uniform(0.01, 0.1, -(-blocks // 256)).astype(np.float32)
        values = np.sort(draw.uniform(-1, 1, 256)).astype(np.float32)
        settings |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.25}
        parts["weight.absmax"] = torch.from_numpy(inner)
        parts["weight.nested_absmax"] = torch.from_numpy(largest)
        parts["weight.nested_quant_map"] = torch.from_numpy(values)
        absmax = values[inner] * largest[np.arange(blocks) // 256] + np.float32(0.25)
    else:
        parts["weight.absmax"] = torch.from_numpy(absmax)
    text = torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)
    parts[f"weight.quant_state.bitsandbytes__{kind}"] = text
    weight = table[codes] * absmax[np.arange(count) // 64]
    return _named(name, parts), weight.reshape(shape)


def gptq(
    name: str,
    shape: Shape,
    draw: Draw,
    *,
    bits: int = 4,
    ordered: bool = True,
    second: bool = False,
) -> tuple[Parts, NDArray[np.float32]]:
    outputs, inputs = shape
    codes_IO = draw.integers(0, 1 << bits, (inputs, outputs))
    group_I = np.arange(inputs) // GROUP
    if not ordered:
        group_I = draw.permutation(group_I)
    zero_GO = draw.integers(0, 1 << bits, (inputs // GROUP, outputs))
    scale_GO = half(draw, inputs // GROUP, outputs)
    stored = zero_GO if second else (zero_GO - 1) % (1 << bits)
    parts = {
        "qweight": words(codes_IO.T, bits).T.contiguous(),
        "qzeros": words(stored, bits),
        "scales": torch.from_numpy(scale_GO),
        "g_idx": torch.from_numpy(group_I.astype(np.int32)),
    }
    weight_IO = scale_GO[group_I].astype(np.float32) * (codes_IO - zero_GO[group_I])
    return _named(name, parts), weight_IO.T.astype(np.float32)


def awq(name: str, shape: Shape, draw: Draw) -> tuple[Parts, NDArray[np.float32]]:
    outputs, inputs = shape
    codes_IO = draw.integers(0, 16, (inputs, outputs))
    zero_GO = draw.integers(0, 16, (inputs // GROUP, outputs))
    scale_GO = half(draw, inputs // GROUP, outputs)

    def packed(codes_XO: NDArray[Any]) -> Tensor:
        columns = codes_XO.reshape(len(codes_XO), -1, 8).astype(np.int64)
        shifted = sum(columns[..., k] << (4 * AWQ_ORDER[k]) for k in range(8))
        return torch.from_numpy(np.asarray(shifted).astype(np.uint32).view(np.int32))

    parts = {
        "qweight": packed(codes_IO),
        "qzeros": packed(zero_GO),
        "scales": torch.from_numpy(scale_GO),
    }
    group_I = np.arange(inputs) // GROUP
    weight_IO = scale_GO[group_I].astype(np.float32) * (codes_IO - zero_GO[group_I])
    return _named(name, parts), weight_IO.T.astype(np.float32)


def packed_integers(
    name: str,
    shape: Shape,
    draw: Draw,
    *,
    bits: int = 4,
    with_zero: bool = False,
    ordered: bool = True,
) -> tuple[Parts, NDArray[np.float32]]:
    outputs, inputs = shape
    codes_OI = draw.integers(0, 1 << bits, shape)
    group_I = np.arange(inputs) // GROUP
    scale_OG = half(draw, outputs, inputs // GROUP)
    zero_OG = np.full(scale_OG.shape, 1 << (bits - 1))
    parts = {
        "weight_packed": words(codes_OI, bits),
        "weight_scale": torch.from_numpy(scale_OG).bfloat16(),
        "weight_shape": torch.tensor(shape),
    }
    if with_zero:
        zero_OG = draw.integers(0, 1 << bits, scale_OG.shape)
        parts["weight_zero_point"] = words(zero_OG.T, bits).T.contiguous()
    if not ordered:
        group_I = draw.permutation(group_I)
        parts["weight_g_idx"] = torch.from_numpy(group_I.astype(np.int32))
    scale_OI = parts["weight_scale"].float().numpy()[:, group_I]
    return _named(name, parts), scale_OI * (codes_OI - zero_OG[:, group_I]).astype(np.float32)


def one_byte(
    name: str,
    shape: Shape,
    draw: Draw,
    *,
    floats: bool,
    grid: str = "channel",
    scale_name: str = "weight_scale",
    with_zero: bool = False,
) -> tuple[Parts, NDArray[np.float32]]:
    outputs, inputs = shape
    block = {"channel": (1, inputs), "tensor": shape, "block": (16, 32), "group": (1, GROUP)}[grid]
    rows = -(-outputs // block[0])
    columns = -(-inputs // block[1])
    scale = draw.uniform(0.002, 0.01, (rows, columns)).astype(np.float32)
    spread = scale.repeat(block[0], 0).repeat(block[1], 1)[:outputs, :inputs]
    numbers = torch.from_numpy(draw.standard_normal(shape) * 30)
    codes = numbers.to(FP8) if floats else numbers.clamp(-127, 127).to(torch.int8)
    parts = {"weight": codes, scale_name: torch.from_numpy(scale)}
    levels = codes.float().numpy()
    if grid == "tensor":
        parts[scale_name] = parts[scale_name].reshape(1)
    if with_zero:
        zero = draw.integers(-9, 9, (rows, columns)).astype(np.int8)
        parts["weight_zero_point"] = torch.from_numpy(zero)
        levels = levels - zero.repeat(block[0], 0).repeat(block[1], 1)
    return _named(name, parts), levels * spread


def packed_floats(
    name: str, shape: Shape, draw: Draw, *, nvidia: bool
) -> tuple[Parts, NDArray[np.float32]]:
    outputs, inputs = shape
    group = 16 if nvidia else 32
    codes = draw.integers(0, 16, shape, dtype=np.uint8)
    levels = np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])
    parts = {"weight_packed": torch.from_numpy(codes[:, ::2] | codes[:, 1::2] << 4)}
    if nvidia:
        scale = torch.from_numpy(draw.uniform(10, 400, (outputs, inputs // group))).to(FP8)
        parts["weight_global_scale"] = torch.tensor([20000.0])
        factors = scale.float().numpy() / np.float32(20000)
    else:
        scale = torch.from_numpy(draw.integers(110, 125, (outputs, inputs // group))).to(
            torch.uint8
        )
        factors = np.exp2(scale.float().numpy() - 127).astype(np.float32)
    parts["weight_scale"] = scale
    return _named(name, parts), (levels * factors.repeat(group, 1)).astype(np.float32)


def modelopt(name: str, shape: Shape, draw: Draw) -> tuple[Parts, NDArray[np.float32]]:
    """As ``NVFP4QTensor`` of NVIDIA's Model-Optimizer has it, with what its export adds."""
    outputs, inputs = shape
    codes = draw.integers(0, 16, shape, dtype=np.uint8)
    levels = np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])
    scale = torch.from_numpy(draw.uniform(10, 400, (outputs, inputs // 16))).to(FP8)
    second = np.float32(draw.uniform(1e-5, 1e-4))
    parts = {
        "weight": torch.from_numpy(codes[:, ::2] | codes[:, 1::2] << 4),
        "weight_scale": scale,
        "weight_scale_2": torch.tensor(second),
        "input_scale": torch.tensor(0.5),
    }
    factors = scale.float().numpy() * second
    return _named(name, parts), (levels * factors.repeat(16, 1)).astype(np.float32)


def hqq(
    name: str, shape: Shape, draw: Draw, *, bits: int, axis: int = 1
) -> tuple[Parts, NDArray[np.float32]]:
    count = shape[0] * shape[1]
    rows, columns = (count // 64, 64) if axis == 1 else (64, count // 64)
    codes = draw.integers(0, 1 << bits, (rows, columns))
    per = 10 if bits == 3 else 8 // bits
    padded = np.pad(codes, ((0, -rows % per), (0, 0))).reshape(per, -1, columns)
    top = 27 if bits == 3 else 8 - bits
    together = sum(padded[place] << (top - bits * place) for place in range(per))
    packed = np.asarray(together).astype(np.int32 if bits == 3 else np.uint8)
    size = (rows, 1) if axis == 1 else (1, columns)
    scale = draw.uniform(0.002, 0.01, size).astype(np.float32)
    zero = draw.uniform(0, 1 << bits, size).astype(np.float32)
    parts = {
        "W_q": torch.from_numpy(packed),
        "scale": torch.from_numpy(scale),
        "zero": torch.from_numpy(zero),
        "shape": torch.tensor(shape),
        "nbits": torch.tensor(bits, dtype=torch.int32),
        "axis": torch.tensor(axis, dtype=torch.int32),
        "group_size": torch.tensor(64, dtype=torch.int32),
        "packing": torch.tensor(list(b"4bit_u8"), dtype=torch.uint8),
        "view_as_float": torch.tensor(0, dtype=torch.uint8),
        "encoded_state_dict": torch.tensor(1, dtype=torch.uint8),
    }
    weight = (codes.astype(np.float32) - zero) * scale
    return _named(name, parts), weight.reshape(shape)


def torchao(
    name: str, shape: Shape, draw: Draw, *, with_zero: bool = False
) -> tuple[Parts, NDArray[np.float32]]:
    parts, weight = one_byte(name, shape, draw, floats=False, with_zero=with_zero)
    ends = {"weight": "_weight_qdata", "weight_scale": "_weight_scale"}
    ends["weight_zero_point"] = "_weight_zero_point"
    start = f"{name}."
    return {start + ends[key.removeprefix(start)]: part for key, part in parts.items()}, weight


def comfy(name: str, shape: Shape, draw: Draw) -> tuple[Parts, NDArray[np.float32]]:
    parts, weight = one_byte(name, shape, draw, floats=True, grid="tensor")
    mark = torch.tensor(list(b'{"format": "float8_e4m3fn"}'), dtype=torch.uint8)
    return {**parts, f"{name}.comfy_quant": mark}, weight


def older_comfy(name: str, shape: Shape, draw: Draw) -> tuple[Parts, NDArray[np.float32]]:
    parts, weight = one_byte(
        name, shape, draw, floats=True, grid="tensor", scale_name="scale_weight"
    )
    more = {"scaled_fp8": torch.zeros(2, dtype=FP8), f"{name}.scale_input": torch.ones(1)}
    return {**parts, **more}, weight


def _named(name: str, parts: Parts) -> Parts:
    return {f"{name}.{key}": part.contiguous() for key, part in parts.items()}


BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True, "sym": False}
AWQ = {"quant_method": "awq", "version": "gemm", "bits": 4, "group_size": GROUP}


def compressed(bits: int) -> dict[str, Any]:
    """The settings of packed integers of so many bits."""
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"weights": {"num_bits": bits, "group_size": GROUP}}},
    }


COMPRESSED = compressed(4)
BLOCKS = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "block_structure": [16, 32]}}},
}
MODELOPT = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16},
        }
    },
}
HQQ = {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}
TORCHAO = {"quant_method": "torchao"}

FORMATS = {
    "NF4": Quantised(partial(bitsandbytes, nested=False), BNB, "bitsandbytes NF4"),
    "NF4, nested": Quantised(partial(bitsandbytes, nested=True), BNB, "bitsandbytes NF4"),
    "FP4": Quantised(partial(bitsandbytes, nested=True, kind="fp4"), BNB, "bitsandbytes FP4"),
    "GPTQ": Quantised(gptq, GPTQ, "GPTQ 4 bits"),
    "GPTQ, act order": Quantised(partial(gptq, ordered=False), GPTQ, "GPTQ 4 bits"),
    **{
        f"GPTQ, {bits} bits": Quantised(partial(gptq, bits=bits), GPTQ, f"GPTQ {bits} bits")
        for bits in (2, 3, 8)
    },
    "GPTQ v2": Quantised(
        partial(gptq, second=True), {**GPTQ, "checkpoint_format": "gptq_v2"}, "GPTQ 4 bits"
    ),
    "AWQ": Quantised(awq, AWQ, "AWQ 4 bits"),
    "int4": Quantised(packed_integers, COMPRESSED, "compressed-tensors 4 bits"),
    "int4, zero": Quantised(
        partial(packed_integers, with_zero=True), COMPRESSED, "compressed-tensors 4 bits"
    ),
    "int4, groups": Quantised(
        partial(packed_integers, ordered=False, with_zero=True),
        COMPRESSED,
        "compressed-tensors 4 bits",
    ),
    "packed int8": Quantised(
        partial(packed_integers, bits=8, with_zero=True), COMPRESSED, "compressed-tensors 8 bits"
    ),
    **{
        f"packed int{bits}": Quantised(
            partial(packed_integers, bits=bits, with_zero=True),
            compressed(bits),
            f"compressed-tensors {bits} bits",
        )
        for bits in (3, 5, 6, 7)
    },
    "int8": Quantised(partial(one_byte, floats=False), COMPRESSED, "int8"),
    "int8, zero": Quantised(partial(one_byte, floats=False, with_zero=True), COMPRESSED, "int8"),
    "int8, groups": Quantised(
        partial(one_byte, floats=False, grid="group", with_zero=True), COMPRESSED, "int8"
    ),
    "fp8": Quantised(partial(one_byte, floats=True), COMPRESSED, "fp8"),
    "fp8, tensor": Quantised(partial(one_byte, floats=True, grid="tensor"), COMPRESSED, "fp8"),
    "fp8, blocks": Quantised(partial(one_byte, floats=True, grid="block"), BLOCKS, "fp8"),
    "NVFP4": Quantised(partial(packed_floats, nvidia=True), COMPRESSED, "NVFP4"),
    "ModelOpt": Quantised(modelopt, MODELOPT, "NVFP4 of ModelOpt"),
    "MXFP4": Quantised(partial(packed_floats, nvidia=False), COMPRESSED, "MXFP4"),
    **{
        f"HQQ, {bits} bits": Quantised(partial(hqq, bits=bits), HQQ, f"HQQ {bits} bits")
        for bits in (2, 3, 4, 8)
    },
    "HQQ, other axis": Quantised(partial(hqq, bits=4, axis=0), HQQ, "HQQ 4 bits"),
    "torchao": Quantised(torchao, TORCHAO, "torchao int8"),
    "torchao, zero": Quantised(partial(torchao, with_zero=True), TORCHAO, "torchao int8"),
    "ComfyUI": Quantised(comfy, {}, "fp8"),
    "ComfyUI, older": Quantised(older_comfy, {}, "fp8"),
}
"""Every format and variant by name."""
