"""Random vectors that measure the error of an eigen-decomposition in float32.

M has N rows and C columns, and thus N directions. S of them are selected. P random vectors, which
lie as rows.
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


def times_vectors(matrix_NC: Tensor, vectors_PC: Tensor) -> Tensor:
    """The matrix times a few float64 vectors, which are rows (P × N)."""
    return times_transposed(vectors_PC[None], matrix_NC[None])[0]


def row_errors(rows_NC: Tensor, vectors_NN: Tensor, squares_N: Tensor, directions: slice) -> Tensor:
    """The mean of H_ji² over the selected ``directions`` i, for every j; H = Vᵀ M Mᵀ V − Λ.

    ``vectors_NN``: V, ``squares_N``: Λ, in float64. H is symmetric. If V has direction i turned by
    a small angle ε towards j, and j away from i, then H_ji = ε (λ_j − λ_i).
    """
    count = len(squares_N[directions])
    random_PS = random_rows(count, rows_NC.device)
    random_PN = times_vectors(vectors_NN[:, directions], random_PS)
    mapped_PN = times_vectors(rows_NC, times_vectors(rows_NC.mT, random_PN))  # by M Mᵀ
    products_PN = times_vectors(vectors_NN.mT, mapped_PN)
    products_PN[:, directions] -= random_PS * squares_N[directions]
    return products_PN.square().mean(dim=0) / count
