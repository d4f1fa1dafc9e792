"""The versions on which results may depend."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Final

_DECIDING: Final = ("torch", "numpy", "safetensors", "transformers")


@lru_cache(maxsize=1)
def library_versions() -> Mapping[str, str]:
    """The libraries that read, compute and write, with their versions as installed."""
    return MappingProxyType({name: _version(name) for name in _DECIDING})


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a bundle without the packages' metadata
        return str(getattr(__import__(name), "__version__", "unknown"))
