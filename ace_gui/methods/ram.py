"""RAM and RAM+: keep changes by one expert in full, and average changes by several.

τ_t = w_t ΔW_t.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_entry, share_parameter
from ace_gui.methods.shared.survey import Findings, MethodSurvey, SumSurvey, SurveyContext

CITATION: Final = "Reinforced Agent Merging, 2026, arXiv:2601.13572"


def threshold_parameter() -> Any:
    """The parameter that defines a change."""
    return share_parameter(
        1e-5,
        label="Changed above",
        help="An expert counts for an entry if it changed that entry by more than this.",
        above_zero=False,
    )


@dataclass(frozen=True, kw_only=True)
class RamParameters:
    """Parameters of RAM. ``epsilon``: changes up to this count as none."""

    epsilon: float = threshold_parameter()


@dataclass(frozen=True, kw_only=True)
class RamPlusParameters:
    """Parameters of RAM+, tensor by tensor.

    ``epsilon``: changes up to this count as none. Entries that only one expert changed are scaled
    by 1 + ``r`` · min(shared / unique, ``alpha``).
    """

    epsilon: float = threshold_parameter()
    r: float = parameter(
        0.1,
        label="Rescaling r",
        help="How strongly entries that only one expert changed are scaled up. 0 gives RAM.",
        low=0.0,
        high=10.0,
    )
    alpha: float = parameter(
        0.2,
        label="Limit α",
        help="Upper limit on an expert's ratio of shared to unique entries.",
        low=0.0,
        high=10.0,
    )


@on_experts
def ram(experts: Experts, parameters: RamParameters, _: Context) -> Merged:
    """The mean over the experts that changed an entry, any shape, float32. Reads each once.

    Raises MethodError if a task vector is not finite.
    """
    total, counts = _gathered(experts, parameters.epsilon)
    return Merged.of(total.div_(counts.clamp_(min=1)))


UNIQUE: Final = "unique"
SHARED: Final = "shared"
"""Names of findings: numbers of a tensor's entries that only this expert changed, or others too."""


def overlap(context: SurveyContext) -> SumSurvey:
    """The numbers of unique and of shared entries of each expert in a tensor."""
    epsilon = context.parameters[0].epsilon

    def figures(deltas: Sequence[Tensor], _start: int) -> Iterable[Sequence[float]]:
        experts = Experts(deltas, context.weights)
        _, counts = _gathered(experts, epsilon)
        unique = counts == 1
        for t in range(len(experts)):
            changed = _changed(experts, t, epsilon) != 0
            alone = int(torch.count_nonzero(unique & changed))
            yield alone, int(torch.count_nonzero(changed)) - alone

    def findings_of(sums: list[list[float]]) -> Findings:
        alone, shared = zip(*sums, strict=True)
        return {UNIQUE: alone, SHARED: shared}

    return SumSurvey(len(context.parameters), 2, figures, findings_of)


SURVEYS: Final = (MethodSurvey(survey=overlap, finds=(UNIQUE, SHARED)),)


@on_experts
def ramplus_tl(experts: Experts, parameters: RamPlusParameters, context: Context) -> Merged:
    """As RAM, with each expert's unique entries scaled; any shape, float32.

    Raises MethodError if a task vector is not finite.
    """
    findings = experts.surveyed(SURVEYS, parameters, context).findings
    total, counts = _gathered(experts, parameters.epsilon)
    unique = counts == 1
    for t in range(len(experts)):
        value = _changed(experts, t, parameters.epsilon)
        alone = max(findings[UNIQUE][t], parameters.epsilon or 1)
        ratio = min(findings[SHARED][t] / alone, parameters.alpha)
        total.add_(torch.where(unique, value, 0), alpha=parameters.r * ratio)
    return Merged.of(total.div_(counts.clamp_(min=1)))


def _gathered(experts: Experts, epsilon: float) -> tuple[Tensor, Tensor]:
    """The sum of the changes in float64, and the number of experts that changed each entry."""
    total = experts.zeros()
    counts = torch.zeros_like(total, dtype=torch.int32)
    for t in range(len(experts)):
        value = _changed(experts, t, epsilon)
        total.add_(value)
        counts.add_(value != 0)
    return total, counts


def _changed(experts: Experts, t: int, epsilon: float) -> Tensor:
    value = experts.weighted(t)
    return torch.where(value.abs() > epsilon, value, 0)


RAM = MergeMethod(
    name="ram",
    title="RAM",
    summary="Keeps entries changed by only one expert, and averages entries changed by several.",
    formula="W = W₀ + Σₜ∈A wₜ ΔWₜ / |A|,  entry by entry,  A = experts with |wₜ ΔWₜ| > ε",
    citation=CITATION,
    parameters=RamParameters,
    merge=ram,
    kind=Kind.ENTRY,
    working_memory=per_entry(5),
)

RAMPLUS_TL = MergeMethod(
    name="ramplus_tl",
    title="RAM+ by tensor",
    summary=(
        "RAM that also scales up entries changed by only one expert. The larger the expert's share "
        "of shared entries, the larger the factor."
    ),
    formula=(
        "merged matrix: W = W₀ + Σₜ∈A aₜ wₜ ΔWₜ / |A|,  entry by entry,  A = experts with "
        "|wₜ ΔWₜ| > ε\n"
        "rescaling: aₜ = 1 + r · min(α, shared entries of t / unique ones) where |A| = 1, else 1"
    ),
    citation=CITATION,
    parameters=RamPlusParameters,
    merge=ramplus_tl,
    kind=Kind.ENTRY,
    working_memory=per_entry(6),
    surveys=SURVEYS,
)
