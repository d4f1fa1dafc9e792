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
from collections.abc import Iterator
from typing import Final

_SETTINGS: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}

PART: Final = "--run-part"
"""The argument of a bundle's executable before the name of a part."""


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
    """The start of the command that runs a part (``bundle_parts``) in a process of its own."""
    return [sys.executable, PART, name]
