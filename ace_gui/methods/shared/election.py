"""Sign election (TIES, steps 2 and 3): each entry takes the sign with the larger sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.methods.shared.experts import SURPLUS, Merged, Vote, Weights
from ace_gui.methods.shared.kit import parameter, scaling_parameter
from ace_gui.methods.shared.survey import Findings

PART = 1 << 16
"""Entries worked on at a time: their temporaries stay in the cache."""

TOGETHER = 4
"""Experts added per part before the next part, so that the sums also stay in the cache."""

TINY = torch.finfo(torch.float32).tiny


SIGNED: Final = "signed mean"


def combine_parameter() -> Any:
    """The parameter for combining the agreeing entries."""
    return parameter(
        "mean",
        label="Agreeing entries",
        help=(
            "mean: averages over the experts that agree, as in the TIES paper. sum: adds them "
            "up, as in FusionBench and, without normalised weights, in mergekit. signed mean: "
            "divides by the sum of the weights with their signs, as in mergekit; it differs from "
            "mean where a weight is negative."
        ),
        choices=("mean", "sum", SIGNED),
    )


@dataclass(frozen=True, kw_only=True)
class ElectionParameters:
    """``scaling``: λ, factor on the result. ``combine``: what is made of the agreeing entries.

    ``balanced``: which sign wins a tie.
    """

    scaling: float = scaling_parameter(symbol="λ")
    combine: str = combine_parameter()
    balanced: str = parameter(
        "majority",
        label="Balanced signs",
        help=(
            "Which sign wins a tie. Ties are common in 16-bit models. majority: the sign "
            "elected by most entries of the tensor. positive: as in mergekit."
        ),
        choices=("majority", "positive"),
    )


class Election:
    """Adds up sparse task vectors in one pass, and elects the signs at the end.

    Sums are float64, so that entries that nearly cancel get the sign of their exact sum. An expert
    votes for the sign of its weighted entry v = w x; 0 is no vote. ``margin``: weight of the votes
    for + minus that of the votes for −; ``turnout``: weight of all votes.
    """

    def __init__(self, like: Tensor, *, signed_weights: bool = False) -> None:
        """``signed_weights``: votes count with the weight w, not with its magnitude |w|."""
        self._signed_weights = signed_weights
        size = like.numel()
        self._shape = like.shape
        self._total = torch.zeros(size, dtype=torch.float64, device=like.device)
        self._magnitudes = torch.zeros_like(self._total)
        margin = torch.zeros(size, device=like.device)
        turnout = torch.zeros_like(margin)
        arrays = (self._total, self._magnitudes, margin, turnout)
        self._parts = list(zip(*(torch.split(array, PART) for array in arrays), strict=True))

    def add(self, vectors: Sequence[Tensor], weights: Weights) -> None:
        """Add each vector times its weight."""
        flat = [torch.split(values.reshape(-1), PART) for values in vectors]
        for index, (total, magnitudes, margin, turnout) in enumerate(self._parts):
            for parts, weight in zip(flat, weights, strict=True):
                scaled = parts[index].to(torch.float64, copy=True)
                signs = parts[index].sign()
                if weight != 1:
                    scaled.mul_(weight)
                total.add_(scaled)
                magnitudes.add_(scaled.abs_())
                # The sign of x, not of v: |w| sign(v) is w sign(x), and w sign(v) is |w| sign(x).
                if self._signed_weights:
                    margin.add_(signs, alpha=abs(weight))
                    turnout.add_(signs.abs_(), alpha=weight)
                else:
                    margin.add_(signs, alpha=weight)
                    turnout.add_(signs.abs_(), alpha=abs(weight))

    def vote(self) -> Vote:
        """How many more entries elected + than −, and whether any entry is a tie."""
        surplus = elected = voted = 0.0
        for total, magnitudes, _, _ in self._parts:
            signs = total.sign()
            surplus += float(signs.sum())
            elected += float(signs.abs_().sum())
            voted += float(magnitudes.sign().sum())
        return Vote(surplus=surplus, matters=elected < voted)

    def result(self, combine: str, *, positive_wins: bool) -> Tensor:
        """The mean or sum of the entries with the elected sign, float64; 0 if there are none.

        ``positive_wins``: whether a tie elects the positive sign. Works in place: call it once, at
        the end. Half of Σ|v| and half of |Σv| add up to the sum of the elected sign, without
        cancellation. A mask would take ten times as long. The weight of the agreeing experts is
        computed in the same way, from margin and turnout.
        """
        for total, magnitudes, margin, turnout in self._parts:
            if positive_wins:
                leaning = total
            else:  # a tie becomes negative, and no other sign changes
                leaning = total - torch.finfo(total.dtype).tiny
            values = magnitudes.copysign_(leaning).add_(total).mul_(0.5)
            if combine != "sum":
                side = torch.ones_like(margin).copysign_(leaning.to(margin.dtype))
                agreeing = margin.mul_(side).add_(turnout).mul_(0.5)
                if self._signed_weights:
                    agreeing = torch.where(agreeing.abs() < TINY, 1, agreeing)
                else:
                    agreeing.clamp_(min=TINY)
                values.div_(agreeing)
            total.copy_(values)
        return self._total.reshape(self._shape)


def elected(sparse: Callable[[int], Tensor], weights: Weights, combine: str = "mean") -> Election:
    """The election among the w_t τ̂_t. ``sparse``: returns τ̂_t; it is called once per expert."""
    election = None
    for first in range(0, len(weights), TOGETHER):
        chunk = weights[first : first + TOGETHER]
        vectors = [sparse(first + index) for index in range(len(chunk))]
        election = election or Election(vectors[0], signed_weights=combine == SIGNED)
        election.add(vectors, chunk)
        del vectors
    assert election is not None
    return election


def merged_by_election(
    sparse: Callable[[int], Tensor],
    weights: Weights,
    parameters: ElectionParameters,
    findings: Findings,
) -> Merged:
    """λ times the mean or sum of the w_t τ̂_t with the elected sign, any shape, float32.

    ``sparse``: returns τ̂_t; it is called once per expert. ``findings``: may hold the surplus of
    positive signs of the whole tensor, of which this may be a part.
    """
    election = elected(sparse, weights, parameters.combine)
    if parameters.balanced == "positive":
        return Merged.of(
            election.result(parameters.combine, positive_wins=True), parameters.scaling
        )
    vote = election.vote()
    surplus = vote.surplus
    if SURPLUS in findings:
        surplus = findings[SURPLUS][0]
    result = election.result(parameters.combine, positive_wins=surplus >= 0)
    return replace(Merged.of(result, parameters.scaling), vote=vote)
