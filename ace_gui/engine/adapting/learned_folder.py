"""A loop in the making, on disk, so that it can be stopped and gone on with.

::

    FOLDER/
      checkpoint.safetensors   values and moments of the stage under way; its figures as metadata
      factors/                 what experts' parts are made of, where that takes long to make
      curves.json              losses and figures of all stages, written last
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ace_gui.checkpoints import TensorReader, open_checkpoint
from ace_gui.checkpoints.durable_writes import writing
from ace_gui.engine.adapting.training import Loop, State
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.methods.shared.learning import Values

CHECKPOINT: Final = "checkpoint.safetensors"
CURVES: Final = "curves.json"
FACTORS: Final = "factors"
_ABOUT: Final = "about"

_SECONDS: Final = 20.0
"""Between two checkpoints."""

_TOLD: Final = 0.1
"""Seconds between two events, so that a window can follow."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What was seen on the way. ``losses``: by task, one a step; ``figures``: by expert."""

    losses: Mapping[str, tuple[float, ...]]
    figures: Mapping[str, tuple[float, ...]]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _About:
    stage: int
    step: int
    losses: dict[str, list[float]]
    spreads: dict[str, list[float]]
    figures: list[list[float]]
    nearest: tuple[float, int]


_CURVES: Final = TypeAdapter(Curves)
_SAVED: Final = TypeAdapter(_About)


def trained(
    loop: Loop, folder: Path, stage: int, *, title: str, experts: Sequence[str], curve: str
) -> Iterator[LearningProgress]:
    """Run a loop to its end, from where it was stopped before; its values are moved in place.

    ``stage``: which of several in the folder. ``experts``: whose the figures are, and ``curve``
    what they are. Raises what the objective raises, and OSError.
    """
    loop.go_on_from(load_checkpoint(folder, stage, loop.state))
    state = loop.state
    saved = told = time.monotonic()
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
        if now - told > _TOLD or state.step == 1:
            yield news()
            first, told = state.step, now
        if now - saved > _SECONDS:
            folder.mkdir(exist_ok=True)
            save_checkpoint(folder, stage, state, loop.moments())
            saved = now
    if first < state.step:
        yield news()


def save_checkpoint(folder: Path, stage: int, state: State, moments: Mapping[str, Tensor]) -> None:
    """Keep where the loop is: all of it or, if that fails, what was kept before."""
    about = _About(
        stage=stage,
        step=state.step,
        losses=state.losses,
        spreads=state.spreads,
        figures=state.figures,
        nearest=state.nearest,
    )
    tensors = {f"value\0{name}": value for name, value in state.values.items()}
    tensors |= {f"best\0{name}": value for name, value in state.best.items()}
    tensors |= {f"moment\0{name}": value for name, value in moments.items()}
    _save(folder / CHECKPOINT, tensors, {_ABOUT: json.dumps(asdict(about))})


def load_checkpoint(folder: Path, stage: int, state: State) -> State:
    """Where the loop was in a stage; ``state``, its beginning, where nothing of it is kept."""
    path = folder / CHECKPOINT
    if not path.is_file():
        return state
    try:
        with safe_open(path, "pt") as file:
            about = _SAVED.validate_json((file.metadata() or {})[_ABOUT])
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, ValueError, KeyError):
        return state
    values, best, moments = (
        {name.removeprefix(f"{what}\0"): t for name, t in found.items() if name[0] == what[0]}
        for what in ("value", "best", "moment")
    )
    leaves = state.values
    if about.stage != stage or {n: v.shape for n, v in values.items()} != {
        n: v.shape for n, v in leaves.items()
    }:
        return state
    with torch.no_grad():
        for name, leaf in leaves.items():
            leaf.copy_(values[name])
    return replace(
        state,
        step=about.step,
        losses=about.losses,
        spreads=about.spreads,
        figures=about.figures,
        nearest=about.nearest,
        best=best,
        moments=moments,
    )


def save_curves(folder: Path, curves: Curves) -> None:
    """Keep what was seen on the way."""
    fresh = folder / f"{CURVES}.new"
    with writing(folder):
        fresh.write_bytes(_CURVES.dump_json(curves))
        fresh.replace(folder / CURVES)


def found_curves(folder: Path) -> Curves:
    """What was seen on the way; nothing where that cannot be read."""
    try:
        return _CURVES.validate_json((folder / CURVES).read_bytes())
    except (OSError, ValidationError):
        return Curves(losses={}, figures={})


def factors_on_disk(
    folder: Path, name: str, experts: int, make: Callable[[], Sequence[Values]]
) -> Callable[[int], Values]:
    """What the experts' parts of a tensor are made of, written once and read when asked for."""
    place = folder / FACTORS
    paths = [place / f"{name}-{t:04d}.safetensors" for t in range(experts)]
    if not all(path.is_file() for path in paths):
        place.mkdir(parents=True, exist_ok=True)
        for path, own in zip(paths, make(), strict=True):
            _save(path, own, {})

    def read(t: int) -> Values:
        checkpoint = open_checkpoint(paths[t])
        reader = TensorReader(checkpoint)
        return {own: reader.read(own) for own in checkpoint.tensors}

    return read


def _save(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    fresh = path.with_suffix(".new")
    with writing(path.parent):
        own = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(own, fresh, dict(metadata))
        fresh.replace(path)
