"""Which expert took which examples of a task, in a model with a router. Plain values.

L layers, T experts, N examples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

WHOLE: Final = "whole model"
"""The layer of a router that there is one of."""


@dataclass(frozen=True, kw_only=True)
class TaskRoutes:
    """The shares that a model's routers gave to the experts, in the mean over a task's examples.

    ``owner``: the expert whose task it is, None where it is nobody's. ``share_LT``: by layer and
    expert, adding up to what the router gives away. ``seconds``: of the model for an example, in
    the mean; ``plain_seconds``: without its modules.
    """

    model: str
    task: str
    owner: str | None
    layers: tuple[str, ...]
    experts: tuple[str, ...]
    share_LT: tuple[tuple[float, ...], ...]
    n: int
    seconds: float
    plain_seconds: float
    module_bytes: int

    @property
    def mean_T(self) -> tuple[float, ...]:
        """The shares in the mean over the layers."""
        columns = zip(*self.share_LT, strict=True)
        return tuple(sum(column) / len(self.layers) for column in columns)

    def record(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class RoutesFound:
    """All of them; empty where no model has a router."""

    routes: tuple[TaskRoutes, ...]
