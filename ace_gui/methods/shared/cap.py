"""A limit on how far a merge may move a matrix from the base. O outputs, I inputs.

The merged change of T experts may be as large as one of them, and as large as √T of them where that
is small beside the base.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from ace_gui.errors import MethodError


def largest_change(traces: Sequence[float], base_norm: float | None, delta: float) -> float:
    """max(rms, min(√T · rms, δ‖W₀‖_F)), where rms² is the mean of the experts' traces.

    ``traces``: Tr of each expert's Gram matrix, centred over outputs. Raises MethodError where the
    norm of the base is not known.
    """
    if base_norm is None:
        raise MethodError("The cap on the change needs the norm of the base's matrix.")
    rms = math.sqrt(statistics.fmean(traces))
    return max(rms, min(math.sqrt(len(traces)) * rms, delta * base_norm))


def cap_(change: Tensor, largest: float) -> float:
    """Scale the change down to the norm ``largest`` where it is longer; returns the factor."""
    norm = float(torch.linalg.vector_norm(change, dtype=torch.float64))
    if norm <= largest:
        return 1.0
    change.mul_(largest / norm)
    return largest / norm
