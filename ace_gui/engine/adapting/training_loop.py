"""The training loop: gradient descent on any values and objective.

The caller supplies the values, and an objective that computes the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import torch
from pydantic import Field
from torch import Tensor

from ace_gui.formatting import plain

_COLLAPSED: Final = 0.5
"""Share of the initial spread of answers below which the final one counts as collapsed."""

LEAST_GRADIENT: Final = 1e-12
"""Norm of a gradient below which nothing is moved further along it."""

WINDOW: Final = 20
"""Steps over which spreads are averaged, and distances as nearly as whole passes allow."""


@dataclass(frozen=True, kw_only=True)
class StepResults:
    """Results of one step."""

    losses: Mapping[str, float]
    """By task."""
    spreads: Mapping[str, float] = field(default_factory=dict)
    """By task: entropy of the mean answer, in nats."""
    figures: Sequence[float] = ()
    """One per expert."""
    distance: float | None = None
    """Share of answers that differ from the experts'; None if these are unknown."""


Objective = Callable[[int], StepResults]
"""Maps a step to its results, and stores the gradient of the summed losses in ``grad``."""


def sharpness_aware(objective: Objective, values: Mapping[str, Tensor], radius: float) -> Objective:
    """The objective with the gradient at values moved by ``radius`` along the gradient.

    P. Foret et al., Sharpness-Aware Minimization, ICLR 2021, arXiv:2010.01412, Eq. 2. The results
    of a step are those at the values themselves.
    """

    def at_moved_values(step: int) -> StepResults:
        results = objective(step)
        gradients = {name: value.grad for name, value in values.items() if value.grad is not None}
        squares = [gradient.double().square().sum() for gradient in gradients.values()]
        scale = radius / max(math.sqrt(float(sum(squares))), LEAST_GRADIENT)
        starts = {name: values[name].detach().clone() for name in gradients}
        with torch.no_grad():
            for name, gradient in gradients.items():
                values[name].add_(gradient, alpha=scale)
        objective(step)
        with torch.no_grad():
            for name, start in starts.items():
                values[name].copy_(start)
        return results

    return at_moved_values


@dataclass(kw_only=True)
class TrainingHistory:
    """The results of all steps so far."""

    step: Annotated[int, Field(ge=0)] = 0
    """Number of steps that were taken."""
    losses: dict[str, list[float]] = field(default_factory=dict)
    """By task, of every step."""
    spreads: dict[str, list[float]] = field(default_factory=dict)
    """By task, of every step: entropy of the mean answer, in nats."""
    figures: list[list[float]] = field(default_factory=list)
    """One list per expert, of every step."""
    distances: list[float] = field(default_factory=list)
    """Of every step, or empty."""
    nearest: tuple[float, int] = (math.inf, 0)
    """The least mean distance of a window so far and the step before it; or the least mean of
    ``checks``, and its step.
    """
    checks: dict[int, dict[str, float]] = field(default_factory=dict)
    """What inputs kept back gave, by step and task."""


@dataclass(kw_only=True)
class TrainingState(TrainingHistory):
    """The state of the loop: everything needed to resume."""

    values: Mapping[str, Tensor]
    """What is trained, by name; changed in place."""
    before: dict[str, Tensor] = field(default_factory=dict)
    """The values before the current window of steps; empty without windows."""
    best: dict[str, Tensor] = field(default_factory=dict)
    """The values before the nearest window; empty if these are the last ones."""
    moments: dict[str, Tensor] = field(default_factory=dict)
    """The optimiser's, when the state was saved."""

    @property
    def steps_to_final_values(self) -> int:
        """The number of steps after which the final values were reached."""
        if self.best:
            return self.nearest[1]
        return self.step

    def add(self, results: StepResults) -> None:
        """Record one more step."""
        for task, loss in results.losses.items():
            self.losses.setdefault(task, []).append(loss)
        for task, spread in results.spreads.items():
            self.spreads.setdefault(task, []).append(spread)
        self.figures.append(list(results.figures))
        if results.distance is not None:
            self.distances.append(results.distance)
        self.step += 1

    def copied_values(self) -> dict[str, Tensor]:
        """The present values, as new tensors."""
        return {name: value.detach().clone() for name, value in self.values.items()}


def window_steps(counts: Sequence[int], size: int) -> int:
    """The number of steps of a window: whole passes over the largest task, near ``WINDOW``.

    ``counts``: number of inputs of each task; without tasks 0 is returned. ``size``: of a batch.
    """
    if not counts:
        return 0
    largest = max(counts)
    pass_steps = largest / min(size, largest)
    return round(max(1, round(WINDOW / pass_steps)) * pass_steps)


class Loop:
    """Updates ``values`` with Adam or, if ``plain``, with gradient descent without moments.

    ``parameters``: with ``steps``, ``learning_rate`` and, if there are windows, ``patience``.
    ``window``: number of steps over which distances are averaged; 0 if steps have no distance.
    With windows, the final values are those before the window with the least mean distance, or the
    last ones if no window follows it. Training ends if no window is nearer within ``patience``.
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
        self.state = TrainingState(values=values)
        self.total = parameters.steps
        self._objective = objective
        self._parameters = parameters
        self._window = window
        optimizer_class: Any = torch.optim.Adam
        if plain:
            optimizer_class = torch.optim.SGD
        trained_values = list(values.values())
        self._optimizer = optimizer_class(trained_values, lr=parameters.learning_rate, fused=True)

    def resume_from(self, state: TrainingState) -> None:
        """Continue from a saved state of the same values."""
        self.state = state
        if state.moments:
            # The optimiser knows values by their index.
            indices = {name: index for index, name in enumerate(state.values)}
            by_index: dict[int, dict[str, Tensor]] = {}
            for key, moment in state.moments.items():
                value_name, moment_name = key.split("\0")
                by_index.setdefault(indices[value_name], {})[moment_name] = moment
            current = self._optimizer.state_dict()
            self._optimizer.load_state_dict({**current, "state": by_index})

    def steps(self) -> Iterator[TrainingState]:
        """Run until all steps are done or patience runs out. Each yielded state may be saved."""
        state = self.state
        while state.step < self.total and not self._has_settled():
            if self._is_between_windows:
                state.before = state.copied_values()
            self._take_step()
            if self._is_between_windows:
                self._compare()
            yield state
        if self._window and state.step - state.nearest[1] < 2 * self._window:
            state.best = {}  # nothing shows that later values are worse
        self._restore_best()

    def _take_step(self) -> None:
        """Update the values once, and record the step."""
        results = self._objective(self.state.step)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.state.add(results)

    def _restore_best(self) -> None:
        """Return to the best values, if others than the last ones are known to be."""
        with torch.no_grad():
            for name, best in self.state.best.items():
                self.state.values[name].copy_(best)

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's state, for saving."""
        names = list(self.state.values)
        moments = {}
        for index, buffers in self._optimizer.state_dict()["state"].items():
            for name, value in buffers.items():
                if value is not None:
                    moments[f"{names[index]}\0{name}"] = torch.as_tensor(value)
        return moments

    @property
    def _is_between_windows(self) -> bool:
        return bool(self._window) and self.state.step % self._window == 0

    def _compare(self) -> None:
        """Compare the window that has just ended with the nearest one."""
        state = self.state
        window = self._window
        mean = math.fsum(state.distances[-window:]) / window  # the same in any order
        if mean < state.nearest[0]:
            state.nearest = (mean, state.step - window)
            state.best = state.before
            state.before = {}

    def _has_settled(self) -> bool:
        """Whether no window came nearer within the patience."""
        steps_since = self.state.step - self.state.nearest[1] - self._window
        return self._is_between_windows and bool(steps_since >= self._parameters.patience)


class CheckedLoop(Loop):
    """Takes all steps, then returns to the values that were best on inputs kept back.

    ``rate_share``: maps a step to the share of the learning rate it has. ``check``: a number for
    each task with the current values; less is better. It runs before the first step, once in
    ``check_interval`` steps, and after the last.
    """

    def __init__(
        self,
        values: Mapping[str, Tensor],
        objective: Objective,
        parameters: Any,
        *,
        rate_share: Callable[[int], float],
        check: Callable[[], Mapping[str, float]],
        check_interval: int,
    ) -> None:
        super().__init__(values, objective, parameters)
        self._rate_share = rate_share
        self._check = check
        self._check_interval = check_interval

    def steps(self) -> Iterator[TrainingState]:
        """Take all steps. Each yielded state may be saved."""
        state = self.state
        if not state.checks:
            self._compare()
        while state.step < self.total:
            for group in self._optimizer.param_groups:
                group["lr"] = self._parameters.learning_rate * self._rate_share(state.step)
            self._take_step()
            if state.step % self._check_interval == 0 or state.step == self.total:
                self._compare()
            yield state
        self._restore_best()

    def _compare(self) -> None:
        """Check the current values, and keep them if none before were better."""
        state = self.state
        checks = dict(self._check())
        state.checks[state.step] = checks
        mean = math.fsum(checks.values()) / len(checks)
        if mean < state.nearest[0]:
            state.nearest = (mean, state.step)
            state.best = state.copied_values()


def collapse_warnings(state: TrainingState) -> list[str]:
    """A sentence for each task whose answers lost half of their variety in the final values."""
    sentences = []
    for task, all_values in state.spreads.items():
        values = all_values[: state.steps_to_final_values]
        if len(values) < 2 * WINDOW:
            continue
        if sum(values[-WINDOW:]) < _COLLAPSED * sum(values[:WINDOW]):
            sentences.append(
                "The merged model now gives nearly the same answer to all inputs of "
                f"{plain(task)}; take fewer steps or a lower learning rate."
            )
    return sentences
