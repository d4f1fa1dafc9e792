"""What modules in models share: layers, observers of routers, corrections of a head's inputs.

H features, R the rank of a correction (Representation Surgery).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, cast

import torch
from torch import Tensor, nn

from ace_gui.architecture.disk_names import DiskNames
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.modules.stored import MODULES, TRAINED
from ace_gui.engine.modules.task_tensors import StoredModules
from ace_gui.errors import ArchitectureError
from ace_gui.formatting import plain

NAME: Final = "ace_modules"
"""Attribute name of modules in the model, or in their layer."""

Seen = Callable[[Tensor], None]
"""Called with the weights of the experts, … × T. They belong to the model and are read-only."""


class ObservedRouter(Protocol):
    """A router in a model.

    ``location``: its layer; ``experts``: names of the experts, in the order of the weights.
    """

    location: str
    experts: tuple[str, ...]
    seen: Seen | None


def routers_of(model: Any) -> Iterator[ObservedRouter]:
    """Every router in a loaded model, in the model's order."""
    for module in model.modules():
        if hasattr(module, "seen") and hasattr(module, "location"):
            yield cast(ObservedRouter, module)


def linear_layer(
    model: Any, finder: DiskNames, tensor: str, shape: tuple[int, ...]
) -> tuple[Any, bool] | None:
    """The layer with a matrix of this shape, and whether it stores it as inputs × outputs.

    None for a tensor that the model's class lacks. Raises ArchitectureError for a layer that is not
    linear.
    """
    from transformers.pytorch_utils import Conv1D

    destination = finder.find(tensor)
    if destination is None:
        return None
    owner, _, last = destination.name.rpartition(".")
    layer: Any = model.get_submodule(owner)
    linear = isinstance(layer, nn.Linear | Conv1D) and last == "weight"
    if destination.converted or not linear or layer.weight.shape != shape:
        raise ArchitectureError(
            f"`{plain(tensor)}` is not the matrix of a linear layer in {type(model).__name__}, so "
            "that experts cannot be added to it."
        )
    return layer, isinstance(layer, Conv1D)


def mean_over_tokens(hidden_NLH: Tensor, mask_NL: Tensor | None) -> Tensor:
    """The mean over the tokens of each example (N × H), over unmasked ones if the mask fits."""
    if mask_NL is None or mask_NL.shape != hidden_NLH.shape[:2]:
        return hidden_NLH.mean(dim=1)
    share = mask_NL.to(hidden_NLH.dtype)[..., None]
    found: Tensor = (hidden_NLH * share).sum(dim=1) / share.sum(dim=1).clamp(min=1)
    return found


class Correction(nn.Module):
    """h − Up ReLU(Down h) for each feature vector h (Representation Surgery, Eq. 4)."""

    down: Tensor
    up: Tensor

    def __init__(self, down_RH: Tensor, up_HR: Tensor) -> None:
        super().__init__()
        self.register_buffer("down", down_RH, persistent=False)
        self.register_buffer("up", up_HR, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """The same shape, … × H."""
        return hidden - torch.relu(hidden @ self.down.T) @ self.up.T


def head_of(model: Any) -> Any:
    """The first module outside the model's body that has weights; the features are its input.

    Raises ArchitectureError if there is none.
    """
    body = model.base_model
    for child in model.children():
        if body is not model and child is not body and any(True for _ in child.parameters()):
            return child
    raise ArchitectureError(
        f"{type(model).__name__} has no head on a body, whose features could be corrected; choose "
        "another method."
    )


def put_correction(model: Any, modules: StoredModules, expert: str) -> Correction:
    """Attach the correction of one task to the input of the model's head.

    Raises CheckpointError if it does not fit, ArchitectureError for a model without a head.
    """
    down, up = (modules.read(f"{TRAINED}{expert}/{what}") for what in ("down", "up"))
    width = getattr(model.config.get_text_config(), "hidden_size", None)
    if down.ndim != 2 or up.shape != down.T.shape or down.shape[1] != width:
        raise refusal(modules.folder, f"{MODULES} has a correction of another model; merge again.")
    head, first = head_of(model), next(model.parameters())
    correction = Correction(down, up).to(first.device, first.dtype)
    head.add_module(NAME, correction)
    head.register_forward_pre_hook(lambda _head, args: (correction(args[0]), *args[1:]))
    return correction
