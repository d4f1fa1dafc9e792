"""What dropped or chosen files and folders are: recipes, or models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QMimeData

RECIPES = (".yaml", ".yml")
_LISTS_OF_PARTS = ("model_index.json", "modules.json")


@dataclass(frozen=True)
class Dropped:
    """A recipe to open, or models: both may be there, then the recipe wins."""

    recipe: Path | None
    models: tuple[Path, ...]


def local_paths(data: QMimeData) -> tuple[Path, ...]:
    """The local files and folders among what is dragged."""
    return tuple(Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile())


def classify(paths: Sequence[Path]) -> Dropped:
    """Sort what was dropped; a folder of model folders counts as the models in it."""
    recipe = next((path for path in paths if path.suffix.lower() in RECIPES), None)
    others = [path for path in paths if path.suffix.lower() not in RECIPES]
    return Dropped(recipe, tuple(expand(others)))


def expand(paths: Iterable[Path]) -> list[Path]:
    """Model folders and files, with each folder that only holds model folders opened up."""
    models = []
    for path in paths:
        inside = [] if _holds_model(path) else _model_folders(path)
        models.extend(inside or [path])
    return models


def _model_folders(path: Path) -> list[Path]:
    try:
        return sorted(child for child in path.iterdir() if _holds_model(child))
    except OSError:  # a file, or not readable: the engine says what is wrong with it
        return []


def _holds_model(path: Path) -> bool:
    if not path.is_dir():
        return path.suffix == ".safetensors"
    # A pipeline of diffusers, or modules of sentence-transformers, is one model of several parts.
    listed = any((path / name).exists() for name in ("config.json", *_LISTS_OF_PARTS))
    return listed or any(path.glob("*.safetensors"))
