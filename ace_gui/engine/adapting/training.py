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

_CHECKPOINT_SECONDS: Final = 20.0
"""Seconds between two checkpoints."""

_REPORT_SECONDS: Final = 0.1
"""Seconds between two events for the window."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Training curves."""

    losses: Mapping[str, tuple[float, ...]]
    """By task, one per step."""
    figures: Mapping[str, tuple[float, ...]]
    """By expert, one per step."""
    warnings: tuple[str, ...] = ()
    """Possible problems, a sentence each."""


@dataclass(kw_only=True)
class _StageHistory(TrainingHistory):
    """The history in a checkpoint."""

    stage: int
    """Number of the stage that was trained."""

    @property
    def is_consistent(self) -> bool:
        """Whether its curves have as many steps as were made."""
        curves = (*self.losses.values(), *self.spreads.values())
        if any(len(curve) > self.step for curve in curves):
            return False
        if len(self.figures) != self.step or len(self.distances) not in (0, self.step):
            return False
        return 0 <= self.nearest[1] <= self.step


_log = logging.getLogger(__name__)
_CURVES: Final = TypeAdapter(Curves)
_HISTORY: Final = TypeAdapter(_StageHistory)


def trained(
    loop: Loop, folder: Path, stage: int, *, title: str, experts: Sequence[str], curve: str
) -> Iterator[LearningProgress]:
    """Run a training loop to its end, from its checkpoint if there is one.

    Its values change in place. ``stage``: number of the stage in the folder. ``experts``: names for
    the figures; ``curve``: what the figures are. Raises the errors of the objective.
    """
    loop.resume_from(load_checkpoint(folder, stage, loop.state))
    state = loop.state
    reported_steps = 0

    def progress() -> LearningProgress:
        losses = {}
        for task, losses_of_task in state.losses.items():
            losses[task] = tuple(losses_of_task[reported_steps:])
        figures_by_expert = zip(*state.figures[reported_steps:], strict=True)
        return LearningProgress(
            title=title,
            done=state.step,
            total=loop.total,
            first=reported_steps,
            losses=losses,
            figures=dict(zip(experts, figures_by_expert, strict=True)),
            curve=curve,
        )

    reported_at = time.monotonic()
    saved_at = reported_at
    for _ in loop.steps():
        now = time.monotonic()
        if now - reported_at > _REPORT_SECONDS or state.step == 1:
            yield progress()
            reported_steps = state.step
            reported_at = now
        if now - saved_at > _CHECKPOINT_SECONDS:
            if _has_saved_checkpoint(folder, stage, loop):
                saved_at = now
            else:
                saved_at = math.inf  # it is not tried again
    if reported_steps < state.step:
        yield progress()


def _has_saved_checkpoint(folder: Path, stage: int, loop: Loop) -> bool:
    """Save a checkpoint. If that fails, warn and return False."""
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
    history = _StageHistory(stage=stage, **_history_fields(state))
    tensors = {f"value\0{name}": value for name, value in state.values.items()}
    tensors |= {f"before\0{name}": value for name, value in state.before.items()}
    tensors |= {f"best\0{name}": value for name, value in state.best.items()}
    tensors |= {f"moment\0{name}": value for name, value in moments.items()}
    keep_tensors(folder / CHECKPOINT, tensors, json.dumps(asdict(history)))


def load_checkpoint(folder: Path, stage: int, state: TrainingState) -> TrainingState:
    """The saved state of a stage, or the initial ``state`` if there is none.

    A damaged or foreign checkpoint is ignored with a warning.
    """
    path = folder / CHECKPOINT
    if not is_there(path):
        return state
    try:
        saved = open_tensors(path)
        history = _HISTORY.validate_json(saved.about)
        if history.stage != stage:
            return state
        values = _tensors_of_kind(saved, "value")
        before = _tensors_of_kind(saved, "before")
        best = _tensors_of_kind(saved, "best")
        moments = _tensors_of_kind(saved, "moment")
        _require_fitting(path, history, state, (values, before, best), moments)
    except (CheckpointError, ValidationError) as error:
        warn_recomputed(path, error)
        return state
    with torch.no_grad():
        for name, leaf in state.values.items():
            leaf.copy_(values[name])
    return replace(state, before=before, best=best, moments=moments, **_history_fields(history))


def _history_fields(history: TrainingHistory) -> dict[str, Any]:
    return {field.name: getattr(history, field.name) for field in fields(TrainingHistory)}


def _tensors_of_kind(saved: KeptTensors, kind: str) -> dict[str, Tensor]:
    """The tensors of one kind in a checkpoint, whose names have it as their prefix."""
    start = f"{kind}\0"
    names = [name for name in saved.checkpoint.tensors if name.startswith(start)]
    return {name.removeprefix(start): saved.read(name) for name in names}


def _require_fitting(
    path: Path,
    history: _StageHistory,
    state: TrainingState,
    saved_tensors: Sequence[Mapping[str, Tensor]],
    moments: Mapping[str, Tensor],
) -> None:
    """Raise CheckpointError unless values, their earlier states, moments and figures fit.

    ``saved_tensors``: the values, those before the window, and the best ones.
    """
    shapes = _shapes(state.values)
    values, before, best = map(_shapes, saved_tensors)
    values_fit = values == shapes and before in (shapes, {}) and best in (shapes, {})
    if not values_fit or not _moments_fit(moments, shapes) or not history.is_consistent:
        raise refusal(path, "Holds other values than those that are learned.")


_Shapes = dict[str, tuple[torch.Size, torch.dtype]]
"""Shape and dtype of a tensor, by name."""


def _shapes(tensors: Mapping[str, Tensor]) -> _Shapes:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def _moments_fit(moments: Mapping[str, Tensor], shapes: _Shapes) -> bool:
    """Whether every moment belongs to a value, and is a number or has the value's shape."""
    for name, tensor in moments.items():
        value_name, *moment_names = name.split("\0")
        if len(moment_names) != 1 or value_name not in shapes:
            return False
        value_shape, _ = shapes[value_name]
        if tensor.shape not in ((), value_shape):
            return False
    return True


def save_curves(folder: Path, curves: Curves) -> None:
    """Save the training curves. Raises OutputError and ResourceError."""
    keep_json(folder / CURVES, _CURVES.dump_python(curves, mode="json"))


def saved_curves(folder: Path) -> Curves:
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
    files = folder / FACTORS
    paths = [files / f"{name}-{t:04d}.safetensors" for t in range(experts)]
    if not all(map(_is_sound, paths)):
        files.mkdir(parents=True, exist_ok=True)
        for path, part_inputs in zip(paths, make(), strict=True):
            keep_tensors(path, part_inputs)

    def read(t: int) -> PartInputs:
        stored = open_tensors(paths[t])
        return {key: stored.read(key) for key in stored.checkpoint.tensors}

    return read


def _is_sound(path: Path) -> bool:
    """Whether the tensors of a file can be read."""
    if not is_there(path):
        return False
    try:
        open_tensors(path)
    except CheckpointError as error:
        warn_recomputed(path, error)
        return False
    return True
