"""Locates the base's tensors in an expert's model as loaded by transformers, and their inputs.

A matrix is recognised by its storage in any matrix product while the model runs. This covers
torch's Linear, GPT-2's Conv1D, fused projections, functional calls, and the stacks of a Mixture of
Experts. N inputs, I wide; E matrices of a stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.architecture.traits import Role
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.prepared import Prepared

_NOT_LINEAR: Final = frozenset(
    {Role.EMBEDDING, Role.POSITION, Role.VOCABULARY_HEAD, Role.CONVOLUTION, Role.HEAD}
)
_OF_STACK: Final = re.compile(r"\.experts\.(\d+)\.")
_ATEN: Final = torch.ops.aten


@dataclass(frozen=True, kw_only=True)
class ModuleInput:
    """A matrix of the loaded model: the parameter, and its index in a stack; None: no stack."""

    parameter: str
    index: int | None = None

    @property
    def name(self) -> str:
        """The parameter, with "[3]" for a matrix of a stack."""
        return self.parameter if self.index is None else f"{self.parameter}[{self.index}]"


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


Seen = Callable[[ModuleInput, Tensor], None]
"""Called with a matrix and its inputs (N × I). They belong to the model and are read-only."""


class LinearInputs(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Context in which ``seen`` is called before every product with one of the parameters.

    ``parameters``: matrices, and stacks of them, by name.
    """

    def __init__(self, parameters: Mapping[str, Tensor], seen: Seen) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen
        self._owners: dict[int, list[tuple[str, Tensor]]] = {}
        for name, tensor in parameters.items():
            storage = tensor.untyped_storage().data_ptr()
            self._owners.setdefault(storage, []).append((name, tensor))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for given, weight in _products(func, args):
            for index, input_NI in self._matched(given, weight):
                self._seen(index, input_NI)
        return func(*args, **(kwargs or {}))

    def _matched(self, given: Tensor, weight: Tensor) -> Iterator[tuple[ModuleInput, Tensor]]:
        owner = self._owner(weight)
        if owner is None:
            return
        name, parameter = owner
        if parameter.ndim == 2:
            yield ModuleInput(parameter=name), given.reshape(-1, given.shape[-1])
            return
        size = parameter.stride(0)
        first = (weight.storage_offset() - parameter.storage_offset()) // size
        if weight.ndim == 2:
            yield ModuleInput(parameter=name, index=first), given.reshape(-1, given.shape[-1])
            return
        step = weight.stride(0) // size
        for e in range(len(weight)):
            yield ModuleInput(parameter=name, index=first + e * step), given[e]

    def _owner(self, weight: Tensor) -> tuple[str, Tensor] | None:
        for name, parameter in self._owners.get(weight.untyped_storage().data_ptr(), ()):
            start = weight.storage_offset() - parameter.storage_offset()
            if 0 <= start < parameter.numel():
                return name, parameter
        return None


def _products(func: Any, args: Sequence[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs as rows, and the matrix they are multiplied with, for either order of the product."""
    packet = getattr(func, "overloadpacket", None)
    if packet in (_ATEN.addmm, _ATEN.baddbmm, _ATEN.addmm_, _ATEN.baddbmm_):
        yield args[1], args[2]
    elif packet in (_ATEN.mm, _ATEN.bmm):
        yield args[0], args[1]
        yield args[1].mT, args[0]
    elif packet is _ATEN.linear:
        yield args[0], args[1]
    elif packet is _ATEN._grouped_mm and args[2] is not None and args[0].ndim == 2:
        yield from _groups(args[0], args[1], args[2].tolist())


def _groups(given: Tensor, weight: Tensor, stops: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows that a grouped product passes to each matrix of a stack."""
    start = 0
    for matrix, stop in zip(weight, stops, strict=True):
        if stop > start:
            yield given[start:stop], matrix
        start = stop
