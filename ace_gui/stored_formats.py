"""The number formats of stored tensors: safetensors tags, sizes and the names a recipe uses."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class NumberFormat:
    """One number format of safetensors.

    ``bits``: the size of an element. ``torch``: the name of its dtype in torch; None if this
    program cannot read it as a tensor. ``quantised`` numbers mean nothing without their scales.
    """

    tag: str
    bits: int
    torch: str | None = None

    @property
    def quantised(self) -> bool:
        """Whether it holds scaled numbers of 8 bits or fewer."""
        return self.tag.startswith(("F8_", "F6_", "F4"))

    @property
    def is_float(self) -> bool:
        """Whether it can be merged: a real floating-point format whose values need no other
        tensor.
        """
        return self.torch is not None and "float" in self.torch


_ALL: Final = (
    NumberFormat("F64", 64, "float64"),
    NumberFormat("F32", 32, "float32"),
    NumberFormat("F16", 16, "float16"),
    NumberFormat("BF16", 16, "bfloat16"),
    NumberFormat("C64", 64, "complex64"),
    NumberFormat("I64", 64, "int64"),
    NumberFormat("I32", 32, "int32"),
    NumberFormat("I16", 16, "int16"),
    NumberFormat("I8", 8, "int8"),
    NumberFormat("U64", 64, "uint64"),
    NumberFormat("U32", 32, "uint32"),
    NumberFormat("U16", 16, "uint16"),
    NumberFormat("U8", 8, "uint8"),
    NumberFormat("BOOL", 8, "bool"),
    NumberFormat("F8_E4M3", 8),
    NumberFormat("F8_E5M2", 8),
    NumberFormat("F8_E4M3FNUZ", 8),
    NumberFormat("F8_E5M2FNUZ", 8),
    NumberFormat("F8_E8M0", 8),
    NumberFormat("F6_E2M3", 6),
    NumberFormat("F6_E3M2", 6),
    NumberFormat("F4", 4),
)

FORMATS: Final = MappingProxyType({format_.tag: format_ for format_ in _ALL})
"""Every format safetensors 0.8 knows, by tag."""

RECIPE_TAGS: Final = MappingProxyType(
    {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
)
"""Recipe name to tag, for the formats a model can be written in."""

RECIPE_NAMES: Final = MappingProxyType({tag: name for name, tag in RECIPE_TAGS.items()})
"""Tag to recipe name."""


def is_float(tag: str) -> bool:
    """Whether a tag names a floating-point format that can be merged."""
    return FORMATS[tag].is_float
