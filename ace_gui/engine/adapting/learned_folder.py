"""Saves the state of unfinished training on disk, so that it can be resumed.

::

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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor

from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.adapting.training import Loop, State
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
from ace_gui.methods.shared.learning import Values
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


@dataclass(frozen=True, kw_only=True)
class _About:
    stage: int
    step: Annotated[int, Field(ge=0)]
    losses: dict[str, list[float]]
    spreads: dict[str, list[float]]
    figures: list[list[float]]
    distances: list[float]
    nearest: tuple[float, int]


_log = logging.getLogger(__name__)
_CURVES: Final = TypeAdapter(Curves)
_SAVED: Final = TypeAdapter(_About)


def trained(
    loop: Loop, folder: Path, stage: int, *, title: str, experts: Sequence[str], curve: str
) -> Iterator[LearningProgress]:
    """Run a training loop to its end, from its checkpoint if there is one.

    Its values change in place.

    ``stage``: number of the stage in the folder. ``experts``: owners of the figures, and ``curve``
    the figures' name. Raises the errors of the objective.
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
            losses={task: tuple(each[first:]) for task, each in state.losses.items()},
            figures={name: tuple(own) for name, own in zip(experts, figures, strict=True)},
            curve=curve,
        )

    for _ in loop.steps():
        now = time.monotonic()
        if now - reported > _REPORT_SECONDS or state.step == 1:
            yield news()
            first, reported = state.step, now
        if now - saved > _SECONDS:
            saved = now if _checkpointed(folder, stage, loop) else math.inf
    if first < state.step:
        yield news()


def _checkpointed(folder: Path, stage: int, loop: Loop) -> bool:
    """Save a checkpoint; if that fails, warn and continue."""
    try:
        with writing(folder):
            folder.mkdir(exist_ok=True)
        save_checkpoint(folder, stage, loop.state, loop.moments())
    except (OutputError, ResourceError) as error:
        _log.warning("What is learned cannot be resumed if it is stopped: %s", error)
        return False
    return True


def save_checkpoint(folder: Path, stage: int, state: State, moments: Mapping[str, Tensor]) -> None:
    """Save the state of the loop, completely or not at all; an older checkpoint then remains."""
    about = _About(
        stage=stage,
        step=state.step,
        losses=state.losses,
        spreads=state.spreads,
        figures=state.figures,
        distances=state.distances,
        nearest=state.nearest,
    )
    tensors = {f"value\0{name}": value for name, value in state.values.items()}
    tensors |= {f"before\0{name}": value for name, value in state.before.items()}
    tensors |= {f"best\0{name}": value for name, value in state.best.items()}
    tensors |= {f"moment\0{name}": value for name, value in moments.items()}
    keep_tensors(folder / CHECKPOINT, tensors, json.dumps(asdict(about)))


def load_checkpoint(folder: Path, stage: int, state: State) -> State:
    """The saved state of a stage, or ``state``, its beginning, if there is none.

    A damaged or foreign checkpoint is ignored with a warning.
    """
    path = folder / CHECKPOINT
    if not is_there(path):
        return state
    try:
        kept = open_tensors(path)
        about = _SAVED.validate_json(kept.about)
        if about.stage != stage:
            return state
        values, before, best, moments = (
            _of(kept, what) for what in ("value", "before", "best", "moment")
        )
        _require_fitting(path, about, state, (values, before, best), moments)
    except (CheckpointError, ValidationError) as error:
        warn_recomputed(path, error)
        return state
    with torch.no_grad():
        for name, leaf in state.values.items():
            leaf.copy_(values[name])
    return replace(
        state,
        step=about.step,
        losses=about.losses,
        spreads=about.spreads,
        figures=about.figures,
        distances=about.distances,
        before=before,
        nearest=about.nearest,
        best=best,
        moments=moments,
    )


def _of(kept: KeptTensors, what: str) -> dict[str, Tensor]:
    start = f"{what}\0"
    names = [name for name in kept.checkpoint.tensors if name.startswith(start)]
    return {name.removeprefix(start): kept.read(name) for name in names}


def _require_fitting(
    path: Path,
    about: _About,
    state: State,
    kept: Sequence[Mapping[str, Tensor]],
    moments: Mapping[str, Tensor],
) -> None:
    """Raise CheckpointError unless values, their earlier states, moments and figures fit."""
    shapes = {name: (leaf.shape, leaf.dtype) for name, leaf in state.values.items()}
    values, *others = ({n: (t.shape, t.dtype) for n, t in each.items()} for each in kept)
    of_moments = [(name.split("\0"), tensor) for name, tensor in moments.items()]
    fits = (
        values == shapes
        and all(each in (shapes, {}) for each in others)
        and len(about.figures) == about.step
        and len(about.distances) in (0, about.step)
        and 0 <= about.nearest[1] <= about.step
        and all(len(own) <= about.step for own in (*about.losses.values(), *about.spreads.values()))
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
        for path, own in zip(paths, make(), strict=True):
            keep_tensors(path, own)

    def read(t: int) -> Values:
        kept = open_tensors(paths[t])
        return {own: kept.read(own) for own in kept.checkpoint.tensors}

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
