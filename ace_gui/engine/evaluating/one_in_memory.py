"""Loads models for scoring, one in memory at a time."""

from __future__ import annotations

import gc
from typing import Any

import torch

from ace_gui.engine.evaluating.askers import Asker, asker
from ace_gui.engine.evaluating.examples import TaskData
from ace_gui.engine.evaluating.model_with_head import load
from ace_gui.engine.evaluating.subjects import Loading


class Loaded:
    """Models for scoring, one in memory at a time. A model used twice in a row is loaded once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._loading: Loading | None = None
        self._model: Any = None

    def asker(self, data: TaskData, loading: Loading) -> Asker:
        """The asker for the expert on a task's inputs."""
        if self._loading != loading:
            if self._model is not None:
                self._model = None
                gc.collect()
            self._model, self._loading = load(loading, self._device), loading
        return asker(data, loading, self._model)
