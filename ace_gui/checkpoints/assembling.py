"""Goes through the tensors of a model and puts the parts of quantised weights together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import refusal
from ace_gui.checkpoints.quantised_formats import FORMATS, WeightFormat
from ace_gui.checkpoints.quantised_parts import Candidate, settings_of, written_dtype
from ace_gui.checkpoints.quantised_weights import QuantisedInfo
from ace_gui.formatting import plain

_OF_RUNNING: Final = (
    *("input_scale", "input_activation_scale", "scale_input", "input_global_scale"),
    "input_scale_ub",  # FBGEMM's upper limit
    *("q_scale", "k_scale", "v_scale"),  # of a quantised cache of keys and values
    "scaled_fp8",  # ComfyUI's mark of a whole file
)
"""Tensors that only a running quantised model needs; a merged one is not quantised."""


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """The tensors of a model, in which each quantised weight is one tensor of float32."""

    tensors: dict[str, TensorInfo]
    formats: Mapping[str, int] = field(default_factory=dict)
    """Number of quantised weights by the name of their format."""


def assembled(
    tensors: Mapping[str, TensorInfo],
    config: Mapping[str, Any] | None,
    metadata: Mapping[str, str],
) -> Assembled:
    """Put the parts of quantised weights together.

    ``config``: the model's config, which may have settings, and the dtype of an output. Weights
    whose parts are missing are left as they are, and refused later. Raises CheckpointError if parts
    do not fit each other.
    """
    settings = settings_of(config)
    weights: dict[str, QuantisedInfo] = {}
    used: set[str] = set()
    for info in tensors.values():
        for weight_format in _formats_of(info):
            owner = info.name.removesuffix(weight_format.end)
            candidate = Candidate(
                info=info,
                owner=owner,
                format=weight_format.title,
                tensors=tensors,
                settings=settings,
                metadata=metadata,
            )
            weight = weight_format.assemble(candidate)
            if weight is not None:
                weights[weight.codes.name] = weight
                used |= {info.name, *(f"{owner}{end}" for end in weight_format.companions)}
                break
    if not weights:
        return Assembled(tensors=dict(tensors))
    return _put_together(tensors, weights, used, written_dtype(config, tensors.values()))


def _formats_of(info: TensorInfo) -> list[WeightFormat]:
    """Those that the name and the dtype of a tensor allow."""
    formats = []
    for weight_format in FORMATS:
        has_dtype = not weight_format.dtypes or info.dtype in weight_format.dtypes
        if has_dtype and info.name.endswith(weight_format.end):
            formats.append(weight_format)
    return formats


def _put_together(
    tensors: Mapping[str, TensorInfo],
    weights: Mapping[str, QuantisedInfo],
    used: set[str],
    written: str,
) -> Assembled:
    """The tensors without the parts of weights. Raises CheckpointError for a name that is twice."""
    ends = tuple(f".{end}" for end in _OF_RUNNING)
    logical: dict[str, TensorInfo] = {}
    for name, stored in tensors.items():
        info: TensorInfo = stored
        if name in weights:
            info = replace(weights[name], written=written)
        elif name in used or name.endswith(ends) or name in _OF_RUNNING:
            continue
        if info.name in logical:
            sentence = f"`{plain(info.name)}` is there twice, once quantised. Download it again."
            raise refusal(stored.file, sentence, tensor=info.name)
        logical[info.name] = info
    formats = Counter(weight.format for weight in weights.values())
    return Assembled(tensors=logical, formats=formats)
