"""TIES-Merging: trim, elect signs, merge what agrees."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.election import ElectionParameters, merged_by_election
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import per_entry, scaling_parameter, share_parameter
from ace_gui.methods.shared.sparse import Sparse, rescale_parameter
from ace_gui.methods.shared.survey import MethodSurvey, RankSurvey, SurveyContext
from ace_gui.methods.shared.trimming import (
    THRESHOLD,
    trim_parameter,
    trim_range,
    trim_survey,
    trimmed_entries,
)


@dataclass(frozen=True, kw_only=True)
class Trimming:
    """``density``: share of entries kept of every task vector.

    ``trim``: whether they are chosen over the whole model or in each tensor.
    """

    density: float = share_parameter(
        0.2,
        label="Density",
        help=(
            "Share of each task vector's entries to keep, the largest by magnitude. Entries "
            "equal to the smallest kept magnitude are kept too. mergekit's default keeps all."
        ),
    )
    trim: str = trim_parameter()
    rescale: str = rescale_parameter()


@dataclass(frozen=True, kw_only=True)
class TiesParameters(ElectionParameters, Trimming):
    """Parameters of TIES-Merging."""

    scaling: float = scaling_parameter(
        symbol="λ",
        help="Factor on the merged task vector. The paper's value without validation is 1.",
        presets=(("paper", 1.0), ("with sum, FusionBench", 0.3)),
    )


def thresholds(context: SurveyContext) -> RankSurvey | None:
    """The smallest magnitude that each expert keeps; None if all keep everything."""
    if all(parameters.density == 1 for parameters in context.parameters):
        return None
    return trim_survey([parameters.density for parameters in context.parameters])


def largest(delta: Tensor, t: int, context: SurveyContext) -> Tensor:
    """The entries of expert t that reach its threshold."""
    return trimmed_entries(delta, t, context.findings)


THRESHOLDS = MethodSurvey(
    survey=thresholds, over=trim_range, finds=(THRESHOLD,), uses=("density", "trim")
)
TRIMMED = Sparse(survivors_of=largest, surveys=(THRESHOLDS,))


@on_experts
def ties(experts: Experts, parameters: TiesParameters, context: Context) -> Merged:
    """λ times the mean over the experts that agree with the elected sign, for any shape;
    float32.

    Weights multiply the trimmed task vectors, and count in the election and in the mean. Reads
    every expert once. ``balanced`` decides ties of the signs of an entry. Raises MethodError if a
    task vector is not finite, or if required findings are missing.
    """
    sparse, surveyed = TRIMMED.vectors(experts, parameters, context)
    return merged_by_election(sparse, experts.weights, parameters, surveyed.findings)


TIES = MergeMethod(
    name="ties",
    title="TIES-Merging",
    summary=(
        "Keeps the largest changes of every expert, elects a sign for every entry, and "
        "averages the changes that agree with it."
    ),
    formula=(
        "merged matrix: W = W₀ + λ · Σₜ∈A wₜ τ̂ₜ / Σₜ∈A |wₜ|,  entry by entry\n"
        "trimmed changes: τ̂ₜ = the largest entries of ΔWₜ by magnitude, over the model or "
        "the tensor, the others 0\n"
        "agreeing experts: A = experts whose wₜ τ̂ₜ has the sign of Σₜ wₜ τ̂ₜ"
    ),
    citation=(
        "P. Yadav, D. Tam, L. Choshen, C. Raffel, M. Bansal, TIES-Merging: Resolving Interference "
        "When Merging Models, NeurIPS 2023, arXiv:2306.01708"
    ),
    parameters=TiesParameters,
    merge=ties,
    kind=Kind.ENTRY,
    for_one_expert=("density",),
    working_memory=per_entry(8),
    surveys=TRIMMED.all_surveys,
    votes=True,
)
