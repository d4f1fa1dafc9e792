"""LoRA, LoHa and LoKr in the single files of diffusers, kohya's trainer and LyCORIS.

diffusers names a module as the model does, after the part of the pipeline: ``unet.X.lora.down``,
``X.processor.to_q_lora.down``, or with PEFT's ``lora_A``. kohya's trainer writes a prefix for the
part, and the module's name with ``_`` for each dot: ``lora_unet_X.lora_down``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.adapters.adapter_config import AdapterSettings, adapter_settings
from ace_gui.checkpoints.adapters.lora import Adapter, changes, refuse_second
from ace_gui.checkpoints.adapters.weight_changes import WeightChange
from ace_gui.checkpoints.folder import SUFFIX
from ace_gui.checkpoints.header import Header, TensorInfo, read_header
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import refusal
from ace_gui.checkpoints.quantised import LORA_FACTOR, OF_PEFT, OTHER_ADAPTERS, refuse_quantised
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.errors import CheckpointError, MismatchError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.stored_formats import is_float

IMAGE_LORA: Final = "pytorch_lora_weights.safetensors"
"""The name of diffusers' file."""

_METADATA: Final = "lora_adapter_metadata"

_FORMS: Final = (
    re.compile(r"(?P<module>.+)\.processor\.(?P<inner>to_\w+?)_lora\.(?P<part>up|down)\.weight"),
    re.compile(r"(?P<module>.+?)\.lora(?:_linear_layer)?\.(?P<part>up|down)\.weight"),
    re.compile(r"(?P<module>.+?)\.lora_(?P<part>up|down|mid)\.weight"),
    re.compile(r"(?P<module>.+?)\.(?P<part>lora_[AB])(?:\.default)?\.weight"),
    re.compile(r"(?P<module>.+?)\.(?P<part>lora_magnitude_vector)(?:\.default)?(?:\.weight)?"),
    re.compile(r"(?P<module>.+?)\.(?P<part>(?:hada|lokr)_[wt][12](?:_[ab])?)"),
    re.compile(r"(?P<module>.+?)\.(?P<part>alpha)"),
)
_PEFTS: Final = {"down": "lora_A", "up": "lora_B", "mid": "lora_mid"}

# Where a part of a pipeline may be: in folders, or in the single files of Stable Diffusion.
_STARTS: Final = {
    "unet": ("unet/", "model.diffusion_model."),
    "transformer": ("transformer/", "model.diffusion_model."),
    "diffusion_model": ("transformer/", "unet/", "model.diffusion_model."),
    "text_encoder": (
        "text_encoder/",
        "cond_stage_model.transformer.",
        "conditioner.embedders.0.transformer.",
    ),
    "text_encoder_2": ("text_encoder_2/", "conditioner.embedders.1."),
    "text_encoder_3": ("text_encoder_3/",),
}
_OF_KOHYA: Final = {
    "lora_unet_": ("unet", "transformer"),
    "lora_te_": ("text_encoder",),
    "lora_te1_": ("text_encoder",),
    "lora_te2_": ("text_encoder_2",),
    "lora_te3_": ("text_encoder_3",),
    "lycoris_": ("unet", "transformer"),
}


def is_image_lora(path: Path) -> bool:
    """Whether ``path`` is such a file, or the folder of one and not of another model."""
    if path.is_dir():
        files = [file.name for file in path.glob(f"*{SUFFIX}")]
        return files == [IMAGE_LORA]
    if path.suffix.lower() != SUFFIX or not path.is_file():
        return False
    try:
        names = [info.name for info in read_header(path).tensors]
    except CheckpointError:
        return False
    if any(OF_PEFT.search(name) for name in names):
        return False
    kinds = (OTHER_ADAPTERS["LoHa"], OTHER_ADAPTERS["LoKr"], LORA_FACTOR)
    return any(kind.search(name) for kind in kinds for name in names)


def open_image_lora(path: Path) -> Adapter:
    """Open the file, or the folder of one; its changes have the file's names for modules.

    Reads the header, and a number for each module. Raises CheckpointError for tensors of another
    kind and for factors that do not fit each other.
    """
    header = read_header(path / IMAGE_LORA if path.is_dir() else path)
    stored = {info.name: info for info in header.tensors}
    refuse_quantised(stored)
    groups: dict[str, dict[str, TensorInfo]] = {}
    for info in header.tensors:
        module, part = _module_and_part(path, info)
        pieces = groups.setdefault(module, {})
        refuse_second(path, pieces.get(part), info)
        pieces[part] = info
    checkpoint = Checkpoint(path=path, folder=None, tensors=stored, files=(header.stamp,))
    reader = TensorReader(checkpoint)
    deltas: dict[str, WeightChange] = {}
    for module, pieces in groups.items():
        settings = _settings(path, module, pieces, header, reader)
        factors = {name: info for name, info in pieces.items() if name != "alpha"}
        if not factors:
            raise refusal(path, f"`{plain(module)}` has an alpha and no factors.")
        for change in changes(path, module, factors, settings):
            _refuse_second_change(path, deltas.get(change.target), change)
            deltas[change.target] = change
    return Adapter(path=path, deltas=deltas, full={}, files=(header.stamp,), of_images=True)


def named_for(adapter: Adapter, base: Collection[str]) -> Adapter:
    """The adapter with the base's names.

    Raises MismatchError, with the names, if the base lacks a module of the adapter.
    """
    if not adapter.of_images:
        return adapter
    modules = [name.removesuffix(".weight") for name in base if name.endswith(".weight")]
    flat: dict[str, list[str]] = {}
    for module in modules:
        flat.setdefault(module.replace(".", "_"), []).append(module)
    deltas: dict[str, WeightChange] = {}
    missing = []
    for target, change in adapter.deltas.items():
        module = target.removesuffix(".weight")
        answers = {answer for name in _candidates(module) for answer in flat.get(name, ())}
        if len(answers) == 1:
            name = f"{answers.pop()}.weight"
            _refuse_second_change(adapter.path, deltas.get(name), change)
            deltas[name] = replace(change, target=name)
        else:
            missing.append(module)
    if missing:
        raise MismatchError(
            f"{path_text(adapter.path)}: {len(missing)} of the adapter's modules are not in the "
            f"base: {listing(missing)}. Choose the model that it was trained on, as the files of "
            "a pipeline or of the same program's checkpoint.",
            path=adapter.path,
            tensor=missing[0],
            details="\n".join(missing),
        )
    return replace(adapter, deltas=deltas)


def _refuse_second_change(path: Path, first: WeightChange | None, second: WeightChange) -> None:
    """Raise CheckpointError if a module is changed under two names, such as a flat and a dotted."""
    if first is not None:
        names = [first.parts[0].name, second.parts[0].name]
        sentence = f"{listing(names)} change the same module. Only one change can be added."
        raise refusal(path, f"{sentence} Save the file with one of them.", tensor=names[1])


def _candidates(module: str) -> Iterator[str]:
    """The flattened names that a module may have in a base."""
    prefix = next((beginning for beginning in _OF_KOHYA if module.startswith(beginning)), None)
    if prefix is not None:
        parts = _OF_KOHYA[prefix]
        inside = module.removeprefix(prefix)
    else:
        part, _, inside = module.partition(".")
        if part not in _STARTS:
            yield module.replace(".", "_")
            return
        parts = (part,)
    names = [inside]
    if parts[0].startswith("text_encoder"):  # transformers 5 saves CLIP's without `text_model`
        bare = inside.removeprefix("text_model").lstrip("._")
        names = [bare, f"text_model.{bare}"]
    starts = [""]
    for part_name in parts:
        starts += _STARTS[part_name]
    for name in names:
        for start in starts:
            yield (start + name).replace(".", "_")


def _module_and_part(path: Path, info: TensorInfo) -> tuple[str, str]:
    """The module of a tensor, and PEFT's name for its part of the change."""
    for form in _FORMS:
        if match := form.fullmatch(info.name):
            module = match["module"]
            part = match["part"]
            inner = match.groupdict().get("inner")
            if inner:
                module += f".{inner}" + (".0" if inner == "to_out" else "")
            return module, _PEFTS.get(part, part)
    sentence = (
        f"`{plain(info.name)}` is of a kind that is not read: LoRA, LoHa and LoKr are. Merge it "
        "into its model with the tool that made it, and open the model you get."
    )
    raise refusal(path, sentence, tensor=info.name)


def _settings(
    path: Path, module: str, pieces: Mapping[str, TensorInfo], header: Header, reader: TensorReader
) -> AdapterSettings:
    """The settings of one module, whose scale is alpha / rank, or 1 without an alpha.

    If both factors of LoKr are whole, there is no rank, and LyCORIS has no scale.
    """
    part, _, inside = module.partition(".")
    if (config := _config(path, header, part)) is not None:
        settings = adapter_settings(path, {"peft_type": "LORA", **config})
        if part in _STARTS:
            inner = inside
        else:
            inner = module
        rank = settings.rank_of(inner)
        scaled = settings.scale_of(inner) * rank
        return AdapterSettings(rank=rank, alpha=scaled, fan_in_fan_out=settings.fan_in_fan_out)
    rank = 0
    for name in ("lora_A", "hada_w1_b", "lokr_w1_b", "lokr_w2_b"):
        if name in pieces and pieces[name].shape:
            rank = pieces[name].shape[0]
            break
    alpha = _alpha(path, pieces.get("alpha"), reader)
    if not rank:  # no factor has one: the change is not scaled
        return AdapterSettings(rank=1, alpha=1)
    if alpha is None:
        return AdapterSettings(rank=rank, alpha=rank)
    return AdapterSettings(rank=rank, alpha=alpha)


def _alpha(path: Path, info: TensorInfo | None, reader: TensorReader) -> float | None:
    if info is None:
        return None
    if math.prod(info.shape) != 1 or not (is_float(info.dtype) or info.dtype.startswith("I")):
        raise refusal(path, f"`{plain(info.name)}` is not one number.", tensor=info.name)
    value = float(reader.read(info.name).double())
    if not math.isfinite(value):
        raise refusal(path, f"`{plain(info.name)}` is {value}.", tensor=info.name)
    return value


def _config(path: Path, header: Header, part: str) -> Mapping[str, object] | None:
    """PEFT's config of a part, which newer diffusers keeps in the file's metadata.

    In the file of a single model, neither names nor settings begin with a part.
    """
    text = header.metadata.get(_METADATA)
    if text is None:
        return None
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise refusal(path, f"Its metadata `{_METADATA}` is not a table of settings.")
    if part in _STARTS:
        start = f"{part}."
    else:
        start = ""
    settings = {key.removeprefix(start): v for key, v in metadata.items() if key.startswith(start)}
    if "r" in settings:
        return settings
    return None
