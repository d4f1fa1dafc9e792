"""What dropped or chosen files and folders are: recipes, or models."""

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
    """A recipe to open, or models: both may be there, then the recipe wins."""

    recipe: Path | None
    models: tuple[Path, ...]


def local_paths(data: QMimeData) -> tuple[Path, ...]:
    """The local files and folders among what is dragged."""
    return tuple(Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile())


def classify(paths: Sequence[Path]) -> Dropped:
    """Sort what was dropped."""
    recipe = next((path for path in paths if path.suffix.lower() in RECIPES), None)
    others = tuple(path for path in paths if path.suffix.lower() not in RECIPES)
    return Dropped(recipe, others)


def is_collection(path: Path) -> bool:
    """Whether a folder is no model itself, so that models are to be looked for in it."""
    inside = path.is_dir() and not _holds_model(path)
    return inside and any(child.is_dir() for child in path.iterdir())


def _holds_model(path: Path) -> bool:
    # A pipeline of diffusers, or modules of sentence-transformers, is one model of several parts.
    if any((path / name).exists() for name in _MODEL_FILES):
        return True
    return any(entry.suffix in _WEIGHTS for entry in path.iterdir() if entry.is_file())
