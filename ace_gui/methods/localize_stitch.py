"""Localize-and-Stitch: each expert's most important changes, averaged where they meet. T experts.

Without data these are the largest; with a few labelled inputs, masks are learned for each expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Deltas, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import (
    learning_rate_parameter,
    parameter,
    per_entry,
    share_parameter,
    steps_parameter,
)
from ace_gui.methods.shared.learned import LearningParameters, merge_of_learned
from ace_gui.methods.shared.learning import Gates, Learning, PartInputs, Values
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

CITATION: Final = (
    "Y. He, Y. Hu, Y. Lin, T. Zhang, H. Zhao, Localize-and-Stitch: Efficient Model Merging via "
    "Sparse Task Arithmetic, TMLR 2025, arXiv:2408.13656"
)


@dataclass(frozen=True, kw_only=True)
class LocalizeStitchParameters:
    """Parameters of Localize-and-Stitch. ``density``: s, share of the model's entries kept."""

    density: float = share_parameter(
        0.05,
        label="Sparsity s",
        help=(
            "Share of each expert's entries to keep, the largest changes of the whole model. "
            "The published code uses 5 % for language models. Surveys quote 1 %."
        ),
        presets=(("published code", 0.05), ("quoted", 0.01)),
    )


def thresholds(context: SurveyContext) -> RankSurvey:
    """The smallest magnitude that each expert keeps over the whole model, or at the start."""
    return trim_survey([parameters.density for parameters in context.parameters])


THRESHOLDS = MethodSurvey(
    survey=thresholds, over=Range.MODEL, finds=(THRESHOLD,), uses=("density",)
)


@on_experts
def localize_stitch(experts: Experts, _: LocalizeStitchParameters, context: Context) -> Merged:
    """Σ γ_t w_t ΔW_t / Σ γ_t, entry by entry, 0 if no γ_t is 1; any shape, float32.

    γ_t = 1 for nonzero entries at least as large as the survey's threshold. Reads every expert
    once. Raises MethodError without findings, and where a task vector is not finite.
    """
    findings = required_findings(context.findings, len(experts))
    total = experts.zeros()
    counts = torch.zeros_like(total, dtype=torch.int16)
    for t, weight in enumerate(experts.weights):
        survivors = at_least_in_float32(experts.delta(t), findings[THRESHOLD][t])
        total.add_(survivors, alpha=weight)
        counts += survivors != 0
    return Merged.of(total.div_(counts.clamp_(min=1)))


LOCALIZE_STITCH = MergeMethod(
    name="localize_stitch",
    title="Localize-and-Stitch",
    summary=(
        "Keeps the few largest changes of every expert over the whole model. Where several "
        "experts keep the same entry, their changes are averaged. This is the variant without data."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ γₜ ⊙ wₜ ΔWₜ / Σₜ γₜ,  entry by entry\n"
        "mask: γₜ = 1 for the largest s of the entries of ΔWₜ by magnitude over the whole "
        "model, else 0"
    ),
    citation=CITATION,
    parameters=LocalizeStitchParameters,
    merge=localize_stitch,
    kind=Kind.ENTRY,
    working_memory=per_entry(2.5),
    surveys=(THRESHOLDS,),
)


BEGINNING: Final = 5.0
"""Initial logit: this value for large changes, its negative elsewhere."""


@dataclass(frozen=True, kw_only=True)
class FewShotParameters(LearningParameters):
    """``density``: share of entries kept at the start. ``sparsity``: factor of the penalty."""

    steps: int = steps_parameter(
        10,
        help="Number of training steps. 0 keeps the largest changes and uses no data.",
        high=10_000,
    )
    learning_rate: float = learning_rate_parameter(
        1e7,
        help=(
            "Learning rate for the masks' logits, with plain gradient descent. It is large "
            "because the gradients of masks are very small."
        ),
        high=1e12,
    )
    batch: int = parameter(
        64,
        label="Inputs",
        help="Number of labelled inputs per task. Every step uses all of them.",
        low=1,
        high=1024,
        presets=(("published code", 64), ("quoted", 8)),
    )
    density: float = share_parameter(
        1e-5,
        label="Share at first",
        help=(
            "Share of entries in each expert's initial mask: the largest changes of the whole "
            "expert."
        ),
        logarithmic=True,
        presets=(("published code", 1e-5),),
    )
    sparsity: float = parameter(
        1.0,
        label="Sparsity ℓ₁",
        help="How strongly a step pulls masks towards 0: λ times the learning rate.",
        differs=(
            "The published code uses 1 for vision and 10 for language, and pushes entries away "
            "from the middle. Here they are pulled to 0, as in the paper's formula."
        ),
        low=0.0,
        high=1e6,
        presets=(("vision", 1.0), ("language", 10.0)),
    )


def _start(deltas: Deltas, _parameters: FewShotParameters, findings: Findings | None) -> Values:
    """Logits: 5 for each expert's largest changes, −5 elsewhere."""
    limits = required_findings(findings, len(deltas))[THRESHOLD]
    large = []
    for delta, limit in zip(deltas, limits, strict=True):
        large.append(at_least_in_float32(delta, limit) != 0)
    return {"logits": torch.where(torch.stack(large), BEGINNING, -BEGINNING)}


def _gates(
    values: Values, _parameters: FewShotParameters, generator: torch.Generator | None
) -> Gates:
    """σ(S) while learning. The exported masks are 0 or 1, and are averaged where they overlap."""
    logits = values["logits"]
    if generator is not None:
        return {"share": torch.sigmoid(logits)}
    is_selected = logits > 0
    return {"kept": is_selected, "count": is_selected.sum(dim=0, dtype=torch.int16).clamp(min=1)}


def _part(t: int, part_inputs: PartInputs, gates: Gates) -> Tensor:
    if "share" in gates:
        return gates["share"][t] * part_inputs["delta"]
    return gates["kept"][t] * part_inputs["delta"] / gates["count"]


def _penalty(gates: Gates, parameters: FewShotParameters, _tensors: int) -> Tensor:
    return parameters.sparsity / parameters.learning_rate * gates["share"].sum()


def _figures(gates: Gates) -> Tensor:
    if "share" in gates:
        selected = gates["share"] > 0.5
    else:
        selected = gates["kept"]
    return selected.double().reshape(len(selected), -1).mean(dim=1)


LEARNING = Learning[FewShotParameters](
    start=_start,
    gates=_gates,
    part=_part,
    penalty=_penalty,
    per_expert=True,
    plain_descent=True,
    stored_form=lambda logits: (logits > 0).to(torch.uint8),
    figures=_figures,
    curve="share of entries kept",
    numbers=lambda shape, _: prod(shape),
)


def working_memory(shape: tuple[int, ...], experts: int) -> float:
    """The largest number of float64 numbers at once; a mask takes one byte per entry."""
    return (6 + experts / 4) * prod(shape)


LOCALIZE_STITCH_FEW_SHOT = MergeMethod(
    name="localize_stitch_few_shot",
    title="Localize-and-Stitch, few-shot",
    summary=(
        "Learns from a few labelled inputs which entries each expert's task needs, "
        "separately for each expert. Where several experts need the same entry, their "
        "changes are averaged."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ γₜ ⊙ wₜ ΔWₜ / Σₜ γₜ,  entry by entry,  γₜ = 1 where Sₜ > "
        "0, else 0\n"
        "mask: Sₜ = arg min ℓₜ(W₀ + σ(S) ⊙ ΔWₜ) + λ Σ σ(S),  ℓₜ: loss of task t,  σ: sigmoid"
    ),
    citation=CITATION,
    parameters=FewShotParameters,
    merge=merge_of_learned(LEARNING),
    kind=Kind.TENSOR,
    least=2,
    surveys=(THRESHOLDS,),
    needs=lambda _: Need.LOSS,
    learning=LEARNING,
    working_memory=working_memory,
)
