"""ESM: merging in the experts' essential subspaces, in which their outputs change most.

This follows the supplement's equations. They lose all magnitudes, so here the authors' code
decides: each polar factor is scaled by the mean of its singular values, and each direction by a
small power of its eigenvalue. The code's constant factor 2 is left to ``scaling``. T experts, O
outputs, I inputs, K directions in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.products import times
from ace_gui.linalg.singular import values_and_right_vectors
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_matrix, scaling_parameter
from ace_gui.methods.shared.measured import Need, required_measured

FAINT: Final = 1e-6
"""Eigenvalues up to this share of the largest count as zero, as the statistics are float32."""


@dataclass(frozen=True, kw_only=True)
class EsmParameters:
    """``power``: exponent of the scalings. ``eigenvalue_power``: of each direction's eigenvalue.

    ``layers``: whether layers that change more than others of their role count more. ``scaling``:
    α.
    """

    power: float = parameter(
        2.0,
        label="Power",
        help=(
            "Exponent of the ratio by which an expert's, input's or layer's change exceeds the "
            "mean. 0 treats all alike."
        ),
        low=0.0,
        high=8.0,
    )
    eigenvalue_power: float = parameter(
        0.15,
        label="Power of eigenvalues",
        help=(
            "Exponent of the change of the outputs along each direction, relative to the mean of "
            "all kept directions."
        ),
        differs="0 is the paper's formula. Its code uses 0.15.",
        low=0.0,
        high=2.0,
    )
    layers: bool = parameter(
        True,
        label="Scale layers",
        help=(
            "Scale each layer by the size of its merged change relative to the other layers of its "
            "role. This needs a first pass over the whole model."
        ),
    )
    scaling: float = scaling_parameter(
        symbol="α",
        help="Factor on the merged matrix.",
        differs=(
            "The paper finds 0.64 to 0.91 with validation data (Table 7), which a merge does not "
            "have. 1 leaves the merged matrix unscaled."
        ),
    )


@on_experts
def esm(experts: Experts, parameters: EsmParameters, context: Context) -> Merged:
    """α β σ̄(P) polar(P) σ̄(A) polar(A), where P has the P_t side by side and A stacks the A_t.

    P_t has the leading floor(O / T) eigenvectors of ΔW_t G_t ΔW_tᵀ, where G_t is the mean of x xᵀ,
    and A_t = P_tᵀ ΔW_t. T counts the experts that changed the matrix. The context's ``findings``
    give the mean size of the merged matrices of this role; without them, β is 1. Float32, computed
    in float64. Raises MethodError for tensors that are not matrices or not finite, and without
    measured statistics.
    """
    grams = required_measured(context.measured, len(experts)).by_expert
    census = experts.census()
    first_OI = experts.matrix(0)
    outputs = first_OI.shape[0]
    power = parameters.power
    directions = max(1, outputs // max(1, len(census.counted)))
    bases = []
    coordinates = []
    sizes = []
    cut = 0
    for t in census.counted:
        delta_OI = experts.matrix(t)
        basis_OK, values_K = essential_basis(delta_OI, grams[t], directions)
        cut += len(values_K) < directions
        coordinates_KI = times(basis_OK.T, delta_OI)
        share_K = (values_K / values_K.mean()) ** parameters.eigenvalue_power
        sizes.append(float(torch.linalg.vector_norm(coordinates_KI)))
        bases.append(basis_OK * share_K)
        coordinates.append(coordinates_KI.mul_(share_K[:, None]))
    if not any(sizes):
        return Merged.of(first_OI.zero_(), diagnostics=census.diagnostics())
    mean = math.fsum(sizes) / len(sizes)
    for size, coordinates_KI in zip(sizes, coordinates, strict=True):
        coordinates_KI.mul_((size / mean) ** power)
    rows_KI = torch.cat(coordinates)
    norms_I = torch.linalg.vector_norm(rows_KI, dim=0)
    rows_KI.mul_((norms_I / norms_I.mean()) ** power)
    merged_OI = times(scaled_polar(torch.cat(bases, dim=1)), scaled_polar(rows_KI))
    merged_OI.mul_(_of_layer(merged_OI, power, context))
    diagnostics = census.diagnostics()
    if cut:
        diagnostics = replace(
            diagnostics, notes=(*diagnostics.notes, _fewer(cut, rows_KI, directions))
        )
    return Merged.of(merged_OI, parameters.scaling, diagnostics)


def _fewer(experts: int, rows_KI: Tensor, directions: int) -> str:
    """A note on experts with fewer eigenvalues than directions."""
    return (
        f"{len(rows_KI)} directions in all: {experts} of the experts have fewer than the "
        f"{directions} of "
        "Algorithm 1, as their outputs change along fewer directions. More calibration inputs may "
        "show more."
    )


def essential_basis(delta_OI: Tensor, gram_II: Tensor, directions: int) -> tuple[Tensor, Tensor]:
    """The leading eigenvectors (O × K) and eigenvalues (K) of ΔW G ΔWᵀ, at most ``directions``.

    Fewer if eigenvalues are too small; none if the outputs do not change.
    """
    change_OO = times(times(delta_OI, gram_II.to(torch.float64)), delta_OI.T)
    values_O, vectors_OO = eigenvectors((change_OO + change_OO.T) / 2)
    values_O = values_O.flip(0)
    vectors_OO = vectors_OO.flip(1)
    rank = int((values_O[:directions] > FAINT * values_O[:1].clamp(min=0)).sum())
    return vectors_OO[:, :rank], values_O[:rank]


def scaled_polar(matrix_NM: Tensor) -> Tensor:
    """σ̄ polar(X): all singular values of X above rounding, replaced by their mean."""
    if matrix_NM.shape[0] < matrix_NM.shape[1]:
        return scaled_polar(matrix_NM.T).T
    values_R, right_RM = values_and_right_vectors(matrix_NM)
    factor_NM = times(times(matrix_NM, right_RM.T / values_R), right_RM)
    return factor_NM.mul_(values_R.mean())


def _of_layer(merged_OI: Tensor, power: float, context: Context) -> float:
    """β: the size of this layer relative to the others of its role, raised to ``power``."""
    findings = context.findings
    random_key = context.random_key
    if not findings or random_key is None or random_key.role not in findings:
        return 1.0
    mean = findings[random_key.role][0]
    return (float(torch.linalg.vector_norm(merged_OI)) / mean) ** power if mean else 1.0


ESM = MergeMethod(
    name="esm",
    title="ESM",
    summary=(
        "Essential subspaces: keeps those directions of every expert's change in which its "
        "outputs change most on its own data, and makes the directions of all experts orthogonal."
    ),
    formula=(
        "merged matrix: W = W₀ + α β σ̄(P) polar(P) σ̄(A) polar(A),  P = [P₁ … P_T],  A = "
        "[A₁; …; A_T]\n"
        "principal directions: Pₜ: at most floor(O / T) leading eigenvectors of ΔWₜ E[x xᵀ] "
        "ΔWₜᵀ,  Aₜ = Pₜᵀ ΔWₜ\n"
        "scaling: Aₜ and the columns of A scaled by (norm / mean norm)²;  β = (‖ΔW‖ / its "
        "mean by role)²"
    ),
    citation=(
        "L. Li, L. Qi, Q. Tian, X. Geng, Model Merging in the Essential Subspace, CVPR 2026, "
        "arXiv:2602.20208"
    ),
    parameters=EsmParameters,
    merge=esm,
    least=2,
    needs=lambda _: Need.INPUTS,
    layer_norms=lambda parameters: parameters.layers,
    working_memory=per_matrix(entries=6, smaller=6, outputs=5, inputs=1.5),
)
