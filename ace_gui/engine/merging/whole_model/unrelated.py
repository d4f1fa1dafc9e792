"""Detects experts that were probably tuned from another base, by a few blocks of each model.

The window has the figures of all tensors by then (``fit``). The command line would have to read the
tensors for this check alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.model_figures import far_experts, relative_changes
from ace_gui.engine.contract.plan import COMBINED, Check, PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import Readers, gram
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import ordered, single_threads
from ace_gui.errors import NonFiniteError

MATRICES: Final = 32
BLOCK: Final = 1 << 14
"""Elements read from the middle of each matrix."""


def unrelated_checks(prepared: Prepared) -> tuple[Check, ...]:
    """A warning for each expert too far from the base, or much farther than the other experts.

    Does nothing if the check was made before. Raises CheckpointError or FileChangedError.
    """
    if not prepared.distances:
        weights = dict.fromkeys(prepared.plan.recipe.expert_names, 1.0)
        prepared.distances.update(relative_changes(_sampled(prepared), weights))
    return far_experts(prepared.distances)


def _sampled(prepared: Prepared) -> Iterator[LayerStatistics]:
    """Energies of one block each from matrices spread over the model."""
    readers = Readers(prepared)

    def statistics(row: PlanRow) -> LayerStatistics | None:
        elements = math.prod(row.shape)
        start = max(0, (elements - BLOCK) // 2)
        try:
            gram_TT, base_energy = gram(row, readers, [(start, min(elements, start + BLOCK))])
        except NonFiniteError:  # the merge handles these
            return None
        names = (readers.experts[t].model.name for t in row.experts)
        energies = dict(zip(names, map(float, gram_TT.diagonal()), strict=True))
        return LayerStatistics(name=row.name, energies=energies, base_energy=base_energy)

    rows = [
        row
        for row in prepared.plan.rows
        if row.in_base and row.disposition in COMBINED and len(row.shape) > 1 and row.experts
    ]
    with single_threads() as pool:
        found = ordered(pool, statistics, rows[:: max(1, len(rows) // MATRICES)])
        yield from (each for each in found if each is not None)
