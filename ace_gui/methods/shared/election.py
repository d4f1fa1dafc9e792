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

ENTRIES_AT_A_TIME: Final = 1 << 16
"""Entries of a part that is worked on at a time, so that temporaries stay in the cache."""

EXPERTS_AT_A_TIME: Final = 4
"""Experts added to a part before the next part, so that the sums also stay in the cache."""

SMALLEST_WEIGHT: Final = torch.finfo(torch.float32).tiny
"""A smaller weight of agreeing experts counts as none."""

SIGNED_MEAN: Final = "signed mean"
"""The choice of ``combine`` in which weights count with their signs."""


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
        choices=("mean", "sum", SIGNED_MEAN),
    )


@dataclass(frozen=True, kw_only=True)
class ElectionParameters:
    """Parameters of methods that elect signs."""

    scaling: float = scaling_parameter(symbol="λ")
    """λ, factor on the result."""
    combine: str = combine_parameter()
    """What is made of the agreeing entries."""
    balanced: str = parameter(
        "majority",
        label="Balanced signs",
        help=(
            "Which sign wins a tie. Ties are common in 16-bit models. majority: the sign "
            "elected by most entries of the tensor. positive: as in mergekit."
        ),
        choices=("majority", "positive"),
    )
    """Which sign wins a tie."""


class Election:
    """Adds up sparse task vectors in one pass, and elects the signs at the end.

    Sums are float64, so that entries that nearly cancel get the sign of their exact sum. An expert
    votes for the sign of its weighted entry v = w x; 0 is no vote. ``margin``: weight of the votes
    for + minus that of the votes for −; ``turnout``: weight of all votes; both are float32.
    """

    def __init__(self, like: Tensor, *, signed_weights: bool = False) -> None:
        """``signed_weights``: votes count with the weight w, not with its magnitude |w|."""
        self._signed_weights = signed_weights
        size = like.numel()
        self._shape = like.shape
        self._total = torch.zeros(size, dtype=torch.float64, device=like.device)
        self._magnitudes = torch.zeros_like(self._total)
        self._margin = torch.zeros(size, device=like.device)
        self._turnout = torch.zeros_like(self._margin)
        starts = range(0, size, ENTRIES_AT_A_TIME)
        self._parts = [slice(start, start + ENTRIES_AT_A_TIME) for start in starts]

    def add(self, vectors: Sequence[Tensor], weights: Weights) -> None:
        """Add each vector times its weight."""
        flat_vectors = [vector.reshape(-1) for vector in vectors]
        for part in self._parts:
            margin = self._margin[part]
            turnout = self._turnout[part]
            for vector, weight in zip(flat_vectors, weights, strict=True):
                scaled = vector[part].to(torch.float64, copy=True)
                signs = vector[part].sign()
                if weight != 1:
                    scaled.mul_(weight)
                self._total[part].add_(scaled)
                self._magnitudes[part].add_(scaled.abs_())
                # The vote is for sign(v) = sign(w) sign(x). It adds its weight times sign(v) to the
                # margin, and its weight to the turnout.
                if self._signed_weights:  # its weight is w, and w sign(w) = |w|
                    margin.add_(signs, alpha=abs(weight))
                    turnout.add_(signs.abs_(), alpha=weight)
                else:  # its weight is |w|, and |w| sign(w) = w
                    margin.add_(signs, alpha=weight)
                    turnout.add_(signs.abs_(), alpha=abs(weight))

    def vote(self) -> Vote:
        """For how many more entries the experts elected + than −, and whether any entry is a tie.

        It is the vote of this part of a tensor on the sign of ties (``balanced: majority``).
        """
        surplus = 0.0
        decided_entries = 0.0
        entries_with_votes = 0.0
        for part in self._parts:
            signs = self._total[part].sign()
            surplus += float(signs.sum())
            decided_entries += float(signs.abs_().sum())
            entries_with_votes += float(self._magnitudes[part].sign().sum())
        has_ties = decided_entries < entries_with_votes
        return Vote(surplus=surplus, matters=has_ties)

    def result(self, combine: str, *, positive_wins: bool) -> Tensor:
        """The mean or sum of the entries with the elected sign, float64; 0 if there are none.

        ``positive_wins``: whether a tie elects the positive sign. Works in place: call it once, at
        the end. With P the sum of the positive v and N that of the negative |v|, Σ|v| is P + N and
        Σv is P − N. If + is elected, half of Σ|v| + Σv is P; if −, half of −Σ|v| + Σv is −N. A mask
        would take ten times as long. The weight of the agreeing experts is computed in the same
        way, from turnout (P + N) and margin (P − N).
        """
        for part in self._parts:
            total = self._total[part]
            # The sign of ``leaning`` is the elected one, also where the sum is 0.
            if positive_wins:
                leaning = total
            else:  # a tie becomes negative, and no other sign changes
                leaning = total - torch.finfo(total.dtype).tiny
            values = self._magnitudes[part].copysign_(leaning).add_(total).mul_(0.5)
            if combine != "sum":
                values.div_(self._agreeing_weight(part, leaning))
            total.copy_(values)
        return self._total.reshape(self._shape)

    def _agreeing_weight(self, part: slice, leaning: Tensor) -> Tensor:
        """The weight of the experts whose sign is that of ``leaning``, float32, never zero."""
        margin = self._margin[part]
        elected_signs = torch.ones_like(margin).copysign_(leaning.to(margin.dtype))
        weight = margin.mul_(elected_signs).add_(self._turnout[part]).mul_(0.5)
        if self._signed_weights:
            return torch.where(weight.abs() < SMALLEST_WEIGHT, 1, weight)
        return weight.clamp_(min=SMALLEST_WEIGHT)


def election_of(
    sparse_vector: Callable[[int], Tensor], weights: Weights, combine: str = "mean"
) -> Election:
    """The election among the w_t τ̂_t. ``sparse_vector``: returns τ̂_t, called once per expert."""
    election: Election | None = None
    for first in range(0, len(weights), EXPERTS_AT_A_TIME):
        chunk = weights[first : first + EXPERTS_AT_A_TIME]
        vectors = [sparse_vector(first + index) for index in range(len(chunk))]
        if election is None:
            election = Election(vectors[0], signed_weights=combine == SIGNED_MEAN)
        election.add(vectors, chunk)
        del vectors
    assert election is not None
    return election


def merged_by_election(
    sparse_vector: Callable[[int], Tensor],
    weights: Weights,
    parameters: ElectionParameters,
    findings: Findings,
) -> Merged:
    """λ times the mean or sum of the w_t τ̂_t with the elected sign, any shape, float32.

    ``sparse_vector``: returns τ̂_t, called once per expert. ``findings``: may hold the surplus of
    positive signs of the whole tensor, of which this may be a part.
    """
    election = election_of(sparse_vector, weights, parameters.combine)
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
