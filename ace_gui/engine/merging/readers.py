"""Reads tensors of the base and the experts, and finds NaN and Inf in them.

There is no separate check beforehand, which would read every tensor twice. Code that meets a
NonFiniteError while reading asks ``resolve_non_finite`` how to continue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import torch
from torch import Tensor

from ace_gui.checkpoints.derived import ChangedInfo, runs
from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.reader import (
    ReadChecksums,
    TensorReader,
    non_finite_error,
    non_finite_values,
)
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.task_heads import is_new
from ace_gui.engine.streaming import Part, parts_of
from ace_gui.errors import NonFiniteError
from ace_gui.linalg.passes import is_finite
from ace_gui.recipe.values import NonFinite


class ModelReader:
    """Reads tensors of a model under the names of the base, and checks that they are finite."""

    def __init__(
        self,
        model: OpenedModel,
        base: ModelReader | None = None,
        checksums: ReadChecksums | None = None,
    ) -> None:
        """Read from ``model``.

        ``base``: the reader that supplies token rows an expert lacks. ``checksums``: records reads.
        """
        self.model = model
        self._base = base
        self.reader = TensorReader(model.checkpoint, checksums)

    def read(self, base_name: str, part: Part | None = None, *, checked: bool = True) -> Tensor:
        """The tensor as stored, or a part of it, flat.

        ``checked``: whether to check for NaN and Inf. Raises NonFiniteError, CheckpointError,
        FileChangedError or ResourceError.
        """
        expert_name = self.model.own_names[base_name]
        if base_name in self.model.token_rows:
            tensor = self._read_by_token(base_name, part)
        else:
            if part is None:
                tensor = self.reader.read(expert_name)
            else:
                tensor = self.reader.read_part(expert_name, *part)
        if checked and not is_finite(tensor):
            raise self._error(expert_name)
        return tensor

    def _read_by_token(self, base_name: str, part: Part | None) -> Tensor:
        """The rows of the base's tokens in the base's order.

        Tokens that this model lacks get the base's rows.
        """
        assert self._base is not None
        rows = self.model.token_rows[base_name]
        shape = self._base.model.shape(base_name)
        width = math.prod(shape[1:])
        expert_name = self.model.own_names[base_name]
        start, stop = part or (0, math.prod(shape))
        first = start // width
        last = -(-stop // width)
        base_rows = self._base.read(base_name, (first * width, last * width))
        for index, row, count in runs(rows[first:last]):
            read = self.reader.read_part(expert_name, row * width, (row + count) * width)
            base_rows = base_rows.to(torch.promote_types(base_rows.dtype, read.dtype))
            base_rows[index * width : (index + count) * width] = read
        flat = base_rows[start - first * width : stop - first * width]
        if part is None:
            return flat.reshape(shape)
        return flat

    def non_finite(self, base_name: str) -> str:
        """Where the tensor has NaN or Inf ("3 NaN values (first at [0, 3])").

        Empty if it is finite.
        """
        return self._non_finite(self.model.own_names[base_name])

    def require_finite(self, name: str) -> None:
        """Raise NonFiniteError if a tensor, named as here or in the base, has NaN or Inf."""
        expert_name = self.model.own_names.get(name, name)
        if self._non_finite(expert_name):
            raise self._error(expert_name)

    def _non_finite(self, name: str) -> str:
        shape = self.model.checkpoint.tensors[name].shape
        parts = (self.reader.read_part(name, *part) for part in parts_of(math.prod(shape)))
        try:
            return non_finite_values(parts, shape)
        except NonFiniteError as error:  # in a factor of an adapter
            return f"NaN or Inf in `{error.tensor}`"

    def _error(self, name: str) -> NonFiniteError:
        what = self._non_finite(name)
        return non_finite_error(what, name, self.model.name, self.model.checkpoint.path)

    def will_read(self, base_name: str) -> None:
        """Ask the operating system to read the tensor ahead."""
        self.reader.will_read(self.model.own_names[base_name])

    def change(self, base_name: str, part: Part | None = None) -> Tensor | None:
        """What an adapter adds to the tensor, float32, in stored orientation.

        None for a whole model. Computing it as a difference of sums would only add rounding errors.
        """
        model = self.model
        if model.checkpoint.adapter is None or base_name in model.token_rows:
            return None
        info = model.checkpoint.tensors[model.own_names[base_name]]
        if not isinstance(info, ChangedInfo) or info.brought:
            return None
        flat = info.delta(self.reader, *(part or (0, math.prod(info.shape))))
        if part is not None:
            return flat
        return flat.reshape(info.shape)

    def dtype(self, base_name: str) -> torch.dtype:
        """The dtype of the tensor as stored; float32 for what an adapter adds."""
        stored = torch_dtype(self.model.checkpoint.tensors[self.model.own_names[base_name]].dtype)
        is_added = self.model.checkpoint.adapter is not None and stored != torch.float64
        if is_added:
            return torch.float32
        return stored


class Readers:
    """Readers of the base and of every expert of a plan. No file stays open between reads.

    ``checksums``: records everything that the readers read, if ``with_checksums``.
    """

    def __init__(self, prepared: Prepared, *, with_checksums: bool = True) -> None:
        self.prepared = prepared
        self._files = prepared.files
        self.checksums = ReadChecksums()
        checksums = None
        if with_checksums:
            checksums = self.checksums
        self.base = ModelReader(prepared.base, checksums=checksums)
        experts = [ModelReader(expert, self.base, checksums) for expert in prepared.experts]
        self.experts = tuple(experts)

    def names_of(self, row: PlanRow) -> tuple[str, ...]:
        """The names of the row's experts, in order."""
        return tuple(self.experts[t].model.name for t in row.experts)

    def will_read(self, row: PlanRow) -> None:
        """Ask the operating system to read the tensors of a row ahead while another is merged."""
        self.base.will_read(row.tensor)
        if row.is_combined:
            for t in row.experts:
                self.experts[t].will_read(answering_name(row, self.experts[t].model))

    def check_unchanged(self) -> None:
        """Raises FileChangedError if a file has changed since it was opened and read."""
        for model in (self.base, *self.experts):
            model.reader.check_unchanged()
        self.checksums.require_unchanged(self._files)


Result = TypeVar("Result")

CHOICE: Final = (
    " Or choose to keep the base's tensor, or to leave the expert out of it: `non_finite` in a "
    "recipe, NaN and Inf in the window."
)


@dataclass(frozen=True, kw_only=True)
class ResolvedRow:
    """How a merge goes on without experts that have NaN or Inf in a row."""

    row: PlanRow
    """The row with the remaining experts; without any, the base is kept."""
    non_finite: Mapping[str, str]
    """By the name of each excluded expert, what it has ("3 NaN values (first at [0, 3])")."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the report of the tensor on what was done."""
        sentences = [f"`{name}` has {what} here" for name, what in self.non_finite.items()]
        if not self.row.experts:
            return (f"The base's tensor is kept: {', and '.join(sentences)}.",)
        return tuple(f"{sentence}: left out of this tensor." for sentence in sentences)


def resolve_non_finite(error: NonFiniteError, row: PlanRow, readers: Readers) -> ResolvedRow:
    """Apply the recipe's choice to the row at which ``error`` occurred.

    Raises ``error`` if the recipe stops in this case, or if the base itself has NaN or Inf.
    """
    choice = readers.prepared.recipe.non_finite
    base = readers.base.model
    # A tensor without values in the base is made from those of the experts.
    if error.path == base.checkpoint.path or is_new(base, row.tensor):
        raise error
    if choice is NonFinite.STOP:
        error.sentence += CHOICE
        error.key = "non_finite"
        raise error
    non_finite = {}
    for t in row.experts:
        what = readers.experts[t].non_finite(answering_name(row, readers.experts[t].model))
        if what:
            non_finite[t] = what
    if not non_finite:  # the file has changed since
        raise error
    experts: tuple[int, ...] = ()
    if choice is not NonFinite.KEEP_BASE:
        experts = tuple(t for t in row.experts if t not in non_finite)
    by_name = {readers.experts[t].model.name: what for t, what in non_finite.items()}
    return ResolvedRow(row=replace(row, experts=experts), non_finite=by_name)


def finding(find: Callable[[PlanRow], Result], row: PlanRow, readers: Readers) -> Result:
    """The result of ``find`` for a row, without experts that turn out to have NaN or Inf in it."""
    try:
        return find(row)
    except NonFiniteError as error:
        return find(resolve_non_finite(error, row, readers).row)


def require_finite_heads(readers: Readers) -> None:
    """Raise NonFiniteError for a head with NaN or Inf, as the base has no replacement for it.

    Checked before the merge, so that it does not fail at its end.
    """
    prepared = readers.prepared
    for row in prepared.plan.rows:
        if row.disposition == Disposition.PER_EXPERT or is_new(prepared.base, row.tensor):
            for t in row.experts:
                readers.experts[t].require_finite(row.name)
