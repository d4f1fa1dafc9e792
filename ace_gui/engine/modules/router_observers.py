"""Observers of routers: how a routed model reports the experts it chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from torch import Tensor

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
