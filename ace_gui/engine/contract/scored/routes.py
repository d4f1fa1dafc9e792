"""The experts that a router chose for the examples of a task. Plain values.

L layers, T experts, N examples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

WHOLE: Final = "whole model"
"""Layer name of a router that serves the whole model."""


@dataclass(frozen=True, kw_only=True)
class TaskRoutes:
    """The weights that a model's routers gave to the experts, averaged over a task's examples.

    ``owner``: the expert of the task, None if it has none. ``share_LT``: by layer and expert; each
    row adds up to the router's total. ``seconds``: mean time of the model per example;
    ``plain_seconds``: without its modules.
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
        """The shares averaged over the layers."""
        columns = zip(*self.share_LT, strict=True)
        return tuple(sum(column) / len(self.layers) for column in columns)

    def record(self) -> dict[str, object]:
        """A JSON-compatible dict."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class RoutesFound:
    """The routes of all models; empty if no model has a router."""

    routes: tuple[TaskRoutes, ...]
