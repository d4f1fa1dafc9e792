"""Where the files that travel with the package are."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_path(name: str) -> Path:
    """The path of ``name`` ("icons/open.svg", "sample") inside the resources.

    A wheel carries them inside the package; in a checkout they lie beside it.
    """
    installed = _PACKAGE / "resources"
    return (installed if installed.is_dir() else _PACKAGE.parent / "resources") / name
