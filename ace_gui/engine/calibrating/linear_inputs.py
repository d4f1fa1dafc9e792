"""Records the inputs of every matrix of a linear layer while a model runs.

A matrix is recognised by its storage in any matrix product. This covers torch's Linear, GPT-2's
Conv1D, fused projections, functional calls, and the stacks of a Mixture of Experts. N inputs, I
wide; E matrices of a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

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
