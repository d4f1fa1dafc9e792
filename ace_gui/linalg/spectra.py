"""Spectra for display."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.blocks import gram
from ace_gui.linalg.products import times

RESOLVED: Final = 1e-10
"""Smallest eigenvalue of a Gram matrix, by the largest, whose root is still right to 1e-5."""

FEW: Final = 32
"""Most singular values that are worth a projection of their own."""


def singular_values(matrix: Tensor) -> Tensor:
    """Singular values of a real matrix, largest first, float64, shape (min(rows, columns),).

    Eigenvalues of the smaller Gram matrix where a singular value exceeds 1e-5 of the largest: their
    error, about 1e-15 of the largest squared, leaves it right to 1e-5 of itself, far below what a
    plot shows. Smaller ones are those of the matrix on the Gram matrix's last eigenvectors, right
    to about 1e-10 of the largest, so that a logarithmic plot shows them too. Of more than ``FEW``
    such, all are those of a QR's factor, right to about 1e-15 of the largest, and twice as slow.
    """
    tall = matrix.to(torch.float64)
    if tall.shape[0] < tall.shape[1]:
        tall = tall.T
    gram_RR = gram(tall)
    squares: Tensor = torch.linalg.eigvalsh(gram_RR).flip(0)
    unresolved = int((~(squares > RESOLVED * squares[0])).sum())
    if not unresolved:
        return squares.sqrt()
    if unresolved <= min(FEW, len(squares) // 4):
        last_RK = torch.linalg.eigh(gram_RR).eigenvectors[:, :unresolved]
        smallest: Tensor = torch.linalg.svdvals(times(tall, last_RK))
        return torch.cat([squares[:-unresolved].sqrt(), smallest])
    if tall.shape[0] > tall.shape[1]:
        tall = torch.linalg.qr(tall, mode="r").R
    values: Tensor = torch.linalg.svdvals(tall)
    return values
