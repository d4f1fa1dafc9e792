"""Surveys: what some methods must know of the whole model, or of a tensor, before they merge it.

A method declares each as a ``MethodSurvey``. A survey reads the experts' task vectors in one or
more passes, part by part. It keeps only sums and counts, so its memory is bounded. T experts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.passes import energy
from ace_gui.linalg.selection import (
    BINS,
    INFINITE_BIN,
    ZERO_BIN,
    bin_of_rank,
    float32_in_bins,
    kth_smallest,
    lower_counts,
    upper_counts,
)
from ace_gui.methods.shared.calls import WrongReturnError, calling

Findings = Mapping[str, tuple[float, ...]]
"""The results of a survey: by name, one number per expert."""


class Survey(Protocol):
    """A statistic of the whole model, or of a tensor, while it is computed.

    In every pass, ``measure`` each part of each tensor and ``add`` the result, then call
    ``finish_pass``. Flat parts of tensors are enough, unless it needs a ``whole_tensor``.
    """

    @property
    def whole_tensor(self) -> bool:
        """Whether it needs whole, oriented matrices."""
        ...

    def measure(self, experts: Sequence[int], deltas: Sequence[Tensor], start: int = 0) -> Tensor:
        """The contribution of a part: numbers that ``add`` sums over all parts.

        Changes nothing, so that threads may share the survey.

        ``experts``: indices of the experts that have the tensor; ``deltas``: their unweighted task
        vectors; ``start``: where the part begins in the flattened tensor.
        """
        ...

    def add(self, contribution: Tensor) -> None:
        """Add a part's contribution; parts come in the plan's order."""
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
    """Identifies a tensor: all that a method's random numbers depend on, and the tensor's role."""

    tensor: str
    """Its name in the base."""
    experts: tuple[str, ...]
    """Their distinct names, in the order of the task vectors."""
    seed: int
    """The recipe's seed."""
    role: str = ""
    """What the tensor does."""
    start: int = 0
    """Where this part begins in the flattened tensor as it is stored."""
    transposed: bool = False
    """Whether the task vectors are transposes of the stored tensors."""


@dataclass(frozen=True, kw_only=True)
class SurveyContext:
    """What is known before a survey."""

    parameters: Sequence[Any]
    """The method's parameters, one for each of the T experts; over the model, all are equal."""

    weights: Sequence[float] = ()
    """The experts' weights. Empty over the model, whose tensors may have different weights."""

    findings: Findings
    """Those of the method's earlier surveys."""

    random_key: RandomKey | None = None
    """Of the tensor, for methods that draw random numbers. None over the model."""

    @classmethod
    def of_model(cls, parameters: Any, experts: int) -> SurveyContext:
        """Before the first survey of the whole model, with these parameters for every expert."""
        return cls(parameters=(parameters,) * experts, findings={})

    def at(self, start: int) -> SurveyContext:
        """The same for a part that begins at this element of the flattened tensor."""
        key = self.random_key
        if key is None:
            return self
        return replace(self, random_key=replace(key, start=start))


class Range(StrEnum):
    """What a survey reads before the method merges.

    ``MODEL``: every tensor that the method merges with the same parameters, before the first of
    them is merged. ``TENSOR``: each tensor of its own, just before it is merged.
    """

    MODEL = "model"
    TENSOR = "tensor"


@dataclass(frozen=True, kw_only=True)
class MethodSurvey:
    """The declaration of one survey of a method.

    Raises MethodError if ``over`` is no range, or ``finds`` no tuple of names.
    """

    survey: Callable[[SurveyContext], Survey | None]
    """Makes the survey, or returns None if the parameters need none. Reads no tensor."""

    finds: tuple[str, ...]
    """Names of its findings. Where earlier surveys found all of them, the survey is not made."""

    over: str | Callable[[Any], str] = Range.TENSOR
    """A ``Range``, or a function that returns it from the method's parameters."""

    uses: tuple[str, ...] | None = None
    """Names of the parameters on which ``over`` and the findings depend; None: all.

    Merges that differ in other parameters share a survey of the model.
    """

    def __post_init__(self) -> None:
        if not callable(self.over):
            _range(self.over)
        if not isinstance(self.finds, tuple) or not self.finds:
            raise MethodError(
                f"A survey finds {self.finds!r}; give a tuple of names, such as ('norm',)."
            )

    def range_for(self, parameters: Any) -> Range:
        """What it reads if the method has these parameters. Raises MethodError if unknown."""
        if not callable(self.over):
            return _range(self.over)
        with calling("The range of a survey", self.over):
            return _range(self.over(parameters))

    def due(self, context: SurveyContext) -> Survey | None:
        """The survey to carry out; None if none is needed or its findings are there.

        Raises MethodError if the function fails or returns something else.
        """
        if all(name in context.findings for name in self.finds):
            return None
        with calling("The function of a survey", self.survey):
            survey = self.survey(context)
            if survey is not None and not hasattr(survey, "measure"):
                raise WrongReturnError(f"{type(survey).__name__}, not a survey or None")
        return survey

    def context_with(self, context: SurveyContext, findings: Findings) -> SurveyContext:
        """What is known after this survey. Raises MethodError if ``findings`` are not as declared.

        These are a number for each expert under each of the names in ``finds``.
        """
        experts = len(context.parameters)
        for name in self.finds:
            if len(findings.get(name, ())) != experts:
                raise MethodError(
                    f"A survey must find `{name}` for each of {experts} experts, but it found "
                    f"{dict(findings)}."
                )
        return replace(context, findings={**context.findings, **findings})


def _range(name: str) -> Range:
    try:
        return Range(name)
    except ValueError:
        raise MethodError(
            f"A survey is over {name!r}; it must be over {' or '.join(Range)}."
        ) from None


def context_after(
    surveys: Sequence[MethodSurvey], context: SurveyContext, carry_out: Callable[[Survey], Findings]
) -> SurveyContext:
    """What is known of a tensor after a method's surveys of it, which run in order.

    ``context``: with the findings of the model's surveys. ``carry_out``: runs a survey over the
    tensor. Raises MethodError if a survey does not find what it declares.
    """
    for method_survey in surveys:
        survey = method_survey.due(context)
        if survey is not None:
            context = method_survey.context_with(context, carry_out(survey))
    return context


def findings_of_experts(findings: Findings, experts: Sequence[int]) -> Findings:
    """The findings of some of the experts, in their order."""
    return {name: tuple(values[t] for t in experts) for name, values in findings.items()}


def required_findings(
    findings: Findings | None, experts: int, names: Sequence[str] = ()
) -> Findings:
    """The findings of the model's surveys, which must have these names.

    Raises MethodError if they are missing or have another number of experts.
    """
    if findings is not None and any(len(values) != experts for values in findings.values()):
        raise MethodError(f"The survey of the whole model does not have these {experts} experts.")
    if findings is None or any(name not in findings for name in names):
        raise MethodError("This method needs a survey of the whole model; run one first.")
    return findings


def findings_in_passes(survey: Survey, contributions: Callable[[], Iterable[Tensor]]) -> Findings:
    """A survey's findings. ``contributions``: yields those of all parts, called once a pass."""
    needs_pass = True
    while needs_pass:
        for contribution in contributions():
            survey.add(contribution)
        needs_pass = survey.finish_pass()
    return survey.findings


def findings_of_tensors(survey: Survey, tensors: Sequence[Sequence[Tensor]]) -> Findings:
    """The findings of a survey of tensors in memory, each of which is one part.

    ``tensors``: for each tensor, the experts' task vectors, and W₀ after them if it is read.
    """

    def contributions() -> Iterator[Tensor]:
        for vectors in tensors:
            experts = len(vectors)
            if reads_base(survey):
                experts -= 1
            yield survey.measure(range(experts), vectors)

    return findings_in_passes(survey, contributions)


def reads_base(survey: Survey) -> bool:
    """Whether a survey of a tensor reads W₀ after the task vectors: if it says ``with_base``.

    The attribute is optional, as surveys of methods from outside may lack it.
    """
    return bool(getattr(survey, "with_base", False))


def findings_of_one_tensor(survey: Survey, deltas: Sequence[Tensor]) -> Findings:
    """The findings of one whole tensor in memory, without passes where that is faster."""
    if isinstance(survey, RankSurvey):
        return survey.of_whole(deltas)
    return findings_of_tensors(survey, [deltas])


RanksOfCount = Callable[[int], tuple[int, ...]]
"""Maps the number of an expert's values to the ranks whose values are to be found; the smallest
value has rank 1.
"""

PartValues = Callable[[Sequence[Tensor], Findings, int], Iterator[Tensor]]
"""Yields each expert's values from the task vectors of a part, these experts' earlier findings, and
the position where the part begins.
"""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Order statistics of one kind of value."""

    names: tuple[str, ...]
    """Names of the findings, one per rank."""
    values: PartValues
    """Yields the values of a part."""
    ranks: RanksOfCount | tuple[RanksOfCount, ...]
    """The ranks to find. One function for all experts, or one for each."""
    common: bool = False
    """Whether all experts have the same values and ranks; then those of the first are counted."""


class _BinOfRank(NamedTuple):
    """Where the value of a rank is."""

    upper: int
    """The upper bin (``selection``)."""
    rank: int
    """The rank within that bin, from 1."""


class RankSurvey:
    """Exact order statistics of every expert; each stage takes two passes.

    Values are compared in float32. Without values, the finding is 0. For a rank beyond the last
    value it is infinity.
    """

    def __init__(self, experts: int, *stages: Stage, whole_tensor: bool = False) -> None:
        self._experts = experts
        self._stages = stages
        self._whole_tensor = whole_tensor
        self._results: dict[str, tuple[float, ...]] = {}
        self._stage_index = 0
        self._bins: list[list[_BinOfRank]] | None = None
        """By expert and rank, in a stage's second pass; None in its first one, which finds them."""
        self._counts: Tensor | None = None
        """Of the present pass; None before its first part."""

    @property
    def whole_tensor(self) -> bool:
        """Whether it must see tensors whole."""
        return self._whole_tensor

    def measure(self, experts: Sequence[int], deltas: Sequence[Tensor], start: int = 0) -> Tensor:
        """Counts per bin, T × ranks × bins; a first pass has one count for all ranks."""
        counts = self._zeros()
        stage = self._stages[self._stage_index]
        earlier = findings_of_experts(self._results, experts)
        with calling("The values of a survey", stage.values):
            for t, values in zip(experts, stage.values(deltas, earlier, start), strict=True):
                if self._bins is None:  # the first pass
                    counts[t, 0] = upper_counts(values)
                else:
                    for j, place in enumerate(self._bins[t]):
                        counts[t, j] = lower_counts(values, place.upper)
                if stage.common:  # this first expert's counts are those of all
                    counts[list(experts)] = counts[t].clone()
                    break
        return counts

    def add(self, contribution: Tensor) -> None:
        """Add counts."""
        if self._counts is None:
            self._counts = contribution
            return
        # The array has the memory of ``self._counts``. numpy adds, as torch would wait for busy
        # threads (``bin_of_rank``).
        array_of_counts = self._counts.numpy()
        array_of_counts += contribution.numpy()

    def finish_pass(self) -> bool:
        """First pass: choose the bins. Second pass: choose the numbers, and end the stage."""
        stage = self._stages[self._stage_index]
        if self._counts is None:
            counts_by_expert = self._zeros()
        else:
            counts_by_expert = self._counts
        if self._bins is None:
            self._bins = []
            functions = self._rank_functions(stage)
            for counts, ranks_of_count in zip(counts_by_expert, functions, strict=True):
                self._bins.append(_bins_of_ranks(counts[0], ranks_of_count))
        else:
            for j, name in enumerate(stage.names):
                numbers = []
                for counts, bins in zip(counts_by_expert, self._bins, strict=True):
                    numbers.append(_number(counts[j], bins[j]))
                self._results[name] = tuple(numbers)
            self._stage_index += 1
            self._bins = None
        if self._stage_index == len(self._stages):
            return False
        self._counts = None
        return True

    @property
    def findings(self) -> Findings:
        """The order statistics by name."""
        return self._results

    def of_whole(self, deltas: Sequence[Tensor]) -> Findings:
        """The findings of ``deltas`` alone, if these are whole tensors, on any device."""
        for stage in self._stages:
            numbers: dict[str, list[float]] = {name: [] for name in stage.names}
            with calling("The values of a survey", stage.values):
                values_of_experts = stage.values(deltas, self._results, 0)
                functions = self._rank_functions(stage)
                for values, ranks_of_count in zip(values_of_experts, functions, strict=True):
                    # Methods' functions need not expect a count of 0.
                    ranks = ranks_of_count(max(1, values.numel()))
                    for name, rank in zip(stage.names, ranks, strict=True):
                        numbers[name].append(_value_of_rank(values, rank))
            self._results |= {name: tuple(values) for name, values in numbers.items()}
        return self._results

    def _rank_functions(self, stage: Stage) -> tuple[RanksOfCount, ...]:
        """One function for each expert."""
        if isinstance(stage.ranks, tuple):
            return stage.ranks
        return (stage.ranks,) * self._experts

    def _zeros(self) -> Tensor:
        """Counts before the first part of a pass."""
        if self._bins is None:
            rank_count = 1
        else:
            rank_count = len(self._stages[self._stage_index].names)
        return torch.zeros(self._experts, rank_count, BINS, dtype=torch.int64)


def _bins_of_ranks(counts: Tensor, ranks_of_count: RanksOfCount) -> list[_BinOfRank]:
    """Where the value of each rank is, by the counts of upper bins."""
    total = int(counts.numpy().sum())
    if not total:  # without values, all findings are 0
        rank_count = len(ranks_of_count(1))
        return [_BinOfRank(upper=ZERO_BIN, rank=1)] * rank_count
    bins = []
    for rank in ranks_of_count(total):
        if rank <= total:
            upper, rank_in_bin = bin_of_rank(counts, rank)
            bins.append(_BinOfRank(upper=upper, rank=rank_in_bin))
        else:
            bins.append(_BinOfRank(upper=INFINITE_BIN, rank=1))
    return bins


def _number(counts: Tensor, place: _BinOfRank) -> float:
    """The number at a place, by the counts of lower bins; the bin's smallest one if it is empty."""
    if counts.numpy().any():
        lower, _ = bin_of_rank(counts, place.rank)
    else:
        lower = 0
    return float32_in_bins(place.upper, lower)


def _value_of_rank(values: Tensor, rank: int) -> float:
    """The number of this rank among all values."""
    if not values.numel():
        return 0.0
    if rank <= values.numel():
        return float(kth_smallest(values.to(torch.float32), rank))
    return math.inf


def magnitudes(deltas: Sequence[Tensor], _findings: Findings, _start: int) -> Iterator[Tensor]:
    """|ΔW_t|, expert by expert."""
    return (deltas[index].abs() for index in range(len(deltas)))


class SumSurvey:
    """Sums each expert's figures over all parts in float64, in one pass."""

    whole_tensor = False

    def __init__(
        self,
        experts: int,
        width: int,
        figures: Callable[[Sequence[Tensor], int], Iterable[Sequence[float]]],
        to_findings: Callable[[list[list[float]]], Findings],
        *,
        with_base: bool = False,
    ) -> None:
        """``figures``: maps a part's task vectors and its start to ``width`` numbers per expert.

        ``to_findings``: maps the sums, T × ``width``, to the findings. ``with_base``: whether W₀
        comes after the task vectors; only for surveys of a tensor.
        """
        self.with_base = with_base
        self._sums = torch.zeros(experts, width, dtype=torch.float64)
        self._figures = figures
        self._to_findings = to_findings

    def measure(self, experts: Sequence[int], deltas: Sequence[Tensor], start: int = 0) -> Tensor:
        """The figures of a part; zero for experts that lack the tensor."""
        contribution = torch.zeros_like(self._sums)
        with calling("The figures of a survey", self._figures):
            for t, figures in zip(experts, self._figures(deltas, start), strict=True):
                contribution[t] = torch.tensor(figures, dtype=torch.float64)
        return contribution

    def add(self, contribution: Tensor) -> None:
        """Add the figures of a part."""
        self._sums += contribution

    def finish_pass(self) -> bool:
        """Never needs another pass."""
        return False

    @property
    def findings(self) -> Findings:
        """The findings, computed from the sums."""
        with calling("The findings of a survey", self._to_findings):
            return self._to_findings(self._sums.tolist())


def norms_survey(experts: int) -> SumSurvey:
    """‖ΔW_t‖_F over all surveyed tensors, under the name "norm"."""

    def energies(deltas: Sequence[Tensor], _start: int) -> Iterator[list[float]]:
        for delta in deltas:
            yield [energy(delta)]

    def norms(sums: list[list[float]]) -> Findings:
        return {"norm": tuple(math.sqrt(square) for (square,) in sums)}

    return SumSurvey(experts, 1, energies, norms)
