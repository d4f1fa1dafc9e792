"""How processes of this program start: offline, importing torch fast, and from a bundle.

``sys.executable`` is usually a Python that can run any module. A bundle is one executable that
needs no Python. There it is the application itself, and an argument selects the part that runs
instead of the command line. The engine process is no such part: ``multiprocessing`` starts it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Final

_SETTINGS: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}

_PART: Final = "--run-part"
_PARTS: Final = {
    "describe-models": "ace_gui.architecture.sandbox:serve",
    "render-chats": "ace_gui.architecture.chat_prompts:serve",
    "take-picture": "ace_gui.gui.picture:main",
}


def go_offline() -> None:
    """Set huggingface_hub and the libraries built on it to offline mode, here and in child
    processes.

    Call it before they are imported, because they read their settings once. If huggingface_hub is
    already imported, its setting is changed too.
    """
    os.environ.update(_SETTINGS)
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
        constants.HF_HUB_DISABLE_TELEMETRY = True  # type: ignore[attr-defined]


@contextlib.contextmanager
def heavy_imports() -> Iterator[None]:
    """Stop the garbage collector while torch is imported; nothing if it already was.

    The imports make some 200 000 objects that live as long as the process. The collector would walk
    them again and again, and once more when the process ends. It ignores frozen objects.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


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
    part: Callable[[], int | None] = getattr(import_module(module), function)
    return part
