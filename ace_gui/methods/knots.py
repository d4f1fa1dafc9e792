"""KnOTS: bring low-rank experts into one basis of outputs, and merge their coordinates there.

T experts, O outputs, I inputs, K directions. With [ΔW_1 … ΔW_T] = U S [V_1ᵀ … V_Tᵀ], the
coordinates of expert t are C_t = S V_tᵀ = Uᵀ ΔW_t, so that only U is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.products import add_gram_, mirror_, times
from ace_gui.linalg.singular import ZERO_SHARE
from ace_gui.methods.dare import density_parameter, dropped
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.draws import required_key
from ace_gui.methods.shared.election import SIGNED_MEAN, Election, combine_parameter
from ace_gui.methods.shared.experts import Context, Deltas, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import (
    per_decomposition,
    per_matrix,
    scaling_parameter,
    share_parameter,
)
from ace_gui.methods.shared.survey import (
    Findings,
    MethodSurvey,
    Range,
    RankSurvey,
    Stage,
    SurveyContext,
)
from ace_gui.methods.shared.tolerance import IN_FLOAT64
from ace_gui.methods.shared.trimming import (
    THRESHOLD,
    at_least_in_float32,
    smallest_kept_rank,
    trim_parameter,
    trimmed,
)

CITATION: Final = (
    "G. Stoica, P. Ramesh, B. Ecsedi, L. Choshen, J. Hoffman, Model merging with SVD to tie the "
    "Knots, ICLR 2025, arXiv:2410.19735"
)
FORMULA: Final = (
    "merged matrix: W = W₀ + λ · U · merged(C₁ … C_T),  [ΔW₁ … ΔW_T] = U S Vᵀ,  Cₜ = Uᵀ ΔWₜ\n"
    "directions: those with S > 10⁻⁶ of the largest"
)


def _scaling(default: float) -> Any:
    return scaling_parameter(
        default,
        symbol="λ",
        help=(
            "Factor on the merged matrix, which the paper searches. Biases are averaged. "
            "The published code appends them to the matrices."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class KnotsTiesParameters:
    """Parameters of KnOTS with TIES: those of TIES, on the coordinates."""

    density: float = share_parameter(
        0.2,
        label="Density",
        help=(
            "Share of each expert's coordinates to keep, the largest by magnitude. "
            "Directions weaker than 1e-6 of a layer's strongest are ignored. The published "
            "code uses an absolute limit of 1e-5."
        ),
    )
    trim: str = trim_parameter()
    scaling: float = _scaling(0.6)
    combine: str = combine_parameter()


@dataclass(frozen=True, kw_only=True)
class KnotsDareTiesParameters:
    """Parameters of KnOTS with DARE-TIES: those of DARE with TIES, on the coordinates."""

    density: float = density_parameter(0.9)
    scaling: float = _scaling(0.7)
    combine: str = combine_parameter()


def common_basis(matrix: Callable[[int], Tensor], experts: Sequence[int]) -> Tensor:
    """U (O × K), leading first: an orthonormal basis of the columns of these float64 matrices.

    Eigenvectors of Σ ΔW_t ΔW_tᵀ; directions whose singular value does not exceed ``ZERO_SHARE`` of
    the largest are left out. Reads every expert once.
    """
    first_OI = matrix(experts[0])
    gram_OO = first_OI.new_zeros(len(first_OI), len(first_OI))
    del first_OI
    for t in experts:
        add_gram_(gram_OO, matrix(t).T)
    squares_O, vectors_OO = eigenvectors(mirror_(gram_OO))
    rank = int((squares_O > ZERO_SHARE**2 * squares_O[-1]).sum())
    basis_OK: Tensor = vectors_OO.flip(1)[:, :rank]
    return basis_OK


def smallest_coordinates(context: SurveyContext) -> RankSurvey | None:
    """The smallest coordinate that each expert keeps, if it is chosen over the whole model."""
    parameters = context.parameters[0]
    if parameters.trim == "tensor" or parameters.density == 1:
        return None
    stage = Stage(
        names=(THRESHOLD,),
        values=_coordinates,
        ranks=lambda n: (smallest_kept_rank(parameters.density, n),),
    )
    return RankSurvey(len(context.parameters), stage, whole_tensor=True)


def _coordinates(deltas: Deltas, _findings: Findings, _start: int) -> Iterator[Tensor]:
    """|C_t| of each expert; without signs, which depend on those of the singular vectors."""
    experts = Experts(deltas, [1.0] * len(deltas))
    counted = experts.census().counted
    if counted:
        basis_OK = common_basis(experts.matrix, counted)
    else:
        basis_OK = None
    for t in range(len(deltas)):
        if basis_OK is None:
            yield deltas[t].new_zeros(0)
        else:
            yield times(basis_OK.T, experts.matrix(t)).abs_()


SURVEYS = (
    MethodSurvey(
        survey=smallest_coordinates,
        over=Range.MODEL,
        finds=(THRESHOLD,),
        uses=("density", "trim"),
    ),
)


@on_experts
def knots_ties(experts: Experts, parameters: KnotsTiesParameters, context: Context) -> Merged:
    """λ U · TIES(C_1 … C_T) of task vectors O × I, float32; weights count as in TIES.

    Experts without a change are left out. Reads every expert three times. Raises MethodError for
    tensors that are not matrices or not finite, and without findings where it needs them.
    """
    thresholds = experts.surveyed(SURVEYS, parameters, context).findings.get(THRESHOLD)

    def sparse(coordinates_KI: Tensor, t: int) -> Tensor:
        if thresholds is None:
            return trimmed(coordinates_KI, parameters.density)
        return at_least_in_float32(coordinates_KI, thresholds[t])

    return _elected(experts, sparse, parameters)


@on_experts
def knots_dare_ties(
    experts: Experts, parameters: KnotsDareTiesParameters, context: Context
) -> Merged:
    """λ U · TIES of the coordinates after DARE, without trimming; float32.

    Otherwise as ``knots_ties``. Also raises MethodError without a random key.
    """
    here = required_key(context.random_key, len(experts))

    def sparse(coordinates_KI: Tensor, t: int) -> Tensor:
        return dropped(coordinates_KI, parameters.density, here, t)

    return _elected(experts, sparse, parameters)


def _elected(
    experts: Experts,
    sparse: Callable[[Tensor, int], Tensor],
    parameters: KnotsTiesParameters | KnotsDareTiesParameters,
) -> Merged:
    plain = experts.unweighted()
    combine = parameters.combine
    merged_OI = torch.zeros_like(plain.matrix(0))  # raises for a tensor that is not a matrix
    census = plain.census()
    if census.counted and merged_OI.numel():
        basis_OK = common_basis(plain.matrix, census.counted)
        election = Election(merged_OI[: basis_OK.shape[1]], signed_weights=combine == SIGNED_MEAN)
        for t in census.counted:
            election.add([sparse(times(basis_OK.T, plain.matrix(t)), t)], [experts.weights[t]])
        positive_wins = election.vote().surplus >= 0
        merged_OI = times(basis_OK, election.result(combine, positive_wins=positive_wins))
    return Merged.of(merged_OI, parameters.scaling, census.diagnostics(precision=IN_FLOAT64))


KNOTS_TIES = MergeMethod(
    name="knots_ties",
    title="KnOTS with TIES",
    summary=(
        "For LoRA experts: expresses all changes of a layer in one common basis, and merges "
        "the coordinates as TIES does."
    ),
    formula=FORMULA + "\nmerged: as TIES-Merging",
    citation=CITATION,
    parameters=KnotsTiesParameters,
    merge=knots_ties,
    surveys=SURVEYS,
    working_memory=per_matrix(entries=7.5, outputs=1.6),
    flops=per_decomposition(per_expert=1),
)

KNOTS_DARE_TIES = MergeMethod(
    name="knots_dare_ties",
    title="KnOTS with DARE-TIES",
    summary=(
        "For LoRA experts: expresses all changes of a layer in one common basis, drops "
        "random coordinates, and merges the rest by sign election."
    ),
    formula=FORMULA + "\nmerged: as DARE with TIES, without trimming",
    citation=CITATION,
    parameters=KnotsDareTiesParameters,
    merge=knots_dare_ties,
    seeded=True,
    working_memory=per_matrix(entries=7.5, outputs=1.6),
    flops=per_decomposition(per_expert=1),
)
