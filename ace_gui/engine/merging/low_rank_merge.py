"""The merge of a matrix that only adapters change, in a common basis of their outputs.

Of T adapters of rank R no more than K = 1 + T R coordinates of the O outputs are needed
(``methods.shared.low_rank``): the work is that of a matrix of K rows. O outputs, I inputs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from torch import Tensor

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.task_vectors import TaskVectors, merging_of
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods.calling import merged_by
from ace_gui.methods.shared.after import changed_after
from ace_gui.methods.shared.experts import Context, Merged
from ace_gui.methods.shared.low_rank import coordinates, expanded, output_basis
from ace_gui.methods.shared.tolerance import STRICT


@dataclass(frozen=True, kw_only=True)
class MergedInCoordinates:
    """A merged task vector P C."""

    basis_OK: Tensor
    """P, float64."""
    merged: Merged
    """C and what was found about it (K × I)."""

    def whole(self) -> Merged:
        """The merged task vector itself (O × I)."""
        return expanded(self.merged, self.basis_OK)


def merged_in_coordinates(
    row: PlanRow, prepared: Prepared, deltas: TaskVectors, context: Context
) -> MergedInCoordinates | None:
    """The merged task vector with the recipe's later steps, computed in float64.

    None if its matrices are merged whole. Raises NonFiniteError and MethodError.
    """
    factors = deltas.low_rank()
    if factors is None:
        return None
    basis_OK = output_basis([left_OR for left_OR, _ in factors])
    deltas_KI = [coordinates(basis_OK, factor) for factor in factors]
    method = prepared.method_of(row)
    parameters = prepared.parameters_of(row)
    weights = prepared.weights_of(row)
    exact = replace(context, tolerance=STRICT, outputs=len(deltas.base))
    with merging_of(row.name, deltas.names):
        merged = merged_by(method, deltas_KI, weights, parameters, deltas_KI[0], exact)
    steps = asdict(row.after)
    merged = changed_after(merged, deltas_KI, weights, deltas.base, **steps, subtracted=False)
    return MergedInCoordinates(basis_OK=basis_OK, merged=merged)
