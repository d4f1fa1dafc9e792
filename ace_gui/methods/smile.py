"""SMILE: the base with low-rank experts in every linear layer, and a gate that needs no data.

T experts, O outputs, I inputs, K the rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import Differences, ModuleKind, StoredPart
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_matrix


@dataclass(frozen=True, kw_only=True)
class SmileParameters:
    """``rank``: k. ``gate_rank``: k_g, limited to k and to half of a layer's inputs. ``top``: K,
    the number of experts used.
    """

    rank: int = parameter(
        32,
        label="Rank k",
        help="Number of singular triplets stored of each expert's change, per layer.",
        low=1,
        high=65536,
        logarithmic=True,
        presets=(("published script", 128),),
        differs=(
            "The published script uses 128. More did not help on the samples, and 32 take a "
            "quarter of the space."
        ),
    )
    gate_rank: int = parameter(
        16,
        label="Rank of the gate k_g",
        help=(
            "Number of leading right-singular vectors that the gate compares with an input to find "
            "its expert."
        ),
        low=1,
        high=65536,
        logarithmic=True,
        presets=(("published script", 1),),
        differs=(
            "The published script uses 1, but experts differ little in one direction. On a sample, "
            "16 found the right expert for 68 % of the inputs and 1 for 37 %."
        ),
    )
    top: int = parameter(
        1,
        label="Experts at a time K",
        help="Number of experts used for each input of a layer.",
        low=1,
        high=64,
    )


@on_experts
def smile(experts: Experts, _: SmileParameters, __: Context) -> Merged:
    """A zero change, float32: the layer keeps the base's matrix, and experts are added to it.

    Reads every expert once. Raises MethodError for tensors that are not matrices or not finite.
    """
    census = experts.census()
    return Merged.of(experts.matrix(0).zero_(), diagnostics=census.diagnostics())


def differences(experts: Experts, _: SmileParameters) -> Iterator[Tensor]:
    """w_t ΔW_t of matrices; for biases w_t Δb_t minus the mean, which the merged model has."""
    mean = None
    if experts.raw(0).ndim != 2:
        mean = experts.combination(experts.weight_shares(), range(len(experts)))
    for t in range(len(experts)):
        weighted = experts.weighted(t)
        yield weighted if mean is None else weighted - mean


SMILE = MergeMethod(
    name="smile",
    title="SMILE",
    summary=(
        "Adds a low-rank expert per task to each linear layer of the base, and sends every "
        "input to the expert whose leading directions match it best. All other tensors are "
        "averaged."
    ),
    formula=(
        "merged matrix: W = W₀,  y = W₀ x + b₀ + Σₜ λₜ(x) (Uₜ Sₜ Vₜᵀ x + wₜ Δbₜ),  Uₜ Sₜ "
        "Vₜᵀ: rank k of wₜ ΔWₜ\n"
        "router: λ = softmaxₜ ‖Vₜ[:k_g]ᵀ x‖, of which the K largest stay and are made to sum to 1"
    ),
    citation=(
        "A. Tang, L. Shen, Y. Luo, S. Xie, H. Hu, L. Zhang, B. Du, D. Tao, SMILE: Zero-Shot "
        "Sparse Mixture of Low-Rank Experts Construction From Pre-Trained Foundation Models, "
        "2024, arXiv:2408.10174"
    ),
    parameters=SmileParameters,
    merge=smile,
    least=2,
    working_memory=per_matrix(entries=4),
    modules=Differences(
        differences_of=differences,
        stored_part=lambda parameters: StoredPart(rank=parameters.rank),
        kind=ModuleKind.SMILE,
        with_biases=True,
    ),
)
