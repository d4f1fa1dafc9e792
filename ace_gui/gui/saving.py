"""Writes files to the paths that the user chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ace_gui.output_files import write_file

Inputs = Callable[[], Iterable[Path]]

_inputs: list[Inputs] = []


def protect(inputs: Inputs) -> None:
    """Protect the open models: ``save`` never writes over them or into their folders."""
    _inputs[:] = [inputs]


def save(path: Path, data: bytes, chosen: Path) -> None:
    """Write a file to ``path``: the ``chosen`` path, or that path with an extension.

    In the dialog, the user has agreed to replace ``chosen``, but not ``path`` if it differs. Raises
    OutputError or ResourceError.
    """
    inputs = [path for paths_of in _inputs for path in paths_of()]
    write_file(path, data, inputs, overwrite=path == chosen)
