"""Random vectors that measure the error of an eigen-decomposition in float32.

M is a matrix of N rows and C columns; N directions; P random vectors, which are rows.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.passes import times_transposed
from ace_gui.linalg.products import moved

PROBES: Final = 8
"""Number of random vectors."""


def random_rows(columns: int, device: torch.device) -> Tensor:
    """Vectors of standard normal numbers (P × ``columns``), float64; always the same ones."""
    generator = torch.Generator().manual_seed(0)
    rows_PC = torch.randn(PROBES, columns, generator=generator, dtype=torch.float64)
    return moved(rows_PC, device)


def times_few(matrix_NM: Tensor, few_PM: Tensor) -> Tensor:
    """The matrix times a few float64 vectors, which are rows (P × N)."""
    return times_transposed(few_PM[None], matrix_NM[None])[0]


def row_errors(rows_NC: Tensor, vectors_NN: Tensor, squares_N: Tensor, directions: slice) -> Tensor:
    """The mean of H_ji² over the ``directions`` i, for every j; H = Vᵀ M Mᵀ V − Λ.

    ``vectors_NN``: V, ``squares_N``: Λ, in float64. An error of V that mixes a large direction j
    into a small one i is in H_ji; H_ij is small.
    """
    count = len(squares_N[directions])
    few_PI = random_rows(count, rows_NC.device)
    few_PC = times_few(rows_NC.mT, times_few(vectors_NN[:, directions], few_PI))
    products_PN = times_few(vectors_NN.mT, times_few(rows_NC, few_PC))
    products_PN[:, directions] -= few_PI * squares_N[directions]
    return products_PN.square().mean(dim=0) / count
