"""The training loop: gradient descent on any values and objective; it can be resumed.

The caller supplies the values, and an objective that computes the gradient. Unfinished training is
kept on disk::

    FOLDER/
      checkpoint.safetensors   values and moments of the current stage; its figures as metadata
      factors/                 factors of the experts' parts, if they take long to compute
      curves.json              losses and figures of all stages, written last
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final

import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor

from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.calibrating.statistics_folder import FACTORS
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.kept_files import (
    KeptTensors,
    is_there,
    keep_json,
    keep_tensors,
    open_json,
    open_tensors,
    warn_recomputed,
)
from ace_gui.errors import CheckpointError, OutputError, ResourceError
from ace_gui.formatting import plain
from ace_gui.methods.shared.learning import Values
from ace_gui.output_files import writing

_COLLAPSED: Final = 0.5
"""Fraction of the initial spread of answers."""

LEAST_GRADIENT: Final = 1e-12
"""Norm of a gradient below which nothing is moved further along it."""

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


def sharpness_aware(objective: Objective, values: Mapping[str, Tensor], radius: float) -> Objective:
    """The objective with the gradient at values moved by ``radius`` along the gradient.

    P. Foret et al., Sharpness-Aware Minimization, ICLR 2021, arXiv:2010.01412, Eq. 2. The results
    of a step are those at the values themselves.
    """

    def stepped(step: int) -> Seen:
        seen = objective(step)
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
        return seen

    return stepped


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
    """The state of the loop: everything needed to resume.

    ``values``: changed in place. ``before``: values before the current window of steps; ``best``:
    before the nearest one. ``moments``: of the optimiser, when the state was saved.
    """

    values: Mapping[str, Tensor]
    before: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, Tensor] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        """The number of steps after which the final values were reached."""
        if self.best:
            return self.nearest[1]
        return self.step

    def add(self, seen: Seen) -> None:
        """Record one more step."""
        for curves, news in ((self.losses, seen.losses), (self.spreads, seen.spreads)):
            for task, value in news.items():
                curves.setdefault(task, []).append(value)
        self.figures.append(list(seen.figures))
        if seen.distance is not None:
            self.distances.append(seen.distance)
        self.step += 1


def window_of(counts: Sequence[int], size: int) -> int:
    """The number of steps in whole passes over the inputs of the largest task, near ``WINDOW``.

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
        chosen = torch.optim.SGD if plain else torch.optim.Adam
        self._optimizer = chosen(list(values.values()), lr=parameters.learning_rate, fused=True)

    def go_on_from(self, state: TrainingState) -> None:
        """Continue from a saved state of the same values."""
        self.state = state
        if state.moments:
            indices = {name: index for index, name in enumerate(state.values)}
            by_index: dict[int, dict[str, Tensor]] = {}
            for key, value in state.moments.items():
                leaf, name = key.split("\0")
                by_index.setdefault(indices[leaf], {})[name] = value
            current = self._optimizer.state_dict()
            self._optimizer.load_state_dict({**current, "state": by_index})

    def steps(self) -> Iterator[TrainingState]:
        """Run until all steps are done or patience runs out. Each yielded state may be saved."""
        state = self.state
        while state.step < self.total and not self._has_settled():
            if self._is_between_windows:
                state.before = {n: value.detach().clone() for n, value in state.values.items()}
            self._take_step()
            if self._is_between_windows:
                self._compare()
            yield state
        if self._window and state.step - state.nearest[1] < 2 * self._window:
            state.best = {}  # nothing shows that later values are worse
        self._restore_best()

    def _take_step(self) -> None:
        """Update the values once, and record the step."""
        seen = self._objective(self.state.step)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.state.add(seen)

    def _restore_best(self) -> None:
        """Return to the best values, if others than the last ones are known to be."""
        with torch.no_grad():
            for name, best in self.state.best.items():
                self.state.values[name].copy_(best)

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's state, for saving."""
        names = list(self.state.values)
        return {
            f"{names[index]}\0{name}": torch.as_tensor(value)
            for index, buffers in self._optimizer.state_dict()["state"].items()
            for name, value in buffers.items()
            if value is not None
        }

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
        since = self.state.step - self.state.nearest[1] - self._window
        return self._is_between_windows and bool(since >= self._parameters.patience)


class CheckedLoop(Loop):
    """Takes all steps, then returns to the values that were best on inputs kept back.

    ``rates``: maps a step to the share of the learning rate it has. ``check``: a number for each
    task with the current values; less is better. It runs before the first step, every ``every``
    steps, and after the last.
    """

    def __init__(
        self,
        values: Mapping[str, Tensor],
        objective: Objective,
        parameters: Any,
        *,
        rates: Callable[[int], float],
        check: Callable[[], Mapping[str, float]],
        every: int,
    ) -> None:
        super().__init__(values, objective, parameters)
        self._rates = rates
        self._check = check
        self._every = every

    def steps(self) -> Iterator[TrainingState]:
        """Take all steps. Each yielded state may be saved."""
        state = self.state
        if not state.checks:
            self._compare()
        while state.step < self.total:
            for group in self._optimizer.param_groups:
                group["lr"] = self._parameters.learning_rate * self._rates(state.step)
            self._take_step()
            if state.step % self._every == 0 or state.step == self.total:
                self._compare()
            yield state
        self._restore_best()

    def _compare(self) -> None:
        """Check the current values, and keep them if none before were better."""
        state = self.state
        state.checks[state.step] = dict(self._check())
        mean = math.fsum(state.checks[state.step].values()) / len(state.checks[state.step])
        if mean < state.nearest[0]:
            state.nearest = (mean, state.step)
            state.best = {n: value.detach().clone() for n, value in state.values.items()}


def collapse(state: TrainingState) -> list[str]:
    """A sentence for each task whose answers lost half of their variety in the final values."""
    spreads = {task: values[: state.taken] for task, values in state.spreads.items()}
    return [
        f"The merged model now gives nearly the same answer to all inputs of {plain(task)}; take "
        "fewer steps or a lower learning rate."
        for task, values in spreads.items()
        if len(values) >= 2 * WINDOW and sum(values[-WINDOW:]) < _COLLAPSED * sum(values[:WINDOW])
    ]


CHECKPOINT: Final = "checkpoint.safetensors"
CURVES: Final = "curves.json"

_SECONDS: Final = 20.0
"""Seconds between two checkpoints."""

_REPORT_SECONDS: Final = 0.1
"""Seconds between two events for the window."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Training curves. ``losses``: by task, one per step; ``figures``: by expert."""

    losses: Mapping[str, tuple[float, ...]]
    figures: Mapping[str, tuple[float, ...]]
    warnings: tuple[str, ...] = ()


@dataclass(kw_only=True)
class _About(TrainingHistory):
    stage: int


_log = logging.getLogger(__name__)
_CURVES: Final = TypeAdapter(Curves)
_SAVED: Final = TypeAdapter(_About)


def trained(
    loop: Loop, folder: Path, stage: int, *, title: str, experts: Sequence[str], curve: str
) -> Iterator[LearningProgress]:
    """Run a training loop to its end, from its checkpoint if there is one.

    Its values change in place. ``stage``: number of the stage in the folder. ``experts``: names for
    the figures; ``curve``: what the figures are. Raises the errors of the objective.
    """
    loop.go_on_from(load_checkpoint(folder, stage, loop.state))
    state = loop.state
    saved = reported = time.monotonic()
    first = 0

    def news() -> LearningProgress:
        figures = zip(*state.figures[first:], strict=True)
        return LearningProgress(
            title=title,
            done=state.step,
            total=loop.total,
            first=first,
            losses={task: tuple(losses[first:]) for task, losses in state.losses.items()},
            figures={name: tuple(values) for name, values in zip(experts, figures, strict=True)},
            curve=curve,
        )

    for _ in loop.steps():
        now = time.monotonic()
        if now - reported > _REPORT_SECONDS or state.step == 1:
            yield news()
            first = state.step
            reported = now
        if now - saved > _SECONDS:
            if _checkpointed(folder, stage, loop):
                saved = now
            else:
                saved = math.inf
    if first < state.step:
        yield news()


def _checkpointed(folder: Path, stage: int, loop: Loop) -> bool:
    """Save a checkpoint; if that fails, warn and continue."""
    try:
        with writing(folder):
            folder.mkdir(exist_ok=True)
        save_checkpoint(folder, stage, loop.state, loop.moments())
    except (OutputError, ResourceError) as error:
        _log.warning("The training cannot be resumed if it is interrupted: %s", error)
        return False
    return True


def save_checkpoint(
    folder: Path, stage: int, state: TrainingState, moments: Mapping[str, Tensor]
) -> None:
    """Save the state of the loop, completely or not at all; an older checkpoint then remains."""
    about = _About(stage=stage, **_history(state))
    tensors = {f"value\0{name}": value for name, value in state.values.items()}
    tensors |= {f"before\0{name}": value for name, value in state.before.items()}
    tensors |= {f"best\0{name}": value for name, value in state.best.items()}
    tensors |= {f"moment\0{name}": value for name, value in moments.items()}
    keep_tensors(folder / CHECKPOINT, tensors, json.dumps(asdict(about)))


def load_checkpoint(folder: Path, stage: int, state: TrainingState) -> TrainingState:
    """The saved state of a stage, or the initial ``state`` if there is none.

    A damaged or foreign checkpoint is ignored with a warning.
    """
    path = folder / CHECKPOINT
    if not is_there(path):
        return state
    try:
        saved = open_tensors(path)
        about = _SAVED.validate_json(saved.about)
        if about.stage != stage:
            return state
        values, before, best, moments = (
            _of(saved, what) for what in ("value", "before", "best", "moment")
        )
        _require_fitting(path, about, state, (values, before, best), moments)
    except (CheckpointError, ValidationError) as error:
        warn_recomputed(path, error)
        return state
    with torch.no_grad():
        for name, leaf in state.values.items():
            leaf.copy_(values[name])
    return replace(state, before=before, best=best, moments=moments, **_history(about))


def _history(of: TrainingHistory) -> dict[str, Any]:
    return {field.name: getattr(of, field.name) for field in fields(TrainingHistory)}


def _of(saved: KeptTensors, what: str) -> dict[str, Tensor]:
    start = f"{what}\0"
    names = [name for name in saved.checkpoint.tensors if name.startswith(start)]
    return {name.removeprefix(start): saved.read(name) for name in names}


def _require_fitting(
    path: Path,
    about: _About,
    state: TrainingState,
    saved_tensors: Sequence[Mapping[str, Tensor]],
    moments: Mapping[str, Tensor],
) -> None:
    """Raise CheckpointError unless values, their earlier states, moments and figures fit."""
    shapes = {name: (leaf.shape, leaf.dtype) for name, leaf in state.values.items()}
    values, *states = (
        {n: (t.shape, t.dtype) for n, t in tensors.items()} for tensors in saved_tensors
    )
    of_moments = [(name.split("\0"), tensor) for name, tensor in moments.items()]
    fits = (
        values == shapes
        and all(optimiser_state in (shapes, {}) for optimiser_state in states)
        and len(about.figures) == about.step
        and len(about.distances) in (0, about.step)
        and 0 <= about.nearest[1] <= about.step
        and all(
            len(curve) <= about.step for curve in (*about.losses.values(), *about.spreads.values())
        )
        and all(
            len(name) == 2 and name[0] in shapes and tensor.shape in ((), shapes[name[0]][0])
            for name, tensor in of_moments
        )
    )
    if not fits:
        raise refusal(path, "Holds other values than those that are learned.")


def save_curves(folder: Path, curves: Curves) -> None:
    """Save the training curves. Raises OutputError and ResourceError."""
    keep_json(folder / CURVES, _CURVES.dump_python(curves, mode="json"))


def found_curves(folder: Path) -> Curves:
    """The saved training curves; empty if they cannot be read."""
    path = folder / CURVES
    if is_there(path):
        try:
            return _CURVES.validate_python(open_json(path))
        except (CheckpointError, ValidationError) as error:
            warn_recomputed(path, error)
    return Curves(losses={}, figures={})


def factors_on_disk(
    folder: Path, name: str, experts: int, make: Callable[[], Sequence[Values]]
) -> Callable[[int], Values]:
    """The factors of the experts' parts of a tensor. Computed once, then read from disk."""
    index = folder / FACTORS
    paths = [index / f"{name}-{t:04d}.safetensors" for t in range(experts)]
    if not all(map(_is_sound, paths)):
        index.mkdir(parents=True, exist_ok=True)
        for path, factors in zip(paths, make(), strict=True):
            keep_tensors(path, factors)

    def read(t: int) -> Values:
        stored = open_tensors(paths[t])
        return {factor: stored.read(factor) for factor in stored.checkpoint.tensors}

    return read


def _is_sound(path: Path) -> bool:
    if not is_there(path):
        return False
    try:
        open_tensors(path)
    except CheckpointError as error:
        warn_recomputed(path, error)
        return False
    return True
