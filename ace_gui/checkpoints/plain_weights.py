"""The commands that make plain weights of a quantised model, by the format.

They are another program's, and are only shown. FOLDER and FILE stand for the quantised model, PLAIN
for what is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class PlainWeights:
    """How plain weights are made of a quantised model."""

    program: str
    """What must be installed."""
    command: str
    """For a shell."""

    @property
    def sentence(self) -> str:
        """For a person whose model is refused."""
        return f"With {self.program}: `{self.command}`."


_AFTER_LOADING: Final = (
    "from transformers import AutoModelForCausalLM as M; "
    "M.from_pretrained('FOLDER').dequantize().save_pretrained('PLAIN')"
)
_ON_LOADING: Final = (
    "from transformers import AutoModelForCausalLM as M, {config} as C; "
    "M.from_pretrained('FOLDER', quantization_config=C(dequantize=True)).save_pretrained('PLAIN')"
)


def _after_loading(package: str) -> PlainWeights:
    """By a model's method in transformers."""
    return PlainWeights(
        program=f"transformers and {package}", command=f'python -c "{_AFTER_LOADING}"'
    )


def _on_loading(config: str) -> PlainWeights:
    """By a setting of a class of configs of transformers."""
    return PlainWeights(
        program="transformers and the packages that it asks for",
        command=f'python -c "{_ON_LOADING.format(config=config)}"',
    )


_BITSANDBYTES: Final = _after_loading("bitsandbytes")
_COMPRESSED: Final = _on_loading("CompressedTensorsConfig")
_FP8: Final = _on_loading("FineGrainedFP8Config")
_MXFP4: Final = _on_loading("Mxfp4Config")
_MLX: Final = PlainWeights(
    program="mlx-lm", command="mlx_lm.convert --hf-path FOLDER --mlx-path PLAIN -d"
)
GGUF: Final = PlainWeights(
    program="llama.cpp", command="llama-quantize --allow-requantize FILE PLAIN.gguf f16"
)

WAYS: Final[Mapping[str, PlainWeights]] = {
    "bitsandbytes": _BITSANDBYTES,
    "bitsandbytes, 4 bits": _BITSANDBYTES,
    "bitsandbytes, 8 bits": _BITSANDBYTES,
    "higgs": _after_loading("flute"),
    "compressed-tensors": _COMPRESSED,
    "fp8": _FP8,
    "fp8 with block scales": _FP8,
    "mxfp8": _FP8,
    "mxfp4": _MXFP4,
    "metal": _on_loading("MetalConfig"),
    "mlx": _MLX,
}
"""By the name of a format, or of a method in a config, in small letters."""

WITHOUT_WAY: Final = frozenset(
    (
        *("aqlm", "exl2", "exl3", "quanto", "vptq", "spqr", "torchao", "auto-round"),
        *("gptq", "awq", "gptq or awq", "hqq", "nvfp4 of modelopt", "modelopt"),
    )
)
"""Formats, and methods in a config, of which no program makes plain weights by one command."""


def way_to_plain(*names: object) -> PlainWeights | None:
    """The first way that is known for one of these names of a format or method."""
    ways = (WAYS.get(str(name).lower()) for name in names)
    return next((way for way in ways if way is not None), None)
