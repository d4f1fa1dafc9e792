"""The models in a folder and below it, and which of them fit one another."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture.names import match_names
from ace_gui.checkpoints.adapters import is_adapter
from ace_gui.checkpoints.folder import holds_model
from ace_gui.checkpoints.input_files import CONFIG_LIMIT, read_json
from ace_gui.engine.contract.events import FoundModel, ModelsFound
from ace_gui.engine.planning.models import open_files
from ace_gui.errors import CheckpointError, WorkbenchError
from ace_gui.recipe.values import hub_name, model_name

DEEPEST: Final = 3
"""Depth of the search below the given folder."""

MOST: Final = 200
"""Largest number of models in a folder; one with more was not made for a merge."""

ALIKE: Final = 0.5
"""Share of the smaller model's tensors that the other must have in the same shape."""

_LISTS_OF_PARTS: Final = ("model_index.json", "modules.json")
_ENDINGS: Final = (".safetensors", ".gguf", ".bin", ".pt", ".pth")

Shapes = Mapping[str, tuple[int, ...]]


def scan(paths: Sequence[Path], base: Path | None) -> Iterator[ModelsFound | None]:
    """Read the headers of every model at or below ``paths``.

    ``base``: a model that is open already. Models that cannot be opened are listed with the reason.
    """
    folders = list(dict.fromkeys(folder for path in paths for folder in candidate_folders(path)))
    folders = folders[:MOST]
    if base is not None and base not in folders:
        folders.insert(0, base)
    models: list[FoundModel] = []
    shapes: list[Shapes | None] = []
    for folder in folders:
        model, tensors = _model_at(folder)
        models.append(model)
        shapes.append(tensors)
        yield None
    yield ModelsFound(
        models=tuple(models),
        base=_base_among(models, shapes, base),
        alike=tuple(_alike(shape, shapes) for shape in shapes),
    )


def _alike(shape: Shapes | None, shapes: Sequence[Shapes | None]) -> frozenset[int]:
    """The indices of models whose shapes fit those of one."""
    return frozenset(index for index, second in enumerate(shapes) if _fit(shape, second))


def candidate_folders(path: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """The models at or below a folder; a folder inside a model is part of it.

    The Hugging Face cache often has a tokenizer or a config alone; these are left out.
    """
    try:
        if path.is_file():
            entries = []
        else:
            entries = list(os.scandir(path))
        children = sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except OSError:  # not readable
        return
    names = {entry.name for entry in entries}
    listed = not names.isdisjoint({"config.json", "adapter_config.json", *_LISTS_OF_PARTS})
    if path.is_file() or listed or any(name.endswith(_ENDINGS) for name in names):
        if not hub_name(path) or holds_model(path):
            yield path
    elif depth:
        for child in children:
            if not child.name.startswith("."):
                yield from candidate_folders(child, depth - 1)


def _model_at(path: Path) -> tuple[FoundModel, Shapes | None]:
    """One model, and the shapes of its tensors; None if these are unknown without its base."""
    try:
        if is_adapter(path):
            files = [path] if path.is_file() else path.glob("*.[sb]*")  # safetensors, bin
            size = sum(file.stat().st_size for file in files if file.is_file())
            return FoundModel(path=path, architecture="LoRA adapter", bytes=size), None
        checkpoint = open_files(path)
    except WorkbenchError as error:
        return FoundModel(path=path, problem=error.sentence), {}
    except OSError as error:
        return FoundModel(path=path, problem=f"It cannot be read: {error.strerror}."), {}
    config = _config(path, "config.json")
    named = config.get("architectures")
    if not (isinstance(named, list) and named and isinstance(named[0], str)):
        named = [str(config.get("model_type") or "")]
    model = FoundModel(
        path=path, architecture=named[0], dtype=checkpoint.dtype or "", bytes=checkpoint.bytes
    )
    return model, {name: info.shape for name, info in checkpoint.tensors.items()}


def _fit(first: Shapes | None, second: Shapes | None) -> bool:
    """Whether two models may share a base; for an adapter this shows only when it is opened."""
    if first is None or second is None:
        return True
    few = min(len(first), len(second))
    names = match_names(first, second)
    same = sum(first[names[name]] == shape for name, shape in second.items() if name in names)
    return bool(few) and same >= ALIKE * few


def _base_among(
    models: Sequence[FoundModel], shapes: Sequence[Shapes | None], base: Path | None
) -> int | None:
    """The base: the open model, the one that others name, or one whose name says so; else None."""
    if base is not None:
        return next((index for index, model in enumerate(models) if model.path == base), None)
    names = {i: model_name(models[i].path).lower() for i, shape in enumerate(shapes) if shape}
    named = {name for model in models for name in _named_bases(model.path)}
    words_of_base = {"base", "pretrained"}
    candidates = (
        [i for i, name in names.items() if name in ("base", "base-model")],
        [i for i, name in names.items() if name in named],
        [i for i, name in names.items() if not words_of_base.isdisjoint(re.split(r"[-_]", name))],
    )
    return next((indices[0] for indices in candidates if len(indices) == 1), None)


def _named_bases(path: Path) -> Iterator[str]:
    """The last part of the names of the models from which a model says it was made."""
    sources = (("adapter_config.json", "base_model_name_or_path"), ("config.json", "_name_or_path"))
    for file, key in sources:
        name = _config(path, file).get(key)
        if isinstance(name, str) and name.strip("/"):
            yield name.strip("/").rpartition("/")[2].lower()


def _config(path: Path, file: str) -> Mapping[str, Any]:
    """A model's config; empty if there is none that can be read."""
    if path.is_dir():
        folder = path
    else:
        folder = path.parent
    try:
        return read_json(folder / file, limit=CONFIG_LIMIT)
    except CheckpointError:
        return {}
