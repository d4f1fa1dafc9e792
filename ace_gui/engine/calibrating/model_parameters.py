"""Locates the base's tensors in an expert's model as loaded by transformers, and their inputs.

A matrix is recognised by its storage in any matrix product while the model runs. This covers
torch's Linear, GPT-2's Conv1D, fused projections, functional calls, and the stacks of a Mixture of
Experts. N inputs of width I; E matrices of a stack.

The mean of x xᵀ over the inputs of a matrix is often larger than its layer, so that all of them
together would take more memory than the model. The data pass through the model once for each group
of layers, and only up to the last layer of the group. Nothing is padded: only inputs of one shape
form a batch, so every row comes from the data.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.architecture.traits import Role
from ace_gui.engine.evaluating.evaluators import Batch, Evaluator
from ace_gui.engine.evaluating.loaded_models import stacked, stacked_batches
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import packed
from ace_gui.linalg.products import add_gram_, full_float32, mirror_

_NOT_LINEAR: Final = frozenset(
    {Role.EMBEDDING, Role.POSITION, Role.VOCABULARY_HEAD, Role.CONVOLUTION, Role.HEAD}
)
_OF_STACK: Final = re.compile(r"\.experts\.(\d+)\.")
_ATEN: Final = torch.ops.aten


@dataclass(frozen=True, kw_only=True)
class ModuleInput:
    """A matrix of the loaded model. ``index``: of the matrix in a stack; None: not in a stack."""

    parameter: str
    index: int | None = None

    @property
    def name(self) -> str:
        """The parameter, with "[3]" for a matrix of a stack."""
        if self.index is None:
            return self.parameter
        return f"{self.parameter}[{self.index}]"


def linear_tensors(prepared: Prepared, t: int) -> list[str]:
    """The base's names of the matrices and stacks in linear layers that an expert has."""
    names = []
    for name, traits in prepared.base.architecture.traits.items():
        is_linear = traits.matrix and traits.role not in _NOT_LINEAR
        if is_linear and prepared.experts[t].has(name):
            names.append(name)
    return names


def float_tensors(prepared: Prepared, t: int) -> list[str]:
    """The base's names of all tensors that can be merged with an expert, in the base's layout."""
    expert = prepared.experts[t]
    traits = prepared.base.architecture.traits
    names = []
    for row in prepared.plan.rows:
        is_merged = row.in_base and row.tied_to is None and t in row.experts
        if not is_merged or row.tensor in expert.token_rows:
            continue
        if traits[row.tensor].role is not Role.BUFFER:
            names.append(row.tensor)
    return names


def locate(
    model: Any, expert: OpenedModel, names: Iterable[str]
) -> dict[str, tuple[ModuleInput, ...]]:
    """The matrix of each base tensor in the model, or all matrices of a stack.

    Tensors that cannot be located in the model are left out.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    finder = DiskNames(model, parameters)
    located: dict[str, tuple[ModuleInput, ...]] = {}
    for name in names:
        destination = finder.find(expert.own_names[name]) or finder.find(name)
        if destination is not None:
            inputs = _pieces_in(destination.name, parameters[destination.name], expert, name)
            located |= {name: inputs} if inputs else {}
    return located


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
    if numbered is None:
        return ()
    return (ModuleInput(parameter=parameter, index=int(numbered[1])),)


Pieces = tuple[tuple[str, int, int], ...]
"""Parameters of the model, each with its first and last row."""


def pieces(model: Any, expert: OpenedModel, names: Iterable[str]) -> dict[str, Pieces]:
    """The parts of each base tensor in the model, in the order of its rows.

    A tensor is left out if it is not a concatenation of rows.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    finder = DiskNames(model, parameters)
    located = {}
    for name in names:
        own_name = expert.own_names[name]
        module_rows = expert.architecture.modules.get(own_name, ())
        if module_rows and all(row.module in parameters for row in module_rows):
            located[name] = tuple((e.module, e.start, e.start + e.rows) for e in module_rows)
            continue
        destination = finder.find(own_name)
        if destination is None or destination.converted:
            continue
        shape = tuple(parameters[destination.name].shape)
        if shape == expert.shape(name):
            located[name] = ((destination.name, 0, shape[0] if shape else 1),)
    return located


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
        for inputs, weight in _products(func, args):
            for index, input_NI in self._matched(inputs, weight):
                self._seen(index, input_NI)
        return func(*args, **(kwargs or {}))

    def _matched(self, inputs: Tensor, weight: Tensor) -> Iterator[tuple[ModuleInput, Tensor]]:
        owner = self._owner(weight)
        if owner is None:
            return
        name, parameter = owner
        if parameter.ndim == 2:
            yield ModuleInput(parameter=name), inputs.reshape(-1, inputs.shape[-1])
            return
        size = parameter.stride(0)
        first = (weight.storage_offset() - parameter.storage_offset()) // size
        if weight.ndim == 2:
            yield ModuleInput(parameter=name, index=first), inputs.reshape(-1, inputs.shape[-1])
            return
        step = weight.stride(0) // size
        for e in range(len(weight)):
            yield ModuleInput(parameter=name, index=first + e * step), inputs[e]

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


def _groups(inputs: Tensor, weight: Tensor, stops: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows that a grouped product passes to each matrix of a stack."""
    start = 0
    for matrix, stop in zip(weight, stops, strict=True):
        if stop > start:
            yield inputs[start:stop], matrix
        start = stop


CENTRE: Final = ".centre"
"""Suffix of the name of the mean input."""

_LEAST_BYTES: Final = 96_000_000
_SHARE: Final = 0.2
"""Multiple of the model's bytes that Gram matrices may take at a time, if it exceeds the least."""

_ROWS = 512
_ENTRIES = 1 << 20
"""Inputs that are multiplied at a time, or more up to this number of entries if they are narrow. A
product copies its inputs, so they are never all multiplied at once."""


class _Enough(Exception):  # noqa: N818 (no error: the group has all it wants)
    pass


def gram_groups(
    evaluator: Evaluator, expert: OpenedModel, widths: Mapping[str, int]
) -> tuple[dict[str, str], list[GramSums]]:
    """The stored name of each base tensor ("…[3]" in a stack), and the groups measured together.

    ``widths``: number of inputs, by the base's name of a tensor.
    """
    located = locate(evaluator.model, expert, widths)
    tensors = {}
    for name, inputs in located.items():
        for module_input in inputs:
            if module_input.index is None or len(inputs) == 1:
                tensors[name] = module_input.name
            else:
                tensors[f"{name}[{module_input.index}]"] = module_input.name
    sizes: dict[str, int] = {}
    members: dict[str, list[ModuleInput]] = {}
    for name, inputs in located.items():
        for index in inputs:
            held = members.setdefault(index.parameter, [])
            if index not in held:
                held.append(index)
                size = 4 * widths[name] ** 2
                sizes[index.parameter] = sizes.get(index.parameter, 0) + size
    calls = _calls(evaluator, list(members))
    size = sum(parameter.nbytes for parameter in evaluator.model.parameters())
    budget = max(_LEAST_BYTES, int(_SHARE * size))
    order = dict.fromkeys(p.parameter for p in calls)
    groups = []
    for parameters in packed(order, sizes.__getitem__, budget):
        until = None
        if evaluator.runs_once:
            until = _next_call(calls, parameters)
        names = tuple(index.name for index_name in parameters for index in members[index_name])
        groups.append(GramSums(names, until))
    never = [parameter for parameter in members if parameter not in order]
    unmeasured = tuple(index.name for index_name in never for index in members[index_name])
    if unmeasured:  # perhaps used by other inputs; unused ones take no memory
        if groups:
            last = groups.pop().names
        else:
            last = ()
        groups.append(GramSums(last + unmeasured, None))
    return tensors, groups


def _calls(evaluator: Evaluator, parameters: Sequence[str]) -> list[ModuleInput]:
    """The matrices in the order in which one input passes through them."""
    pieces = evaluator.pieces_of(evaluator.data.examples[:1])[0]
    example = stacked(evaluator, pieces[:1])
    calls: list[ModuleInput] = []
    _run(evaluator, example, parameters, lambda index, _input: calls.append(index))
    return calls


def _next_call(calls: Sequence[ModuleInput], group: Sequence[str]) -> ModuleInput | None:
    last = max(n for n, call in enumerate(calls) if call.parameter in group)
    return next(
        (call for call in calls[last + 1 :] if call.index is None and calls.count(call) == 1), None
    )


def _run(evaluator: Evaluator, batch: Batch, parameters: Sequence[str], seen: Seen) -> None:
    named = dict(evaluator.model.named_parameters(remove_duplicate=False))
    chosen = {name: named[name].data for name in parameters}
    with torch.no_grad(), full_float32(), LinearInputs(chosen, seen):
        evaluator.run(batch)


class GramSums:
    """The running Gram matrices of a group. ``names``: stored names.

    ``until``: the matrix after which a pass can stop; None: it runs to the end.
    """

    def __init__(self, names: tuple[str, ...], until: ModuleInput | None) -> None:
        self.names = names
        self._until = until
        self._grams: dict[str, Tensor] = {}
        self._totals: dict[str, Tensor] = {}
        self._rows: dict[str, int] = dict.fromkeys(names, 0)

    def add(self, evaluator: Evaluator) -> Iterator[int]:
        """Add the evaluator's inputs, batch by batch; yields the size of each batch."""
        names = {name.partition("[")[0] for name in self._rows}
        if self._until is not None:
            names.add(self._until.parameter)
        for batch in stacked_batches(evaluator):
            with contextlib.suppress(_Enough):
                _run(evaluator, batch, sorted(names), self._seen)
            yield len(batch.notes)

    def _seen(self, index: ModuleInput, input_NI: Tensor) -> None:
        if index == self._until:
            raise _Enough
        name = index.name
        if name not in self._rows or not len(input_NI):
            return
        if name not in self._grams:
            width = input_NI.shape[1]
            self._grams[name] = input_NI.new_zeros(width, width, dtype=torch.float32)
            self._totals[name] = input_NI.new_zeros(width, dtype=torch.float64)
        for rows_NI in torch.split(input_NI, max(_ROWS, _ENTRIES // input_NI.shape[1])):
            single_NI = rows_NI.float()
            add_gram_(self._grams[name], single_NI)
            self._totals[name] += single_NI.sum(dim=0)
        self._rows[name] += len(input_NI)

    def result(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """The means by stored name, with the mean inputs and the number of inputs.

        Consumes the sums.
        """
        tensors = {}
        for name, gram_II in self._grams.items():
            tensors[name] = mirror_(gram_II).div_(self._rows[name])
            tensors[name + CENTRE] = (self._totals[name] / self._rows[name]).float()
        self._grams = {}
        self._totals = {}
        return tensors, self._rows
