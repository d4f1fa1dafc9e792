"""Choosing entries by magnitude, within one tensor or over the whole model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import hardshrink

from ace_gui.methods.method import parameter
from ace_gui.methods.shared.survey import Ranks, RankSurvey, Stage, magnitudes

THRESHOLD: Final = "threshold"
"""Finding: the smallest magnitude that is kept of each expert."""

SAMPLE: Final = 1 << 14
"""Entries from which the place of an order statistic is guessed."""


def trim_parameter(default: str = "model") -> str:
    """The parameter that says over what the largest entries are chosen."""
    chosen: str = parameter(
        default,
        label="Chosen over",
        help=(
            "model: the largest entries of the whole model, as in the paper, which keeps more of "
            "the tensors that changed most and reads the experts twice more; tensor: of each "
            "tensor, as mergekit does."
        ),
        choices=("model", "tensor"),
    )
    return chosen


def kept_count(density: float, entries: int) -> int:
    """floor(density · entries), but at least one of any: a small tensor is not emptied."""
    return min(entries, max(1, math.floor(density * entries + 1e-9)))


def smallest(magnitudes: Tensor, rank: int) -> Tensor:
    """The ``rank``-th smallest of the values, counted from 1; of any shape, but not empty.

    A sample says between which two values it lies, almost surely, and only what is between them is
    looked through; where the sample misled, everything is. The result is exact either way.
    """
    flat = magnitudes.reshape(-1)
    sample = flat[:: max(1, len(flat) // SAMPLE)].sort().values
    place, margin = rank * len(sample) // len(flat), 4 * math.isqrt(len(sample))
    low = float(sample[place - margin]) if place >= margin else -math.inf
    high = float(sample[place + margin]) if place + margin < len(sample) else math.inf
    inside = flat[(flat >= low) & (flat <= high)]
    rank_inside = rank - int(torch.count_nonzero(flat < low))
    if 1 <= rank_inside <= len(inside):
        return inside.kthvalue(rank_inside).values
    return flat.kthvalue(rank).values


def trimmed(delta: Tensor, density: float) -> Tensor:
    """The task vector with its largest entries by magnitude; the others are zero.

    All entries as large as the last one kept stay. A density of 1 keeps everything.
    """
    kept = kept_count(density, delta.numel())
    if kept == delta.numel():
        return delta
    return at_least(delta, float(smallest(delta.abs(), delta.numel() - kept + 1)))


def at_least(delta: Tensor, threshold: float) -> Tensor:
    """The entries whose magnitude is at least ``threshold``, of delta's dtype; the others are zero.

    In one operation, four times as fast as a comparison and a choice.
    """
    limit = torch.tensor(threshold, dtype=delta.dtype)
    return hardshrink(delta, float(torch.nextafter(limit, torch.full_like(limit, -math.inf))))


def above(delta: Tensor, threshold: float) -> Tensor:
    """The entries whose magnitude, in float32, is at least ``threshold``; the others are zero."""
    if delta.dtype == torch.float32:
        return at_least(delta, threshold)
    return torch.where(delta.abs().to(torch.float32) >= threshold, delta, 0)


def trim_survey(densities: Sequence[float]) -> RankSurvey:
    """Finds the smallest magnitude among the largest share of each expert's entries."""

    def ranks(density: float) -> Ranks:
        return lambda entries: (least_rank(density, entries),)

    stage = Stage(names=(THRESHOLD,), values=magnitudes, ranks=tuple(map(ranks, densities)))
    return RankSurvey(len(densities), stage)


def least_rank(density: float, entries: int) -> int:
    """The rank, from 1, of the smallest value that is kept."""
    return entries - kept_count(density, entries) + 1
