"""How far two symmetric positive semidefinite matrices agree. N rows, K leading directions."""

from __future__ import annotations

import torch
from torch import Tensor

from ace_gui.linalg.products import times


def cosine(one_NN: Tensor, other_NN: Tensor, *, centred: bool = False) -> float:
    """⟨A, B⟩ / (‖A‖ ‖B‖), Frobenius, for float64 matrices; 0 where one is zero.

    ``centred``: of A − (Tr A / N) I and B − (Tr B / N) I, without making these.
    """
    size = one_NN.shape[0]
    product = float(torch.sum(one_NN * other_NN))
    squares = [float(torch.linalg.vector_norm(each) ** 2) for each in (one_NN, other_NN)]
    if centred:
        traces = [float(each.diagonal().sum()) for each in (one_NN, other_NN)]
        product -= traces[0] * traces[1] / size
        squares = [s - trace**2 / size for s, trace in zip(squares, traces, strict=True)]
    below = max(squares[0], 0.0) * max(squares[1], 0.0)
    return product / below**0.5 if below > 0 else 0.0


def overlap(one_NK: Tensor, other_NK: Tensor) -> float:
    """‖UᵀV‖² / K of two orthonormal bases: 1 for the same subspace, 0 for orthogonal ones."""
    found = torch.linalg.vector_norm(times(one_NK.T, other_NK)) ** 2
    return float(found) / one_NK.shape[1]
