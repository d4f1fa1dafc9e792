"""Classification of dropped or chosen files and folders: recipes or models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QMimeData

RECIPES = (".yaml", ".yml")
_MODEL_FILES = ("config.json", "adapter_config.json", "model_index.json", "modules.json")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")


@dataclass(frozen=True)
class Dropped:
    """A recipe to open, or models. The recipe wins if there are both."""

    recipe: Path | None
    models: tuple[Path, ...]


def local_paths(data: QMimeData) -> tuple[Path, ...]:
    """The local files and folders in the dragged data."""
    return tuple(Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile())


def classify(paths: Sequence[Path]) -> Dropped:
    """Classify the dropped paths."""
    recipe = next((path for path in paths if path.suffix.lower() in RECIPES), None)
    others = tuple(path for path in paths if path.suffix.lower() not in RECIPES)
    return Dropped(recipe, others)


def is_collection(path: Path) -> bool:
    """Whether a folder contains models but is not a model itself."""
    inside = path.is_dir() and not _holds_model(path)
    return inside and any(child.is_dir() for child in path.iterdir())


def _holds_model(path: Path) -> bool:
    # A diffusers pipeline or a sentence-transformers model is one model with several parts.
    if any((path / name).exists() for name in _MODEL_FILES):
        return True
    return any(entry.suffix in _WEIGHTS for entry in path.iterdir() if entry.is_file())
