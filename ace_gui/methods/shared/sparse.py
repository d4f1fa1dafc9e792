"""Sums of task vectors, whole or sparse: which entries are kept, and how they are rescaled.

T experts; τ̂_t is the sparse task vector of expert t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from ace_gui.methods.shared.experts import Context, Deltas, Experts, Merged, Weights, on_experts
from ace_gui.methods.shared.kit import parameter, scaling_parameter
from ace_gui.methods.shared.survey import Findings, MethodSurvey, SumSurvey, SurveyContext

NONE: Final = "none"
BY_CHANCE: Final = "by chance"
BY_NORM: Final = "by norm"

RATIO: Final = "ratio"
"""Name of a finding: each expert's sum of magnitudes divided by that of its kept entries."""

VANISHING: Final = 1e-7
"""If a sum of magnitudes is below this, nothing is rescaled, as in mergekit."""


def rescale_parameter(default: str = NONE) -> Any:
    """The parameter ``rescale``; "by chance" is only for methods that drop at random."""
    if default == NONE:
        by_chance_help = ""
        choices: tuple[str, ...] = (NONE, BY_NORM)
    else:
        by_chance_help = "by chance: divides each by its probability of being kept. "
        choices = (NONE, BY_CHANCE, BY_NORM)
    return parameter(
        default,
        label="Rescaling",
        help=(
            f"What is done to kept entries. none: nothing. {by_chance_help}by norm: multiplies the "
            "kept entries of a tensor so that the sum of magnitudes is what it was before, as "
            "mergekit's `rescale` does."
        ),
        choices=choices,
    )


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """How a method makes a task vector sparse. Its parameters have ``rescale``."""

    survivors_of: Callable[[Tensor, int, SurveyContext], Tensor]
    """Sets the entries of a task vector, or of a part of it, to 0 that are not kept. It gets the
    expert's index and what is known of the tensor.
    """
    surveys: tuple[MethodSurvey, ...] = ()
    """The method's surveys, whose findings ``survivors_of`` reads."""

    @property
    def all_surveys(self) -> tuple[MethodSurvey, ...]:
        """The surveys, including that of the ratios in each tensor."""
        return (*self.surveys, MethodSurvey(survey=self._ratio_survey, finds=(RATIO,)))

    def vector(self, delta: Tensor, t: int, context: SurveyContext) -> Tensor:
        """τ̂_t: the kept entries, rescaled by norm if the ratios are known."""
        survivors = self.survivors_of(delta, t, context)
        if RATIO in context.findings:
            return survivors * context.findings[RATIO][t]
        return survivors

    def vectors(
        self, experts: Experts, parameters: Any, context: Context
    ) -> tuple[Callable[[int], Tensor], SurveyContext]:
        """A function that returns τ̂_t for expert t, and what is known of the tensor."""
        surveyed = experts.surveyed(self.all_surveys, parameters, context)

        def sparse_vector(t: int) -> Tensor:
            return self.vector(experts.delta(t), t, surveyed)

        return sparse_vector, surveyed

    def _ratio_survey(self, context: SurveyContext) -> SumSurvey | None:
        """A survey of the ``RATIO`` of each expert in a tensor; None unless rescaling is by norm.

        The ratio is 1 if there is next to nothing to rescale.
        """
        if context.parameters[0].rescale != BY_NORM:
            return None

        def figures(deltas: Deltas, start: int) -> Iterator[tuple[float, float]]:
            part_context = context.at(start)
            for t, delta in enumerate(deltas):
                survivors = self.survivors_of(delta, t, part_context)
                yield _sum_of_magnitudes(delta), _sum_of_magnitudes(survivors)

        def ratios(sums: list[list[float]]) -> Findings:
            return {RATIO: tuple(_ratio(before, after) for before, after in sums)}

        return SumSurvey(len(context.parameters), 2, figures, ratios)


def _ratio(before: float, after: float) -> float:
    """The factor that restores a sum of magnitudes."""
    if min(before, after) < VANISHING:
        return 1.0
    return before / after


def _sum_of_magnitudes(entries: Tensor) -> float:
    return float(entries.abs().sum(dtype=torch.float64))


@dataclass(frozen=True, kw_only=True)
class SumParameters:
    """Parameters of methods that add task vectors."""

    scaling: float = scaling_parameter(
        0.3,
        symbol="λ",
        help="Factor on the sum of the task vectors. 1/T for T experts gives their mean.",
    )
    """λ, factor on the sum."""
    normalize: bool = parameter(
        False,
        label="Divide by the weights",
        help="Divide the sum by the sum of the experts' weights, which gives their mean.",
    )
    """Whether the sum is divided by the sum of the weights."""


SMALLEST_DIVISOR: Final = 1e-8
"""A sum of weights below this counts as 0."""


def divisor(weights: Weights, normalize: bool) -> float:
    """The divisor of a sum: the sum of the weights, or 1 if that is 0 or ``normalize`` is off."""
    total = sum(weights)
    if normalize and abs(total) >= SMALLEST_DIVISOR:
        return total
    return 1.0


def merged_by_sum(
    sparse_vector: Callable[[int], Tensor], weights: Weights, parameters: SumParameters
) -> Merged:
    """λ Σ_t w_t τ̂_t, any shape, float32. ``sparse_vector``: returns τ̂_t, once per expert."""
    total = torch.zeros(())  # takes its shape from the first vector
    for t, weight in enumerate(weights):
        vector = sparse_vector(t)
        if t == 0:
            total = torch.zeros_like(vector, dtype=torch.float64)
        total.add_(vector, alpha=weight)
        del vector
    total.div_(divisor(weights, parameters.normalize))
    return Merged.of(total, parameters.scaling)


class WithScaling(Protocol):
    """Parameters with a factor on the sum."""

    @property
    def scaling(self) -> float:
        """The factor."""
        ...


@on_experts
def scaled_sum(experts: Experts, parameters: WithScaling, _: Context) -> Merged:
    """Scaling · Σ w_t ΔW_t, entry by entry, any shape, float32. Reads every expert once.

    Task arithmetic, in float64. Raises MethodError if a task vector is not finite.
    """
    return Merged.of(experts.sum(), parameters.scaling)
