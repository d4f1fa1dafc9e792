"""Which expert takes what: how a routed model tells on its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from torch import Tensor

Seen = Callable[[Tensor], None]
"""Called with the weights of the experts, … × T, which are the model's: only to be read."""


class Telling(Protocol):
    """A router in a model. ``location``: its layer; ``experts``: whose the weights are, in "
    "order."""

    location: str
    experts: tuple[str, ...]
    seen: Seen | None


def routers_of(model: Any) -> Iterator[Telling]:
    """Every router in a loaded model, in the model's order."""
    for module in model.modules():
        if hasattr(module, "seen") and hasattr(module, "location"):
            yield cast(Telling, module)
