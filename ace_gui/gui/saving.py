"""All writes of files that the user named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ace_gui.output_files import write_file

Inputs = Callable[[], Iterable[Path]]

_inputs: list[Inputs] = []


def protect(inputs: Inputs) -> None:
    """Never write over these files or into their folders: the open models."""
    _inputs[:] = [inputs]


def save(path: Path, data: bytes, chosen: Path) -> None:
    """Write a file at the chosen path, or at ``path``, which may have an extension added.

    The dialog has confirmed replacing ``chosen``, but not the path with an extension. Raises
    OutputError or ResourceError.
    """
    inputs = [path for given in _inputs for path in given()]
    write_file(path, data, inputs, overwrite=path == chosen)
