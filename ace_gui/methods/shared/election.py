"""Sign election (TIES, steps 2 and 3): each entry follows the sign that outweighs the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ace_gui.methods.method import Merged, parameter, scaling_parameter
from ace_gui.methods.shared.census import finished
from ace_gui.methods.shared.survey import Findings

PART = 1 << 15
"""Entries worked on at a time: their temporaries stay in the cache."""

SURPLUS = "surplus"
"""Finding: how many more entries of a tensor elected the positive sign than the negative one."""

TINY = torch.finfo(torch.float32).tiny


def combine_parameter() -> Any:
    """The parameter that says how the agreeing entries are combined."""
    return parameter(
        "mean",
        label="Agreeing entries",
        help=(
            "mean: averaged over the experts that agree, as in the TIES paper; sum: added up, as "
            "in FusionBench and, with weights not normalised, in mergekit."
        ),
        choices=("mean", "sum"),
    )


@dataclass(frozen=True, kw_only=True)
class ElectionParameters:
    """``scaling``: λ, factor on the result. ``combine``: mean or sum of the agreeing entries.

    ``balanced``: the sign where both weigh the same.
    """

    scaling: float = scaling_parameter(letter="λ")
    combine: str = combine_parameter()
    balanced: str = parameter(
        "majority",
        label="Balanced signs",
        help=(
            "Which sign counts where both weigh the same, as they often do in 16-bit models. "
            "majority: the one that most entries of the tensor elected; positive: as in mergekit."
        ),
        choices=("majority", "positive"),
    )


class Election:
    """Gathers one sparse task vector after another, in one pass, and elects signs at the end.

    Sums are float64, so that entries that nearly cancel get the sign of their exact sum.
    """

    def __init__(self, like: Tensor) -> None:
        size = like.numel()
        self._shape = like.shape
        self._total = torch.zeros(size, dtype=torch.float64, device=like.device)
        magnitudes = torch.zeros_like(self._total)
        counts = [torch.zeros(size, device=like.device) for _ in range(2)]
        arrays = (self._total, magnitudes, *counts)
        self._parts = list(zip(*(torch.split(array, PART) for array in arrays), strict=True))

    def add(self, values: Tensor, weight: float) -> None:
        """Add ``weight`` · ``values``; in a mean they count by the weight's magnitude."""
        flat, counted = torch.split(values.reshape(-1), PART), abs(weight)
        for own, (total, magnitudes, positive, negative) in zip(flat, self._parts, strict=True):
            scaled, signs = own.to(torch.float64, copy=True), own.sign()
            if weight != 1:
                scaled.mul_(weight)
                signs.mul_(math.copysign(1, weight))
            total.add_(scaled)
            magnitudes.add_(scaled.abs_())
            upwards = signs.relu()
            positive.add_(upwards, alpha=counted)
            negative.add_(upwards.sub_(signs), alpha=counted)

    def surplus(self) -> float:
        """How many more entries elected the positive sign than the negative one."""
        return sum(float(total.sign().sum()) for total, *_ in self._parts)

    def result(self, combine: str, *, positive_wins: bool) -> Tensor:
        """The mean or sum of the entries of the elected sign, float64; 0 where there are none.

        ``positive_wins``: where both signs weigh the same, the positive one is elected, otherwise
        the negative one. Works in place: to be called once, at the end.

        Half of Σ|v| and half of |Σv| add up to the sum of the elected sign, without cancellation;
        choosing by a mask would take ten times as long.
        """
        for total, magnitudes, positive, negative in self._parts:
            leaning = total if positive_wins else total - torch.finfo(total.dtype).tiny
            values = magnitudes.copysign_(leaning).add_(total).mul_(0.5)
            if combine == "mean":
                side = torch.ones_like(positive).copysign_(leaning)
                counts = negative.mul_(side.neg().relu_()).addcmul_(positive, side.relu_())
                values.div_(counts.clamp_(min=TINY))  # where nobody counts there is only 0
            total.copy_(values)
        return self._total.reshape(self._shape)


def elected(sparse: Callable[[int], Tensor], weights: Sequence[float]) -> Election:
    """The election among the w_t τ̂_t. ``sparse``: τ̂_t of expert t, asked for once each."""
    vector = sparse(0)
    election = Election(vector)
    election.add(vector, weights[0])
    del vector
    for t in range(1, len(weights)):
        election.add(sparse(t), weights[t])
    return election


def merged_by_election(
    sparse: Callable[[int], Tensor],
    weights: Sequence[float],
    parameters: ElectionParameters,
    findings: Findings | None = None,
) -> Merged:
    """λ times the mean or sum of the w_t τ̂_t with the elected sign, any shape, float32.

    ``sparse``: τ̂_t of expert t, asked for once each. ``findings``: with the surplus of positive
    signs in the tensor, where these may be only some of its entries.
    """
    election = elected(sparse, weights)
    wins = parameters.balanced == "positive"
    if not wins:
        known = (findings or {}).get(SURPLUS)
        wins = (election.surplus() if known is None else known[0]) >= 0
    return finished(election.result(parameters.combine, positive_wins=wins), parameters.scaling)


Sparse = Callable[[Sequence[Tensor], int, int], Tensor]
"""From the task vectors of a part, where it begins, and t to τ̂_t."""


def surplus_survey(
    sparse: Sparse, parameters: ElectionParameters, weights: Sequence[float], findings: Findings
) -> SurplusSurvey | None:
    """Which sign most entries of a tensor elect, where that decides the balanced ones."""
    if parameters.balanced == "positive" or SURPLUS in findings:
        return None
    return SurplusSurvey(sparse, weights)


class SurplusSurvey:
    """By how much the positive signs of a tensor outnumber the negative ones, the same for all."""

    whole = False

    def __init__(self, sparse: Sparse, weights: Sequence[float]) -> None:
        self._sparse = sparse
        self._weights = weights
        self._surplus = torch.zeros((), dtype=torch.float64)

    def measure(
        self,
        experts: Sequence[int],  # noqa: ARG002
        deltas: Sequence[Tensor],
        start: int = 0,
    ) -> Tensor:
        """The surplus of a part."""
        election = elected(partial(self._sparse, deltas, start), self._weights)
        return torch.tensor(election.surplus(), dtype=torch.float64)

    def add(self, measured: Tensor) -> None:
        """Add a surplus."""
        self._surplus += measured

    def finish_pass(self) -> bool:
        """One pass is all."""
        return False

    @property
    def findings(self) -> Findings:
        """The surplus."""
        return {SURPLUS: (float(self._surplus),) * len(self._weights)}
