"""Detects valid files that cannot be merged: quantised weights and adapters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import refusal
from ace_gui.errors import CheckpointError
from ace_gui.formatting import path_text, plain
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

_SCALES: Final = frozenset({"scales", "scale", "weight_scale", "weight_scales"})

LORA_FACTOR: Final = re.compile(
    r"\.lora_(A|B|up|down|embedding_A|embedding_B)\b|[._]lora(_linear_layer)?\.(up|down)\b"
)
OF_PEFT: Final = re.compile(r"^base_model\.")

# By names that only they have.
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
    """The config, without an entry that calls weights quantised which are not.

    Raises CheckpointError if any of the tensors may be: they must all be floating point of 16
    bits or more, without companions.
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
    if last in _SCALES and weight is not None and weight.dtype.startswith(("I", "U")):
        return "integers with scales"
    return None


def _quantised(path: Path, what: str, how: str, *, tensor: str | None = None) -> CheckpointError:
    sentence = f"`{what}` is quantised ({how}). Merging needs BF16, FP16 or FP32; dequantise first."
    return refusal(path, sentence, tensor=tensor)
