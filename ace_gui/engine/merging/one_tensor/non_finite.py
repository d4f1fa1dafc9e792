"""Tensors in which an expert has NaN or Inf, and how the recipe handles them.

There is no separate check beforehand, which would read every tensor twice. Code that meets a
NonFiniteError while reading asks here how to continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import Readers
from ace_gui.engine.planning.models import answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.task_heads import is_new
from ace_gui.errors import NonFiniteError
from ace_gui.recipe.values import NonFinite

Found = TypeVar("Found")

CHOICE: Final = (
    " Or choose to keep the base's tensor, or to leave the expert out of it: `non_finite` in a "
    "recipe, NaN and Inf in the window."
)


@dataclass(frozen=True, kw_only=True)
class ResolvedRow:
    """How to continue. ``row``: the row with the remaining experts; without any, the base is kept.

    ``found``: by name what each excluded expert has there ("3 NaN values (first at [0, 3])").
    """

    row: PlanRow
    found: Mapping[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the report of the tensor on what was done."""
        sentences = [f"`{name}` has {what} here" for name, what in self.found.items()]
        if not self.row.experts:
            return (f"The base's tensor is kept: {', and '.join(sentences)}.",)
        return tuple(f"{each}: left out of this tensor." for each in sentences)


def resolve_non_finite(
    error: NonFiniteError, row: PlanRow, prepared: Prepared, readers: Readers
) -> ResolvedRow:
    """Apply the recipe's choice to the row at which ``error`` occurred.

    Raises ``error`` if the recipe stops in this case, or if the base itself has NaN or Inf.
    """
    choice = prepared.plan.recipe.non_finite
    base = readers.base.model
    # A tensor without values in the base is made from those of the experts.
    if error.path == base.checkpoint.path or is_new(base, row.tensor):
        raise error
    if choice is NonFinite.STOP:
        error.sentence += CHOICE
        error.key = "non_finite"
        raise error
    found = {}
    for t in row.experts:
        what = readers.experts[t].non_finite(answering_name(row, readers.experts[t].model))
        if what:
            found[t] = what
    if not found:  # the file has changed since
        raise error
    kept = tuple(t for t in row.experts if t not in found)
    return ResolvedRow(
        row=replace(row, experts=() if choice is NonFinite.KEEP_BASE else kept),
        found={readers.experts[t].model.name: what for t, what in found.items()},
    )


def finding(
    find: Callable[[PlanRow], Found], row: PlanRow, prepared: Prepared, readers: Readers
) -> Found:
    """The result of ``find`` for a row, without experts that turn out to have NaN or Inf in it."""
    try:
        return find(row)
    except NonFiniteError as error:
        return find(resolve_non_finite(error, row, prepared, readers).row)


def require_finite_heads(prepared: Prepared, readers: Readers) -> None:
    """Raise NonFiniteError for a head with NaN or Inf, as the base has no replacement for it.

    Checked before the merge, so that it does not fail at its end.
    """
    for row in prepared.plan.rows:
        if row.disposition == Disposition.PER_EXPERT or is_new(prepared.base, row.tensor):
            for t in row.experts:
                readers.experts[t].require_finite(row.name)
