"""Choosing entries by magnitude, within one tensor or over the whole model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor
from torch.nn.functional import hardshrink

from ace_gui.linalg.selection import kth_smallest
from ace_gui.methods.shared.kit import parameter
from ace_gui.methods.shared.survey import (
    Findings,
    PartValues,
    RanksOfCount,
    RankSurvey,
    Stage,
    magnitudes,
)

THRESHOLD: Final = "threshold"
"""Finding: the smallest magnitude that is kept of each expert."""


def trim_parameter() -> Any:
    """The parameter that chooses the largest entries over the model or in each tensor."""
    return parameter(
        "model",
        label="Chosen over",
        help=(
            "model: keeps the largest entries of the whole model, as in the paper. More is "
            "kept of the tensors that changed most, and the experts are read twice more. "
            "tensor: keeps the largest entries of each tensor, as in mergekit."
        ),
        choices=("model", "tensor"),
    )


class WithTrim(Protocol):
    """Parameters with the one of ``trim_parameter``."""

    @property
    def trim(self) -> str:
        """Where the largest entries are chosen from: "model" or "tensor", as a survey's range."""
        ...


def trim_range(parameters: WithTrim) -> str:
    """The range of a survey that chooses entries."""
    return parameters.trim


def kept_count(density: float, entries: int) -> int:
    """floor(density · entries), but at least 1, so that a small tensor keeps an entry.

    1e-9 makes up for products such as 0.29 · 100, which is 28.999999999999996.
    """
    return min(entries, max(1, math.floor(density * entries + 1e-9)))


def trimmed(delta: Tensor, density: float) -> Tensor:
    """The task vector with its largest entries by magnitude; the others are zero.

    All entries as large as the last one kept stay. A density of 1 keeps everything.
    """
    count = kept_count(density, delta.numel())
    if count == delta.numel():
        return delta
    return at_least(delta, float(kth_smallest(delta.abs(), delta.numel() - count + 1)))


def at_least(delta: Tensor, threshold: float) -> Tensor:
    """The entries whose magnitude is at least ``threshold``, of delta's dtype; the others are zero.

    This single operation is four times as fast as a comparison and ``where``.
    """
    limit = torch.tensor(threshold, dtype=delta.dtype)
    number_below = torch.nextafter(limit, torch.full_like(limit, -math.inf))
    return hardshrink(delta, float(number_below))  # keeps the magnitudes above it


def trimmed_entries(delta: Tensor, t: int, findings: Findings) -> Tensor:
    """The entries of expert t that reach its threshold, or all without a threshold."""
    if THRESHOLD in findings:
        return at_least_in_float32(delta, findings[THRESHOLD][t])
    return delta


def at_least_in_float32(delta: Tensor, threshold: float) -> Tensor:
    """The entries whose magnitude, in float32, is at least ``threshold``; the others are zero."""
    if delta.dtype == torch.float32:
        return at_least(delta, threshold)
    return torch.where(delta.abs().to(torch.float32) >= threshold, delta, 0)


def trim_survey(densities: Sequence[float], values: PartValues = magnitudes) -> RankSurvey:
    """Finds the smallest magnitude that each expert keeps, given its density.

    ``values``: the magnitudes; by default those of the task vectors.
    """

    def ranks_for(density: float) -> RanksOfCount:
        return lambda entries: (smallest_kept_rank(density, entries),)

    ranks_of_experts = tuple(ranks_for(density) for density in densities)
    stage = Stage(names=(THRESHOLD,), values=values, ranks=ranks_of_experts)
    return RankSurvey(len(densities), stage)


def smallest_kept_rank(density: float, entries: int) -> int:
    """The rank, from 1, of the smallest value that is kept."""
    return entries - kept_count(density, entries) + 1
