"""What training adds to the tensors of a finished merge.

W = W_merged + X, with X = U D of a low rank, or X itself trained. X is 0 at first.
O outputs, I inputs, K rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.methods.shared.draws import seed_from

UP = "up"
DOWN = "down"
WHOLE = "whole"


class TrainedChanges:
    """The additions to some tensors, as values of a training loop.

    ``starts``: the merged tensors by name, float32. ``ranks``: of the addition to each; a tensor
    without a rank is trained whole. ``parameters``: those of the models that are trained.
    """

    def __init__(
        self,
        starts: Mapping[str, Tensor],
        ranks: Mapping[str, int],
        parameters: SharedParameters,
        *,
        seed: int,
    ) -> None:
        self._starts = starts
        self._ranks = ranks
        self._parameters = parameters
        self.values: dict[str, Tensor] = {}
        for name, start in starts.items():
            self._begin(name, start, seed)

    def _begin(self, name: str, start: Tensor, seed: int) -> None:
        """Make the values of a tensor, for an addition of 0."""
        rank = self._ranks.get(name)
        if rank is None:
            self.values[f"{name}/{WHOLE}"] = torch.zeros_like(start)
            return
        outputs, inputs = start.shape
        generator = torch.Generator().manual_seed(seed_from(seed, name, 0))
        bound = 1 / math.sqrt(inputs)
        down_KI = torch.empty(rank, inputs).uniform_(-bound, bound, generator=generator)
        self.values[f"{name}/{DOWN}"] = down_KI.to(start.device)
        self.values[f"{name}/{UP}"] = start.new_zeros(outputs, rank)

    def tensor(self, name: str) -> Tensor:
        """The trained tensor, float32."""
        return self._starts[name] + self._change(name)

    def is_unchanged(self) -> bool:
        """Whether every addition is 0."""
        return not any(bool(self._change(name).any()) for name in self._starts)

    def _change(self, name: str) -> Tensor:
        """The addition to a tensor."""
        if name not in self._ranks:
            return self.values[f"{name}/{WHOLE}"]
        return self.values[f"{name}/{UP}"] @ self.values[f"{name}/{DOWN}"]

    def write(self) -> None:
        """Set the tensors of the models that are trained."""
        for name in self._starts:
            self._parameters.write(name, self.tensor(name))

    def set_gradients(self) -> None:
        """Compute the gradients of the values from those of the tensors."""
        for name, start in self._starts.items():
            gradient = self._parameters.gradient(name, tuple(start.shape)).to(start)
            if name not in self._ranks:
                self.values[f"{name}/{WHOLE}"].grad = gradient
                continue
            up_OK = self.values[f"{name}/{UP}"]
            down_KI = self.values[f"{name}/{DOWN}"]
            up_OK.grad = gradient @ down_KI.T
            down_KI.grad = up_OK.T @ gradient
