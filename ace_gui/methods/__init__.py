"""Merge methods: pure functions on task vectors, and the registry that names them."""

from ace_gui.methods.method import Diagnostics, Merged, MergeMethod
from ace_gui.methods.registry import (
    FAMILIES,
    METHODS,
    ParameterField,
    checked_parameters,
    get_method,
    parameter_fields,
)

__all__ = [
    "FAMILIES",
    "METHODS",
    "Diagnostics",
    "MergeMethod",
    "Merged",
    "ParameterField",
    "checked_parameters",
    "get_method",
    "parameter_fields",
]
