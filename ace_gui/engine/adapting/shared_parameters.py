"""The merged model's parameters, shared by the models of all tasks; only heads are separate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.engine.adapting.changed_weights import (
    ChangedWeight,
    LowRankChange,
    WeightRows,
    changed_weight,
)
from ace_gui.engine.calibrating.model_parameters import pieces
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.errors import MismatchError


@dataclass(frozen=True)
class _Cover:
    """Rows of a parameter that are rows of a base tensor."""

    tensor: str
    """The base tensor."""
    start: int
    """First of its rows."""
    first: int
    """First row of the parameter."""
    last: int
    """The row of the parameter after the last one."""

    def rows(self, changes: Mapping[str, LowRankChange]) -> WeightRows:
        """These rows with the change to them, of the changes by base tensor."""
        count = self.last - self.first
        return WeightRows(count=count, change=changes.get(self.tensor), first=self.start)


@dataclass(frozen=True)
class _Location:
    """Where a shared parameter is in a model."""

    parameters: dict[str, Parameter | None]
    """Those of a module, by name."""
    name: str
    parameter: Parameter


_Key = tuple[tuple[int, ...], tuple[_Cover, ...]]
"""The shape of a parameter, and what it consists of."""


class SharedParameters:
    """Parameters and the base tensors they consist of.

    ``learned``: the base tensors with gradients. ``device``: of the parameters of a model that has
    none in memory.
    """

    def __init__(self, learned: Collection[str], device: torch.device | None = None) -> None:
        self._learned = frozenset(learned)
        self._device = device
        self._parameters: dict[_Key, Parameter] = {}
        self._by_tensor: dict[str, list[tuple[Parameter, _Cover]]] = defaultdict(list)
        self._buffers: dict[str, list[Tensor]] = defaultdict(list)
        self._locations: list[_Location] = []

    def adopt(self, model: Any, expert: OpenedModel, shapes: dict[str, tuple[int, ...]]) -> None:
        """Replace the parameters of a task's model by the shared ones.

        ``shapes``: the base tensors to share, with their shapes. The model's own parameters take no
        gradients. Raises MismatchError if a tensor has another shape, or cannot be located in the
        model.
        """
        model.requires_grad_(False)
        model_parameters = dict(model.named_parameters(remove_duplicate=False))
        buffers = dict(model.named_buffers(remove_duplicate=False))
        covers: dict[str, list[_Cover]] = defaultdict(list)
        located = pieces(model, expert, shapes)
        for name, parts in located.items():
            _require_shape(expert, name, shapes[name])
            start = 0
            for parameter, first, last in parts:
                covers[parameter].append(_Cover(name, start, first, last))
                start += last - first
        finder = DiskNames(model, model_parameters | buffers)
        for name in shapes.keys() - located.keys():
            destination = finder.find(expert.own_names[name])
            if destination is None:
                continue
            is_buffer = destination.name in buffers and not destination.converted
            if not is_buffer:
                raise MismatchError(
                    f"`{name}` of {expert.name} has another layout in the loaded model, so "
                    "nothing can be learned for it; choose a method that needs no data.",
                    tensor=name,
                )
            self._buffers[name].append(buffers[destination.name])
        shared: dict[int, Parameter] = {}  # by the identity of what they replace
        for name, covers_of_parameter in covers.items():
            original = model_parameters[name]
            shared[id(original)] = self._parameter(original, covers_of_parameter)
        for module in model.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None and id(parameter) in shared:
                    location = _Location(module._parameters, name, shared[id(parameter)])
                    self._locations.append(location)
                    module._parameters[name] = location.parameter

    def _parameter(self, original: Parameter, covers: list[_Cover]) -> Parameter:
        """The shared parameter in place of a model's own.

        Raises MismatchError if the base tensors are only a part of it.
        """
        covers = sorted(covers, key=lambda cover: cover.first)
        if not _are_all_rows(covers, original):
            raise MismatchError(
                f"`{covers[0].tensor}` is only a part of the model's parameter, so nothing can be "
                "learned for it; choose a method that needs no data.",
                tensor=covers[0].tensor,
            )
        key = tuple(original.shape), tuple(covers)
        if key not in self._parameters:
            is_learned = any(cover.tensor in self._learned for cover in covers)
            device: torch.device | None = original.device
            if original.is_meta:
                device = self._device
            zeros = torch.zeros_like(original, device=device)
            fresh = Parameter(zeros, requires_grad=is_learned)
            self._parameters[key] = fresh
            for cover in covers:
                self._by_tensor[cover.tensor].append((fresh, cover))
        return self._parameters[key]

    def attach(self, changes: Mapping[str, LowRankChange]) -> None:
        """Let the adopted models compute with changes beside these base tensors, matrices."""
        changed: dict[int, ChangedWeight] = {}
        for (_, covers), parameter in self._parameters.items():
            if any(cover.tensor in changes for cover in covers):
                rows = [cover.rows(changes) for cover in covers]
                changed[id(parameter)] = changed_weight(parameter, rows)
        for location in self._locations:
            if id(location.parameter) in changed:
                # torch's own setter takes parameters only, and a changed weight is none.
                location.parameters[location.name] = changed[id(location.parameter)]  # type: ignore[assignment]

    def detach(self) -> None:
        """Let the adopted models compute without changes again."""
        for location in self._locations:
            location.parameters[location.name] = location.parameter

    def write(self, name: str, tensor: Tensor) -> None:
        """Set a base tensor in its stored layout."""
        for buffer in self._buffers.get(name, ()):
            buffer.copy_(tensor)
        for parameter, cover in self._by_tensor.get(name, ()):
            if parameter.ndim:
                stop = cover.start + cover.last - cover.first
                parameter.data[cover.first : cover.last] = tensor[cover.start : stop]
            else:
                parameter.data.copy_(tensor)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A base tensor in its stored layout; zeros if no task's model has it."""
        return self._gathered(name, shape, lambda parameter: parameter.data, add=False)

    def gradient(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The gradient of the loss for a base tensor, in its stored layout."""
        return self._gathered(name, shape, lambda parameter: parameter.grad, add=True)

    def _gathered(
        self,
        name: str,
        shape: tuple[int, ...],
        value_of: Callable[[Parameter], Tensor | None],
        *,
        add: bool,
    ) -> Tensor:
        """A base tensor put together of parameters; zeros if there are none.

        ``value_of``: what a parameter contributes, or None. ``add``: whether contributions to the
        same rows are added up; otherwise the last one counts.
        """
        owners = self._by_tensor.get(name, ())
        if not owners:
            return torch.zeros(shape)
        first_parameter, _ = owners[0]
        total = torch.zeros(shape, device=first_parameter.device, dtype=first_parameter.dtype)
        if not total.numel():
            return total
        rows = _as_rows(total)
        for parameter, cover in owners:
            value = value_of(parameter)
            if value is None:
                continue
            stop = cover.start + cover.last - cover.first
            target = rows[cover.start : stop]
            contribution = _as_rows(value)[cover.first : cover.last]
            if add:
                target.add_(contribution)
            else:
                target.copy_(contribution)
        return total

    def forget_gradients(self) -> None:
        """Clear the gradients before the next step."""
        for parameter in self._parameters.values():
            parameter.grad = None

    @property
    def bytes(self) -> int:
        """Size of all parameters."""
        return sum(parameter.nbytes for parameter in self._parameters.values())


def _are_all_rows(covers: Sequence[_Cover], parameter: Parameter) -> bool:
    """Whether the covers, in their order, are all rows of a parameter, and each row once."""
    rows = 1
    if parameter.ndim:
        rows = len(parameter)
    end = 0
    for cover in covers:
        if cover.first != end:
            return False
        end = cover.last
    return end == rows


def _as_rows(tensor: Tensor) -> Tensor:
    """The tensor as a matrix with the same rows; a single number is one row."""
    if not tensor.ndim:
        return tensor.reshape(1, 1)
    return tensor.reshape(len(tensor), -1)


def _require_shape(expert: OpenedModel, name: str, shape: tuple[int, ...]) -> None:
    if name in expert.token_rows or expert.shape(name) != shape:
        raise MismatchError(
            f"`{name}` of {expert.name} has other rows than in the merged model, so the inputs of "
            "its task do not fit that model; choose a method that needs no data.",
            tensor=name,
            shapes={"merged": shape, expert.name: expert.shape(name)},
        )
