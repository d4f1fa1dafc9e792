"""NAN: task vectors weighted by the inverse of their norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Census, Context, Experts, Merged, on_experts
from ace_gui.methods.shared.inner_products import ENERGY, energies_survey
from ace_gui.methods.shared.kit import parameter, per_entry, scaling_parameter
from ace_gui.methods.shared.survey import (
    MethodSurvey,
    Range,
    SumSurvey,
    SurveyContext,
    norms_survey,
)


@dataclass(frozen=True, kw_only=True)
class NanParameters:
    """Parameters of NAN. ``norms``: per tensor or over the model. ``scaling``: a factor besides
    T/2.
    """

    norms: str = parameter(
        "tensor",
        label="Norms of",
        help=(
            "tensor: weights each tensor by the norms of its own changes, as in the paper. "
            "model: weights all tensors alike, by the norms of the whole task vectors. The "
            "paper derives inverse squares, but its formula has inverse norms. The formula is "
            "used here."
        ),
        choices=("tensor", "model"),
    )

    scaling: float = scaling_parameter(
        help=(
            "Factor in addition to the method's own T/2, where T is the number of experts that "
            "changed the tensor. A single expert is therefore halved."
        )
    )


def norms(context: SurveyContext) -> SumSurvey | None:
    """The norms of the whole task vectors, if ``norms`` asks for them."""
    if context.parameters[0].norms == "tensor":
        return None
    return norms_survey(len(context.parameters))


SURVEYS: Final = (
    MethodSurvey(survey=norms, over=Range.MODEL, finds=("norm",), uses=("norms",)),
    MethodSurvey(survey=energies_survey, finds=(ENERGY,)),
)


@on_experts
def nan(experts: Experts, parameters: NanParameters, context: Context) -> Merged:
    """Scaling · (T/2) Σ w_t c_t ΔW_t, c_t = ‖ΔW_t‖⁻¹ / Σ ‖ΔW_j‖⁻¹, any shape, float32.

    The norms are those of the unweighted task vectors, in one tensor or surveyed over the model.
    (The paper derives inverse squares and mentions a softmax, but this is its formula.) Experts
    without a change, or of weight zero, are left out. Raises MethodError if one is not finite, and
    without findings where it needs them.
    """
    findings = experts.surveyed(SURVEYS, parameters, context).findings
    census = Census.of(findings[ENERGY])
    counted: Sequence[int] = census.counted
    if parameters.norms == "tensor":
        norms = {t: math.sqrt(census.energies[t]) / abs(experts.weights[t]) for t in counted}
    else:
        surveyed = findings["norm"]
        counted = [t for t, weight in enumerate(experts.weights) if weight and surveyed[t]]
        norms = {t: surveyed[t] for t in counted}
    total = sum(1 / norm for norm in norms.values())
    coefficients = [len(counted) / 2 / norms[t] / total * experts.weights[t] for t in counted]
    merged = experts.combination(coefficients, counted)
    return Merged.of(merged, parameters.scaling, census.diagnostics())


NAN = MergeMethod(
    name="nan",
    title="NAN",
    summary="Adds the experts' changes, each tensor weighted by the inverse of its norm.",
    formula=(
        "merged matrix: W = W₀ + scaling · T/2 · Σₜ wₜ cₜ ΔWₜ,  cₜ = ‖ΔWₜ‖⁻¹ / Σⱼ ‖ΔWⱼ‖⁻¹\n"
        "norms: of the tensor, or of the whole model"
    ),
    citation=(
        "C. Si, K. Lv, J. Jiang et al., NAN: A Training-Free Solution to Coefficient Estimation in "
        "Model Merging, 2025, arXiv:2505.16148"
    ),
    parameters=NanParameters,
    merge=nan,
    kind=Kind.ENTRY,
    working_memory=per_entry(3),
    surveys=SURVEYS,
)
