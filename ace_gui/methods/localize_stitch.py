"""Localize-and-Stitch without data: each expert's largest changes, averaged where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import torch

from ace_gui.methods.method import Context, Deltas, Kind, Merged, MergeMethod, Weights
from ace_gui.methods.shared.census import finished, task_vector
from ace_gui.methods.shared.costs import per_entry
from ace_gui.methods.shared.declaring import parameter
from ace_gui.methods.shared.survey import RankSurvey, required_findings
from ace_gui.methods.shared.trimming import THRESHOLD, above, trim_survey
from ace_gui.methods.shared.weighted_experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class LocalizeStitchParameters:
    """Parameters of Localize-and-Stitch. ``density``: s, share of the model's entries kept."""

    density: float = parameter(
        0.05,
        label="Sparsity s",
        help=(
            "Share of each expert's entries to keep, the largest changes of the whole model. "
            "The published code uses 5 % for language models. Surveys quote 1 %."
        ),
        low=0.0,
        high=1.0,
        low_open=True,
        presets=(("published code", 0.05), ("quoted", 0.01)),
    )


def survey(parameters: LocalizeStitchParameters, experts: int) -> RankSurvey:
    """The smallest magnitude that is kept of each expert, over the whole model."""
    return trim_survey([parameters.density] * experts)


def localize_stitch(
    deltas: Deltas,
    weights: Weights,
    parameters: LocalizeStitchParameters,  # noqa: ARG001 — the survey has used them
    **context: Unpack[Context],
) -> Merged:
    """Σ γ_t w_t ΔW_t / Σ γ_t, entry by entry, 0 where no γ_t is 1; any shape, float32.

    γ_t = 1 for entries at least as large as the survey's threshold, and not 0. Reads every expert
    once. Raises MethodError without findings, and where a task vector is not finite.
    """
    experts = WeightedExperts(deltas, weights)
    found = required_findings(context.get("findings"), len(experts))
    total = torch.zeros_like(experts.delta(0), dtype=torch.float64)
    counts = torch.zeros_like(total, dtype=torch.int16)
    for t, weight in enumerate(weights):
        kept = above(task_vector(experts, t), found[THRESHOLD][t])
        total.add_(kept, alpha=weight)
        counts += kept != 0
    return finished(total.div_(counts.clamp_(min=1)))


LOCALIZE_STITCH = MergeMethod(
    name="localize_stitch",
    title="Localize-and-Stitch",
    summary=(
        "Keeps the few largest changes of every expert over the whole model. Where several "
        "experts keep the same entry, their changes are averaged. This is the variant without "
        "data."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ γₜ ⊙ wₜ ΔWₜ / Σₜ γₜ,  entry by entry\n"
        "mask: γₜ = 1 for the largest s of the entries of ΔWₜ by magnitude over the whole "
        "model, else 0"
    ),
    citation=(
        "Y. He, Y. Hu, Y. Lin, T. Zhang, H. Zhao, Localize-and-Stitch: Efficient Model Merging via "
        "Sparse Task Arithmetic, TMLR 2025, arXiv:2408.13656"
    ),
    parameters=LocalizeStitchParameters,
    merge=localize_stitch,
    kind=Kind.ENTRY,
    working_memory=per_entry(2.5),
    survey=survey,
    for_survey=("density",),
)
