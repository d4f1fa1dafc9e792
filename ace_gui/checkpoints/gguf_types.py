"""The number formats of GGUF: how many bytes a block has, and what its rounding costs."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class GgufType:
    """A quantised type of GGUF."""

    name: str
    """As llama.cpp calls it."""
    block: int
    """Numbers in a block; a row has whole blocks."""
    bytes: int
    """Bytes of a block."""
    rounding: float
    """Norm of the error over that of the weight, for normally distributed weights."""


PLAIN_TYPES: Final = MappingProxyType(
    {0: "F32", 1: "F16", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16"}
)
"""The tags of types that are read as they are, by their numbers in files."""

QUANTISED_TYPES: Final = MappingProxyType(
    {
        2: GgufType("Q4_0", 32, 18, 0.082),
        3: GgufType("Q4_1", 32, 20, 0.070),
        6: GgufType("Q5_0", 32, 22, 0.041),
        7: GgufType("Q5_1", 32, 24, 0.034),
        8: GgufType("Q8_0", 32, 34, 0.0054),
        10: GgufType("Q2_K", 256, 84, 0.27),
        11: GgufType("Q3_K", 256, 110, 0.14),
        12: GgufType("Q4_K", 256, 144, 0.071),
        13: GgufType("Q5_K", 256, 176, 0.035),
        14: GgufType("Q6_K", 256, 210, 0.017),
        16: GgufType("IQ2_XXS", 256, 66, 0.34),
        17: GgufType("IQ2_XS", 256, 74, 0.30),
        18: GgufType("IQ3_XXS", 256, 98, 0.18),
        19: GgufType("IQ1_S", 256, 50, 0.49),
        20: GgufType("IQ4_NL", 32, 18, 0.075),
        21: GgufType("IQ3_S", 256, 110, 0.14),
        22: GgufType("IQ2_S", 256, 82, 0.25),
        23: GgufType("IQ4_XS", 256, 136, 0.076),
        29: GgufType("IQ1_M", 256, 56, 0.45),
        34: GgufType("TQ1_0", 256, 54, 0.81),
        35: GgufType("TQ2_0", 256, 66, 0.81),
        39: GgufType("MXFP4", 32, 17, 0.11),
        40: GgufType("NVFP4", 64, 36, 0.10),
    }
)
"""The types that the library ``gguf`` dequantises, by their numbers in files."""

OTHER_TYPES: Final = MappingProxyType({9: "Q8_1", 15: "Q8_K", 41: "Q1_0"})
"""Types with a name that nothing here dequantises."""
