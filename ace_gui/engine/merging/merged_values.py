"""The learned values of a merged model's tensors, and how they get into the model.

As ∂L/∂λ_t^l = ⟨∂L/∂θ^l, τ_t^l⟩, this needs the gradient of only one model, and one task vector of
one tensor at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ace_gui.engine.adapting.objectives import BoundedCache
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.adapting.training import part_inputs_on_disk
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.method_steps import merge_deltas
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.task_vectors import TaskVectors
from ace_gui.engine.streaming import Part, elements_of, of_row
from ace_gui.methods.shared.draws import seed_from
from ace_gui.methods.shared.experts import Computed, Experts
from ace_gui.methods.shared.learned import all_part_inputs
from ace_gui.methods.shared.learning import (
    Gates,
    Learning,
    PartInputs,
    Values,
    gradients,
    merged_change,
)
from ace_gui.methods.shared.survey import Findings, findings_of_experts


class LearnedRow:
    """A row of the plan in the learning loop. ``only``: indices of the experts to learn."""

    def __init__(
        self,
        row: PlanRow,
        readers: Readers,
        parameters: SharedParameters,
        cache: BoundedCache,
        folder: Path,
        device: torch.device,
        only: Sequence[int] | None = None,
    ) -> None:
        self.name = row.name
        prepared = readers.prepared
        self._indices = list(range(len(row.experts)) if only is None else only)
        self.experts = [row.experts[index] for index in self._indices]
        weights = prepared.weights_of(row)
        if only is not None:
            self.weights = [1.0]
        else:
            self.weights = [weights[index] for index in self._indices]
        self._row = row
        self._prepared = prepared
        self._readers = readers
        self._parameters = parameters
        self._cache = cache
        self._device = device
        self._open: TaskVectors | None = None
        """The task vectors; None until they are read again."""
        self._stored: Callable[[int], PartInputs] | None = None
        """Reads the inputs of the experts' parts; None: they are the task vectors."""
        learning = prepared.method.learning
        assert learning is not None
        if learning.part_inputs is not None and learning.needs_part_inputs(prepared.parameters):
            number = prepared.plan.rows.index(row)

            def compute() -> Any:
                experts = Experts(self.vectors, prepared.weights_of(row))
                findings = prepared.findings_of(row)
                return all_part_inputs(learning, experts, prepared.parameters, findings)

            self._stored = part_inputs_on_disk(folder, f"{number:05d}", len(row.experts), compute)
            self.close()

    @property
    def vectors(self) -> TaskVectors:
        """The task vectors of all experts of the row."""
        if self._open is None:
            self._open = TaskVectors(self._row, self._readers, self._device)
        return self._open

    @property
    def own_vectors(self) -> Sequence[Tensor]:
        """The task vectors of the experts in ``only``."""
        return Computed(len(self._indices), lambda t: self.vectors[self._indices[t]])

    @property
    def findings(self) -> Findings | None:
        """The findings of the method's survey for these experts."""
        findings = self._prepared.findings_of(self._row)
        if findings is None:
            return None
        return findings_of_experts(findings, self._indices)

    def close(self) -> None:
        """Release memory that is not needed until the next read."""
        self._open = None

    def part_inputs(self, t: int) -> PartInputs:
        """What the part of the t-th expert is made of."""
        index = self._indices[t]

        def read() -> PartInputs:
            if self._stored is None:
                # Every step takes inner products, which would copy a transposed view each time.
                return {"delta": self.vectors[index].contiguous()}
            return {name: tensor.to(self._device) for name, tensor in self._stored(index).items()}

        part_inputs = self._cache.get((self.name, index), read)
        if t + 1 == len(self._indices):
            self.close()
        return part_inputs

    def put(self, change: Tensor) -> None:
        """Set the merged model's tensor to W₀ + change."""
        base = self._cache.get((self.name, "base"), lambda: self.vectors.base.contiguous())
        put_row(self._row, base + change, self._parameters)
        self.close()

    def gradient(self) -> Tensor:
        """∂L/∂Δ of the row, in the orientation of the task vectors."""
        self.close()
        whole_gradient = self._parameters.gradient(self._row.tensor, self._row.tensor_shape)

        def read(part: Part | None) -> Tensor:
            if part is None:
                return whole_gradient
            start, stop = part
            return whole_gradient.reshape(-1)[start:stop]

        gradient = of_row(self._row, None, read)
        if self._row.transposed:
            gradient = gradient.T
        return gradient.contiguous().float()


def put_row(row: PlanRow, weight: Tensor, parameters: SharedParameters) -> None:
    """Set a row of the merged model, given in the orientation of the task vectors."""
    if row.transposed:
        stored = weight.T
    else:
        stored = weight
    if row.part is None:
        parameters.write(row.tensor, stored)
        return
    tensor = parameters.read(row.tensor, row.tensor_shape)
    part = elements_of(tensor.view(-1), row.part)
    part.copy_(stored.reshape(part.shape))
    parameters.write(row.tensor, tensor)


def put_fixed(
    row: PlanRow, readers: Readers, parameters: SharedParameters, device: torch.device
) -> None:
    """Set a row without learned values to its final merged value."""
    if not row.is_combined or not row.experts:
        stored = of_row(row, None, partial(readers.base.read, row.tensor))
        put_row(row, stored.T if row.transposed else stored, parameters)
        return
    deltas = TaskVectors(row, readers, device)
    put_row(row, deltas.base + merge_deltas(row, readers.prepared, deltas).delta, parameters)


class MergedValues:
    """The learned values of ``rows``: ``entries`` by row, and ``shared`` for the whole model.

    ``seed``: seed of the gates' random numbers.
    """

    def __init__(
        self,
        learning: Learning[Any],
        parameters: Any,
        rows: Sequence[LearnedRow],
        entries: Mapping[str, Mapping[str, Tensor]],
        shared: Mapping[str, Tensor],
        *,
        seed: int,
    ) -> None:
        self.learning = learning
        self.parameters = parameters
        self.rows = rows
        self.own = entries
        self.shared = shared
        self.seed = seed

    def all(self) -> dict[str, Tensor]:
        """All values by name. The row's name precedes a slash; it is empty for shared values."""
        named = {f"/{name}": value for name, value in self.shared.items()}
        for row, values in self.own.items():
            named |= {f"{row}/{name}": value for name, value in values.items()}
        return named

    def write(self, step: int | None) -> list[float]:
        """Set the merged model's tensors; ``step`` None: the final values for the export.

        Returns one figure per expert: the mean over the tensors that it has.
        """
        figures_of_experts: dict[int, list[float]] = {}
        for row in self.rows:
            gates = self.gates(row, step)(self._values(row))
            row.put(merged_change(self.learning, row.part_inputs, row.weights, gates))
            figures = self.learning.figures(gates).double().reshape(-1).tolist()
            if not figures:  # a tensor without such a number
                continue
            for t, value in zip(row.experts, figures, strict=True):
                figures_of_experts.setdefault(t, []).append(value)
        by_expert = [figures for _, figures in sorted(figures_of_experts.items())]
        return [math.fsum(figures) / len(figures) for figures in by_expert]

    def set_gradients(self, step: int) -> None:
        """Compute the gradients of all values from those of the merged model's tensors."""
        for value in self.all().values():
            value.grad = torch.zeros_like(value)
        penalty = self.learning.penalty
        for row in self.rows:
            by_name = gradients(
                self.learning,
                row.part_inputs,
                row.weights,
                self._values(row),
                self.gates(row, step),
                row.gradient(),
                None if penalty is None else self._penalty,
            )
            for name, gradient in by_name.items():
                if name in self.shared:
                    gradient_T = self.shared[name].grad
                    assert gradient_T is not None
                    gradient_T[list(row.experts)] += gradient
                else:
                    self.own[row.name][name].grad = gradient

    def _penalty(self, gates: Gates) -> Tensor:
        assert self.learning.penalty is not None
        return self.learning.penalty(gates, self.parameters, len(self.rows))

    def gates(self, row: LearnedRow, step: int | None) -> Callable[[Values], Gates]:
        """A function that maps values to gates, with the random numbers of the step."""

        def gates_of(values: Values) -> Gates:
            if step is None:
                generator = None
            else:
                generator = _generator(self.seed, row.name, step)
            return self.learning.gates(values, self.parameters, generator)

        return gates_of

    def _values(self, row: LearnedRow) -> Values:
        indices = list(row.experts)
        shared = {name: value[indices] for name, value in self.shared.items()}
        return {**shared, **self.own.get(row.name, {})}


def _generator(seed: int, tensor: str, step: int) -> torch.Generator:
    """Random numbers that depend only on the seed, the tensor and the step."""
    return torch.Generator().manual_seed(seed_from(seed, tensor, step))
