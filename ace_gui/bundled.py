"""The application as one executable that needs no Python: how it starts its own processes.

Elsewhere ``sys.executable`` is a Python that can run any module. In a bundle it is the application
itself, so an argument selects which part runs instead of the command line. The engine process is
not among these parts: ``multiprocessing`` starts it in a bundle as elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

_PART: Final = "--run-part"
_PARTS: Final = {
    "describe-models": "ace_gui.architecture.builder:serve",
    "take-picture": "ace_gui.gui.picture:main",
}


def is_bundled() -> bool:
    """Whether this process runs from a bundle."""
    return bool(getattr(sys, "frozen", False))


def part_command(name: str) -> list[str]:
    """The start of the command that runs a part in a process of its own, in a bundle."""
    assert name in _PARTS
    return [sys.executable, _PART, name]


def part_asked_for(arguments: Sequence[str]) -> Callable[[], int | None] | None:
    """The part selected by the arguments of a bundle's process; None for the command line.

    The part reads its own arguments from ``sys.argv``. Its result is an exit status.
    """
    if len(arguments) < 2 or arguments[0] != _PART or arguments[1] not in _PARTS:
        return None
    module, function = _PARTS[arguments[1]].split(":")
    found: Callable[[], int | None] = getattr(import_module(module), function)
    return found
