"""Safetensors tags and torch dtypes."""

from __future__ import annotations

from typing import Final

import torch

from ace_gui.stored_formats import FORMATS

_DTYPES: Final[dict[str, torch.dtype]] = {
    tag: getattr(torch, known.torch) for tag, known in FORMATS.items() if known.torch is not None
}
TAGS: Final = {dtype: tag for tag, dtype in _DTYPES.items()}


def torch_dtype(tag: str) -> torch.dtype:
    """The torch dtype of a tag. Raises KeyError for quantised and unknown formats."""
    return _DTYPES[tag]


def tag_of(dtype: torch.dtype) -> str:
    """The tag of a torch dtype. Raises KeyError for one that is never written here."""
    return TAGS[dtype]
