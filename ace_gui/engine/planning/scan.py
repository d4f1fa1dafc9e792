"""The models in a folder and below it, and which of them fit one another."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ace_gui.architecture.names import match_names
from ace_gui.checkpoints import is_adapter
from ace_gui.checkpoints.folder import holds_model
from ace_gui.checkpoints.input_files import read_json
from ace_gui.engine.contract.events import FoundModel, ModelsFound
from ace_gui.engine.planning.models import open_files
from ace_gui.errors import CheckpointError, WorkbenchError
from ace_gui.recipe.values import hub_name, model_name

DEEPEST: Final = 3
"""Depth of the search below the given folder."""

MOST: Final = 200
"""Most models of a folder; one with more was not put together for a merge."""

ALIKE: Final = 0.5
"""Share of the smaller model's tensors that the other must have in the same shape."""

_CONFIG_BYTES: Final = 10_000_000
_LISTS_OF_PARTS: Final = ("model_index.json", "modules.json")
_ENDINGS: Final = (".safetensors", ".gguf", ".bin", ".pt", ".pth")

Shapes = Mapping[str, tuple[int, ...]]


def scan(paths: Sequence[Path], base: Path | None) -> Iterator[ModelsFound | None]:
    """Read the headers of every model at or below ``paths``.

    ``base``: a model that is open already.

    Models that cannot be opened are listed with the reason.
    """
    indices = list(dict.fromkeys(index for path in paths for index in candidate_folders(path)))[
        :MOST
    ]
    if base is not None and base not in indices:
        indices.insert(0, base)
    found: list[FoundModel] = []
    shapes: list[Shapes | None] = []
    for index in indices:
        model, tensors = _model_at(index)
        found.append(model)
        shapes.append(tensors)
        yield None
    yield ModelsFound(
        models=tuple(found),
        base=_base_among(found, shapes, base),
        alike=tuple(
            frozenset(j for j, other in enumerate(shapes) if _fit(each, other)) for each in shapes
        ),
    )


def candidate_folders(path: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """The models at or below a folder; a folder inside a model is part of it.

    The Hugging Face cache often has a tokenizer or a config alone; these are left out.
    """
    if path.is_file() or _holds_model(path):
        if not hub_name(path) or holds_model(path):
            yield path
    elif depth:
        try:
            children = sorted(Path(entry.path) for entry in os.scandir(path) if entry.is_dir())
        except OSError:  # not readable
            return
        for child in children:
            if not child.name.startswith("."):
                yield from candidate_folders(child, depth - 1)


def _holds_model(folder: Path) -> bool:
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return False
    listed = {"config.json", "adapter_config.json", *_LISTS_OF_PARTS} & set(names)
    return bool(listed) or any(name.endswith(_ENDINGS) for name in names)


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
    model = FoundModel(
        path=path,
        architecture=_architecture(path),
        dtype=checkpoint.dtype or "",
        bytes=checkpoint.bytes,
    )
    return model, {name: info.shape for name, info in checkpoint.tensors.items()}


def _architecture(path: Path) -> str:
    folder = path if path.is_dir() else path.parent
    try:
        config = read_json(folder / "config.json", limit=_CONFIG_BYTES)
    except CheckpointError:
        return ""
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return str(config.get("model_type") or "")


def _fit(one: Shapes | None, other: Shapes | None) -> bool:
    """Whether two models may share a base; for an adapter this shows only when it is opened."""
    if one is None or other is None:
        return True
    few = min(len(one), len(other))
    names = match_names(one, other)
    same = sum(one[names[name]] == shape for name, shape in other.items() if name in names)
    return bool(few) and same >= ALIKE * few


def _base_among(
    found: Sequence[FoundModel], shapes: Sequence[Shapes | None], base: Path | None
) -> int | None:
    """The base: the open model, the one that others name, or one whose name says so; else None."""
    whole = [index for index, known in enumerate(shapes) if known]
    if base is not None:
        return next((index for index, each in enumerate(found) if each.path == base), None)
    called = _only(p for p in whole if model_name(found[p].path).lower() in ("base", "base-model"))
    named = {name for each in found for name in _named_bases(each.path)}
    by_name = _only(p for p in whole if model_name(found[p].path).lower() in named)
    parts = (
        p
        for p in whole
        if {"base", "pretrained"} & set(re.split(r"[-_]", model_name(found[p].path).lower()))
    )
    candidates = (called, by_name, _only(parts))
    return next((index for index in candidates if index is not None), None)


def _named_bases(path: Path) -> Iterator[str]:
    """The last part of the names of the models from which a model says it was made."""
    folder = path if path.is_dir() else path.parent
    sources = (("adapter_config.json", "base_model_name_or_path"), ("config.json", "_name_or_path"))
    for file, key in sources:
        try:
            name = read_json(folder / file, limit=_CONFIG_BYTES).get(key)
        except CheckpointError:
            continue
        if isinstance(name, str) and name.strip("/"):
            yield name.strip("/").rpartition("/")[2].lower()


def _only(indices: Iterable[int]) -> int | None:
    known = list(indices)
    return known[0] if len(known) == 1 else None
