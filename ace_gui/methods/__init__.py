"""Merge methods: pure functions on task vectors, and the registry that names them."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from ace_gui.methods.method import MergeMethod as MergeMethod
from ace_gui.methods.plugins import load_plugins
from ace_gui.methods.registry import METHODS as METHODS
from ace_gui.methods.registry import added_sources as added_sources
from ace_gui.methods.registry import checked_parameters as checked_parameters
from ace_gui.methods.registry import every_variant as every_variant
from ace_gui.methods.registry import families as families
from ace_gui.methods.registry import get_method as get_method
from ace_gui.methods.registry import method_variant as method_variant
from ace_gui.methods.registry import parameter_fields as parameter_fields
from ace_gui.methods.registry import register_method as register_method
from ace_gui.methods.shared.experts import Diagnostics as Diagnostics
from ace_gui.methods.shared.experts import Merged as Merged

PROBLEMS = load_plugins()
"""What is wrong with methods from outside, a sentence each."""


class _Callable(ModuleType):
    """``ace_gui.methods()`` lists the methods, though ``ace_gui.methods`` is this package."""

    def __call__(self) -> Any:
        return import_module("ace_gui.library").methods()


sys.modules[__name__].__class__ = _Callable
