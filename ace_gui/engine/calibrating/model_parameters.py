"""Locates the base's tensors in an expert's model as loaded by transformers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from torch import Tensor

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.architecture.traits import Role
from ace_gui.engine.calibrating.linear_inputs import ModuleInput
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.prepared import Prepared

_NOT_LINEAR: Final = frozenset(
    {Role.EMBEDDING, Role.POSITION, Role.VOCABULARY_HEAD, Role.CONVOLUTION, Role.HEAD}
)
_OF_STACK: Final = re.compile(r"\.experts\.(\d+)\.")


def linear_tensors(prepared: Prepared, t: int) -> list[str]:
    """The base's names of the matrices and stacks in linear layers that an expert has."""
    traits = prepared.base.architecture.traits
    return [
        name
        for name, each in traits.items()
        if each.matrix and each.role not in _NOT_LINEAR and prepared.experts[t].has(name)
    ]


def float_tensors(prepared: Prepared, t: int) -> list[str]:
    """The base's names of all tensors that can be merged with an expert, in the base's layout."""
    expert = prepared.experts[t]
    return [
        row.tensor
        for row in prepared.plan.rows
        if row.in_base
        and row.tied_to is None
        and t in row.experts
        and row.tensor not in expert.token_rows
        and prepared.base.architecture.traits[row.tensor].role is not Role.BUFFER
    ]


def locate(
    model: Any, expert: OpenedModel, names: Iterable[str]
) -> dict[str, tuple[ModuleInput, ...]]:
    """By the base's name, its matrix in the model, or all those of its stack.

    Names that cannot be located in the model are left out.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    finder = DiskNames(model, parameters)
    found: dict[str, tuple[ModuleInput, ...]] = {}
    for name in names:
        destination = finder.find(expert.own_names[name]) or finder.find(name)
        if destination is not None:
            own = _pieces_in(destination.name, parameters[destination.name], expert, name)
            found |= {name: own} if own else {}
    return found


def _pieces_in(
    parameter: str, tensor: Tensor, expert: OpenedModel, name: str
) -> tuple[ModuleInput, ...]:
    if tensor.ndim == 2:
        return (ModuleInput(parameter=parameter),)
    if tensor.ndim != 3:
        return ()
    if len(expert.shape(name)) == 3:
        return tuple(ModuleInput(parameter=parameter, index=e) for e in range(len(tensor)))
    numbered = _OF_STACK.search(expert.own_names[name])
    return () if numbered is None else (ModuleInput(parameter=parameter, index=int(numbered[1])),)


Pieces = tuple[tuple[str, int, int], ...]
"""Parameters of the model, each with its first and last row."""


def pieces(model: Any, expert: OpenedModel, names: Iterable[str]) -> dict[str, Pieces]:
    """By the base's name, the parts of its tensor in the model, concatenated by rows.

    A name is left out if its tensor is not a concatenation of rows.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    finder = DiskNames(model, parameters)
    found = {}
    for name in names:
        own = expert.own_names[name]
        module_rows = expert.architecture.modules.get(own, ())
        if module_rows and all(each.module in parameters for each in module_rows):
            found[name] = tuple((e.module, e.start, e.start + e.rows) for e in module_rows)
            continue
        destination = finder.find(own)
        if destination is None or destination.converted:
            continue
        shape = tuple(parameters[destination.name].shape)
        if shape == expert.shape(name):
            found[name] = ((destination.name, 0, shape[0] if shape else 1),)
    return found
