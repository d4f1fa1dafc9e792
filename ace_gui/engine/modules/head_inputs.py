"""Representation Surgery in a loaded model: corrects the inputs of a task's head.

H features, R the rank.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ace_gui.checkpoints import TensorReader
from ace_gui.checkpoints.input_files import refusal
from ace_gui.engine.modules.layers import NAME
from ace_gui.engine.modules.manifest import MODULES
from ace_gui.engine.modules.stored import TRAINED
from ace_gui.engine.modules.task_tensors import StoredModules
from ace_gui.errors import ArchitectureError


class Correction(nn.Module):
    """h − Up ReLU(Down h) for each feature vector h (Representation Surgery, Eq. 4)."""

    down: Tensor
    up: Tensor

    def __init__(self, down_RH: Tensor, up_HR: Tensor) -> None:
        super().__init__()
        self.register_buffer("down", down_RH, persistent=False)
        self.register_buffer("up", up_HR, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """The same shape, … × H."""
        return hidden - torch.relu(hidden @ self.down.T) @ self.up.T


def head_of(model: Any) -> Any:
    """The first module outside the model's body that has weights; the features are its input.

    Raises ArchitectureError if there is none.
    """
    body = model.base_model
    for child in model.children():
        if body is not model and child is not body and any(True for _ in child.parameters()):
            return child
    raise ArchitectureError(
        f"{type(model).__name__} has no head on a body, whose features could be corrected; choose "
        "another method."
    )


def put_correction(model: Any, modules: StoredModules, expert: str) -> Correction:
    """Attach the correction of one task to the input of the model's head.

    Raises CheckpointError if it does not fit, ArchitectureError for a model without a head.
    """
    reader = TensorReader(modules.tensors)
    down, up = (modules.read(f"{TRAINED}{expert}/{what}", reader) for what in ("down", "up"))
    width = getattr(model.config.get_text_config(), "hidden_size", None)
    if down.ndim != 2 or up.shape != down.T.shape or down.shape[1] != width:
        raise refusal(modules.folder, f"{MODULES} has a correction of another model; merge again.")
    head, first = head_of(model), next(model.parameters())
    correction = Correction(down, up).to(first.device, first.dtype)
    head.add_module(NAME, correction)
    head.register_forward_pre_hook(lambda _head, args: (correction(args[0]), *args[1:]))
    return correction
