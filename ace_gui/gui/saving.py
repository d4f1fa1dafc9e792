"""The one way in which the window writes a file that the person named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ace_gui.output_files import write_file

Inputs = Callable[[], Iterable[Path]]

_inputs: list[Inputs] = []


def protect(inputs: Inputs) -> None:
    """Write over none of these from now on, nor into their folders: the models that are open."""
    _inputs[:] = [inputs]


def save(path: Path, data: bytes, chosen: Path) -> None:
    """Write a file where the person said, or at ``path`` where that got an ending.

    The dialog asked before replacing what was ``chosen``, not what the ending makes of it. Raises
    OutputError or ResourceError.
    """
    inputs = [path for given in _inputs for path in given()]
    write_file(path, data, inputs, overwrite=path == chosen)
