"""Models with several parts: diffusers pipelines and modules of sentence-transformers.

Both keep each part in a sub-folder, listed in a file of the main folder. That file is untrusted:
its names are joined to the folder only after they are known to stay in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from ace_gui.checkpoints.folder import holds_weights
from ace_gui.checkpoints.input_files import read_json, read_json_value, refusal, unreadable
from ace_gui.errors import CheckpointError

PIPELINE: Final = "model_index.json"
"""Of diffusers: part → library and class, both null for a part that is left out."""

MODULES: Final = "modules.json"
"""Of sentence-transformers: a list of modules in their order, each with its ``path``."""

ROUTER: Final = "router_config.json"
"""For sentence-transformers with a choice of several modules: ``types`` by sub-folder."""

MAIN: Final = ""
"""The name of the part in the main folder. An ordinary model has only this one."""

_LIMIT: Final = 1_000_000
_DEEPEST: Final = 3


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """One of the models in a checkpoint.

    ``stem``: what its file of weights is called without ``.safetensors``. ``config``: its
    config.json as plain JSON, None without one.
    """

    stem: str = "model"
    config: Mapping[str, object] | None = None


def full_name(part: str, tensor: str) -> str:
    """The name of a part's tensor in the checkpoint: ``unet/conv_in.weight``."""
    return f"{part}/{tensor}" if part else tensor


def part_of(name: str, parts: Collection[str]) -> str:
    """Which of ``parts`` a tensor of the checkpoint belongs to, by its name."""
    found = [part for part in parts if part and name.startswith(f"{part}/")]
    return max(found, key=len, default=MAIN)


def listed_folders(folder: Path) -> tuple[str, ...]:
    """The sub-folders that a model's own lists name, and those in them, as ``unet`` or ``0_A/b``.

    Those only that are there. Raises CheckpointError for a list that cannot be read, or a name that
    leads out of the folder.
    """
    found: dict[str, None] = {}
    try:
        for name in (*_pipeline_parts(folder), *_modules(folder)):
            if (folder / name).is_dir():
                found |= dict.fromkeys(_with_inner(folder, name))
    except OSError as error:
        raise unreadable(folder, error) from None
    return tuple(found)


def holds_model(folder: Path) -> bool:
    """Whether a folder has weights by their names, in itself or in a part that it lists."""
    try:
        return holds_weights(folder) or any(
            holds_weights(folder / name) for name in listed_folders(folder)
        )
    except CheckpointError:
        return False


def _pipeline_parts(folder: Path) -> Iterator[str]:
    path = folder / PIPELINE
    if path.is_file():
        for name, kind in read_json(path, limit=_LIMIT).items():
            if isinstance(kind, list) and any(isinstance(item, str) for item in kind):
                yield _plain(path, name)


def _modules(folder: Path) -> Iterator[str]:
    path = folder / MODULES
    content = read_json_value(path, limit=_LIMIT) if path.is_file() else None
    for module in content if isinstance(content, list) else ():
        name = module.get("path") if isinstance(module, dict) else None
        if name == "":
            yield from _routes(folder)
        elif isinstance(name, str):
            yield _plain(path, name.rstrip("/"))


def _routes(folder: Path) -> Iterator[str]:
    path = folder / ROUTER
    types = read_json(path, limit=_LIMIT).get("types") if path.is_file() else None
    for name in types if isinstance(types, dict) else ():
        yield _plain(path, name)


def _plain(path: Path, name: str) -> str:
    """``name`` as the list at ``path`` has it, if it can only mean a folder inside the model's."""
    parts = name.split("/")
    plain = all(
        part and not part.startswith((".", "~")) and not set(part) & set('\\:*?"<>|')
        for part in parts
    )
    inside = (path.parent / name).resolve() == path.parent.resolve() / name
    if not plain or not name.isprintable() or len(parts) > _DEEPEST or not inside:
        raise refusal(
            path, "Names a folder outside the model's. Refused: the model may be malicious."
        )
    return name


def _with_inner(folder: Path, name: str) -> Iterator[str]:
    """A sub-folder and those in it, links to others aside."""
    yield name
    if len(PurePosixPath(name).parts) < _DEEPEST:
        for inner in sorted((folder / name).iterdir()):
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _with_inner(folder, f"{name}/{inner.name}")
