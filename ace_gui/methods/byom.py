"""BYOM: task arithmetic, and the largest part of each expert's difference from the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Differences, StoredPart
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.kit import parameter, per_entry, scaling_parameter, share_parameter
from ace_gui.methods.shared.sparse import scaled_sum

ENTRIES: Final = "entries"
LOW_RANK: Final = "low rank"


@dataclass(frozen=True, kw_only=True)
class ByomParameters:
    """``keep``: entries or low rank; ``density``: m; ``rank``: q; ``scaling``: α."""

    keep: str = parameter(
        ENTRIES,
        label="Keep",
        help=(
            "What is kept of each expert's difference from the merged model. entries: the "
            "largest entries of the whole model, 8 bytes each. low rank: the leading "
            "singular triplets of every matrix, and other tensors in full."
        ),
        choices=(ENTRIES, LOW_RANK),
    )
    density: float = share_parameter(
        0.1,
        label="Density m",
        help="Share of entries kept. The paper uses 0.01 to 0.1. 1 restores the expert.",
        logarithmic=True,
        applies_when=("keep", ENTRIES),
    )
    rank: int = parameter(
        16,
        label="Rank q",
        help="Number of singular triplets kept per matrix. Keeping all restores the expert.",
        low=1,
        high=65536,
        logarithmic=True,
        applies_when=("keep", LOW_RANK),
    )
    scaling: float = scaling_parameter(
        0.3, symbol="α", help="Factor on the sum of the task vectors in the merged model."
    )


def differences(experts: Experts, parameters: ByomParameters) -> Iterator[Tensor]:
    """θ_t − θ* = ΔW_t − α Σ w_j ΔW_j, expert by expert. Reads every expert twice."""
    shared = experts.sum().mul_(parameters.scaling)
    for t in range(len(experts)):
        delta = experts.delta(t)
        yield delta.to(shared.dtype, copy=True).sub_(shared).to(delta.dtype)


def stored_part(parameters: ByomParameters) -> StoredPart:
    """What is kept of the differences."""
    if parameters.keep == LOW_RANK:
        return StoredPart(rank=parameters.rank)
    return StoredPart(density=parameters.density)


BYOM = MergeMethod(
    name="byom",
    title="BYOM",
    summary=(
        "Adds the experts' changes, and stores the largest part of each expert's difference "
        "from the merged model. That part is added back for the expert's task."
    ),
    formula=(
        "merged matrix: W = W₀ + α Σₜ wₜ ΔWₜ\n"
        "expert t: W + C(Wₜ − W),  C keeps the share m of largest entries, or rank q"
    ),
    citation=(
        "W. Jiang, B. Lin, H. Shi, Y. Zhang, Z. Li, J. Kwok, BYOM: Building Your Own Multi-Task "
        "Model For Free, 2023, arXiv:2310.01886"
    ),
    parameters=ByomParameters,
    merge=scaled_sum,
    kind=Kind.ENTRY,
    working_memory=per_entry(1.5),
    modules=Differences(differences_of=differences, stored_part=stored_part),
)
