"""PCB-Merging: entries compete by their size and by whether other experts agree with them.

T experts. τ̄_t is sgn(τ_t) times its winsorised magnitude, mapped onto [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import (
    Census,
    Context,
    Deltas,
    Experts,
    Merged,
    Weights,
    on_experts,
)
from ace_gui.methods.shared.kit import parameter, per_entry, scaling_parameter, share_parameter
from ace_gui.methods.shared.survey import (
    Findings,
    MethodSurvey,
    RankSurvey,
    Stage,
    SumSurvey,
    SurveyContext,
    magnitudes,
    norms_survey,
)
from ace_gui.methods.shared.trimming import kept_count, trim_range

WINSORISED: Final = 0.01
"""Share of entries at either end whose magnitude is clipped to the next one, as published."""


@dataclass(frozen=True, kw_only=True)
class PcbParameters:
    """Parameters of PCB-Merging. ``density``: ρ. ``trim``: its range. ``scaling``: λ."""

    density: float = share_parameter(
        0.05,
        label="Density ρ",
        help=("Share of each expert's entries that win the competition. The paper uses 5 to 10 %."),
        differs=(
            "Scores, and the clipped changes that are averaged, follow the paper's code for vision "
            "models. The softmax in its text is flat over millions of entries, and its code for "
            "language models depends on the changes' size. Its formula averages unclipped changes."
        ),
    )
    trim: str = parameter(
        "model",
        label="Compete over",
        help=(
            "model: compares magnitudes and scores over the whole model, as in the paper. This "
            "reads the experts four more times. tensor: compares within each tensor."
        ),
        choices=("model", "tensor"),
    )
    scaling: float = scaling_parameter(
        1.2,
        symbol="λ",
        help="Factor on the merged task vector.",
        differs=(
            "The paper searches 0.8 to 1.3 on validation data, starting at 1.2. Without data, the "
            "value is the start."
        ),
    )


def norms(context: SurveyContext) -> SumSurvey:
    """‖ΔW_t‖ in a tensor, which shows the experts that changed it."""
    return norms_survey(len(context.parameters))


def competition(context: SurveyContext) -> RankSurvey:
    """The bounds of magnitudes, and then of scores, for the experts that changed anything.

    In a tensor these are known by their norms.
    """
    parameters = context.parameters[0]
    experts = len(context.parameters)
    counted: Sequence[int] | None = None
    if parameters.trim == "tensor":
        counted = _changed(context.findings, context.weights).counted

    def values(deltas: Deltas, findings: Findings, _start: int) -> Iterator[Tensor]:
        return _scores(deltas, _bounds(findings, counted))

    bounds = Stage(names=("low", "high"), values=magnitudes, ranks=_winsorised_ranks)
    scores = Stage(
        names=("lost", "top"),
        values=values,
        ranks=lambda n: (max(1, n - kept_count(parameters.density, n)), n),
    )
    return RankSurvey(experts, bounds, scores)


SURVEYS = (
    MethodSurvey(survey=norms, finds=("norm",)),
    MethodSurvey(
        survey=competition,
        over=trim_range,
        finds=("low", "high", "lost", "top"),
        uses=("density", "trim"),
    ),
)


@on_experts
def pcb(experts: Experts, parameters: PcbParameters, context: Context) -> Merged:
    """λ Σ ŝ_t w_t τ_t / Σ ŝ_t entry by entry, 0 if all ŝ_t are 0; any shape, float32.

    This is the published variant for vision models. τ_t are winsorised, as for the scores. Experts
    without a change are left out. Holds two experts at a time; reads each 2 + T times. Raises
    MethodError if one is not finite, and without findings where it needs them.
    """
    findings = experts.surveyed(SURVEYS, parameters, context).findings
    changed = _changed(findings, experts.weights)
    bounds = _bounds(findings, None if parameters.trim == "model" else changed.counted)
    merged = experts.zeros()
    shares = torch.zeros_like(merged)
    for t in bounds:
        score = _score(experts.delta, bounds, t).to(torch.float32)  # in which scores were compared
        share = success(score, findings["lost"][t], findings["top"][t])
        del score
        value = experts.raw(t).to(torch.float64)
        value = value.sign() * value.abs().clamp(*bounds[t])
        merged.add_(value.mul_(share), alpha=experts.weights[t])
        shares.add_(share)
    result = torch.where(shares > 0, merged / shares, 0)
    return Merged.of(result, parameters.scaling, changed.diagnostics())


def _changed(findings: Findings, weights: Weights) -> Census:
    pairs = zip(findings["norm"], weights, strict=True)
    return Census.of([(weight * norm) ** 2 for norm, weight in pairs])


def _winsorised_ranks(entries: int) -> tuple[int, int]:
    cut = math.floor(WINSORISED * entries)
    return cut + 1, entries - cut


def _bounds(findings: Findings, counted: Sequence[int] | None) -> dict[int, tuple[float, float]]:
    """The smallest and the largest magnitude after winsorising, over the competing experts."""
    pairs = list(zip(findings["low"], findings["high"], strict=True))
    competing = [t for t, (_, high) in enumerate(pairs) if high > 0] if counted is None else counted
    return {t: pairs[t] for t in competing}


def _scores(deltas: Deltas, bounds: Mapping[int, tuple[float, float]]) -> Iterator[Tensor]:
    for t in range(len(deltas)):
        if t in bounds:
            yield _score(deltas.__getitem__, bounds, t)
        else:
            yield torch.zeros_like(deltas[t])


def _unit(delta: Tensor, bounds: tuple[float, float]) -> Tensor:
    """τ̄_t; if all magnitudes are equal, they become 1."""
    low, high = bounds
    values = delta.to(torch.float64)
    if low == high:
        return values.sign()
    return values.sign() * (values.abs().clamp(low, high) - low) / (high - low)


def _score(
    delta: Callable[[int], Tensor], bounds: Mapping[int, tuple[float, float]], t: int
) -> Tensor:
    """exp(T τ̄_t²) · Σ_j tanh(τ̄_t τ̄_j): size within the expert, times agreement with all."""
    unit = _unit(delta(t), bounds[t])
    agreement = torch.zeros_like(unit)
    for j, limits in bounds.items():
        agreement.add_(torch.tanh(unit * _unit(delta(j), limits)))
    return agreement.mul_(unit.square_().mul_(len(bounds)).exp_())


def success(score: Tensor, lost: float, top: float) -> Tensor:
    """ŝ: scores above ``lost``, the largest losing one, mapped onto (0, 1]; the others 0."""
    if not top > lost:
        return (score == top).to(torch.float64)
    return ((score.to(torch.float64) - lost) / (top - lost)).clamp_(min=0)


PCB = MergeMethod(
    name="pcb",
    title="PCB-Merging",
    summary=(
        "Scores every entry of every expert by its size and its agreement with the other "
        "experts, and averages the winners by their scores."
    ),
    formula=(
        "merged matrix: W = W₀ + λ Σₜ ŝₜ wₜ Δₜ / Σₜ ŝₜ,  Δₜ = ΔWₜ, |Δₜ| within the quantiles "
        "of 1 % and 99 %\n"
        "competition: sₜ = exp(T τ̄ₜ²) · Σⱼ tanh(τ̄ₜ τ̄ⱼ),  τ̄ₜ = sgn(Δₜ) · |Δₜ| mapped onto "
        "[0, 1]\n"
        "kept scores: ŝₜ = the largest ρ of sₜ, over the model or the tensor, mapped onto "
        "(0, 1], the others 0"
    ),
    citation=(
        "G. Du, J. Lee, J. Li et al., Parameter Competition Balancing for Model Merging, NeurIPS "
        "2024, arXiv:2410.02396"
    ),
    parameters=PcbParameters,
    merge=pcb,
    kind=Kind.ENTRY,
    working_memory=per_entry(11.5),
    surveys=SURVEYS,
)
