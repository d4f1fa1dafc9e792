"""Which rows of the plan are merged in coordinates of few outputs, as only adapters change them.

O outputs, I inputs, K coordinates (``methods.shared.low_rank``).
"""

from __future__ import annotations

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.planning.adapter_plan import low_rank_changes
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods.shared.low_rank import coordinate_count


def coordinates_of(row: PlanRow, prepared: Prepared) -> int | None:
    """K; None for a row whose matrices are merged whole.

    They are if the method needs whole ones, if an expert is no plain LoRA, or if K is not far
    smaller than O.
    """
    if not row.is_merged or row.part is not None or len(row.shape) != 2:
        return None
    if not prepared.method_of(row).outputs_alike or prepared.need_of(row) is not None:
        return None
    # Which share of the directions is kept depends on min(O, I).
    if prepared.expert_parameters_of(row) is not None or row.after.rank != 1:
        return None
    changes = low_rank_changes(prepared, row)
    if not changes:
        return None
    outputs = row.shape[1] if row.transposed else row.shape[0]
    return coordinate_count(outputs, [change.a.shape[0] for _, change in changes])
