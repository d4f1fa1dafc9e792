"""What some methods must know of the whole model before they merge its first tensor.

A survey reads the experts' task vectors once or more, pass by pass, part by part, and keeps a
bounded amount: sums and counts, never the numbers. T experts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.passes import energy
from ace_gui.linalg.selection import (
    BINS,
    INFINITE_BIN,
    ZERO_BIN,
    bin_of_rank,
    lower_counts,
    number_of,
    smallest,
    upper_counts,
)

Findings = Mapping[str, tuple[float, ...]]
"""What a survey found: by name, one number an expert."""


class Survey(Protocol):
    """A statistic of the whole model in the making.

    For every pass: ``measure`` every part of every tensor, ``add`` what comes of it, then
    ``finish_pass``. ``whole``: needs matrices whole and oriented; else flat parts of any tensor do.
    """

    @property
    def whole(self) -> bool:
        """Whether it must see tensors whole."""
        ...

    def measure(self, experts: Sequence[int], deltas: Sequence[Tensor], start: int = 0) -> Tensor:
        """What a part contributes. Changes nothing, so that threads may share the survey.

        ``experts``: indices of those that have the tensor; ``deltas``: theirs, unweighted;
        ``start``: where the part begins in the flattened tensor.
        """
        ...

    def add(self, measured: Tensor) -> None:
        """Count a part's contribution in; parts come in the plan's order."""
        ...

    def finish_pass(self) -> bool:
        """Call after every part was added. Returns whether another pass is needed."""
        ...

    @property
    def findings(self) -> Findings:
        """The result, after the last pass."""
        ...


@dataclass(frozen=True, kw_only=True)
class RandomKey:
    """Which tensor it is: all that a method's random numbers depend on, and the tensor's role.

    ``tensor``: the base's name of it. ``experts``: their distinct names, in the order of the task
    vectors. ``seed``: the recipe's. ``start``: where, in the flattened tensor as it is stored, the
    given part of it begins. ``turned``: whether the task vectors are the transposes of what is
    stored.
    """

    tensor: str
    experts: tuple[str, ...]
    seed: int
    role: str = ""
    start: int = 0
    turned: bool = False


@dataclass(frozen=True, kw_only=True)
class SurveyContext:
    """What is known of a tensor before it is surveyed.

    ``each``: the parameters for each expert, with their ``weights``. ``findings``: of the model,
    and of the tensor's earlier surveys.
    """

    each: Sequence[Any]
    weights: Sequence[float]
    findings: Findings
    random_key: RandomKey | None

    def at(self, start: int) -> SurveyContext:
        """The same for a part that begins at this element of the flattened tensor."""
        key = self.random_key
        return self if key is None else replace(self, random_key=replace(key, start=start))


TensorSurvey = Callable[[SurveyContext], Survey | None]
"""The survey of a tensor before its parts are merged.

None if none is needed, or if its findings exist.
"""


def found_by(
    surveys: Sequence[TensorSurvey], known: SurveyContext, carry_out: Callable[[Survey], Findings]
) -> Findings:
    """The findings of a tensor's surveys, in order, added to those that are known.

    ``carry_out``: runs a survey over the tensor.
    """
    for survey_of in surveys:
        survey = survey_of(known)
        if survey is not None:
            known = replace(known, findings={**known.findings, **carry_out(survey)})
    return known.findings


def findings_of(findings: Findings, experts: Sequence[int]) -> Findings:
    """The findings of some of the experts, in their order."""
    return {name: tuple(values[t] for t in experts) for name, values in findings.items()}


def required_findings(findings: Findings | None, experts: int) -> Findings:
    """The findings. Raises MethodError if there are none, or of another number of experts."""
    if findings is None:
        raise MethodError("This method needs a survey of the whole model; run one first.")
    if any(len(values) != experts for values in findings.values()):
        raise MethodError(f"The survey of the whole model does not have these {experts} experts.")
    return findings


def surveyed(survey: Survey | None, tensors: Sequence[Sequence[Tensor]]) -> Findings | None:
    """Carry out a survey in memory. ``tensors``: of each tensor, one task vector an expert."""
    if survey is None:
        return None
    unfinished = True
    while unfinished:
        for deltas in tensors:
            survey.add(survey.measure(range(len(deltas)), deltas))
        unfinished = survey.finish_pass()
    return survey.findings


def found_at_once(survey: Survey, deltas: Sequence[Tensor]) -> Findings:
    """The same findings of one whole tensor in memory, without passes where that is shorter."""
    if isinstance(survey, RankSurvey):
        return survey.of_whole(deltas)
    return surveyed(survey, [deltas]) or {}


Ranks = Callable[[int], tuple[int, ...]]
Values = Callable[[Sequence[Tensor], Findings, int], Iterator[Tensor]]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Order statistics of one kind of value.

    ``names``: of the findings, one a rank. ``values``: from the task vectors of a part, what was
    found so far of their experts, and where the part begins, the values of one expert after
    another. ``ranks``: from the number of an expert's values to the wanted ranks, from 1 for the
    smallest; one for all experts, or one for each. ``common``: all experts have the same values and
    ranks, so that the first one's are counted for all.
    """

    names: tuple[str, ...]
    values: Values
    ranks: Ranks | tuple[Ranks, ...]
    common: bool = False


class RankSurvey:
    """Exact order statistics of every expert, stage after stage, in two passes each.

    Values are compared in float32. An expert without values finds 0; a rank beyond the last value
    finds infinity.
    """

    def __init__(self, experts: int, *stages: Stage, whole: bool = False) -> None:
        self._experts = experts
        self._stages = stages
        self._whole = whole
        self._found: dict[str, tuple[float, ...]] = {}
        self._stage = 0
        self._bins: list[list[tuple[int, int]]] | None = None
        self._counts: Tensor | None = None

    @property
    def whole(self) -> bool:
        """Whether it must see tensors whole."""
        return self._whole

    def measure(self, experts: Sequence[int], deltas: Sequence[Tensor], start: int = 0) -> Tensor:
        """Counts of the values by bin, T × ranks × bins; in a first pass one for all ranks."""
        measured = self._zeros()
        stage, found = self._stages[self._stage], findings_of(self._found, experts)
        for t, values in zip(experts, stage.values(deltas, found, start), strict=True):
            if self._bins is None:
                measured[t, 0] = upper_counts(values)
            else:
                for j, (upper, _) in enumerate(self._bins[t]):
                    measured[t, j] = lower_counts(values, upper)
            if stage.common:
                measured[list(experts)] = measured[t].clone()
                break
        return measured

    def add(self, measured: Tensor) -> None:
        """Add counts."""
        if self._counts is None:
            self._counts = measured
            return
        counts = self._counts.numpy()  # torch would wait for busy threads (``bin_of_rank``)
        counts += measured.numpy()

    def finish_pass(self) -> bool:
        """Choose the bins of the second pass, or the numbers, and go to the next stage."""
        stage = self._stages[self._stage]
        counted = self._zeros() if self._counts is None else self._counts
        if self._bins is None:
            pairs = zip(counted, self._ranks(stage), strict=True)
            self._bins = [_bins(own[0], ranks) for own, ranks in pairs]
        else:
            for j, name in enumerate(stage.names):
                chosen = zip(counted, self._bins, strict=True)
                self._found[name] = tuple(_number(own[j], *bins[j]) for own, bins in chosen)
            self._stage, self._bins = self._stage + 1, None
        if self._stage == len(self._stages):
            return False
        self._counts = None
        return True

    @property
    def findings(self) -> Findings:
        """The order statistics by name."""
        return self._found

    def of_whole(self, deltas: Sequence[Tensor]) -> Findings:
        """The findings, where these are all there is; on any device."""
        for stage in self._stages:
            every = stage.values(deltas, self._found, 0)
            found = [
                [_chosen(values, rank) for rank in ranks(max(1, values.numel()))]
                for values, ranks in zip(every, self._ranks(stage), strict=True)
            ]
            self._found |= dict(zip(stage.names, zip(*found, strict=True), strict=True))
        return self._found

    def _ranks(self, stage: Stage) -> tuple[Ranks, ...]:
        given = stage.ranks
        return given if isinstance(given, tuple) else (given,) * self._experts

    def _zeros(self) -> Tensor:
        ranks = 1 if self._bins is None else len(self._stages[self._stage].names)
        return torch.zeros(self._experts, ranks, BINS, dtype=torch.int64)


def _bins(counts: Tensor, ranks: Ranks) -> list[tuple[int, int]]:
    """For each rank the upper bin that holds it, and its rank in there."""
    total = int(counts.numpy().sum())
    if not total:
        return [(ZERO_BIN, 1) for _ in ranks(1)]
    return [
        bin_of_rank(counts, rank) if rank <= total else (INFINITE_BIN, 1) for rank in ranks(total)
    ]


def _number(counts: Tensor, upper: int, rank: int) -> float:
    """The number of that rank among those of an upper bin; where there are none, its least."""
    lower = bin_of_rank(counts, rank)[0] if counts.numpy().any() else 0
    return number_of(upper, lower)


def _chosen(values: Tensor, rank: int) -> float:
    """The number of that rank among all values."""
    if not values.numel():
        return 0.0
    return float(smallest(values.to(torch.float32), rank)) if rank <= values.numel() else math.inf


def magnitudes(deltas: Sequence[Tensor], _found: Findings, _start: int) -> Iterator[Tensor]:
    """|ΔW_t|, expert by expert."""
    return (deltas[index].abs() for index in range(len(deltas)))


class SumSurvey:
    """Sums of figures of each expert over all parts, float64, in one pass."""

    whole = False

    def __init__(
        self,
        experts: int,
        width: int,
        figures: Callable[[Sequence[Tensor], int], Iterable[Sequence[float]]],
        found: Callable[[list[list[float]]], Findings],
    ) -> None:
        """``figures``: from the task vectors of a part and where it begins, ``width`` numbers each.

        ``found``: from the sums, T × ``width``, to the findings.
        """
        self._sums = torch.zeros(experts, width, dtype=torch.float64)
        self._figures, self._found = figures, found

    def measure(self, experts: Sequence[int], deltas: Sequence[Tensor], start: int = 0) -> Tensor:
        """The figures of a part; zero for experts that lack the tensor."""
        measured = torch.zeros_like(self._sums)
        for t, own in zip(experts, self._figures(deltas, start), strict=True):
            measured[t] = torch.tensor(own, dtype=torch.float64)
        return measured

    def add(self, measured: Tensor) -> None:
        """Add the figures of a part."""
        self._sums += measured

    def finish_pass(self) -> bool:
        """One pass is all."""
        return False

    @property
    def findings(self) -> Findings:
        """What the sums say."""
        return self._found(self._sums.tolist())


def norms_survey(experts: int) -> SumSurvey:
    """‖ΔW_t‖_F over all surveyed tensors, under the name "norm"."""
    return SumSurvey(
        experts,
        1,
        lambda deltas, _: ([energy(delta)] for delta in deltas),
        lambda sums: {"norm": tuple(math.sqrt(square) for (square,) in sums)},
    )
