"""Products of two thin factors in place of a matrix. O outputs, I inputs, R rank; float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.linalg.blocks import gram
from ace_gui.linalg.products import times


@dataclass(frozen=True, kw_only=True)
class Factors:
    """B·A, with B O × R and A R × I. ``kept``: its share of the energy of what it was cut from."""

    b_OR: Tensor
    a_RI: Tensor
    kept: float = 1.0


def joined(terms: Sequence[tuple[float, Tensor, Tensor]]) -> Factors:
    """Σ c·B·A of (c, B, A), exactly: the factors joined, float64."""
    return Factors(
        b_OR=torch.cat([c * b.double() for c, b, _ in terms], dim=1),
        a_RI=torch.cat([a.double() for _, _, a in terms]),
    )


def squared_values(matrix_OI: Tensor) -> Tensor:
    """The squared singular values of a float64 matrix, largest first."""
    wide = matrix_OI if matrix_OI.shape[0] <= matrix_OI.shape[1] else matrix_OI.T
    squares: Tensor = torch.linalg.eigvalsh(gram(wide.T))
    return squares.flip(0).clamp_(min=0)


def core_values(factors: Factors) -> Tensor:
    """As ``squared_values``, of a product, without making it."""
    values: Tensor = torch.linalg.svdvals(_core(factors)[1])
    return values.square()


def rank_for(squares: Tensor, energy: float) -> int:
    """The least rank that keeps this share of the energy; 0 of a zero matrix."""
    total = float(squares.sum())
    if total == 0:
        return 0
    missing = total - squares.cumsum(0)
    return int((missing > (1 - energy) * total + 1e-14 * total).sum()) + 1


def cut(matrix_OI: Tensor, rank: int, *, balanced: bool = False) -> Factors:
    """The nearest matrix of this rank (Eckart and Young) to a float64 matrix.

    B = U·S and A = Vᵀ; ``balanced``: √S on both sides. Of fewer singular values than ``rank``, the
    rest are zeros. The eigenvectors of the smaller Gram matrix span what is kept, and the matrix
    is projected on them.
    """
    wide = matrix_OI.shape[0] <= matrix_OI.shape[1]
    squares, vectors = torch.linalg.eigh(gram(matrix_OI.T if wide else matrix_OI))
    squares, vectors = squares.flip(0).clamp_(min=0), vectors.flip(1)[:, :rank]
    projected = times(vectors.T, matrix_OI) if wide else times(matrix_OI, vectors)
    norms = torch.linalg.vector_norm(projected, dim=1 if wide else 0)
    divisor = norms.clamp_min(torch.finfo(torch.float64).tiny)
    unit = projected / (divisor[:, None] if wide else divisor)
    u_OK, vh_KI = (vectors, unit) if wide else (unit, vectors.T)
    total = float(torch.linalg.vector_norm(matrix_OI)) ** 2
    return _scaled(u_OK, norms, vh_KI, rank, total, balanced=balanced)


def cut_product(factors: Factors, rank: int, *, balanced: bool = False) -> Factors:
    """As ``cut``, of a product, from the QR decompositions of its factors; it is never made."""
    q_OR, core_RR, q_IR = _core(factors)
    u, s, vh = torch.linalg.svd(core_RR)
    total = float(s.square().sum())
    return _scaled(q_OR @ u[:, :rank], s[:rank], vh[:rank] @ q_IR.T, rank, total, balanced=balanced)


def _core(factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
    """Q_B, R_B·R_Aᵀ and Q_A of B = Q_B·R_B and Aᵀ = Q_A·R_A."""
    q_OR, r_b = torch.linalg.qr(factors.b_OR)
    q_IR, r_a = torch.linalg.qr(factors.a_RI.T)
    return q_OR, r_b @ r_a.T, q_IR


def _scaled(
    u_OK: Tensor, s_K: Tensor, vh_KI: Tensor, rank: int, total: float, *, balanced: bool
) -> Factors:
    b_OR, a_RI = u_OK.new_zeros(len(u_OK), rank), vh_KI.new_zeros(rank, vh_KI.shape[1])
    left = s_K.sqrt() if balanced else s_K
    b_OR[:, : len(s_K)] = u_OK * left
    a_RI[: len(s_K)] = vh_KI * (left[:, None] if balanced else 1)
    kept = float(s_K.square().sum()) / total if total else 1.0
    return Factors(b_OR=b_OR, a_RI=a_RI, kept=min(kept, 1.0))
