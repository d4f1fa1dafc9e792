"""Which tensors are trained when a merge is aligned with its experts (the recipe's ``distil``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

from ace_gui.architecture.traits import Role
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import RecipeError
from ace_gui.recipe.distillation import Distillation, Trained
from ace_gui.stored_formats import is_float

RANK: Final = 8
"""Rank of the addition to each matrix."""

RATES: Final = {Trained.BIASES: 1e-3, Trained.RANK_8: 1e-3, Trained.ALL: 1e-4}
"""Learning rates, chosen on validation texts and on the samples (the page *Evidence*)."""

RANK_8_BY_BLOCK: Final = 3e-3
"""Learning rate of additions of rank 8, if one block after another is trained."""

RATE_OF_NORMS: Final = 3e-3
"""Learning rate for a model without biases."""

_FROZEN: Final = frozenset(
    {Role.EMBEDDING, Role.POSITION, Role.HEAD, Role.VOCABULARY_HEAD, Role.BUFFER}
)
_OF_EXPERTS: Final = frozenset({Disposition.PER_EXPERT, Disposition.DROPPED})


@dataclass(frozen=True, kw_only=True)
class TrainedTensors:
    """What is trained, and of which tensors."""

    train: Trained
    """Never ``AUTO``."""

    rows: tuple[PlanRow, ...]
    """One row of each trained tensor, in plan order; tied tensors once."""

    @property
    def names(self) -> tuple[str, ...]:
        """The base's names of the tensors."""
        return tuple(row.tensor for row in self.rows)

    @property
    def rank(self) -> int | None:
        """Rank of what is added to each tensor; None: all of its numbers are trained."""
        if self.train is Trained.RANK_8:
            return RANK
        return None

    @property
    def numbers(self) -> int:
        """How many numbers are trained."""
        shapes = [row.tensor_shape for row in self.rows]
        if self.rank is None:
            return sum(map(prod, shapes))
        return sum(rank_of(shape) * sum(shape) for shape in shapes)


def rank_of(shape: tuple[int, ...]) -> int:
    """The rank of what is added to a matrix of this shape."""
    return min(RANK, *shape)


def trained_tensors(prepared: Prepared, distil: Distillation) -> TrainedTensors:
    """What ``distil`` trains. Raises RecipeError if the model has nothing of that kind."""
    small = tuple(_once(row for row in _candidates(prepared) if _is_bias_or_norm(row)))
    matrices = tuple(_once(row for row in _candidates(prepared) if _is_merged_matrix(row)))
    train = distil.train
    if train is Trained.AUTO:
        if matrices:
            train = Trained.RANK_8
        else:
            train = Trained.BIASES
    if train is Trained.BIASES:
        rows = small
    else:
        rows = matrices
    if not rows:
        if train is Trained.BIASES:
            what = "bias and no norm"
        else:
            what = "merged matrix"
        raise RecipeError(
            f"The model has no {what} that could be trained; choose something else for "
            "`distil.train`, or leave `distil` out.",
            key="distil",
        )
    return TrainedTensors(train=train, rows=rows)


def learning_rate(distil: Distillation, plan: TrainedTensors, *, by_block: bool = False) -> float:
    """The highest learning rate, the given one or one that suits what is trained."""
    if distil.learning_rate is not None:
        return distil.learning_rate
    if plan.train is Trained.RANK_8 and by_block:
        return RANK_8_BY_BLOCK
    has_biases = any(row.tensor.endswith("bias") for row in plan.rows)
    if plan.train is Trained.BIASES and not has_biases:
        return RATE_OF_NORMS
    return RATES[plan.train]


def shared_rows(prepared: Prepared) -> list[PlanRow]:
    """The rows of all tensors shared by the merged models of the tasks, each tensor once."""
    rows = []
    for row in prepared.plan.rows:
        is_once = row.in_base and row.tied_to is None
        if is_once and row.disposition not in _OF_EXPERTS:
            rows.append(row)
    return rows


def _candidates(prepared: Prepared) -> Iterator[PlanRow]:
    """The shared rows that may be trained.

    Not those that a loaded mixture of experts has in a stack: it does not have them as they are.
    """
    in_stacks = prepared.base.architecture.stacked
    for row in shared_rows(prepared):
        if row.role not in _FROZEN and is_float(row.dtype) and row.tensor not in in_stacks:
            yield row


def _is_bias_or_norm(row: PlanRow) -> bool:
    return row.role in {Role.BIAS, Role.NORM} and len(row.tensor_shape) == 1


def _is_merged_matrix(row: PlanRow) -> bool:
    return row.is_merged and len(row.tensor_shape) == 2


def _once(rows: Iterator[PlanRow]) -> Iterator[PlanRow]:
    """The first row of each tensor."""
    tensors: set[str] = set()
    for row in rows:
        if row.tensor not in tensors:
            tensors.add(row.tensor)
            yield row


def copies_of(prepared: Prepared, tensor: str) -> Collection[str]:
    """A tensor and the names under which it is stored once more, because they are tied."""
    rows = (row for row in prepared.plan.rows if row.in_base and row.tied_to == tensor)
    return (tensor, *dict.fromkeys(row.tensor for row in rows))
