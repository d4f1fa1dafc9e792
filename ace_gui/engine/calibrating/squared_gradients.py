"""Sums of examples' squared gradients, with many examples per pass if that is correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.calibrating.example_gradients import ExampleGradients, gradients_of
from ace_gui.engine.evaluating.askers import Inputs
from ace_gui.linalg.precision import full_float32
from ace_gui.machine import free_memory

_TRIED: Final = 2
"""Examples with which both ways are compared."""

_MOST: Final = 32
"""Examples that pass through the model together."""

_SHARE: Final = 0.25
"""Fraction of the free memory for the activations of a pass."""

Values = Callable[[Inputs, int], Sequence[Tensor]]
"""Maps inputs, and the number of examples before them, to the values to differentiate (N)."""

Sums = dict[str, Tensor]


class SquaredGradients:
    """Σ_n (∂ value_n / ∂ parameter)² of a model's ``parameters``, by name, over all ``values``.

    No list of architectures could tell whether the examples of a batch stay independent. So two of
    them are also computed alone. Unless both ways agree, all examples are computed alone.
    """

    def __init__(self, values: Values, parameters: Mapping[str, Tensor]) -> None:
        self._values, self._parameters = values, parameters
        self._together: int | None = None

    def add(self, inputs: Inputs, first: int, sums: Sums) -> Iterator[int]:
        """Add the squares of a batch to ``sums``; yields the number of added examples."""
        count, start = _examples(inputs), 0
        while start < count:
            some = _cut(inputs, start, start + (self._together or _TRIED))
            own = _examples(some)
            with torch.enable_grad(), full_float32():
                if self._together is None and own == _TRIED:
                    self._together = self._tried(some, first + start)
                if self._together is None or self._together == 1:
                    self._one_by_one(some, first + start, sums)
                else:
                    self._at_once(some, first + start, sums)
            start += own
            yield own

    def _at_once(self, inputs: Inputs, first: int, sums: Sums) -> bool:
        """Whether all parameters' squares were added in one pass."""
        with ExampleGradients(self._parameters, _examples(inputs)) as gradients:
            values = self._values(inputs, first)
        for name, squares in gradients.squares(values):
            _add(sums, name, squares)
        return not gradients.left

    def _one_by_one(self, inputs: Inputs, first: int, sums: Sums) -> None:
        for n in range(_examples(inputs)):
            values = self._values(_cut(inputs, n, n + 1), first + n)
            for found in gradients_of(values, list(self._parameters.values())):
                for name, gradient in zip(self._parameters, found, strict=True):
                    if gradient is not None:
                        _add(sums, name, gradient.float().square())

    def _tried(self, inputs: Inputs, first: int) -> int:
        """How many examples may share a pass: 1 if sharing is incorrect."""
        held = 0

        def kept(tensor: Tensor) -> Tensor:
            nonlocal held
            held += tensor.nbytes
            return tensor

        found: Sums = {}
        known: Sums = {}
        with torch.autograd.graph.saved_tensors_hooks(kept, lambda tensor: tensor):
            whole = self._at_once(inputs, first, found)
        self._one_by_one(inputs, first, known)
        room = _SHARE * free_memory() * _TRIED / max(held, 1)
        return max(1, min(_MOST, int(room))) if whole and _agree(found, known) else 1


def _agree(found: Sums, known: Sums) -> bool:
    """Whether both ways agree except for rounding, which is all that remains of a zero gradient."""
    largest = max((float(torch.linalg.vector_norm(each)) for each in known.values()), default=0.0)
    return found.keys() == known.keys() and all(
        float(torch.linalg.vector_norm(found[name] - each))
        <= 1e-3 * float(torch.linalg.vector_norm(each)) + 1e-6 * largest
        for name, each in known.items()
    )


def _add(sums: Sums, name: str, squares: Tensor) -> None:
    if name in sums:
        sums[name] += squares
    else:
        sums[name] = squares.float()


def _examples(inputs: Inputs) -> int:
    return len(next(iter(inputs.values())))


def _cut(inputs: Inputs, start: int, stop: int) -> Inputs:
    return {name: given[start:stop] for name, given in inputs.items()}
