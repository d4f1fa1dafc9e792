"""Solving with a symmetric positive definite matrix. K right-hand sides, I unknowns."""

from __future__ import annotations

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.blocks import blocks


def right_divide_(matrix_II: Tensor, *numerators_KI: Tensor) -> int:
    """Turn each numerator into numerator · matrix⁻¹, in place; the matrix is overwritten too.

    The matrix is symmetric positive (semi)definite, float64. By Cholesky, in blocks, so that most
    of the work is products; where it is numerically singular, by its eigenvectors, leaving out the
    eigenvalues that rounding cannot tell from zero. Returns how many were left out.
    Needs room for two blocks of columns, and beside the eigenvectors for two more matrices.
    Raises MethodError for a matrix that is not finite.
    """
    if not bool(torch.isfinite(matrix_II.sum())):
        raise MethodError("The sum of the experts' Gram matrices is not finite; values too large.")
    squares = [matrix_II[block, block].clone() for block in blocks(len(matrix_II))]
    inverses = _cholesky_(matrix_II)
    if inverses is None:
        for block, square in zip(blocks(len(matrix_II)), squares, strict=True):
            matrix_II[block, block] = square
        return _divide_by_eigenvectors_(matrix_II, numerators_KI)
    for numerator_KI in numerators_KI:
        _substitute_(numerator_KI, matrix_II, inverses)
    return 0


def _cholesky_(matrix_II: Tensor) -> list[Tensor] | None:
    """Overwrite the blocks above the diagonal with those of Lᵀ, where L Lᵀ is the matrix.

    Returns the inverses of the diagonal blocks of L: multiplying by them is as accurate as solving
    with the blocks, and several times faster. None where the matrix is not positive definite, whose
    lower triangle off the diagonal blocks is then (as always) untouched.
    """
    inverses: list[Tensor] = []
    for block in blocks(len(matrix_II)):
        lower, info = torch.linalg.cholesky_ex(matrix_II[block, block])
        if int(info):
            return None
        eye = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
        inverses.append(torch.linalg.solve_triangular(lower, eye, upper=False))
        right = matrix_II[block, block.stop :]
        right.copy_(inverses[-1] @ right)
        for below in blocks(len(matrix_II)):
            if below.start >= block.stop:
                matrix_II[below, below.start :].addmm_(
                    matrix_II[block, below].T, matrix_II[block, below.start :], alpha=-1
                )
    return inverses


def _substitute_(numerator_KI: Tensor, upper_II: Tensor, inverses: list[Tensor]) -> None:
    """Numerator · (L Lᵀ)⁻¹, from what ``_cholesky_`` left: first by Lᵀ, then by L."""
    steps = list(zip(blocks(len(upper_II)), inverses, strict=True))
    for block, inverse in steps:
        part = numerator_KI[:, block]
        part.copy_(part @ inverse.T)
        numerator_KI[:, block.stop :].addmm_(part, upper_II[block, block.stop :], alpha=-1)
    for block, inverse in reversed(steps):
        part = numerator_KI[:, block]
        part.addmm_(numerator_KI[:, block.stop :], upper_II[block, block.stop :].T, alpha=-1)
        part.copy_(part @ inverse)


def _divide_by_eigenvectors_(matrix_II: Tensor, numerators_KI: tuple[Tensor, ...]) -> int:
    """Reads the lower triangle of the matrix."""
    values_I, vectors_II = torch.linalg.eigh(matrix_II)
    unit = torch.finfo(matrix_II.dtype).eps
    kept = values_I > len(values_I) * unit * values_I.abs().max()
    basis_IK = vectors_II[:, kept]
    for numerator_KI in numerators_KI:
        numerator_KI.copy_((numerator_KI @ basis_IK / values_I[kept]) @ basis_IK.T)
    return int((~kept).sum())
