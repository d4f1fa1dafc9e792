"""Tensors that cannot be merged as they are, and the sentences that refuse them.

Quantised weights whose format is known were put together before (``quantised_formats.py``); what is
left here is named with what to do. An adapter in place of a whole model is refused, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import refusal
from ace_gui.checkpoints.plain_weights import WITHOUT_WAY, way_to_plain
from ace_gui.checkpoints.quantised_parts import CONFIG_KEYS
from ace_gui.errors import CheckpointError
from ace_gui.formatting import counted, path_text, plain
from ace_gui.stored_formats import FORMATS, is_float

ADAPTER_SENTENCE: Final = (
    "This is an adapter (LoRA), not a whole model. Add it as an expert of the base model it was "
    "trained on."
)

# Companions that only a quantised weight has, by the last part of their names.
_COMPANIONS: Final = {
    "qweight": "GPTQ or AWQ",
    "qzeros": "GPTQ or AWQ",
    "weight_scale_inv": "fp8 with block scales",
    "weight_packed": "compressed-tensors",
    "weight_scale_2": "NVFP4 with two scales",
    "absmax": "bitsandbytes",
    "SCB": "bitsandbytes",
    "W_q": "HQQ",
    "_weight_qdata": "torchao",
    "codebooks": "AQLM",
    "q_weight": "EXL2",
    "trellis": "EXL3",
    "_data": "quanto",
    "tables2": "HIGGS",
    "dense_weights": "SpQR",
}

_READ_AS_MODELOPT: Final = (
    "ModelOpt's own weights are read where its hf_quant_config.json stands beside them."
)

_ORIGINAL: Final = "Or open the original weights, which are more exact."
_NO_COMMAND: Final = (
    "No program does so by one command: open the original weights, which are more exact."
)

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
    by_name = {tensor.name: tensor for tensor in tensors}
    for tensor in by_name.values():
        wide = is_float(tensor.dtype) and FORMATS[tensor.dtype].bits >= 16
        if not wide or _quantisation(tensor, by_name):
            raise _quantised(path, path_text(path), _method(config))
    return plainer


def without_quantisation(config: Mapping[str, object]) -> dict[str, object]:
    """A config without its quantisation settings, including those of nested configs."""
    remaining: dict[str, object] = {}
    for key, value in config.items():
        if _of_quantisation(key, value):
            continue
        if isinstance(value, dict) and any(_of_quantisation(*item) for item in value.items()):
            value = without_quantisation(value)
        remaining[key] = value
    return remaining


def _of_quantisation(key: str, value: object) -> bool:
    return key in CONFIG_KEYS and isinstance(value, dict) and bool(value)


def _method(config: Mapping[str, object]) -> str:
    """The quantisation method in a config or a nested one."""
    nested = [value for value in config.values() if isinstance(value, dict)]
    for level in (config, *nested):
        for key, settings in level.items():
            if isinstance(settings, dict) and _of_quantisation(key, settings):
                return _method_of(key, settings)
    return ""


def _method_of(key: str, settings: Mapping[str, object]) -> str:
    method = settings.get("quant_method") or settings.get("quant_type")
    if method:
        return plain(str(method))
    if {"group_size", "bits"} <= settings.keys():  # what MLX writes, under both keys
        return "MLX"
    return key


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
    owner, _, last = tensor.name.rpartition(".")
    beside = (how for end, how in _COMPANIONS.items() if f"{owner}.{end}" in tensors)
    if FORMATS[tensor.dtype].quantised:
        return next(beside, tensor.dtype)
    if last in _COMPANIONS:
        return _COMPANIONS[last]
    if (
        tensor.name.endswith("centroids.weight")
        and f"{owner.rpartition('.')[0]}.indices" in tensors
    ):
        return "VPTQ"
    if last.endswith("_blocks") and f"{tensor.name.removesuffix('_blocks')}_scales" in tensors:
        return "MXFP4"
    # `scales` alone is an ordinary name; with an integer weight it is MLX's or another format's.
    weight = tensors.get(f"{owner}.weight")
    if last in _INTEGER_SCALES and weight is not None and weight.dtype.startswith(("I", "U")):
        if weight.dtype == "U32" and last == "scales":
            return "MLX"
        return "integers with scales"
    return None


def _quantised(path: Path, what: str, how: str, *, tensor: str | None = None) -> CheckpointError:
    sentence = f"`{what}` is quantised ({how}). Merging needs BF16, FP16 or FP32; dequantise first."
    return refusal(path, f"{sentence} {_what_to_do(how)}", tensor=tensor)


def _what_to_do(how: str) -> str:
    """Sentences on what makes plain weights of a format."""
    way = way_to_plain(how)
    if way is not None:
        return f"{way.sentence} {_ORIGINAL}"
    if how == _COMPANIONS["weight_scale_2"]:
        return f"{_READ_AS_MODELOPT} {_ORIGINAL}"
    if how.lower() in WITHOUT_WAY:
        return _NO_COMMAND
    return _ORIGINAL


def quantised_note(formats: Mapping[str, int], written: str) -> str:
    """A sentence on weights that are dequantised, by the number of each format.

    ``written``: name of the number format of an output.
    """
    count = sum(formats.values())
    weights = counted(count, "quantised weight is", "quantised weights are")
    return (
        f"{weights} dequantised when read ({', '.join(formats)}). The merged model is not "
        f"quantised: its weights are {written}, if the recipe names no other format."
    )
