"""Spectra for people to look at."""

from __future__ import annotations

import torch
from torch import Tensor


def singular_values(matrix: Tensor) -> Tensor:
    """Singular values of a real matrix, largest first, float64, shape (min(rows, columns),).

    Each is right to about 1e-15 of the largest, whatever the matrix's dtype. A QR decomposition
    shrinks the matrix to its smaller side first. (Eigenvalues of a Gram matrix would be twice as
    fast, but lose everything below 1e-8 of the largest, and a logarithmic plot shows that.)
    """
    tall = matrix.to(torch.float64)
    if tall.shape[0] < tall.shape[1]:
        tall = tall.T
    if tall.shape[0] > tall.shape[1]:
        tall = torch.linalg.qr(tall, mode="r").R
    values: Tensor = torch.linalg.svdvals(tall)
    return values
