"""The models of all tasks, which share the parameters of the merged model."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.calibrating.calibrate import Calibration
from ace_gui.engine.evaluating.evaluators import Evaluator
from ace_gui.engine.evaluating.kinds import evaluator
from ace_gui.engine.evaluating.loaded_models import load, older_objects_frozen
from ace_gui.engine.evaluating.subjects import Loading
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.linalg.products import full_float32


@dataclass(frozen=True, kw_only=True)
class TaskModel:
    """A task with the model of its expert."""

    expert: int
    """Index of the expert."""

    data: TaskData
    """The task and its examples."""

    loading: Loading
    """How the model was loaded."""

    model: Any
    """The model."""

    def evaluator(self) -> Evaluator:
        """The evaluator of the task. Raises CheckpointError and TaskError."""
        return evaluator(self.data, self.loading, self.model)


class LoadedTaskModels:
    """The models of all tasks. ``loaded``: those that have the shared parameters by now.

    ``sources``: the data of every expert. ``shapes``: of the base tensors to share.
    """

    def __init__(
        self,
        prepared: Prepared,
        sources: Sequence[Calibration],
        shapes: Mapping[str, tuple[int, ...]],
        parameters: SharedParameters,
        device: torch.device,
    ) -> None:
        self.loaded: list[TaskModel] = []
        self._prepared = prepared
        self._sources = sources
        self._shapes = shapes
        self._parameters = parameters
        self._device = device

    def with_experts(self) -> Iterator[TaskModel]:
        """Load the models; each is yielded while its weights are still the expert's.

        Afterwards its parameters are the shared ones. Raises the errors of loading, and
        MismatchError if a model lacks a tensor.
        """
        for t, source in enumerate(self._sources):
            models: list[tuple[Loading, Any]] = []
            for _, loading in source.tasks:
                if any(loaded == loading for loaded, _ in models):
                    continue
                model = load(loading, self._device)
                for data, owner in source.tasks:
                    if owner == loading:
                        yield TaskModel(expert=t, data=data, loading=loading, model=model)
                self._share(t, model)
                models.append((loading, model))
                gc.collect()
            for data, loading in source.tasks:
                model = next(model for loaded, model in models if loaded == loading)
                self.loaded.append(TaskModel(expert=t, data=data, loading=loading, model=model))

    def _share(self, t: int, model: Any) -> None:
        """Replace the parameters of a model of expert ``t`` by the shared ones."""
        expert = self._prepared.experts[t]
        answers = set(expert.answers.values())  # a tied head is the embedding
        answered_shapes = {name: shape for name, shape in self._shapes.items() if name in answers}
        self._parameters.adopt(model, expert, answered_shapes)


def share_body(model: Any, body: dict[str, Tensor]) -> None:
    """Make the model's body share the weights of earlier models.

    ``body``: the weights so far, by name, to which this adds.
    """
    for name, parameter in model.base_model.named_parameters():
        shared = body.setdefault(name, parameter.data)
        if shared.shape == parameter.shape and torch.equal(shared, parameter.data):
            parameter.data = shared


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Context in which training gives the same numbers each time."""
    attention: AbstractContextManager[None] = nullcontext()
    if device.type != "cpu":
        # On a GPU, only this attention sums gradients in a fixed order.
        attention = sdpa_kernel(SDPBackend.MATH)
    with full_float32(), attention, older_objects_frozen():
        yield
