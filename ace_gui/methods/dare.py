"""DARE: drop entries at random and rescale, then task arithmetic or TIES."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.draws import required_key, uniform
from ace_gui.methods.shared.election import ElectionParameters, merged_by_election
from ace_gui.methods.shared.experts import Context, Deltas, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import per_entry, share_parameter
from ace_gui.methods.shared.sparse import (
    BY_CHANCE,
    Sparse,
    SumParameters,
    merged_by_sum,
    rescale_parameter,
)
from ace_gui.methods.shared.survey import (
    Findings,
    MethodSurvey,
    RandomKey,
    RankSurvey,
    SurveyContext,
)
from ace_gui.methods.shared.trimming import THRESHOLD, trim_survey, trimmed_entries

CITATION = (
    "L. Yu, B. Yu, H. Yu, F. Huang, Y. Li, Language Models are Super Mario: Absorbing Abilities "
    "from Homologous Models as a Free Lunch, ICML 2024, arXiv:2311.03099"
)


def density_parameter(default: float = 0.5) -> Any:
    """The parameter 1 − p."""
    return share_parameter(
        default,
        label="Density",
        help=(
            "Probability 1 − p of keeping each entry of a task vector. Kept entries are divided "
            "by it unless rescaling is another, so the expected task vector does not change. 0 "
            "keeps nothing."
        ),
        above_zero=False,
        presets=(("p = 0.5", 0.5), ("p = 0.9", 0.1)),
    )


@dataclass(frozen=True, kw_only=True)
class Dropping:
    """``density``: 1 − p. ``rescale``: how kept entries are rescaled."""

    density: float = density_parameter()
    rescale: str = rescale_parameter(BY_CHANCE)


@dataclass(frozen=True, kw_only=True)
class DareLinearParameters(SumParameters, Dropping):
    """Parameters of DARE and of task arithmetic."""


@dataclass(frozen=True, kw_only=True)
class DroppingAndTrimming(Dropping):
    """``trim_density``: share of entries that TIES keeps after DARE."""

    trim_density: float = share_parameter(
        1.0,
        label="Density after trimming",
        help=(
            "Share of a tensor's entries that TIES keeps after the random drop. 1, as in "
            "mergekit, trims nothing. FusionBench uses 0.2."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class DareTiesParameters(ElectionParameters, DroppingAndTrimming):
    """Parameters of DARE and of TIES."""


def dropped(delta: Tensor, density: float, random_key: RandomKey, t: int) -> Tensor:
    """mask ⊙ ΔW_t / (1 − p), any shape; the mask depends only on seed, expert and position."""
    if density == 0:
        return torch.zeros_like(delta)
    return torch.where(uniform(random_key, t, delta) < density, delta / density, 0)


def masked(delta: Tensor, t: int, context: SurveyContext) -> Tensor:
    """The kept entries of ΔW_t; rescaled if that is by chance."""
    parameters = context.parameters[t]
    key = required_key(context.random_key, len(context.parameters))
    if parameters.rescale == BY_CHANCE:
        return dropped(delta, parameters.density, key, t)
    return torch.where(uniform(key, t, delta) < parameters.density, delta, 0)


DROPPED = Sparse(survivors_of=masked)


@on_experts
def dare_linear(experts: Experts, parameters: DareLinearParameters, context: Context) -> Merged:
    """λ Σ_t w_t mask_t ⊙ ΔW_t / (1 − p), any shape, float32. Reads every expert once.

    Raises MethodError without a random key, and if a task vector is not finite.
    """
    sparse, _ = DROPPED.vectors(experts, parameters, context)
    return merged_by_sum(sparse, experts.weights, parameters)


def thresholds(context: SurveyContext) -> RankSurvey | None:
    """The smallest magnitude that TIES keeps for each expert in a tensor, after DARE."""
    if context.parameters[0].trim_density == 1:
        return None

    def values(deltas: Deltas, _: Findings, start: int) -> Iterator[Tensor]:
        here = context.at(start)
        return (DROPPED.vector(deltas[t], t, here).abs() for t in range(len(context.parameters)))

    return trim_survey(
        [parameters_of_expert.trim_density for parameters_of_expert in context.parameters], values
    )


SURVEYS = (*DROPPED.all_surveys, MethodSurvey(survey=thresholds, finds=(THRESHOLD,)))


@on_experts
def dare_ties(experts: Experts, parameters: DareTiesParameters, context: Context) -> Merged:
    """TIES on mask_t ⊙ ΔW_t / (1 − p), any shape, float32. Reads every expert once.

    Raises MethodError without a random key, and if a task vector is not finite.
    """
    surveyed = experts.surveyed(SURVEYS, parameters, context)

    def sparse(t: int) -> Tensor:
        return trimmed_entries(DROPPED.vector(experts.delta(t), t, surveyed), t, surveyed.findings)

    return merged_by_election(sparse, experts.weights, parameters, surveyed.findings)


DARE_LINEAR = MergeMethod(
    name="dare_linear",
    title="DARE with task arithmetic",
    summary=(
        "Drops random entries of every expert's change, rescales the rest to compensate, "
        "and adds them."
    ),
    formula="W = W₀ + λ Σₜ wₜ mₜ ⊙ ΔWₜ / (1 − p),  mₜ = 1 with chance 1 − p, else 0",
    citation=CITATION,
    parameters=DareLinearParameters,
    merge=dare_linear,
    kind=Kind.ENTRY,
    working_memory=per_entry(7),
    seeded=True,
    for_one_expert=("density",),
    surveys=DROPPED.all_surveys,
)

DARE_TIES = MergeMethod(
    name="dare_ties",
    title="DARE with TIES",
    summary=(
        "Drops random entries of every expert's change, rescales the rest, and merges them "
        "by sign election, as in TIES."
    ),
    formula=(
        "merged matrix: W = W₀ + λ · Σₜ∈A wₜ τ̂ₜ / Σₜ∈A |wₜ|,  entry by entry\n"
        "dropped changes: τ̂ₜ = mₜ ⊙ ΔWₜ / (1 − p),  mₜ = 1 with chance 1 − p, else 0\n"
        "agreeing experts: A = experts whose wₜ τ̂ₜ has the sign of Σₜ wₜ τ̂ₜ"
    ),
    citation=CITATION + "; P. Yadav et al., NeurIPS 2023, arXiv:2306.01708",
    parameters=DareTiesParameters,
    merge=dare_ties,
    kind=Kind.ENTRY,
    working_memory=per_entry(8),
    seeded=True,
    for_one_expert=("density",),
    surveys=SURVEYS,
    votes=True,
)
