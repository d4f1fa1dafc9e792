"""What sparse methods multiply the kept entries by, so that the change stays as strong.

T experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ace_gui.methods.method import Deltas
from ace_gui.methods.shared.kit import parameter
from ace_gui.methods.shared.survey import Findings, SumSurvey

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


def norm_survey(
    each: Sequence[Rescaling], findings: Findings, kept: Callable[[Tensor, int, int], Tensor]
) -> SumSurvey | None:
    """The survey of a tensor's ratios, where kept entries are rescaled by norm.

    ``kept``: from a part of a task vector, its expert and where the part begins, the kept entries.
    The ratio is 1 if there is next to nothing to rescale.
    """
    if each[0].rescale != BY_NORM or RATIO in findings:
        return None

    def figures(deltas: Deltas, start: int) -> Iterator[tuple[float, float]]:
        for t, delta in enumerate(deltas):
            yield _magnitude(delta), _magnitude(kept(delta, t, start))

    def ratios(sums: list[list[float]]) -> Findings:
        return {RATIO: tuple(a / b if min(a, b) >= VANISHING else 1.0 for a, b in sums)}

    return SumSurvey(len(each), 2, figures, ratios)


def _magnitude(entries: Tensor) -> float:
    return float(entries.abs().sum(dtype=torch.float64))


def rescaled(kept: Tensor, t: int, findings: Findings) -> Tensor:
    """The kept entries of expert t, by norm if that was found."""
    return kept * findings[RATIO][t] if RATIO in findings else kept
