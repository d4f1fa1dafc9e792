"""Models that stay in memory between two questions, while there is room."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any, Final

import torch

from ace_gui.checkpoints.input_files import FileStamp
from ace_gui.engine.evaluating.evaluators import Evaluator
from ace_gui.engine.evaluating.kinds import evaluator
from ace_gui.engine.evaluating.loaded_models import free_bytes, load
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import TaskData

ROOM: Final = 2.0
"""Another model is loaded beside the others if the free memory is this multiple of the largest."""


@dataclass(frozen=True, kw_only=True)
class _LoadedModel:
    loading: Loading
    device: torch.device
    files: tuple[FileStamp, ...]
    """As they were when the model was loaded."""

    model: Any

    @property
    def bytes(self) -> int:
        """The size of the model's parameters."""
        return sum(parameter.nbytes for parameter in self.model.parameters())


class KeptModels:
    """Loads each model once, and drops the one that was used longest ago if memory is short."""

    def __init__(self) -> None:
        self._kept: list[_LoadedModel] = []
        """The one that was used last comes last."""

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Drop all models, because other work needs their memory."""
        if self._kept:
            self._kept = []
            gc.collect()

    def evaluator(self, data: TaskData, loading: Loading, device: torch.device) -> Evaluator:
        """A model's evaluator. Raises the errors of ``load``."""
        loaded = self._find(loading, device)
        if loaded is None:
            self._make_room(device)
            files = _stamps(loading)
            model = load(loading, device)
            loaded = _LoadedModel(loading=loading, device=device, files=files, model=model)
        else:
            self._kept.remove(loaded)
        if loading.model is None:  # one in memory is the caller's
            self._kept.append(loaded)
        return evaluator(data, loading, loaded.model)

    def has_room(self, device: torch.device) -> bool:
        """Whether another model can be loaded beside those that are kept."""
        largest = max((loaded.bytes for loaded in self._kept), default=0)
        return free_bytes(device) >= ROOM * largest

    def _find(self, loading: Loading, device: torch.device) -> _LoadedModel | None:
        """The model, unless its files have changed."""
        for loaded in self._kept:
            if loaded.loading == loading and loaded.device == device:
                if loaded.files == _stamps(loading):
                    return loaded
                self._kept.remove(loaded)
                return None
        return None

    def _make_room(self, device: torch.device) -> None:
        while self._kept and not self.has_room(device):
            del self._kept[0]
            gc.collect()


def _stamps(loading: Loading) -> tuple[FileStamp, ...]:
    if loading.model is not None:
        return ()
    return tuple(FileStamp.of(path, path.stat()) for path in loading.files)
