"""Largest changes: the sum of each expert's largest changes of the whole model."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import per_entry, share_parameter
from ace_gui.methods.shared.survey import (
    MethodSurvey,
    Range,
    RankSurvey,
    SurveyContext,
    required_findings,
)
from ace_gui.methods.shared.trimming import THRESHOLD, above, trim_survey


@dataclass(frozen=True, kw_only=True)
class LargestChangesParameters:
    """``density``: share of the model's entries kept."""

    density: float = share_parameter(
        0.1, label="Share", help="Share of each expert's entries to add, the largest of the model."
    )


def thresholds(known: SurveyContext) -> RankSurvey:
    """The smallest magnitude that each expert keeps over the whole model."""
    return trim_survey([parameters.density for parameters in known.parameters])


@on_experts
def largest_changes(experts: Experts, _: LargestChangesParameters, context: Context) -> Merged:
    """Σ γ_t w_t ΔW_t, entry by entry. γ_t = 1 for the largest entries of the model, else 0."""
    findings = required_findings(context.findings, len(experts))
    total = experts.zeros()
    for t, weight in enumerate(experts.weights):
        total.add_(above(experts.delta(t), findings[THRESHOLD][t]), alpha=weight)
    return Merged.of(total)


LARGEST_CHANGES = MergeMethod(
    name="largest_changes",
    title="Largest changes",
    summary="Adds the largest changes of every expert over the whole model.",
    formula="merged matrix: W = W₀ + Σₜ wₜ γₜ ⊙ ΔWₜ,  entry by entry",
    citation="A method to show what one costs",
    parameters=LargestChangesParameters,
    merge=largest_changes,
    kind=Kind.ENTRY,
    working_memory=per_entry(2.5),
    surveys=(MethodSurvey(survey=thresholds, over=Range.MODEL, finds=(THRESHOLD,)),),
)
