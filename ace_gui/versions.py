"""Versions of the libraries and of the code, on which results may depend."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

COMPUTING: Final = (
    "ace_variants.py",
    "architecture",
    "checkpoints",
    "engine",
    "field_info.py",
    "linalg",
    "method_figures.py",
    "method_names.py",
    "methods",
    "recipe",
    "stored_formats.py",
)
"""The subpackages and modules whose code determines a merge's result."""

_PACKAGE: Final = Path(__file__).resolve().parent
_DECIDING: Final = ("torch", "numpy", "safetensors", "transformers", "gguf")


@lru_cache(maxsize=1)
def library_versions() -> Mapping[str, str]:
    """The installed versions of the libraries that read, compute and write."""
    return MappingProxyType({name: _version(name) for name in _DECIDING})


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a bundle without the packages' metadata
        return str(getattr(__import__(name), "__version__", "unknown"))


@lru_cache(maxsize=8)
def code_digest(*positions: str) -> str:
    """SHA-256 of the source of these subpackages and files; without source, of the version.

    A version number could be forgotten, and old results would mix with new arithmetic.
    """
    digest = hashlib.sha256()
    sources = [_sources(_PACKAGE / position) for position in positions]
    if not any(sources):  # a bundle carries no source
        return hashlib.sha256(_version("ace-workbench").encode()).hexdigest()
    assert all(sources), positions
    for path in sorted(chain.from_iterable(sources)):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _sources(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [*path.rglob("*.py")]
