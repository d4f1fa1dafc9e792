"""PCB-Merging: entries compete by their size and by whether other experts agree with them.

T experts. τ̄_t is sgn(τ_t) times its winsorised magnitude, mapped onto [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Unpack

import torch
from torch import Tensor

from ace_gui.methods.method import (
    Context,
    Kind,
    Merged,
    MergeMethod,
    parameter,
    per_entry,
    scaling_parameter,
)
from ace_gui.methods.shared.census import census, finished
from ace_gui.methods.shared.survey import Findings, RankSurvey, Stage, magnitudes, required_findings
from ace_gui.methods.shared.trimming import kept_count, smallest
from ace_gui.methods.shared.weighted_experts import WeightedExperts

WINSORISED: Final = 0.01
"""Share of entries at either end whose magnitude is moved to that of the next, as published."""


@dataclass(frozen=True, kw_only=True)
class PcbParameters:
    """Parameters of PCB-Merging. ``density``: ρ. ``trim``: where it counts. ``scaling``: λ."""

    density: float = parameter(
        0.05,
        label="Density ρ",
        help=(
            "Share of entries of each expert that compete successfully; 5 to 10 % in the paper. "
            "Scores are those of its code for vision models: the softmax of its text is flat over "
            "millions of entries, and its code for language models depends on the changes' size."
        ),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    trim: str = parameter(
        "model",
        label="Compete over",
        help=(
            "model: magnitudes and scores are compared over the whole model, as in the paper, "
            "which reads the experts four times more; tensor: within each tensor."
        ),
        choices=("model", "tensor"),
    )
    scaling: float = scaling_parameter(
        1.2,
        letter="λ",
        help="Factor on the merged task vector; the paper searches 0.8 to 1.3 on validation data.",
    )


def survey(parameters: PcbParameters, experts: int) -> RankSurvey | None:
    """Over the whole model: the bounds of the magnitudes, then those of the scores."""
    if parameters.trim == "tensor":
        return None
    bounds = Stage(names=("low", "high"), values=magnitudes, ranks=_winsorised_ranks)
    scores = Stage(
        names=("lost", "top"),
        values=_surveyed_scores,
        ranks=lambda n: (_losing_rank(parameters.density, n), n),
    )
    return RankSurvey(experts, bounds, scores)


def pcb(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: PcbParameters,
    **context: Unpack[Context],
) -> Merged:
    """λ Σ ŝ_t w_t τ_t / Σ ŝ_t entry by entry, any shape, float32, 0 where all ŝ_t are.

    Of the published variants the one for vision models. τ_t are winsorised as for the scores;
    experts without a change are left out. Holds two experts at a time; reads each 2 + T times.
    Raises MethodError where one is not finite, and without findings where it needs them.
    """
    experts = WeightedExperts(deltas, weights)
    found = census(experts, weights)
    if parameters.trim == "tensor":
        bounds = {t: _bounds(experts.delta(t).abs()) for t in found.kept}
        surveyed = None
    else:
        surveyed = required_findings(context.get("findings"), len(experts))
        bounds = _surveyed_bounds(surveyed)
    merged = torch.zeros_like(experts.delta(0), dtype=torch.float64)
    shares = torch.zeros_like(merged)
    for t in bounds:
        score = _score(experts.delta, bounds, t)
        if surveyed is None:
            share = success(score, *_limits(score, parameters.density))
        else:
            rounded = score.to(torch.float32)  # as the survey has compared them
            share = success(rounded, surveyed["lost"][t], surveyed["top"][t])
        del score
        value = experts.delta(t).to(torch.float64)
        value = value.sign() * value.abs().clamp(*bounds[t])
        merged.add_(value.mul_(share), alpha=weights[t])
        shares.add_(share)
    result = torch.where(shares > 0, merged / shares, 0)
    return finished(result, parameters.scaling, found.diagnostics())


def _winsorised_ranks(entries: int) -> tuple[int, int]:
    cut = math.floor(WINSORISED * entries)
    return cut + 1, entries - cut


def _losing_rank(density: float, entries: int) -> int:
    """The rank of the largest score that does not succeed."""
    return max(1, entries - kept_count(density, entries))


def _bounds(magnitudes: Tensor) -> tuple[float, float]:
    """The smallest and the largest magnitude that winsorising leaves."""
    low, high = _winsorised_ranks(magnitudes.numel())
    return float(smallest(magnitudes, low)), float(smallest(magnitudes, high))


def _limits(score: Tensor, density: float) -> tuple[float, float]:
    """The largest score that loses, and the largest of all."""
    lost = smallest(score, _losing_rank(density, score.numel()))
    return float(lost), float(score.max())


def _surveyed_bounds(found: Findings) -> dict[int, tuple[float, float]]:
    """The bounds of the experts that changed anything."""
    pairs = enumerate(zip(found["low"], found["high"], strict=True))
    return {t: (low, high) for t, (low, high) in pairs if high > 0}


def _surveyed_scores(deltas: Sequence[Tensor], found: Findings) -> Iterator[Tensor]:
    bounds = _surveyed_bounds(found)
    for t in range(len(deltas)):
        if t in bounds:
            yield _score(deltas.__getitem__, bounds, t)
        else:
            yield torch.zeros_like(deltas[t])


def _unit(delta: Tensor, bounds: tuple[float, float]) -> Tensor:
    """τ̄_t; where all magnitudes are equal they are 1."""
    low, high = bounds
    values = delta.to(torch.float64)
    if low == high:
        return values.sign()
    return values.sign() * (values.abs().clamp(low, high) - low) / (high - low)


def _score(
    delta: Callable[[int], Tensor], bounds: Mapping[int, tuple[float, float]], t: int
) -> Tensor:
    """exp(T τ̄_t²) · Σ_j tanh(τ̄_t τ̄_j): size within the expert, times agreement with all."""
    own = _unit(delta(t), bounds[t])
    agreement = torch.zeros_like(own)
    for j, limits in bounds.items():
        agreement.add_(torch.tanh(own * _unit(delta(j), limits)))
    return agreement.mul_(own.square_().mul_(len(bounds)).exp_())


def success(score: Tensor, lost: float, top: float) -> Tensor:
    """ŝ: scores from the largest that loses to the top mapped onto (0, 1]; lower ones 0."""
    if not top > lost:
        return (score == top).to(torch.float64)
    return ((score.to(torch.float64) - lost) / (top - lost)).clamp_(min=0)


PCB = MergeMethod(
    name="pcb",
    title="PCB-Merging",
    summary=(
        "Scores every entry of every expert by its size and by how far the others agree with it, "
        "and averages the winners by their scores."
    ),
    formula=(
        "W = W₀ + λ Σₜ ŝₜ wₜ ΔWₜ / Σₜ ŝₜ,  entry by entry\n"
        "sₜ = exp(T τ̄ₜ²) · Σⱼ tanh(τ̄ₜ τ̄ⱼ),  τ̄ₜ = sgn(ΔWₜ) · |ΔWₜ| mapped onto [0, 1]\n"
        "ŝₜ = the largest ρ of sₜ, over the model or the tensor, mapped onto (0, 1], the others 0"
    ),
    citation=(
        "G. Du, J. Lee, J. Li et al., Parameter Competition Balancing for Model Merging, NeurIPS "
        "2024, arXiv:2410.02396"
    ),
    parameters=PcbParameters,
    merge=pcb,
    kind=Kind.TENSOR,
    working_memory=per_entry(11.5),
    survey=survey,
)
