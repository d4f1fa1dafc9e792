"""Tiny models of every class of transformers that classifies texts or pictures, or writes text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.models.auto import modeling_auto

from tests.helpers.tied_models import tiny

TEXTS = tuple(modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.values())
PICTURES = tuple(modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES.values())
LANGUAGE = tuple(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
TRANSLATION = tuple(modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.values())


def _classes(*values: str | tuple[str, ...]) -> list[str]:
    names: set[str] = set()
    for value in values:
        if isinstance(value, str):
            names.add(value)
        else:
            names.update(value)
    return sorted(name for name in names if hasattr(transformers, name))


CLASSIFIERS = _classes(*TEXTS, *PICTURES)
WRITERS = _classes(*LANGUAGE, *TRANSLATION)


def inputs_of(model: Any) -> dict[str, Tensor]:
    """Two texts or pictures."""
    if model.main_input_name == "input_ids":
        ids = torch.tensor([[3, 4, 5, 6, 2], [4, 4, 5, 2, 2]])
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if type(model).__name__ in WRITERS and model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = ids
        return inputs
    size = getattr(model.config, "image_size", None) or 64
    if isinstance(size, int):
        size = (size, size)
    generator = torch.Generator().manual_seed(0)
    channels = getattr(model.config, "num_channels", 3)
    return {"pixel_values": torch.randn(2, channels, *size, generator=generator)}


def model_with_inputs(name: str) -> tuple[Any, dict[str, Tensor]]:
    """A tiny model of a class, which runs. Skips classes that need more than two such inputs."""
    try:
        model = tiny(getattr(transformers, name))
        if getattr(model.config, "pad_token_id", 0) is None:
            model.config.pad_token_id = 0
        inputs = inputs_of(model)
        with torch.no_grad():
            model(**inputs)
    except Exception as error:  # each class fails on a tiny config in its own way
        pytest.skip(f"{name} cannot be made and run here: {error}")
    return model, inputs
