"""A close look at one matrix: the spectra of the experts and of the merge, before and after."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.engine.events import LayerSpectrum
from ace_gui.engine.plan import PlanRow
from ace_gui.engine.planning import Prepared
from ace_gui.engine.task_vectors import Readers, TaskVectors
from ace_gui.engine.tensor_merge import merge_deltas, report_of
from ace_gui.errors import MethodError
from ace_gui.linalg.spectra import singular_values


def spectrum(prepared: Prepared, row: PlanRow, device: torch.device) -> LayerSpectrum:
    """Singular values of every expert's task vector, of W_pre and of the merged delta.

    Raises MethodError for a tensor that is no matrix.
    """
    if len(row.shape) != 2 or not row.experts:
        raise MethodError(f"`{row.name}` has no spectrum; choose a matrix.", tensor=row.name)
    deltas = TaskVectors(row, Readers(prepared), device)
    experts = {name: _values(deltas[t]) for t, name in enumerate(deltas.names)}
    merged = merge_deltas(row, prepared, deltas, keep_preliminary=True)
    norm = float(torch.linalg.vector_norm(merged.delta))
    return LayerSpectrum(
        name=row.name,
        experts=experts,
        preliminary=None if merged.preliminary is None else _values(merged.preliminary),
        merged=_values(merged.delta),
        report=report_of(row, deltas.names, merged.diagnostics, norm),
    )


def _values(matrix: Tensor) -> NDArray[np.float64]:
    return singular_values(matrix).cpu().double().numpy()
