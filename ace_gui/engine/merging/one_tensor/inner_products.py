"""Inner products of the experts' task vectors. T experts, N elements of a part of a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import Readers, TaskVectors
from ace_gui.engine.streaming import Part, parts_of
from ace_gui.linalg.heterogeneity import energy

CPU = torch.device("cpu")
BLOCK = 1 << 15
"""Elements per expert that are widened to float64 at a time; they fit into a CPU cache."""


def gram(
    row: PlanRow, readers: Readers, parts: Iterable[Part] | None = None
) -> tuple[NDArray[np.float64], float]:
    """⟨ΔW_a, ΔW_b⟩ for all pairs of the row's experts (T × T), and ‖W₀‖²_F, in float64.

    Computed in parts, so that at most one part of every expert is in memory. ``parts``: restrict to
    these.
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
