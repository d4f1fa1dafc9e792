"""Reading experts' task vectors one at a time, weighted and checked."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import overload

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.passes import is_finite


class OnDemand(Sequence[Tensor]):
    """A sequence of tensors; subclasses say how many there are, and how one is read."""

    @abstractmethod
    def read(self, index: int) -> Tensor:
        """The tensor at an index from 0 on."""

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(index, slice):
            return [self.read(t) for t in range(*index.indices(len(self)))]
        return self.read(range(len(self))[index])


class Computed(OnDemand):
    """``length`` tensors, each by ``function`` of its index."""

    def __init__(self, length: int, function: Callable[[int], Tensor]) -> None:
        self._length, self._function = length, function

    def __len__(self) -> int:
        return self._length

    def read(self, index: int) -> Tensor:
        """``function(index)``."""
        return self._function(index)


class WeightedExperts:
    """The task vectors w_t ΔW_t of T experts, read afresh at each use.

    Holds no tensor. Raises MethodError for no experts, and for weights that are not finite or not
    one an expert.
    """

    def __init__(self, deltas: Sequence[Tensor], weights: Sequence[float]) -> None:
        if not len(deltas):
            raise MethodError("There is nothing to merge; add at least one expert.")
        if len(weights) != len(deltas):
            raise MethodError(
                f"There are {len(deltas)} experts but {len(weights)} weights; give one an expert."
            )
        if not all(math.isfinite(weight) for weight in weights):
            raise MethodError("An expert's weight is NaN or infinite; give a finite number.")
        self._deltas = deltas
        self._weights = weights
        self._shape: torch.Size | None = None
        self._double = False

    def __len__(self) -> int:
        return len(self._deltas)

    @property
    def double(self) -> bool:
        """Whether any of the task vectors read so far is float64."""
        return self._double

    def delta(self, t: int) -> Tensor:
        """ΔW_t as given. Raises MethodError if its shape differs from the first one read."""
        delta = self._deltas[t]
        if self._shape is None:
            self._shape = delta.shape
        if delta.shape != self._shape:
            raise MethodError(
                f"Task vector {t + 1} has shape {tuple(delta.shape)}, others have "
                f"{tuple(self._shape)}; experts must share the base's shapes.",
                shapes={"first": tuple(self._shape), f"expert {t + 1}": tuple(delta.shape)},
            )
        self._double |= delta.dtype == torch.float64
        return delta

    def matrix(self, t: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """w_t ΔW_t as a new matrix, free to be overwritten. Raises MethodError if none."""
        delta = self.delta(t)
        require_matrix(delta.shape, t)
        matrix = delta.to(dtype, copy=True)
        return matrix if self._weights[t] == 1 else matrix.mul_(self._weights[t])

    def seen(self, t: int) -> Tensor:
        """w_t ΔW_t, only to be read: as it is given, or weighted in float64."""
        delta = self.delta(t)
        require_matrix(delta.shape, t)
        return delta if self._weights[t] == 1 else delta.to(torch.float64) * self._weights[t]

    def weighted_sum(self) -> Tensor:
        """Σ_t w_t ΔW_t in float32, any shape, reading each expert once.

        The error is below T·6e-8 of Σ|w_t ΔW_t|, far below the rounding of the base it is added to.
        Raises MethodError if the sum is not finite.
        """
        first = self.delta(0)
        total = torch.zeros_like(first, dtype=torch.float32)
        total.add_(first, alpha=self._weights[0])
        del first
        for t in range(1, len(self)):
            total.add_(self.delta(t), alpha=self._weights[t])
        if not is_finite(total):
            raise MethodError(self._non_finite_sentence())
        return total

    def _non_finite_sentence(self) -> str:
        for t in range(len(self)):
            if not is_finite(self.delta(t)):
                return (
                    f"Task vector {t + 1} of {len(self)} holds NaN or Inf; check that expert's "
                    "files."
                )
        return "The sum of the task vectors leaves the range of float32; use smaller weights."


def stacked(
    layers: Sequence[WeightedExperts], t: int, dtype: torch.dtype = torch.float64
) -> Tensor:
    """w_t ΔW_t of B layers of one shape, as one new tensor (B × O × I)."""
    first_OI = layers[0].matrix(t, dtype)
    if len(layers) == 1:
        return first_OI[None]
    stacked_BOI = first_OI.new_empty(len(layers), *first_OI.shape)
    stacked_BOI[0] = first_OI
    del first_OI
    for b, layer in enumerate(layers[1:], start=1):
        stacked_BOI[b] = layer.matrix(t, dtype)
    return stacked_BOI


def seen(layers: Sequence[WeightedExperts], t: int) -> Tensor:
    """The same as they are given, or wider, and only to be read."""
    if len(layers) == 1:
        return layers[0].seen(t)[None]
    return torch.stack([layer.seen(t) for layer in layers])


def require_one(experts: WeightedExperts) -> None:
    """Raise MethodError if there is more than one expert."""
    if len(experts) != 1:
        raise MethodError(
            f"This method goes from the base to one expert, but there are {len(experts)}; choose "
            "one."
        )


def require_base(base: Tensor | None) -> Tensor:
    """The base's weights. Raises MethodError if they were not given."""
    if base is None:
        raise MethodError("This method works on whole weights; give it the base's.")
    return base


def require_matrix(shape: torch.Size, t: int = 0) -> None:
    """Raise MethodError if expert t's tensor, of that shape, is no matrix."""
    if len(shape) != 2:
        raise MethodError(
            f"This method merges matrices, not tensors of shape {tuple(shape)}; average this one "
            "or keep it from the base.",
            shapes={f"expert {t + 1}": tuple(shape)},
        )
