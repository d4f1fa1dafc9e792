"""WEMoE: task arithmetic, and MLP blocks that a router mixes for each example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Differences, ModuleKind, StoredPart
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.kit import (
    learning_rate_parameter,
    patience_parameter,
    per_entry,
    scaling_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.sparse import scaled_sum

_MLP: Final = frozenset({"MLP up", "MLP gate", "MLP gate+up", "MLP down"})
"""Roles of the matrices of an MLP block, as ``architecture.traits.Role`` has them."""


@dataclass(frozen=True, kw_only=True)
class WemoeParameters:
    """``steps``, ``learning_rate``, ``patience``: of the routers. ``scaling``: λ of the merge."""

    steps: int = steps_parameter(
        1000,
        help=(
            "Number of Adam steps, each with 16 examples of every task. 0 leaves the merge nearly "
            "unchanged."
        ),
    )
    learning_rate: float = learning_rate_parameter(1e-4, help="Learning rate of Adam.", high=1.0)
    patience: int = patience_parameter()
    scaling: float = scaling_parameter(
        0.3, symbol="λ", help="Factor on the sum of the task vectors outside the MLP blocks."
    )


def changes(experts: Experts, _: WemoeParameters) -> Iterator[Tensor]:
    """w_t ΔW_t, expert by expert."""
    for t, weight in enumerate(experts.weights):
        yield experts.delta(t) * weight


WEMOE = MergeMethod(
    name="wemoe",
    title="WEMoE",
    summary=(
        "Task arithmetic outside the MLP blocks. MLP blocks store all experts' changes, and a "
        "router weights these for each example. The router is trained to minimise the entropy "
        "of answers."
    ),
    formula=(
        "merged matrix: W = W₀ + λ Σₜ wₜ ΔWₜ\n"
        "MLP blocks, for x: W₀ + Σₜ rₜ(x) wₜ ΔWₜ,  r = mean of A₂ max(0, A₁ x + b₁) + b₂"
    ),
    citation=(
        "A. Tang, L. Shen, Y. Luo, N. Yin, L. Zhang, D. Tao, Merging Multi-Task Models via "
        "Weight-Ensembling Mixture of Experts, ICML 2024, arXiv:2402.00433"
    ),
    parameters=WemoeParameters,
    merge=scaled_sum,
    kind=Kind.ENTRY,
    working_memory=per_entry(1.5),
    least=2,
    modules=Differences(
        differences_of=changes,
        stored_part=lambda _: StoredPart(),
        kind=ModuleKind.BLOCKS,
        with_biases=True,
        roles=_MLP,
        share_at_start=lambda parameters: parameters.scaling,
    ),
)
