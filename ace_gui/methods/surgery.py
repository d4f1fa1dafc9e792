"""Representation Surgery: task arithmetic, and a correction of what each task's head is given."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.methods.method import (
    Kind,
    MergeMethod,
    parameter,
    scaling_parameter,
)
from ace_gui.methods.shared.expert_modules import Corrections
from ace_gui.methods.shared.sums import scaled_sum


@dataclass(frozen=True, kw_only=True)
class SurgeryParameters:
    """``rank``, ``steps``, ``learning_rate``: of the corrections. ``scaling``: α of the merge."""

    rank: int = parameter(
        16,
        label="Rank",
        help="Features between the two matrices of each task's correction.",
        low=1,
        high=4096,
        logarithmic=True,
    )
    steps: int = parameter(
        1000,
        label="Steps",
        help="Steps of Adam for each task; 0 leaves the merge as it is.",
        low=0,
        high=100_000,
    )
    learning_rate: float = parameter(
        1e-3,
        label="Learning rate",
        help="Of Adam.",
        low=0.0,
        low_open=True,
        high=1.0,
        logarithmic=True,
    )
    scaling: float = scaling_parameter(
        0.3, letter="α", help="Factor on the sum of the task vectors in the merged model."
    )


SURGERY = MergeMethod(
    name="surgery",
    title="Representation Surgery",
    summary=(
        "Task arithmetic, and for each task a low-rank correction of what its head is given, "
        "trained to be what its expert would give it."
    ),
    formula=(
        "W = W₀ + α Σₜ wₜ ΔWₜ\n"
        "task t: head(h − Uₜ max(0, Dₜ h)),  Uₜ Dₜ of a low rank, to the least mean|h − hₜ|"
    ),
    citation=(
        "E. Yang, L. Shen, Z. Wang, G. Guo, X. Chen, X. Wang, D. Tao, Representation Surgery for "
        "Multi-Task Model Merging, ICML 2024, arXiv:2402.02705"
    ),
    parameters=SurgeryParameters,
    merge=scaled_sum,
    kind=Kind.ENTRY,
    modules=Corrections(
        rank=lambda parameters: parameters.rank,
        steps=lambda parameters: parameters.steps,
        learning_rate=lambda parameters: parameters.learning_rate,
    ),
)
