"""CART: low-rank changes around the experts' mean.

T experts, O outputs, I inputs, R = min(O, I).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ace_gui.linalg.singular import leading_triplets
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.experts import Context, Diagnostics, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import (
    per_decomposition,
    per_matrix,
    scaling_parameter,
    share_parameter,
)
from ace_gui.methods.shared.tolerance import IN_FLOAT64


@dataclass(frozen=True, kw_only=True)
class CartParameters:
    """Parameters of CART.

    ``rank_share``: ρ, share of singular directions kept of each centred task vector. ``scaling``:
    λ, their factor.
    """

    rank_share: float = share_parameter(
        0.08,
        label="Rank share ρ",
        help="Share of singular directions kept in each expert's difference from the mean.",
        presets=(("paper", 0.08), ("as AdaRank starts", 0.16)),
        above_zero=False,
    )
    scaling: float = scaling_parameter(
        symbol="λ",
        help="Factor on the experts' low-rank differences; 0 gives the mean.",
        presets=(("default", 1.0), ("as AdaRank starts", 2.3)),
    )


@on_experts
def cart(experts: Experts, parameters: CartParameters, _: Context) -> Merged:
    """M + λ Σ w_t SVD_k(ΔW_t − M), M the weighted mean, k = max(1, floor(ρ R)); float32.

    With ρ = 0 it is the mean. The base cancels. As published, each difference is truncated. (The
    authors of ACE truncate the mean of the differences, which is zero.) Reads every expert twice.
    Raises MethodError for tensors that are not matrices or not finite, and for weights that sum to
    zero.
    """
    shares = experts.weight_shares()
    plain = experts.unweighted()
    plain.matrix(0)
    mean_OI = plain.combination(shares, range(len(shares)))
    merged_OI = mean_OI.clone()
    norm = float(mean_OI.norm())
    rank = _rank(parameters.rank_share, min(mean_OI.shape))
    for t, weight in enumerate(experts.weights):
        centred_OI = plain.matrix(t).sub_(mean_OI)
        triplets = leading_triplets(centred_OI, rank, scale=norm)
        merged_OI.add_(triplets.product, alpha=parameters.scaling * weight)
    return Merged.of(merged_OI, diagnostics=Diagnostics(precision=IN_FLOAT64))


def _rank(share: float, directions: int) -> int:
    if share == 0 or directions == 0:
        return 0
    return max(1, math.floor(share * directions + 1e-9))


CART = MergeMethod(
    name="cart",
    title="CART",
    summary=(
        "Takes the experts' mean and adds the leading singular directions of each expert's "
        "difference from it."
    ),
    formula=(
        "merged matrix: W = M + λ Σₜ wₜ SVD_k(Wₜ − M),  M = Σₜ wₜ Wₜ / Σₜ wₜ,  Wₜ = W₀ + ΔWₜ\n"
        "truncation: SVD_k: the leading k = floor(ρ · min(O, I)) singular triplets"
    ),
    citation=(
        "J. Choi, D. Kim, C. Lee, S. Hong, Revisiting Weight Averaging for Model Merging, 2024, "
        "arXiv:2412.12153"
    ),
    parameters=CartParameters,
    merge=cart,
    working_memory=per_matrix(entries=4.8, smaller=2),
    flops=per_decomposition(per_expert=1),
)
