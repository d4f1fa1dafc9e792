"""The merged model's parameters, shared by the models of all tasks; only heads are separate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.engine.calibrating.model_parameters import pieces
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.errors import MismatchError


@dataclass(frozen=True)
class _Cover:
    """Rows ``first`` to ``last`` of a parameter are rows of a base tensor, starting at ``at``."""

    tensor: str
    at: int
    first: int
    last: int


_Key = tuple[tuple[int, ...], tuple[_Cover, ...]]


class SharedParameters:
    """Parameters and the base tensors they consist of.

    ``learned``: the base tensors with gradients. ``device``: where the parameters of models are
    that have none in memory.
    """

    def __init__(self, learned: Collection[str], device: torch.device | None = None) -> None:
        self._learned = frozenset(learned)
        self._device = device
        self._parameters: dict[_Key, Parameter] = {}
        self._by_tensor: dict[str, list[tuple[Parameter, _Cover]]] = defaultdict(list)
        self._buffers: dict[str, list[Tensor]] = defaultdict(list)

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
            at = 0
            for parameter, first, last in parts:
                covers[parameter].append(_Cover(name, at, first, last))
                at += last - first
        finder = DiskNames(model, model_parameters | buffers)
        for name in shapes.keys() - located.keys():
            destination = finder.find(expert.own_names[name])
            if (
                destination is not None
                and destination.name in buffers
                and not destination.converted
            ):
                self._buffers[name].append(buffers[destination.name])
            elif destination is not None:
                raise MismatchError(
                    f"`{name}` of {expert.name} has another layout in the loaded model, so "
                    "nothing can be learned for it; choose a method that needs no data.",
                    tensor=name,
                )
        shared = {
            id(model_parameters[name]): self._parameter(model_parameters[name], shape)
            for name, shape in covers.items()
        }
        for module in model.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None and id(parameter) in shared:
                    module._parameters[name] = shared[id(parameter)]

    def _parameter(self, original: Parameter, covers: list[_Cover]) -> Parameter:
        if original.ndim:
            rows = len(original)
        else:
            rows = 1
        covers = sorted(covers, key=lambda cover: cover.first)
        if [cover.first for cover in covers] != [0, *(cover.last for cover in covers)][:-1] or (
            covers[-1].last != rows
        ):
            raise MismatchError(
                f"`{covers[0].tensor}` is only a part of the model's parameter, so nothing can be "
                "learned for it; choose a method that needs no data.",
                tensor=covers[0].tensor,
            )
        key = tuple(original.shape), tuple(covers)
        if key not in self._parameters:
            is_learned = any(cover.tensor in self._learned for cover in covers)
            if original.is_meta:
                device = self._device
            else:
                device = original.device
            zeros = torch.zeros_like(original, device=device)
            fresh = Parameter(zeros, requires_grad=is_learned)
            self._parameters[key] = fresh
            for cover in covers:
                self._by_tensor[cover.tensor].append((fresh, cover))
        return self._parameters[key]

    def write(self, name: str, tensor: Tensor) -> None:
        """Set a base tensor in its stored layout."""
        for buffer in self._buffers.get(name, ()):
            buffer.copy_(tensor)
        for parameter, cover in self._by_tensor.get(name, ()):
            if parameter.ndim:
                count = cover.last - cover.first
                parameter.data[cover.first : cover.last] = tensor[cover.at : cover.at + count]
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
        owners = self._by_tensor.get(name, ())
        if owners:
            device = owners[0][0].device
        else:
            device = None
        total = torch.zeros(shape, device=device, dtype=owners[0][0].dtype if owners else None)
        if total.numel():
            flat = total.view(shape[0] if shape else 1, -1)
        else:
            flat = total
        for parameter, cover in owners:
            value = value_of(parameter)
            if value is not None and total.numel():
                count = cover.last - cover.first
                source = value.reshape(len(value) if value.ndim else 1, -1)
                target = flat[cover.at : cover.at + count]
                rows = source[cover.first : cover.last]
                target.add_(rows) if add else target.copy_(rows)
        return total

    def forget_gradients(self) -> None:
        """Clear the gradients before the next step."""
        for parameter in self._parameters.values():
            parameter.grad = None

    @property
    def bytes(self) -> int:
        """Size of all parameters."""
        return sum(parameter.nbytes for parameter in self._parameters.values())


def _require_shape(expert: OpenedModel, name: str, shape: tuple[int, ...]) -> None:
    if name in expert.token_rows or expert.shape(name) != shape:
        raise MismatchError(
            f"`{name}` of {expert.name} has other rows than in the merged model, so the inputs of "
            "its task do not fit that model; choose a method that needs no data.",
            tensor=name,
            shapes={"merged": shape, expert.name: expert.shape(name)},
        )
