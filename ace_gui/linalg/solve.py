"""Solving with symmetric positive definite matrices.

B of them, with K right-hand sides of I unknowns; N of the unknowns are a diagonal block's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.products import add_product_, blocks, product, times


def right_divide_(matrix_BII: Tensor, *numerators_BKI: Tensor) -> list[int]:
    """Turn each numerator into numerator · matrix⁻¹, in place; overwrites the matrices too.

    The matrices are symmetric positive (semi)definite, float64. Uses Cholesky in blocks, so that
    most of the work is products. A numerically singular matrix is solved with its eigenvectors,
    without eigenvalues that rounding cannot distinguish from zero. Returns how many eigenvalues of
    each matrix were left out. Needs memory for two blocks of columns, and for two more matrices if
    one is singular. Raises MethodError for a matrix that is not finite.
    """
    is_finite_1 = torch.isfinite(matrix_BII.sum())[None]  # a sum with NaN or infinity is not finite
    diagonal = list(blocks(matrix_BII.shape[-1], matrix_BII.device))
    # What a singular matrix needs to be solved again: the blocks below these are never changed.
    diagonal_copies = [matrix_BII[:, block, block].clone() for block in diagonal]
    inverses, is_singular_B = _cholesky_(matrix_BII)
    # Read together: each read waits until the GPU has finished its work.
    is_finite, *singular = torch.cat([is_finite_1, is_singular_B]).tolist()
    if not is_finite:
        raise MethodError("The sum of the experts' Gram matrices is not finite; values too large.")
    if not any(singular):
        for numerator_BKI in numerators_BKI:
            _substitute_(numerator_BKI, matrix_BII, inverses)
        return [0] * len(matrix_BII)
    left_out_counts = []
    for b, is_singular in enumerate(singular):
        if is_singular:
            for block, copy_BNN in zip(diagonal, diagonal_copies, strict=True):
                matrix_BII[b, block, block] = copy_BNN[b]
            numerators = [numerator_BKI[b] for numerator_BKI in numerators_BKI]
            left_out_counts.append(_divide_by_eigenvectors_(matrix_BII[b], numerators))
            continue
        only_b = slice(b, b + 1)
        inverses_of_b = [inverse_BNN[only_b] for inverse_BNN in inverses]
        for numerator_BKI in numerators_BKI:
            _substitute_(numerator_BKI[only_b], matrix_BII[only_b], inverses_of_b)
        left_out_counts.append(0)
    return left_out_counts


def _cholesky_(matrix_BII: Tensor) -> tuple[list[Tensor], Tensor]:
    """Overwrite the blocks above the diagonal with those of Lᵀ, where L Lᵀ is the matrix.

    Returns the inverses of the diagonal blocks of L: multiplying by them is as accurate as solving
    with the blocks, and several times faster. Also returns which matrices are not positive
    definite. A diagonal block is overwritten with what the rows above it leave of it, and the
    blocks below the diagonal stay.
    """
    diagonal = list(blocks(matrix_BII.shape[-1], matrix_BII.device))
    inverses: list[Tensor] = []
    failed_B = torch.zeros(len(matrix_BII), dtype=torch.bool, device=matrix_BII.device)
    for index, block in enumerate(diagonal):
        lower_BNN, info_B = torch.linalg.cholesky_ex(matrix_BII[:, block, block])
        failed_B |= info_B != 0
        # If all have failed, none of the inverses is used. Only a processor knows it at once: a GPU
        # would have to wait for the answer.
        if matrix_BII.device.type == "cpu" and bool(failed_B.all()):
            break
        eye_NN = torch.eye(lower_BNN.shape[-1], dtype=lower_BNN.dtype, device=lower_BNN.device)
        inverses.append(torch.linalg.solve_triangular(lower_BNN, eye_NN, upper=False))
        right_of_block = matrix_BII[:, block, block.stop :]
        right_of_block.copy_(product(inverses[-1], right_of_block))
        for later in diagonal[index + 1 :]:
            # Subtract what this block's rows of Lᵀ add to later rows, from the diagonal on.
            later_rows = matrix_BII[:, later, later.start :]
            block_rows_at_later = matrix_BII[:, block, later]
            block_rows_from_later = matrix_BII[:, block, later.start :]
            add_product_(later_rows, block_rows_at_later.mT, block_rows_from_later, -1.0)
    return inverses, failed_B


def _substitute_(numerator_BKI: Tensor, upper_BII: Tensor, inverses: list[Tensor]) -> None:
    """Turn the numerator into numerator · (L Lᵀ)⁻¹: first it is divided by Lᵀ, then by L.

    ``upper_BII`` and ``inverses`` are from ``_cholesky_``.
    """
    diagonal = blocks(upper_BII.shape[-1], upper_BII.device)
    blocks_and_inverses = list(zip(diagonal, inverses, strict=True))
    for block, inverse in blocks_and_inverses:
        columns = numerator_BKI[..., block]
        later_columns = numerator_BKI[..., block.stop :]
        columns.copy_(product(columns, inverse.mT))
        add_product_(later_columns, columns, upper_BII[:, block, block.stop :], -1.0)
    for block, inverse in reversed(blocks_and_inverses):
        columns = numerator_BKI[..., block]
        later_columns = numerator_BKI[..., block.stop :]
        add_product_(columns, later_columns, upper_BII[:, block, block.stop :].mT, -1.0)
        columns.copy_(product(columns, inverse))


def _divide_by_eigenvectors_(matrix_II: Tensor, numerators_KI: Sequence[Tensor]) -> int:
    """``right_divide_`` of one matrix with its J usable eigenvectors; reads its lower triangle."""
    values_I, vectors_II = eigenvectors(matrix_II)
    rounding = len(values_I) * torch.finfo(matrix_II.dtype).eps * values_I.abs().max()
    is_regular = values_I > rounding
    basis_IJ = vectors_II[:, is_regular]
    for numerator_KI in numerators_KI:
        coefficients_KJ = times(numerator_KI, basis_IJ).div_(values_I[is_regular])
        numerator_KI.copy_(times(coefficients_KJ, basis_IJ.T))
    return int((~is_regular).sum())
