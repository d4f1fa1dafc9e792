"""Random keys that identify a tensor, for methods that draw random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import Part
from ace_gui.methods.method import Kind, RandomKey


def random_key_of(
    row: PlanRow, prepared: Prepared, experts: Sequence[str], part: Part | None
) -> RandomKey:
    """The key of the random numbers for the task vectors of a row, or of a part of it.

    A tied tensor uses the key of the tensor it is tied to, so that both stay equal.
    """
    by_entries = prepared.method_of(row).kind is Kind.ENTRY
    return RandomKey(
        tensor=row.tied_to or row.name,
        experts=tuple(experts),
        seed=prepared.plan.recipe.seed,
        role=row.role,
        start=part[0] if part else 0,
        turned=by_entries and row.transposed and part is None,
    )
