"""What sparse methods multiply the kept entries by, so that the change stays as strong.

T experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ace_gui.methods.method import parameter
from ace_gui.methods.shared.survey import Findings

NONE: Final = "none"
BY_CHANCE: Final = "by chance"
BY_NORM: Final = "by norm"

RATIO: Final = "ratio"
"""Finding: the sum of magnitudes of each expert's task vector over that of its kept entries."""

VANISHING: Final = 1e-7
"""Sums of magnitudes below which nothing is rescaled, as in mergekit."""


def rescale_parameter(default: str = NONE) -> Any:
    """The parameter; methods that choose by magnitude have no chances."""
    chances = (
        "by chance: divides each by its probability of being kept. " if default != NONE else ""
    )
    return parameter(
        default,
        label="Rescaling",
        help=(
            f"What is done to kept entries. none: nothing. {chances}by norm: multiplies each "
            "expert's entries of a tensor so that the sum of their magnitudes is that of all, as "
            "mergekit's `rescale` does."
        ),
        choices=(NONE, *((BY_CHANCE,) if default != NONE else ()), BY_NORM),
    )


class Rescaling(Protocol):
    """Parameters of a method that rescales kept entries."""

    @property
    def rescale(self) -> str:
        """One of the choices of ``rescale_parameter``."""


class RatioSurvey:
    """Sums the magnitudes of one tensor before and after a choice of entries, in one pass."""

    whole = False

    def __init__(
        self, experts: int, kept: Callable[[Sequence[Tensor], int], Iterator[Tensor]]
    ) -> None:
        """``kept``: from the task vectors of a part and where it begins, their kept entries."""
        self._sums = torch.zeros(experts, 2, dtype=torch.float64)
        self._kept = kept

    def measure(self, experts: Sequence[int], deltas: Sequence[Tensor], start: int = 0) -> Tensor:
        """T × 2 sums of a part: of all magnitudes, and of the kept ones."""
        measured = torch.zeros_like(self._sums)
        for index, (t, kept) in enumerate(zip(experts, self._kept(deltas, start), strict=True)):
            measured[t, 0] = deltas[index].abs().sum(dtype=torch.float64)
            measured[t, 1] = kept.abs().sum(dtype=torch.float64)
        return measured

    def add(self, measured: Tensor) -> None:
        """Add sums."""
        self._sums += measured

    def finish_pass(self) -> bool:
        """One pass is all."""
        return False

    @property
    def findings(self) -> Findings:
        """The ratio of each expert; 1 if there is next to nothing to rescale."""
        pairs = self._sums.tolist()
        ratios = (a / b if min(a, b) >= VANISHING else 1.0 for a, b in pairs)
        return {RATIO: tuple(ratios)}


def norm_survey(
    each: Sequence[Rescaling], kept: Callable[[Tensor, int, int], Tensor]
) -> RatioSurvey | None:
    """The survey of a tensor's ratios, where kept entries are rescaled by norm.

    ``kept``: from a part of a task vector, its expert and where the part begins, the kept entries.
    """
    if each[0].rescale != BY_NORM:
        return None
    return RatioSurvey(
        len(each), lambda deltas, start: (kept(d, t, start) for t, d in enumerate(deltas))
    )


def rescaled(kept: Tensor, t: int, findings: Findings) -> Tensor:
    """The kept entries of expert t, by norm if that was found."""
    return kept * findings[RATIO][t] if RATIO in findings else kept
