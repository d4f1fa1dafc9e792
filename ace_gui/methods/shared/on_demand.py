"""Tensors that are read or computed each time they are indexed, so that few are in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import overload

from torch import Tensor


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
