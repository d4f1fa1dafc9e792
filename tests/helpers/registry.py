"""Methods that a test registers, gone after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ace_gui.methods import registry


@contextlib.contextmanager
def own_registry() -> Iterator[None]:
    """What is registered inside is forgotten afterwards."""
    methods = dict(registry._REGISTERED)
    added = dict(registry._ADDED)
    try:
        yield
    finally:
        registry._REGISTERED.clear()
        registry._REGISTERED.update(methods)
        registry._ADDED.clear()
        registry._ADDED.update(added)
