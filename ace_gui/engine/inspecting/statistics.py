"""How much the experts disagree, tensor by tensor, before anything is merged.

T experts, N elements of a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from ace_gui.engine.contract.events import LayerAnalysed
from ace_gui.engine.contract.expert_similarity import cosines_of
from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.plan import COMBINED, Disposition, PlanRow
from ace_gui.engine.merging.error_place import merging_of
from ace_gui.engine.merging.non_finite import settle
from ace_gui.engine.merging.task_vectors import Readers, TaskVectors
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import Part, parts_of
from ace_gui.errors import NonFiniteError
from ace_gui.linalg.heterogeneity import energy, heterogeneity

CPU = torch.device("cpu")
BLOCK = 1 << 15
"""Elements of every expert that are widened to float64 at a time: few enough for a cache."""


def analyse(prepared: Prepared) -> Iterator[LayerAnalysed]:
    """Energies of every merged or averaged tensor, γ where the method has it.

    Merged tensors come first: they are what people wait for.
    """
    rows = [row for row in prepared.plan.rows if row.disposition in COMBINED and row.in_base]
    rows.sort(key=lambda row: row.disposition != Disposition.MERGED)
    readers = Readers(prepared)
    for done, row in enumerate(rows, start=1):
        statistics = layer_statistics(row, prepared, readers)
        yield LayerAnalysed(statistics=statistics, done=done, total=len(rows))


def layer_statistics(row: PlanRow, prepared: Prepared, readers: Readers) -> LayerStatistics:
    """Energies ‖ΔW_t‖²_F with the experts' weights, ‖W₀‖²_F, cosines, and γ (ACE, Eq. 7).

    Without experts that have NaN or Inf there; raises NonFiniteError where these stop a merge.
    """
    try:
        return _statistics(row, prepared, readers)
    except NonFiniteError as error:
        settled = settle(error, row, prepared, readers)
    if not settled.row.experts:
        return LayerStatistics(name=row.name, energies={})
    return _statistics(settled.row, prepared, readers)


def _statistics(row: PlanRow, prepared: Prepared, readers: Readers) -> LayerStatistics:
    gram_TT, base_energy = gram(row, readers)
    names = tuple(readers.experts[t].model.name for t in row.experts)
    weights = prepared.weights_of(row)
    energies = [
        float(square) * weight**2
        for square, weight in zip(gram_TT.diagonal(), weights, strict=True)
    ]
    found = None
    if prepared.method_of(row).heterogeneity and row.disposition == Disposition.MERGED:
        with merging_of(row.name, names):
            found = heterogeneity(energies)
    return LayerStatistics(
        name=row.name,
        energies=dict(zip(names, energies, strict=True)),
        base_energy=base_energy,
        gamma=found.gamma if found else None,
        mean_log_energy=found.mean_log_energy if found else None,
        left_out=tuple(names[t] for t in found.left_out) if found else (),
        cosines=cosines_of(gram_TT),
    )


def gram(
    row: PlanRow, readers: Readers, parts: Iterable[Part] | None = None
) -> tuple[NDArray[np.float64], float]:
    """⟨ΔW_a, ΔW_b⟩ for all pairs of the row's experts (T × T), and ‖W₀‖²_F, in float64.

    Part by part: no more than one part of every expert is in memory. ``parts``: only of these.
    """
    count, base_energy = len(row.experts), 0.0
    gram_TT = torch.zeros(count, count, dtype=torch.float64)
    block_TN = torch.empty(count, BLOCK, dtype=torch.float64)
    for part in parts or parts_of(math.prod(row.shape)):
        deltas = TaskVectors(row, readers, CPU, part)
        base_energy += energy(deltas.base)
        part_TN = torch.stack([deltas[t] for t in range(count)])
        for some_TN in torch.split(part_TN, BLOCK, dim=1):
            wide_TN = block_TN[:, : some_TN.shape[1]].copy_(some_TN)
            gram_TT.addmm_(wide_TN, wide_TN.T)
    return gram_TT.numpy(), base_energy
