"""How much the experts disagree, tensor by tensor, before anything is merged."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ace_gui.engine.events import LayerAnalysed, LayerStatistics
from ace_gui.engine.plan import Disposition, PlanRow
from ace_gui.engine.planning import COMBINED, Prepared
from ace_gui.engine.task_vectors import Readers, TaskVectors
from ace_gui.linalg.heterogeneity import energy, heterogeneity

CPU = torch.device("cpu")


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
    """Energies ‖ΔW_t‖²_F with the experts' weights, ‖W₀‖²_F, and γ (ACE, Eq. 7)."""
    deltas = TaskVectors(row, readers, CPU)
    weights = [prepared.plan.recipe.weights[t] for t in row.experts]
    energies = [
        energy(deltas[t]) * weight**2 for t, weight in zip(range(len(deltas)), weights, strict=True)
    ]
    base_energy = energy(deltas.base)
    by_expert = dict(zip(deltas.names, energies, strict=True))
    if not (prepared.method.heterogeneity and row.disposition == Disposition.MERGED):
        return LayerStatistics(name=row.name, energies=by_expert, base_energy=base_energy)
    found = heterogeneity(energies)
    return LayerStatistics(
        name=row.name,
        energies=by_expert,
        base_energy=base_energy,
        gamma=found.gamma,
        mean_log_energy=found.mean_log_energy,
        left_out=tuple(deltas.names[t] for t in found.left_out),
    )
