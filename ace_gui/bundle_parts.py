"""The parts of the program that a bundle's executable can run instead of the command line.

A part is imported by its name when its process starts, so this module is above all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from ace_gui.processes import PART

PARTS: Final = {
    "describe-models": "ace_gui.architecture.sandbox:serve",
    "render-chats": "ace_gui.architecture.chat_prompts:serve",
    "take-picture": "ace_gui.gui.picture:main",
}
"""Module and function of each part, by its name on the command line."""


def part_asked_for(arguments: Sequence[str]) -> Callable[[], int | None] | None:
    """The part selected by the arguments of a bundle's process; None for the command line.

    The part reads its own arguments from ``sys.argv``. Its result is an exit status.
    """
    if len(arguments) < 2 or arguments[0] != PART or arguments[1] not in PARTS:
        return None
    module, function = PARTS[arguments[1]].split(":")
    part: Callable[[], int | None] = getattr(import_module(module), function)
    return part
