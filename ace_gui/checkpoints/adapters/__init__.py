"""Adapters such as LoRA, in PEFT's folders and in the files of image models."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ace_gui.checkpoints.adapters.image_loras import is_image_lora, named_for, open_image_lora
from ace_gui.checkpoints.adapters.lora import Adapter, is_peft_adapter, open_peft_adapter


def is_adapter(path: Path) -> bool:
    """Whether ``path`` is an adapter: a PEFT folder, or a LoRA file of an image model."""
    path = Path(path)
    return is_peft_adapter(path) or is_image_lora(path)


def open_adapter(path: Path, base: Collection[str] | None = None) -> Adapter:
    """Open an adapter by its headers, under the names of its base's tensors, if they are given.

    Raises PickleConsentError if the weights are a pickle, CheckpointError for kinds that are not
    read and for factors that do not fit each other, MismatchError for modules the base lacks.
    """
    path = Path(path)
    if is_peft_adapter(path) or not is_image_lora(path):
        return open_peft_adapter(path)
    adapter = open_image_lora(path)
    if base is None:
        return adapter
    return named_for(adapter, base)
