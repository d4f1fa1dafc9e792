"""Importing torch and what is built on it, without the garbage collector looking on."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def heavy_imports() -> Iterator[None]:
    """For the imports with which a process starts to compute; nothing where torch is there already.

    They make some 200 000 objects that live as long as the process. The collector would walk them
    again and again while they come, and once more at the process's end; frozen, it leaves them be.
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
