"""Merge methods: pure functions on task vectors, and the registry that names them."""

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
