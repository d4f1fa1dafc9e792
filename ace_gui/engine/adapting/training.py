"""The training loop: gradient descent on any values and objective.

The caller supplies the values, and an objective that computes the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.formatting import plain

_COLLAPSED: Final = 0.5
"""Fraction of the initial spread of answers."""

WINDOW: Final = 20
"""Steps over which spreads are averaged, and distances as nearly as whole passes allow."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Results of one step.

    ``losses``, ``spreads``: by task. ``figures``: one per expert. ``distance``: of the step's
    answers from the experts', if these are known.
    """

    losses: Mapping[str, float]
    spreads: Mapping[str, float] = field(default_factory=dict)
    figures: Sequence[float] = ()
    distance: float | None = None


Objective = Callable[[int], Seen]
"""Maps a step to its results, and stores the gradient of the summed losses in ``grad``."""


@dataclass(kw_only=True)
class State:
    """The state of the loop: everything needed to resume.

    ``values``: changed in place. ``losses``, ``spreads``: by task, of every step so far;
    ``figures``: one per expert, of every step. ``distances``: of every step, or empty. ``before``:
    values before the current window of steps. ``nearest``: the least mean distance of a window so
    far and the step before it, and ``best`` the values then. ``moments``: of the optimiser, when
    the state was saved.
    """

    values: Mapping[str, Tensor]
    step: int = 0
    losses: dict[str, list[float]] = field(default_factory=dict)
    spreads: dict[str, list[float]] = field(default_factory=dict)
    figures: list[list[float]] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    before: dict[str, Tensor] = field(default_factory=dict)
    nearest: tuple[float, int] = (math.inf, 0)
    best: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, Tensor] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        """The number of steps after which the final values were reached."""
        return self.nearest[1] if self.best else self.step

    def add(self, seen: Seen) -> None:
        """Record one more step."""
        for known, news in ((self.losses, seen.losses), (self.spreads, seen.spreads)):
            for task, value in news.items():
                known.setdefault(task, []).append(value)
        self.figures.append(list(seen.figures))
        if seen.distance is not None:
            self.distances.append(seen.distance)
        self.step += 1


def window_of(counts: Sequence[int], size: int) -> int:
    """The number of steps in whole passes over the inputs of the largest task, near ``WINDOW``.

    ``counts``: inputs of each task, 0 steps without any; ``size``: of a batch.
    """
    if not counts:
        return 0
    most = max(counts)
    a_pass = most / min(size, most)
    return round(max(1, round(WINDOW / a_pass)) * a_pass)


class Loop:
    """Changes ``values`` by Adam, or without moments (``plain``), along an objective's gradient.

    ``parameters``: with ``steps`` and ``learning_rate``. ``window``: a number of steps, if each has
    a distance, which must not grow; else 0. The final values are then those before the window with
    the least mean distance, or the last ones if no window follows it. The parameters have a
    ``patience``: the number of steps within which a window must be nearer.
    """

    def __init__(
        self,
        values: Mapping[str, Tensor],
        objective: Objective,
        parameters: Any,
        *,
        plain: bool = False,
        window: int = 0,
    ) -> None:
        self.state, self.total = State(values=values), parameters.steps
        self._objective, self._parameters, self._window = objective, parameters, window
        chosen = torch.optim.SGD if plain else torch.optim.Adam
        self._optimizer = chosen(list(values.values()), lr=parameters.learning_rate, fused=True)

    def go_on_from(self, state: State) -> None:
        """Continue from a saved state of the same values."""
        self.state = state
        if state.moments:
            indices = {name: index for index, name in enumerate(state.values)}
            found: dict[int, dict[str, Tensor]] = {}
            for key, value in state.moments.items():
                leaf, name = key.split("\0")
                found.setdefault(indices[leaf], {})[name] = value
            whole = self._optimizer.state_dict()
            self._optimizer.load_state_dict({**whole, "state": found})

    def steps(self) -> Iterator[State]:
        """Run until all steps are done or patience runs out. Each yielded state may be saved."""
        state = self.state
        while state.step < self.total and not self._has_settled():
            if self._is_between_windows:
                state.before = {n: value.detach().clone() for n, value in state.values.items()}
            seen = self._objective(state.step)
            self._optimizer.step()
            self._optimizer.zero_grad()
            state.add(seen)
            if self._is_between_windows:
                self._compare()
            yield state
        if self._window and state.step - state.nearest[1] < 2 * self._window:
            state.best = {}  # nothing shows that later values are worse
        if state.best:
            with torch.no_grad():
                for name, value in state.values.items():
                    value.copy_(state.best[name])

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's state, for saving."""
        names = list(self.state.values)
        return {
            f"{names[index]}\0{name}": torch.as_tensor(value)
            for index, own in self._optimizer.state_dict()["state"].items()
            for name, value in own.items()
            if value is not None
        }

    @property
    def _is_between_windows(self) -> bool:
        return bool(self._window) and self.state.step % self._window == 0

    def _compare(self) -> None:
        """Compare the window that has just ended with the nearest one."""
        state, window = self.state, self._window
        found = math.fsum(state.distances[-window:]) / window  # the same in any order
        if found < state.nearest[0]:
            state.nearest, state.best = (found, state.step - window), state.before
            state.before = {}

    def _has_settled(self) -> bool:
        """Whether no window came nearer within the patience."""
        since = self.state.step - self.state.nearest[1] - self._window
        return self._is_between_windows and bool(since >= self._parameters.patience)


def collapse(state: State) -> list[str]:
    """A sentence for each task whose answers lost half of their variety in the final values."""
    spreads = {task: own[: state.taken] for task, own in state.spreads.items()}
    return [
        f"The merged model came to give nearly one answer to all inputs of {plain(task)}; take "
        "fewer steps or a lower learning rate."
        for task, own in spreads.items()
        if len(own) >= 2 * WINDOW and sum(own[-WINDOW:]) < _COLLAPSED * sum(own[:WINDOW])
    ]
