"""Solving with a symmetric positive definite matrix. K right-hand sides, I unknowns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.errors import MethodError


@dataclass(frozen=True, kw_only=True)
class Quotient:
    """``value_KI`` = numerator · matrix⁻¹; ``cut`` directions of the matrix were left out."""

    value_KI: Tensor
    cut: int = 0


def right_divide(numerator_KI: Tensor, matrix_II: Tensor) -> Quotient:
    """Numerator times the inverse of a symmetric positive (semi)definite float64 matrix.

    By Cholesky. Where the matrix is numerically singular, by its eigenvectors, leaving out the
    eigenvalues that rounding cannot tell from zero (``cut`` counts them).
    Raises MethodError for a matrix that is not finite: LAPACK reads one triangle only and would
    miss a NaN in the other.
    """
    if not bool(torch.isfinite(matrix_II).all()):
        raise MethodError("The sum of the experts' Gram matrices is not finite; values too large.")
    lower_II, info = torch.linalg.cholesky_ex(matrix_II)
    if int(info) == 0:
        value_KI = torch.cholesky_solve(numerator_KI.T, lower_II).T
        if bool(torch.isfinite(value_KI).all()):
            return Quotient(value_KI=value_KI)
    return _divide_by_eigenvectors(numerator_KI, matrix_II)


def _divide_by_eigenvectors(numerator_KI: Tensor, matrix_II: Tensor) -> Quotient:
    values_I, vectors_II = torch.linalg.eigh(matrix_II)
    unit = torch.finfo(matrix_II.dtype).eps
    kept = values_I > len(values_I) * unit * values_I.abs().max()
    basis_IK = vectors_II[:, kept]
    value_KI = (numerator_KI @ basis_IK / values_I[kept]) @ basis_IK.T
    return Quotient(value_KI=value_KI, cut=int((~kept).sum()))
