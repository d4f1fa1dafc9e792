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


def largest_eigenvalue(factor_KN: Tensor, *, steps: int = 3) -> float:
    """λ_max of factorᵀ factor, by power iteration: from below, mostly to within a quarter.

    Always starts from the same random vector, so that results can be repeated.
    """
    generator = torch.Generator().manual_seed(0)
    vector_N = torch.randn(factor_KN.shape[1], generator=generator).to(factor_KN)
    vector_N /= torch.linalg.vector_norm(vector_N)
    norm = vector_N.new_zeros(())
    for _ in range(steps):
        vector_N = factor_KN.T @ (factor_KN @ vector_N)
        norm = torch.linalg.vector_norm(vector_N)
        vector_N = vector_N / norm.clamp_min(torch.finfo(norm.dtype).tiny)
    return float(norm)
