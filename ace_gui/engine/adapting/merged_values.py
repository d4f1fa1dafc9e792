"""Coefficients of every tensor of a merged model, and their gradients.

∂L/∂λ_t^l = ⟨∂L/∂θ^l, τ_t^l⟩: this needs the gradient of one model and one task vector of one tensor
at a time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ace_gui.methods.shared.learning import Learning, Values, change, gradients


class Row(Protocol):
    """A tensor whose change is learned."""

    @property
    def name(self) -> str:
        """Name of the row in the plan."""
        ...

    @property
    def experts(self) -> Sequence[int]:
        """Indices of its experts."""
        ...

    @property
    def weights(self) -> Sequence[float]:
        """One weight for each expert."""
        ...

    def factors(self, t: int) -> Values:
        """The factors of the contribution of its t-th expert."""
        ...

    def put(self, change: Tensor) -> None:
        """Set the merged model's tensor to W₀ + change."""
        ...

    def pulled(self) -> Tensor:
        """∂L/∂Δ, after the backward pass."""
        ...


class MergedValues:
    """The coefficients of ``rows``: ``own`` by row, and ``shared`` for the whole model.

    ``seed``: of the random numbers of the gates.
    """

    def __init__(
        self,
        learning: Learning[Any],
        parameters: Any,
        rows: Sequence[Row],
        own: Mapping[str, Mapping[str, Tensor]],
        shared: Mapping[str, Tensor],
        *,
        seed: int,
    ) -> None:
        self.learning, self.parameters = learning, parameters
        self.rows, self.own, self.shared, self.seed = rows, own, shared, seed

    def all(self) -> dict[str, Tensor]:
        """All coefficients by name.

        The row's name precedes a slash; it is empty for shared ones.
        """
        found = {f"/{name}": value for name, value in self.shared.items()}
        for row, values in self.own.items():
            found |= {f"{row}/{name}": value for name, value in values.items()}
        return found

    def write(self, step: int | None) -> list[float]:
        """Set the merged model's tensors; ``step`` None: the final values for the export.

        Returns one figure per expert: the mean over the tensors that it has.
        """
        totals: dict[int, list[float]] = {}
        for row in self.rows:
            gates = self.gates(row, step)(self._values(row))
            row.put(change(self.learning, row.factors, row.weights, gates))
            found = self.learning.figures(gates).double().reshape(-1).tolist()
            for t, value in zip(row.experts if found else (), found, strict=True):
                totals.setdefault(t, []).append(value)
        return [math.fsum(own) / len(own) for _, own in sorted(totals.items())]

    def pull(self, step: int) -> None:
        """Compute the gradients of all coefficients from those of the merged model's tensors."""
        for value in self.all().values():
            value.grad = torch.zeros_like(value)
        penalty = self.learning.penalty
        for row in self.rows:
            found = gradients(
                self.learning,
                row.factors,
                row.weights,
                self._values(row),
                self.gates(row, step),
                row.pulled(),
                None if penalty is None else lambda gates: penalty(gates, self.parameters),
            )
            for name, gradient in found.items():
                if name in self.shared:
                    own = self.shared[name].grad
                    assert own is not None
                    own[list(row.experts)] += gradient
                else:
                    self.own[row.name][name].grad = gradient

    def gates(self, row: Row, step: int | None) -> Callable[[Values], Values]:
        """Compute the gates from coefficients and the random numbers of the step."""

        def made(values: Values) -> Values:
            draw = None if step is None else _generator(self.seed, row.name, step)
            return self.learning.gates(values, self.parameters, draw)

        return made

    def _values(self, row: Row) -> Values:
        indices = list(row.experts)
        shared = {name: value[indices] for name, value in self.shared.items()}
        return {**shared, **self.own.get(row.name, {})}


def _generator(seed: int, tensor: str, step: int) -> torch.Generator:
    """Random numbers that depend only on the seed, the tensor and the step."""
    key = f"{seed}\0{tensor}\0{step}".encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
