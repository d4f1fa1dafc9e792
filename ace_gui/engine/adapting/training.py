"""The loop: values of every tensor, moved against the gradient of a loss of the merged model.

∂L/∂λ_t^l = ⟨∂L/∂θ^l, τ_t^l⟩: a step takes the gradient of one model, and then one expert's task
vector of one tensor at a time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from ace_gui.methods.shared.learning import Learning, Values, change, gradients

WINDOW = 20
"""Steps over which a loss is averaged, to say whether it falls."""


class Row(Protocol):
    """A tensor whose change is learned."""

    @property
    def name(self) -> str:
        """Of the row in the plan."""
        ...

    @property
    def experts(self) -> Sequence[int]:
        """Their numbers."""
        ...

    @property
    def weights(self) -> Sequence[float]:
        """One each."""
        ...

    def factors(self, t: int) -> Values:
        """What the part of its t-th expert is made of."""
        ...

    def put(self, change: Tensor) -> None:
        """Set the merged model's tensor to W₀ + change."""
        ...

    def pulled(self) -> Tensor:
        """∂L/∂Δ, once the objective has run."""
        ...


Objective = Callable[[int], Mapping[str, tuple[float, float | None]]]
"""From a step to each task's loss and spread, leaving the gradients of their sum behind."""


@dataclass(kw_only=True)
class State:
    """Where the loop is: all that going on takes.

    ``own``: by tensor, ``shared``: of the whole model. ``losses``, ``spreads``: by task, of every
    step so far; ``figures``: one an expert, of every step.
    """

    own: dict[str, dict[str, Tensor]]
    shared: dict[str, Tensor]
    step: int = 0
    losses: dict[str, list[float]] = field(default_factory=dict)
    spreads: dict[str, list[float]] = field(default_factory=dict)
    figures: list[list[float]] = field(default_factory=list)
    moments: dict[str, Tensor] = field(default_factory=dict)

    def leaves(self) -> dict[str, Tensor]:
        """All values, each under one name."""
        found = {f"/{name}": value for name, value in self.shared.items()}
        for row, values in self.own.items():
            found |= {f"{row}/{name}": value for name, value in values.items()}
        return found


class Loop:
    """Learns the values of ``rows`` together. ``seed``: of what the gates draw."""

    def __init__(
        self,
        learning: Learning[Any],
        parameters: Any,
        rows: Sequence[Row],
        state: State,
        *,
        seed: int,
    ) -> None:
        self.learning, self.parameters = learning, parameters
        self.rows, self.state, self.seed = rows, state, seed
        self._leaves = state.leaves()  # moved in place, whatever state holds them
        chosen = torch.optim.SGD if learning.plain_descent else torch.optim.Adam
        self._optimizer = chosen(list(self._leaves.values()), lr=parameters.learning_rate)

    def go_on_from(self, state: State) -> None:
        """Take up a later state of the same values."""
        self.state = state
        if state.moments:
            places = {name: place for place, name in enumerate(self._leaves)}
            found: dict[int, dict[str, Tensor]] = {}
            for key, value in state.moments.items():
                leaf, name = key.split("\0")
                found.setdefault(places[leaf], {})[name] = value
            whole = self._optimizer.state_dict()
            self._optimizer.load_state_dict({**whole, "state": found})

    def steps(self, objective: Objective) -> Iterator[State]:
        """Step after step, until all are done or the patience ends; what is yielded may be kept."""
        state = self.state
        while state.step < self.parameters.steps and not self._has_settled():
            state.figures.append(self.write(state.step))
            for task, (loss, spread) in objective(state.step).items():
                state.losses.setdefault(task, []).append(loss)
                if spread is not None:
                    state.spreads.setdefault(task, []).append(spread)
            self._move(state.step)
            state.step += 1
            yield state

    def write(self, step: int | None) -> list[float]:
        """Set the merged model's tensors; ``step`` None: as they are exported.

        Gives the figures, one an expert: the mean over the tensors that it has.
        """
        totals: dict[int, list[float]] = {}
        for row in self.rows:
            gates = self._gates(row, step)(self._values(row))
            row.put(change(self.learning, row.factors, row.weights, gates))
            found = self.learning.figures(gates).double().reshape(-1).tolist()
            for t, value in zip(row.experts if found else (), found, strict=True):
                totals.setdefault(t, []).append(value)
        return [math.fsum(own) / len(own) for _, own in sorted(totals.items())]

    def moments(self) -> dict[str, Tensor]:
        """What the optimizer remembers, to be kept."""
        names = list(self._leaves)
        return {
            f"{names[place]}\0{name}": torch.as_tensor(value)
            for place, own in self._optimizer.state_dict()["state"].items()
            for name, value in own.items()
            if value is not None
        }

    def _move(self, step: int) -> None:
        for leaf in self._leaves.values():
            leaf.grad = torch.zeros_like(leaf)
        penalty = self.learning.penalty
        for row in self.rows:
            found = gradients(
                self.learning,
                row.factors,
                row.weights,
                self._values(row),
                self._gates(row, step),
                row.pulled(),
                None if penalty is None else lambda gates: penalty(gates, self.parameters),
            )
            for name, gradient in found.items():
                if name in self.state.shared:
                    own = self.state.shared[name].grad
                    assert own is not None
                    own[list(row.experts)] += gradient
                else:
                    self.state.own[row.name][name].grad = gradient
        self._optimizer.step()
        for leaf in self._leaves.values():
            leaf.grad = None

    def _values(self, row: Row) -> Values:
        places = list(row.experts)
        shared = {name: value[places] for name, value in self.state.shared.items()}
        return {**shared, **self.state.own.get(row.name, {})}

    def _gates(self, row: Row, step: int | None) -> Callable[[Values], Values]:
        """From values to gates, with the random numbers of the step."""

        def made(values: Values) -> Values:
            draw = None if step is None else _generator(self.seed, row.name, step)
            return self.learning.gates(values, self.parameters, draw)

        return made

    def _has_settled(self) -> bool:
        patience, losses = self.parameters.patience, list(self.state.losses.values())
        if not patience or self.state.step < patience + WINDOW:
            return False
        totals = [math.fsum(each) for each in zip(*losses, strict=True)]
        smooth = [math.fsum(totals[n : n + WINDOW]) for n in range(len(totals) - WINDOW + 1)]
        best = min(range(len(smooth)), key=smooth.__getitem__)
        return bool(len(smooth) - 1 - best >= patience)


def _generator(seed: int, tensor: str, step: int) -> torch.Generator:
    """Random numbers that depend on the seed, the tensor and the step alone."""
    key = f"{seed}\0{tensor}\0{step}".encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
