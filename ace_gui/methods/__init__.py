"""Merge methods: pure functions on task vectors, and the registry that names them."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from ace_gui.methods.method import Diagnostics, Merged, MergeMethod
from ace_gui.methods.plugins import load_plugins
from ace_gui.methods.registry import (
    METHODS,
    added_sources,
    checked_parameters,
    every_variant,
    families,
    get_method,
    method_variant,
    parameter_fields,
    register_method,
)

__all__ = [
    "METHODS",
    "PROBLEMS",
    "Diagnostics",
    "MergeMethod",
    "Merged",
    "added_sources",
    "checked_parameters",
    "every_variant",
    "families",
    "get_method",
    "method_variant",
    "parameter_fields",
    "register_method",
]

PROBLEMS = load_plugins()
"""What is wrong with methods from outside, a sentence each."""


class _Callable(ModuleType):
    """``ace_gui.methods()`` lists the methods, though ``ace_gui.methods`` is this package."""

    def __call__(self) -> Any:
        return import_module("ace_gui.library").methods()


sys.modules[__name__].__class__ = _Callable
