"""Tensors in which an expert has NaN or Inf, and what the recipe chooses for them.

Nothing is looked for beforehand, which would read every tensor twice: whoever reads one and meets
a NonFiniteError asks here how to go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import Readers
from ace_gui.engine.planning.models import answering_name
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.planning.task_heads import is_new
from ace_gui.errors import NonFiniteError
from ace_gui.recipe.values import NonFinite

CHOICE: Final = (
    " Or choose to keep the base's tensor, or to leave the expert out of it: `non_finite` in a "
    "recipe, NaN and Inf in the window."
)


@dataclass(frozen=True, kw_only=True)
class ResolvedRow:
    """How to continue. ``row``: with the experts that take part, none to keep the base's.

    ``found``: what each of the others has there, by name ("3 NaN values (first at [0, 3])").
    """

    row: PlanRow
    found: Mapping[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was done, for the report on the tensor."""
        sentences = [f"`{name}` has {what} here" for name, what in self.found.items()]
        if not self.row.experts:
            return (f"The base's tensor is kept: {', and '.join(sentences)}.",)
        return tuple(f"{each}: left out of this tensor." for each in sentences)


def resolve_non_finite(
    error: NonFiniteError, row: PlanRow, prepared: Prepared, readers: Readers
) -> ResolvedRow:
    """The recipe's choice for the row at which ``error`` occurred.

    Raises ``error`` where it chooses to stop, and where the base itself is at fault.
    """
    choice = prepared.plan.recipe.non_finite
    base = readers.base.model
    # What has no value in the base is made of the experts'.
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
    if not found:  # the file is not what it was a moment ago
        raise error
    kept = tuple(t for t in row.experts if t not in found)
    return ResolvedRow(
        row=replace(row, experts=() if choice is NonFinite.KEEP_BASE else kept),
        found={readers.experts[t].model.name: what for t, what in found.items()},
    )


def require_finite_heads(prepared: Prepared, readers: Readers) -> None:
    """Raise NonFiniteError for a head with NaN or Inf: the base has nothing that could replace it.

    Before the merge, so that it is not stopped at its end.
    """
    for row in prepared.plan.rows:
        if row.disposition == Disposition.PER_EXPERT or is_new(prepared.base, row.tensor):
            for t in row.experts:
                readers.experts[t].require_finite(row.name)
