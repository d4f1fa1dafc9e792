"""Engines without the seconds in which processes import torch and transformers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

import pytest


class DescribesHere:
    """Describes checkpoints in this process, which has transformers already.

    The real one starts a process for each opening. It has tests of its own, and the command line
    and the walk use it in theirs.
    """

    def __enter__(self) -> DescribesHere:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe(self, config: Mapping[str, object] | None, shapes: Mapping[str, tuple[int, ...]]):
        from ace_gui.architecture.describe import describe

        yield
        return describe(config, shapes)


def describe_here(patch: pytest.MonkeyPatch) -> None:
    """In the modules of the engine that are imported by now."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ace_gui.engine.") and hasattr(module, "Describer"):
            patch.setattr(module, "Describer", DescribesHere)


def run_in(environment: Mapping[str, str], work: Callable[..., None], *args: object) -> None:
    """In a forked process, whose environment would be that of the first test that forked."""
    os.environ.clear()
    os.environ.update(environment)
    work(*args)
