"""Model Breadcrumbs with TIES: leave out both ends of every expert's changes, then elect signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from ace_gui.methods.breadcrumbs import (
    BREADCRUMBS,
    crumbs,
    density_parameter,
    outliers_parameter,
)
from ace_gui.methods.method import (
    Context,
    Kind,
    Merged,
    MergeMethod,
    for_each,
    per_entry,
    scaling_parameter,
)
from ace_gui.methods.shared.census import finished, task_vector
from ace_gui.methods.shared.election import Election, balanced_parameter, combine_parameter
from ace_gui.methods.shared.weighted_experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class BreadcrumbsTiesParameters:
    """Parameters of Model Breadcrumbs with TIES.

    ``density``, ``gamma``: as those of Breadcrumbs. ``scaling``: λ. ``combine``: mean or sum of the
    agreeing entries. ``balanced``: the sign where both weigh the same.
    """

    density: float = density_parameter()
    gamma: float = outliers_parameter()
    scaling: float = scaling_parameter(letter="λ", help="Factor on the merged task vector.")
    combine: str = combine_parameter()
    balanced: str = balanced_parameter()


def breadcrumbs_ties(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: BreadcrumbsTiesParameters,
    **context: Unpack[Context],
) -> Merged:
    """TIES on mask_t ⊙ ΔW_t, any shape, float32. Reads every expert once.

    Raises MethodError where a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    each = for_each(parameters, context, len(experts))
    election = Election(experts.delta(0))
    for t, weight in enumerate(weights):
        election.add(crumbs(task_vector(experts, t), each[t].density, each[t].gamma), weight)
    return finished(election.result(parameters.combine, parameters.balanced), parameters.scaling)


BREADCRUMBS_TIES = MergeMethod(
    name="breadcrumbs_ties",
    title="Model Breadcrumbs with TIES",
    summary=(
        "Leaves out each tensor's largest changes and its smallest, and merges what every expert "
        "has in between by sign election as TIES does."
    ),
    formula=(
        "W = W₀ + λ · Σₜ∈A wₜ τ̂ₜ / Σₜ∈A |wₜ|,  entry by entry,  τ̂ₜ = mₜ ⊙ ΔWₜ\n"
        "mₜ = 0 for the largest γ and the smallest 1 − density − γ of the entries of ΔWₜ, else 1\n"
        "A = experts whose wₜ τ̂ₜ has the sign of Σₜ wₜ τ̂ₜ"
    ),
    citation=BREADCRUMBS.citation + "; P. Yadav et al., NeurIPS 2023, arXiv:2306.01708",
    parameters=BreadcrumbsTiesParameters,
    merge=breadcrumbs_ties,
    kind=Kind.TENSOR,
    working_memory=per_entry(7),
    for_one_expert=("density", "gamma"),
)
