"""What training adds to the tensors of a finished merge.

W = W_merged + X, with X = U D of a low rank, or X itself trained. X is 0 at first.
O outputs, I inputs, K rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ace_gui.engine.adapting.changed_weights import LowRankChange
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.methods.shared.draws import seed_from

UP = "up"
DOWN = "down"
WHOLE = "whole"


class TrainedChanges:
    """The additions to some tensors, as values of a training loop.

    ``shapes``: of the merged tensors by name; ``start``: returns one, float32. ``ranks``: of the
    addition to each; a tensor without a rank is trained whole. ``parameters``: those of the models
    that are trained, all of which have been adopted.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        start: Callable[[str], Tensor],
        ranks: Mapping[str, int],
        parameters: SharedParameters,
        *,
        seed: int,
    ) -> None:
        self._names = tuple(shapes)
        self._start = start
        self._parameters = parameters
        self._low_rank: dict[str, LowRankChange] = {}
        self._starts: dict[str, Tensor] = {}
        """Of the tensors that are trained whole."""
        self.values: dict[str, Tensor] = {}
        for name in shapes:
            if name in ranks:
                self._begin_low_rank(name, ranks[name], seed)
            else:
                self._starts[name] = start(name)
                self.values[f"{name}/{WHOLE}"] = torch.zeros_like(self._starts[name])
        parameters.attach(self._low_rank)

    def _begin_low_rank(self, name: str, rank: int, seed: int) -> None:
        """Make U and D, of which U is 0, and set the tensor in the models."""
        start = self._start(name)
        self._parameters.write(name, start)
        outputs, inputs = start.shape
        generator = torch.Generator().manual_seed(seed_from(seed, name, 0))
        bound = 1 / math.sqrt(inputs)
        down_KI = torch.empty(rank, inputs).uniform_(-bound, bound, generator=generator)
        down_KI = down_KI.to(start.device).requires_grad_()
        up_OK = start.new_zeros(outputs, rank).requires_grad_()
        self._low_rank[name] = LowRankChange(up_OK=up_OK, down_KI=down_KI)
        self.values[f"{name}/{DOWN}"] = down_KI
        self.values[f"{name}/{UP}"] = up_OK

    @torch.no_grad()
    def tensor(self, name: str) -> Tensor:
        """The trained tensor, float32."""
        if name in self._low_rank:
            return self._start(name) + self._low_rank[name].product()
        return self._starts[name] + self.values[f"{name}/{WHOLE}"]

    def write(self) -> None:
        """Set the tensors of the models that are trained whole; others have their factors."""
        for name in self._starts:
            self._parameters.write(name, self.tensor(name))

    def set_gradients(self) -> None:
        """Compute the gradients of the values from those of the tensors; factors have theirs."""
        for name, start in self._starts.items():
            gradient = self._parameters.gradient(name, tuple(start.shape)).to(start)
            self.values[f"{name}/{WHOLE}"].grad = gradient

    def finish(self) -> dict[str, Tensor]:
        """The trained tensors, which the models then have themselves."""
        self._parameters.detach()
        tensors = {}
        for name in self._names:
            tensors[name] = self.tensor(name)
            self._parameters.write(name, tensors[name])
        return tensors
