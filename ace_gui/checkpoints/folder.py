"""Which files of a model folder hold its weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.files import refusal, status_of, unreadable
from ace_gui.checkpoints.labels import listing
from ace_gui.checkpoints.quantised import ADAPTER_SENTENCE
from ace_gui.errors import CheckpointError

SUFFIX: Final = ".safetensors"
INDEX_SUFFIX: Final = ".safetensors.index.json"

# In the order of preference: transformers, diffusers, open_clip.
_STEMS: Final = ("model", "diffusion_pytorch_model", "open_clip_model")
_PICKLE_SUFFIXES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SHARD: Final = re.compile(r"-\d+-of-\d+\.safetensors$")

PICKLE_SENTENCE: Final = (
    "Only safetensors files are read, because a pickle can run code. Load the model once with "
    "transformers and `save_pretrained` it to another folder."
)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A single file of weights, or the index of several."""

    path: Path
    is_index: bool
    warnings: tuple[str, ...] = ()


def find_weights(folder: Path) -> Weights:
    """Choose as transformers does: a single file before an index. Raises CheckpointError."""
    names = _names(folder)
    singles = [name for name in names if name.endswith(SUFFIX)]
    indices = [name for name in names if name.endswith(INDEX_SUFFIX)]
    for stem in _STEMS:
        single, index = stem + SUFFIX, stem + INDEX_SUFFIX
        if single in names:
            warnings = _unread(single, index, names)
            return Weights(path=folder / single, is_index=False, warnings=warnings)
        if index in names:
            return Weights(path=folder / index, is_index=True)
    if "adapter_config.json" in names:
        raise refusal(folder, ADAPTER_SENTENCE)
    if len(indices) == 1:
        return Weights(path=folder / indices[0], is_index=True)
    if len(singles) == 1 and not _SHARD.search(singles[0]):
        return Weights(path=folder / singles[0], is_index=False)
    raise _no_weights(folder, names, singles)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None


def _unread(single: str, index: str, names: Sequence[str]) -> tuple[str, ...]:
    """Warnings about weights that lie beside the file that is read."""
    if index in names:
        return (f"Holds both {single} and {index}; {single} is read, as transformers does.",)
    others = [name for name in names if name.endswith(SUFFIX) and name != single]
    return (f"Only {single} is read, not {listing(others)}.",) if others else ()


def _no_weights(folder: Path, names: Sequence[str], singles: Sequence[str]) -> CheckpointError:
    """The error that says what the folder holds instead of one model in safetensors."""
    if not names:
        return refusal(folder, "The folder is empty. Choose the folder of a model.")
    if singles and all(_SHARD.search(name) for name in singles):
        return refusal(
            folder, f"The shards' index is missing. Download `model{INDEX_SUFFIX}` into the folder."
        )
    if singles:
        return refusal(folder, f"Holds several models: {listing(singles)}. Open one of the files.")
    if pickles := [name for name in names if name.endswith(_PICKLE_SUFFIXES)]:
        return refusal(folder, f"Holds PyTorch pickles ({listing(pickles)}). {PICKLE_SENTENCE}")
    if any(name.endswith(".gguf") for name in names):
        return refusal(
            folder, "Holds GGUF files. Merging needs the original safetensors weights instead."
        )
    if inner := [name for name in names if _has_weights(folder / name)]:
        return refusal(folder, f"No weights here, but in {listing(inner)}. Open one of these.")
    return refusal(
        folder, "No weights here. A model folder holds `model.safetensors`, or shards and an index."
    )


def _has_weights(path: Path) -> bool:
    try:
        return path.is_dir() and any(entry.name.endswith(SUFFIX) for entry in path.iterdir())
    except OSError:
        return False


def refuse_other_file(path: Path) -> None:
    """Raise CheckpointError for a file that cannot be a model on its own, by its name."""
    status_of(path)
    name = path.name.lower()
    if name.endswith(_PICKLE_SUFFIXES):
        raise refusal(path, f"This is a PyTorch pickle. {PICKLE_SENTENCE}")
    if name.endswith(".gguf"):
        raise refusal(path, "This is a GGUF file. Merging needs the original safetensors weights.")
    if name.endswith(".json"):
        raise refusal(path, "This is not a file of weights. Open the folder it is in.")
