"""Which method merges each row of a plan, with which parameters, and how."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, PlanRow
from ace_gui.methods import checked_parameters, get_method
from ace_gui.methods.method import Kind, MergeMethod


@dataclass(frozen=True, kw_only=True)
class RowMethods:
    """``method`` and ``parameters`` are the recipe's; a row may be overridden."""

    method: MergeMethod[Any]
    parameters: Any

    def method_of(self, row: PlanRow) -> MergeMethod[Any]:
        """The method that merges a row."""
        return self.method if row.override is None else get_method(row.override.method)

    def parameters_of(self, row: PlanRow) -> Any:
        """The parameters of ``method_of(row)`` for this row."""
        if row.override is None:
            return self.parameters
        return checked_parameters(self.method_of(row), row.override.parameters)

    def is_whole(self, row: PlanRow) -> bool:
        """Whether a row is merged in one piece instead of part by part.

        A row with steps after the method always is. So is a row merged by outputs if the outputs
        are the columns of the file.
        """
        if row.disposition is not Disposition.MERGED:
            return False
        kind = self.method_of(row).kind
        by_rows = kind is Kind.ROW and not row.transposed
        return row.after != NOTHING_AFTER or not (kind is Kind.ENTRY or by_rows)

    def row_width(self, row: PlanRow) -> int | None:
        """How many elements of a row merged in parts stay together; None: each is independent."""
        by_rows = self.method_of(row).kind is Kind.ROW
        return prod(row.shape[1:] or row.shape) if by_rows else None
