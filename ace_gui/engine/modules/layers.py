"""What modules in models share: their layers, and observers of the experts that routers choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, cast

from torch import Tensor, nn

from ace_gui.architecture.disk_names import DiskNames
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
