"""Where a recipe's models are: paths, or names in the local Hugging Face cache. Also their configs.

This never uses the network, and imports no module that could.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ace_gui.errors import RecipeError

_REMOTE: Final = re.compile(r"\\\\|//|[A-Za-z][A-Za-z0-9+.-]*://")
"""Network shares and addresses; even a check whether one exists would contact it."""

_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}"
_HUB_NAME: Final = re.compile(
    rf"((?:{_PART}/)?{_PART})(?:@([A-Za-z0-9_][A-Za-z0-9_./-]{{0,199}}))?"
)
"""``org/name`` or ``name``, optionally at a branch, tag or commit."""

CONFIG_BYTES: Final = 10_000_000
"""A larger file is no config."""

_MOST_BLOCKS: Final = 10_000
"""No model has more blocks; a gradient over more would take very long."""

_BLOCK_KEYS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")

_LONGEST: Final = 4000
"""Largest number of characters of a path."""


@dataclass(frozen=True, kw_only=True)
class ModelPaths:
    """Convert a model in a recipe in ``folder`` to an absolute path.

    ``unfound`` collects names that are neither a path nor in the cache, with a message for each.
    The message is shown when the model is opened, as it may be available by then. ``stages``: by
    name of a stage in the file, a function that returns the folder of its result.
    """

    folder: Path
    stages: Mapping[str, Callable[[], Path]] = field(default_factory=dict)
    unfound: dict[Path, str] = field(default_factory=dict)

    def __call__(self, written: str) -> Path:
        """An existing path, or else a model in the cache. Symbolic links are not resolved.

        Raises RecipeError for a remote path, or for text that cannot be a path.
        """
        if written in self.stages:
            return self.stages[written]()
        if _REMOTE.match(written):
            raise RecipeError(
                f"{written!r} is a network location, which was not contacted; copy the model to a "
                "disk of this machine first.",
                key="model",
            )
        path = self._absolute(written)
        named = _HUB_NAME.fullmatch(written)
        if named is None or ".." in written or os.path.lexists(path):
            return path
        name = named[1]
        revision = named[2]
        snapshot = cached_snapshot(name, revision)
        if snapshot is None and "/" in name:
            self.unfound[path] = _not_cached(written, name, revision)
        if snapshot is None:
            return path
        return snapshot

    def _absolute(self, written: str) -> Path:
        try:
            os.fsencode(written)
            if "\0" in written or len(written) > _LONGEST:
                raise ValueError
            return Path(os.path.abspath(self.folder / Path(written).expanduser()))  # noqa: PTH100
        except (ValueError, RuntimeError):
            text = ascii(written[:60])
            raise RecipeError(
                f"{text} cannot be the path of a model; correct it.", key="model"
            ) from None


def cache_folder() -> Path:
    """The Hugging Face cache, by the same environment variables as in its library."""
    home = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("HF_HOME", f"{home}/huggingface")
    cache = os.environ.get("HUGGINGFACE_HUB_CACHE", f"{home}/hub")
    return Path(os.path.expandvars(os.environ.get("HF_HUB_CACHE", cache))).expanduser()


def cached_snapshot(name: str, revision: str | None) -> Path | None:
    """The folder of a model in the cache; None if it is not there.

    ``name`` is matched as written, or else regardless of case. ``revision``: branch, tag, or the
    first digits of a commit; None: the branch main, or else the only revision there is.
    """
    repository = _repository("--".join(("models", *name.split("/"))))
    if repository is None:
        return None
    snapshots = _folders(repository / "snapshots")
    commit = _first_line(repository / "refs" / (revision or "main"))
    if commit is None and revision is None:
        if len(snapshots) == 1:
            return snapshots[0]
        return None
    matching = [snapshot for snapshot in snapshots if snapshot.name == (commit or revision)]
    commit_start = revision or ""
    if commit is None and len(commit_start) >= 7 and not matching:
        matching = [snapshot for snapshot in snapshots if snapshot.name.startswith(commit_start)]
    if len(matching) == 1:
        return matching[0]
    return None


def _repository(folder_name: str) -> Path | None:
    folders = _folders(cache_folder())
    exact = [folder for folder in folders if folder.name == folder_name]
    alike = [folder for folder in folders if folder.name.casefold() == folder_name.casefold()]
    matches = exact or alike
    if len(matches) == 1:
        return matches[0]
    return None


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []


def _first_line(file: Path) -> str | None:
    """The commit of a branch or tag."""
    try:
        if not file.is_file() or file.stat().st_size > 200:
            return None
        return file.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _not_cached(written: str, name: str, revision: str | None) -> str:
    if revision is None:
        at = ""
    else:
        at = f" --revision {revision}"
    return (
        f"{written} is neither a path from the recipe's folder nor in the local Hugging Face cache "
        f"({cache_folder()}); correct it, or download it with `hf download {name}{at}`."
    )


def base_config(folder: Path) -> dict[str, Any]:
    """The content of a model's config.json; empty if there is none, or it cannot be read."""
    return json_object(folder / "config.json") or {}


def json_object(file: Path) -> dict[str, Any] | None:
    """The content of a small JSON file; None if it is no object, or cannot be read."""
    try:
        if not file.is_file() or file.stat().st_size > CONFIG_BYTES:
            return None  # a pipe or a device would not end
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if isinstance(content, dict):
        return content
    return None


def block_count(folder: Path) -> int | None:
    """The number of blocks in a model's config.json; None if it has no such entry."""
    config = base_config(folder)
    sections = [config]
    text_config = config.get("text_config")
    if isinstance(text_config, dict):
        sections.append(text_config)
    for section in sections:
        for key in _BLOCK_KEYS:
            count = section.get(key)
            if isinstance(count, int) and 0 < count <= _MOST_BLOCKS:
                return count
    return None
