"""Representation Surgery: task arithmetic, and a correction of the features before each head."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Corrections
from ace_gui.methods.shared.kit import (
    learning_rate_parameter,
    parameter,
    per_entry,
    scaling_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.sparse import scaled_sum


@dataclass(frozen=True, kw_only=True)
class SurgeryParameters:
    """``rank``, ``steps``, ``learning_rate``: of the corrections. ``scaling``: α of the merge."""

    rank: int = parameter(
        16,
        label="Rank",
        help="Rank of each task's correction, which is a product of two matrices.",
        low=1,
        high=4096,
        logarithmic=True,
    )
    steps: int = steps_parameter(
        1000,
        help="Number of Adam steps per task. 0 leaves the merge unchanged.",
        differs=(
            "As many as in the paper, but each step uses up to 512 feature vectors. The published "
            "code uses 16 images. Features are computed once here, so more cost little."
        ),
    )
    learning_rate: float = learning_rate_parameter(1e-3, help="Learning rate of Adam.", high=1.0)
    scaling: float = scaling_parameter(
        0.3, symbol="α", help="Factor on the sum of the task vectors in the merged model."
    )


SURGERY = MergeMethod(
    name="surgery",
    title="Representation Surgery",
    summary=(
        "Task arithmetic with a low-rank correction per task of the features that the task's "
        "head receives. It is trained to match the features of the task's expert."
    ),
    formula=(
        "merged matrix: W = W₀ + α Σₜ wₜ ΔWₜ\n"
        "task t: head(h − Uₜ max(0, Dₜ h)),  Uₜ Dₜ of a low rank, to the least mean|h − hₜ|"
    ),
    citation=(
        "E. Yang, L. Shen, Z. Wang, G. Guo, X. Chen, X. Wang, D. Tao, Representation Surgery for "
        "Multi-Task Model Merging, ICML 2024, arXiv:2402.02705"
    ),
    parameters=SurgeryParameters,
    merge=scaled_sum,
    kind=Kind.ENTRY,
    working_memory=per_entry(1.5),
    modules=Corrections(rank=lambda parameters: parameters.rank),
)
