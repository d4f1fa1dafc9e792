"""The rows of a plan as the learning loop changes them, and the merged model they form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ace_gui.engine.adapting.learned_folder import factors_on_disk
from ace_gui.engine.adapting.objectives import Kept
from ace_gui.engine.adapting.shared_parameters import SharedParameters
from ace_gui.engine.contract.plan import COMBINED, Disposition, PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import Readers, TaskVectors
from ace_gui.engine.merging.one_tensor.tensor_merge import merge_deltas
from ace_gui.engine.planning.matrix_parts import elements_of, of_row
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import RecipeError
from ace_gui.methods.adaptive.learned import factors_of
from ace_gui.methods.shared.learning import Values
from ace_gui.methods.shared.on_demand import Computed
from ace_gui.methods.shared.survey import Findings, findings_of

_OWN = frozenset({Disposition.PER_EXPERT, Disposition.DROPPED})
"""Tensors that do not belong to the merged model."""


def shared_rows(prepared: Prepared) -> list[PlanRow]:
    """The rows of all tensors shared by the merged models of the tasks, each tensor once."""
    return [
        row
        for row in prepared.plan.rows
        if row.in_base and row.tied_to is None and row.disposition not in _OWN
    ]


def is_learned(row: PlanRow, prepared: Prepared) -> bool:
    """Whether the recipe's method learns values for a row.

    Raises RecipeError if the row has another method of its own that would learn.
    """
    if row.disposition is not Disposition.MERGED or not row.experts:
        return False
    method = prepared.method_of(row)
    if method.learning is None:
        return False
    if method is not prepared.method or prepared.parameters_of(row) != prepared.parameters:
        raise RecipeError(
            f"{method.title} learns over the whole model; make it the recipe's method, with the "
            f"same parameters for every tensor, not only for `{row.name}`.",
            key="overrides",
        )
    return True


class LearnedRow:
    """A row of the plan in the learning loop. ``only``: indices of the experts concerned."""

    def __init__(
        self,
        row: PlanRow,
        prepared: Prepared,
        readers: Readers,
        parameters: SharedParameters,
        kept: Kept,
        folder: Path,
        device: torch.device,
        only: Sequence[int] | None = None,
    ) -> None:
        self.name = row.name
        self._indices = list(range(len(row.experts)) if only is None else only)
        self.experts = [row.experts[index] for index in self._indices]
        weights = prepared.weights_of(row)
        self.weights = [1.0] if only is not None else [weights[index] for index in self._indices]
        self._row, self._prepared, self._readers = row, prepared, readers
        self._parameters, self._kept, self._device = parameters, kept, device
        self._open: TaskVectors | None = None
        self._stored: Callable[[int], Values] | None = None
        learning = prepared.method.learning
        assert learning is not None
        if learning.factors is not None and learning.prepares(prepared.parameters):
            number = prepared.plan.rows.index(row)

            def made() -> Any:
                given = prepared.parameters, prepared.findings_of(row)
                return factors_of(learning, self.vectors, prepared.weights_of(row), *given)

            self._stored = factors_on_disk(folder, f"{number:05d}", len(row.experts), made)
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
        found = self._prepared.findings_of(self._row)
        return None if found is None else findings_of(found, self._indices)

    def close(self) -> None:
        """Release what need not be kept."""
        self._open = None

    def factors(self, t: int) -> Values:
        """The factors of the contribution of the t-th expert."""
        index = self._indices[t]

        def read() -> Values:
            if self._stored is None:
                return {"delta": self.vectors[index]}
            return {name: each.to(self._device) for name, each in self._stored(index).items()}

        found = self._kept.get((self.name, index), read)
        if t + 1 == len(self._indices):
            self.close()
        return found

    def put(self, change: Tensor) -> None:
        """Set the merged model's tensor to W₀ + change."""
        base = self._kept.get((self.name, "base"), lambda: self.vectors.base)
        put_row(self._row, base + change, self._parameters)
        self.close()

    def pulled(self) -> Tensor:
        """∂L/∂Δ of the row, in the orientation of the task vectors."""
        self.close()
        whole = self._parameters.gradient(self._row.tensor, self._row.tensor_shape)
        found = of_row(
            self._row, None, lambda part: whole if part is None else whole.reshape(-1)[slice(*part)]
        )
        turned = found.T if self._row.transposed else found
        return turned.contiguous().float()


def put_row(row: PlanRow, weight: Tensor, parameters: SharedParameters) -> None:
    """Set a row of the merged model, given in the orientation of the task vectors."""
    stored = weight.T if row.transposed else weight
    if row.part is None:
        parameters.write(row.tensor, stored)
        return
    whole = parameters.read(row.tensor, row.tensor_shape)
    mine = elements_of(whole.view(-1), row.part)
    mine.copy_(stored.reshape(mine.shape))
    parameters.write(row.tensor, whole)


def put_fixed(
    row: PlanRow,
    prepared: Prepared,
    readers: Readers,
    parameters: SharedParameters,
    device: torch.device,
) -> None:
    """Set a row without learned values to its final merged value."""
    if row.disposition not in COMBINED or not row.experts:
        stored = of_row(row, None, partial(readers.base.read, row.tensor))
        put_row(row, stored.T if row.transposed else stored, parameters)
        return
    deltas = TaskVectors(row, readers, device)
    put_row(row, deltas.base + merge_deltas(row, prepared, deltas).delta, parameters)
