"""Spectra for people to look at."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.blocks import gram

RESOLVED: Final = 1e-10
"""Smallest eigenvalue of a Gram matrix, by the largest, whose root is still right to 1e-5."""


def singular_values(matrix: Tensor) -> Tensor:
    """Singular values of a real matrix, largest first, float64, shape (min(rows, columns),).

    Eigenvalues of the smaller Gram matrix where every singular value exceeds 1e-5 of the largest:
    their error, about 1e-15 of the largest squared, leaves each right to 1e-5 of itself, far below
    what a plot shows. Else a QR and a singular value decomposition, twice as slow: right to about
    1e-15 of the largest, so that a logarithmic plot shows the small ones too.
    """
    tall = matrix.to(torch.float64)
    if tall.shape[0] < tall.shape[1]:
        tall = tall.T
    squares: Tensor = torch.linalg.eigvalsh(gram(tall)).flip(0)
    if bool(squares[-1] > RESOLVED * squares[0]):
        return squares.sqrt()
    if tall.shape[0] > tall.shape[1]:
        tall = torch.linalg.qr(tall, mode="r").R
    values: Tensor = torch.linalg.svdvals(tall)
    return values
