"""A training loop that can be resumed: unfinished training is kept on disk.

::

    FOLDER/
      checkpoint.safetensors   values and moments of the current stage; its figures as metadata
      factors/                 inputs of the experts' parts, if they take long to compute
      curves.json              losses and figures of all stages, written last
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.adapting.training_loop import Loop, TrainingHistory, TrainingState
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
from ace_gui.methods.shared.learning import PartInputs
from ace_gui.output_files import writing

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

    @property
    def is_consistent(self) -> bool:
        """Whether its curves have as many steps as were made."""
        curves = (*self.losses.values(), *self.spreads.values())
        return (
            len(self.figures) == self.step
            and len(self.distances) in (0, self.step)
            and 0 <= self.nearest[1] <= self.step
            and all(len(curve) <= self.step for curve in curves)
        )


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
        values = _of(saved, "value")
        before = _of(saved, "before")
        best = _of(saved, "best")
        moments = _of(saved, "moment")
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
    shapes = _shapes(state.values)
    values, *earlier = map(_shapes, saved_tensors)
    values_fit = values == shapes and all(tensors in (shapes, {}) for tensors in earlier)
    if not values_fit or not _moments_fit(moments, shapes) or not about.is_consistent:
        raise refusal(path, "Holds other values than those that are learned.")


_Shapes = dict[str, tuple[torch.Size, torch.dtype]]
"""Shape and dtype of a tensor, by name."""


def _shapes(tensors: Mapping[str, Tensor]) -> _Shapes:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def _moments_fit(moments: Mapping[str, Tensor], shapes: _Shapes) -> bool:
    """Whether each belongs to a value, and is a number or has the value's shape."""
    for name, tensor in moments.items():
        value, *kind = name.split("\0")
        if len(kind) != 1 or value not in shapes or tensor.shape not in ((), shapes[value][0]):
            return False
    return True


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


def part_inputs_on_disk(
    folder: Path, name: str, experts: int, make: Callable[[], Sequence[PartInputs]]
) -> Callable[[int], PartInputs]:
    """The inputs of the experts' parts of a tensor. Computed once, then read from disk."""
    index = folder / FACTORS
    paths = [index / f"{name}-{t:04d}.safetensors" for t in range(experts)]
    if not all(map(_is_sound, paths)):
        index.mkdir(parents=True, exist_ok=True)
        for path, part_inputs in zip(paths, make(), strict=True):
            keep_tensors(path, part_inputs)

    def read(t: int) -> PartInputs:
        stored = open_tensors(paths[t])
        return {key: stored.read(key) for key in stored.checkpoint.tensors}

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
