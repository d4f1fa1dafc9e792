"""AdaMerging: coefficients of task vectors, learned to make the merged model sure of its answers.

T experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Deltas, Weights
from ace_gui.methods.shared.kit import parameter, per_entry, scaling_parameter, share_parameter
from ace_gui.methods.shared.learned import LearningParameters, merge_of_learned
from ace_gui.methods.shared.learning import Learning, PartInputs, Values
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import (
    Findings,
    MethodSurvey,
    Range,
    RankSurvey,
    SurveyContext,
    required_findings,
)
from ace_gui.methods.shared.trimming import THRESHOLD, at_least_in_float32, trim_survey

TASK_WISE, LAYER_WISE, TASK_WISE_TIES, LAYER_WISE_TIES = (
    *("task-wise", "layer-wise"),
    *("task-wise++", "layer-wise++"),
)
_TIES = (TASK_WISE_TIES, LAYER_WISE_TIES)


@dataclass(frozen=True, kw_only=True)
class AdaMergingParameters(LearningParameters):
    """``variant``: which tensors share a coefficient, and whether task vectors are trimmed."""

    variant: str = parameter(
        LAYER_WISE,
        label="Variant",
        help=(
            "layer-wise: one coefficient per expert and tensor. task-wise: one per expert. ++: "
            "the task vectors are first trimmed and restricted to agreeing signs, as in "
            "TIES-Merging."
        ),
        choices=(LAYER_WISE, TASK_WISE, LAYER_WISE_TIES, TASK_WISE_TIES),
    )
    scaling: float = scaling_parameter(
        0.3, symbol="λ₀", help="Initial value of every coefficient.", presets=(("paper", 0.3),)
    )
    density: float = share_parameter(
        0.2,
        label="Density",
        help="Share of entries kept in each task vector, over the whole model (variants with ++).",
        applies_when=("variant", *_TIES),
    )


def thresholds(context: SurveyContext) -> RankSurvey | None:
    """The smallest magnitude that each expert keeps over the whole model (++)."""
    parameters = context.parameters[0]
    if parameters.variant not in _TIES or parameters.density == 1:
        return None
    return trim_survey([parameters.density] * len(context.parameters))


THRESHOLDS = MethodSurvey(
    survey=thresholds, over=Range.MODEL, finds=(THRESHOLD,), uses=("variant", "density")
)


def _start(deltas: Deltas, parameters: AdaMergingParameters, _: Findings | None) -> Values:
    if parameters.variant in {TASK_WISE, TASK_WISE_TIES}:
        return {}
    return {"coefficient": torch.full((len(deltas),), parameters.scaling)}


def _shared(parameters: AdaMergingParameters, experts: int) -> Values:
    if parameters.variant in {LAYER_WISE, LAYER_WISE_TIES}:
        return {}
    return {"coefficient": torch.full((experts,), parameters.scaling)}


def _part_inputs(
    deltas: Deltas, weights: Weights, parameters: AdaMergingParameters, findings: Findings | None
) -> Iterator[PartInputs]:
    """The entries of ΔW_t that remain (++): the largest, if w_t ΔW_t has the elected sign."""
    experts = range(len(deltas))
    if parameters.density < 1:
        limits = required_findings(findings, len(deltas))[THRESHOLD]
    else:
        limits = (0.0,) * len(deltas)
    total = torch.zeros(())
    for t in experts:
        total = total + at_least_in_float32(deltas[t], limits[t]).to(torch.float64) * weights[t]
    # the sign of ties
    if float(total.sign().sum()) >= 0:
        most = 1.0
    else:
        most = -1.0
    elected = torch.where(total != 0, total.sign(), most)
    for t in experts:
        survivors = at_least_in_float32(deltas[t], limits[t])
        yield {"delta": torch.where(survivors * weights[t] * elected > 0, survivors, 0)}


LEARNING = Learning[AdaMergingParameters](
    start=_start,
    shared=_shared,
    part_inputs=_part_inputs,
    needs_part_inputs=lambda parameters: parameters.variant in _TIES,
    figures=lambda gates: gates["coefficient"],
    curve="mean coefficient λ",
)


ADAMERGING = MergeMethod(
    name="adamerging",
    title="AdaMerging",
    summary=(
        "Learns how much of every expert goes into each layer by minimising the entropy of "
        "the merged model's answers to inputs of all tasks. Needs no labels."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ λₜ wₜ ΔWₜ,  λ of each expert and tensor, or of each expert\n"
        "coefficients: λ = arg min Σₜ E_x∼t H(p(y|x)),  H: entropy of the merged model's "
        "answers, by Adam"
    ),
    citation=(
        "E. Yang, Z. Wang, L. Shen, S. Liu, G. Guo, X. Wang, D. Tao, AdaMerging: Adaptive Model "
        "Merging for Multi-Task Learning, ICLR 2024, arXiv:2310.02575"
    ),
    parameters=AdaMergingParameters,
    merge=merge_of_learned(LEARNING),
    kind=Kind.TENSOR,
    least=2,
    surveys=(THRESHOLDS,),
    needs=lambda _: Need.ENTROPY,
    learning=LEARNING,
    working_memory=per_entry(7),
)
