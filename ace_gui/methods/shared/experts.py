"""Inputs and results of a merge method.

The task vectors of T experts are read one at a time, weighted and checked.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar, overload

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.heterogeneity import heterogeneity
from ace_gui.linalg.passes import energy, is_finite
from ace_gui.method_figures import MethodFigures
from ace_gui.methods.shared.measured import Measured
from ace_gui.methods.shared.survey import (
    Findings,
    MethodSurvey,
    RandomKey,
    Range,
    Survey,
    SurveyContext,
    context_after,
    findings_of_one_tensor,
    reads_base,
    required_findings,
)
from ace_gui.methods.shared.tolerance import STRICT, Tolerance

Deltas = Sequence[Tensor]
"""One task vector per expert, all of one shape and dtype.

The sequence may read an expert's tensor from disk each time it is indexed. A method therefore never
keeps more of them than it needs.
"""

Weights = Sequence[float]
"""One weight per expert."""


Parameters = TypeVar("Parameters")
ParametersIn = TypeVar("ParametersIn", contravariant=True)


class ChangedSpectrum(NamedTuple):
    """Singular values of a merged change, largest first, before and after a step on them."""

    before: Sequence[float]
    """As the method left them."""
    after: Sequence[float]
    """As they were modified."""


@dataclass(frozen=True, kw_only=True)
class Diagnostics(MethodFigures):
    """What a method found on one tensor: its figures, and more that is no single number."""

    energies: tuple[float, ...] = ()
    """‖ΔW_t‖²_F of each expert."""
    traces: tuple[float, ...] = ()
    """The same after centring over outputs, for matrices: the trace of the expert's Gram matrix."""
    left_out: tuple[int, ...] = ()
    """Indices of experts without a numerical change, which were ignored."""
    heterogeneous: bool | None = None
    """Whether γ of the energies exceeds the method's threshold τ; None for methods without one."""
    precision: str = ""
    """The number format of the computation, and why it is exact enough."""
    reshaped: ChangedSpectrum | None = None
    """The singular values of the change, if they were modified."""
    notes: tuple[str, ...] = ()
    """Departures from the published procedure, one sentence each."""
    warnings: tuple[str, ...] = ()
    """What may be wrong with the result and what to do, one sentence each."""


NO_BASE: Final = "This method works on whole weights; pass the base's tensor."

SURPLUS: Final = "surplus"
"""Name of a finding: the sum of a tensor's ``Vote.surplus``, the same for every expert."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    """A part's contribution to a sum over the whole tensor, whose sign decides for all parts.

    Methods that elect signs (``election``) count the entries elected + and −; the sign of the sum
    wins where an entry is a tie.
    """

    surplus: float = 0.0
    """What the part adds to the sum."""
    matters: bool = False
    """Whether the part's result depends on the decision."""

    def __add__(self, second: Vote) -> Vote:
        return Vote(surplus=self.surplus + second.surplus, matters=self.matters or second.matters)


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A merged task vector, with further results of the method."""

    delta: Tensor
    """What is added to the base: in the shape of the task vectors, float32 or float64."""
    diagnostics: Diagnostics = Diagnostics()
    """What the method found."""
    preliminary: Tensor | None = None
    """The solution before refinement, if the method has one and it was requested."""
    vote: Vote = Vote()
    """For methods whose parts vote, if their parameters need it."""

    @classmethod
    def of(
        cls, value: Tensor, scaling: float = 1.0, diagnostics: Diagnostics | None = None
    ) -> Self:
        """The value times ``scaling``, rounded to float32. Overwrites ``value``.

        Raises MethodError if it leaves the range of float32.
        """
        delta = value.mul_(scaling).to(torch.float32).contiguous()
        if not is_finite(delta):
            raise MethodError(
                "The merged task vector leaves the range of float32; use smaller weights or "
                "scaling."
            )
        return cls(delta=delta, diagnostics=diagnostics or Diagnostics())


@dataclass(frozen=True, kw_only=True)
class Context:
    """Further arguments for methods; most methods ignore them."""

    keep_preliminary: bool = False
    """Whether to return the solution before refinement, too, if there is one."""
    random_key: RandomKey | None = None
    """For methods that draw random numbers; None for others."""
    findings: Findings | None = None
    """Results of the method's surveys, for the experts that have the tensor; None if they are not
    made yet.
    """
    expert_parameters: Sequence[Any] | None = None
    """Parameters for each expert, if the method supports them; None: the same for all."""
    base: Tensor | None = None
    """W₀, shaped and oriented like the task vectors, for methods that work on whole weights; None
    for others.
    """
    tolerance: Tolerance = STRICT
    """Required accuracy of the result, for methods that can save time with it."""
    measured: Measured | None = None
    """The statistics of the experts' data that the method ``needs``; None for methods without data.
    """
    outputs: int | None = None
    """Number of outputs of the tensor; None: as many as the task vectors have rows. They have fewer
    rows if they are given in other coordinates (``shared.low_rank``).
    """

    def required_base(self) -> Tensor:
        """The base's weights. Raises MethodError if they were not given."""
        if self.base is None:
            raise MethodError(NO_BASE)
        return self.base


class MergeFunction(Protocol[ParametersIn]):
    """The mathematics of a method: task vectors in, merged task vector out."""

    def __call__(
        self, deltas: Deltas, weights: Weights, parameters: ParametersIn, **context: Any
    ) -> Merged:
        """Merge. ``context``: the fields of ``Context``.

        Raises MethodError if the method cannot be applied.
        """
        ...


class OnDemand(Sequence[Tensor]):
    """A sequence that reads a tensor when it is indexed; subclasses define ``read`` and ``len``."""

    @abstractmethod
    def read(self, index: int) -> Tensor:
        """The tensor at an index from 0 on."""

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | Sequence[Tensor]:
        indices = range(len(self))[index]  # also translates negative ones
        if isinstance(indices, range):
            return [self.read(t) for t in indices]
        return self.read(indices)


class Computed(OnDemand):
    """``length`` tensors, each computed by ``function`` from its index."""

    def __init__(self, length: int, function: Callable[[int], Tensor]) -> None:
        self._length = length
        self._function = function

    def __len__(self) -> int:
        return self._length

    def read(self, index: int) -> Tensor:
        """``function(index)``."""
        return self._function(index)


def vectors_for(survey: Survey, deltas: Deltas, base: Tensor | None) -> Deltas:
    """What a survey of a tensor reads: the task vectors, and W₀ after them if it needs the base.

    Raises MethodError if it does and there is no base.
    """
    if not reads_base(survey):
        return deltas
    if base is None:
        raise MethodError(NO_BASE)
    count = len(deltas)

    def vector(index: int) -> Tensor:
        if index == count:
            return base
        return deltas[index]

    return Computed(count + 1, vector)


@dataclass(frozen=True, kw_only=True)
class Census:
    """Which experts changed a tensor; an energy of at most 1e-10 of the median is no change.

    Only the ``counted`` ones have a part in its merge.
    """

    energies: tuple[float, ...]
    """‖w_t ΔW_t‖²_F of each expert."""
    counted: tuple[int, ...]
    """Indices of the experts that changed the tensor, ascending."""
    left_out: tuple[int, ...]
    """Indices of the others, ascending."""

    @classmethod
    def of(cls, energies: Sequence[float]) -> Self:
        """The census of these energies. Raises MethodError if one is not finite."""
        result = heterogeneity(energies)
        return cls(energies=tuple(energies), counted=result.counted, left_out=result.left_out)

    def diagnostics(self, notes: Sequence[str] = (), precision: str = "") -> Diagnostics:
        """The diagnostics; a note on left-out experts precedes ``notes``."""
        all_notes = tuple(notes)
        if self.left_out:
            note = (
                f"{len(self.left_out)} of {len(self.energies)} experts do not change this tensor "
                "and were left out of it."
            )
            all_notes = (note, *all_notes)
        return Diagnostics(
            energies=self.energies, left_out=self.left_out, precision=precision, notes=all_notes
        )


class Experts:
    """The task vectors ΔW_t of T experts, read afresh at each use, and their ``weights`` w_t.

    Holds no tensor. Raises MethodError if there are no experts, if the weights are not finite, and
    if there is not one per expert.

    A task vector is read in one of five ways. With a check for NaN and Inf, which raises
    MethodError: ``delta`` as it is, ``weighted`` as a new float64 tensor. Without that check:
    ``raw`` as it is, ``matrix`` as a new weighted matrix, ``read_only_matrix`` as a weighted matrix
    that may be the stored one.
    """

    def __init__(self, deltas: Deltas, weights: Weights) -> None:
        if not len(deltas):
            raise MethodError("There is nothing to merge; add at least one expert.")
        if len(weights) != len(deltas):
            raise MethodError(
                f"There are {len(deltas)} experts but {len(weights)} weights; give one per expert."
            )
        if not all(math.isfinite(weight) for weight in weights):
            raise MethodError("An expert's weight is NaN or infinite; give a finite number.")
        self.deltas = deltas
        self.weights = weights
        self._shape: torch.Size | None = None
        self._has_read_float64 = False

    def __len__(self) -> int:
        return len(self.deltas)

    @property
    def has_read_float64(self) -> bool:
        """Whether any of the task vectors that have been read so far is float64."""
        return self._has_read_float64

    def unweighted(self) -> Experts:
        """The same task vectors, each with weight 1."""
        return Experts(self.deltas, [1.0] * len(self))

    def raw(self, t: int) -> Tensor:
        """ΔW_t as it was passed, not checked for NaN.

        Raises MethodError if its shape differs from the first one read.
        """
        delta = self.deltas[t]
        if self._shape is None:
            self._shape = delta.shape
        if delta.shape != self._shape:
            raise MethodError(
                f"Task vector {t + 1} has shape {tuple(delta.shape)}, others have "
                f"{tuple(self._shape)}; experts must share the base's shapes.",
                shapes={"first": tuple(self._shape), f"expert {t + 1}": tuple(delta.shape)},
            )
        if delta.dtype == torch.float64:
            self._has_read_float64 = True
        return delta

    def delta(self, t: int) -> Tensor:
        """ΔW_t as it was passed. Raises MethodError if it is not finite: masks would hide a NaN."""
        delta = self.raw(t)
        if not is_finite(delta):
            raise MethodError(
                f"Task vector {t + 1} of {len(self)} holds NaN or Inf; check that expert's files."
            )
        return delta

    def weighted(self, t: int) -> Tensor:
        """w_t ΔW_t of any shape as a new tensor, float64."""
        return self.delta(t).to(torch.float64, copy=True).mul_(self.weights[t])

    def weighted_single(self) -> Tensor:
        """``weighted`` of the only expert. Raises MethodError if there are more."""
        require_one_expert(len(self))
        return self.weighted(0)

    def matrix(self, t: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """w_t ΔW_t as a new matrix that may be overwritten, not checked for NaN.

        Raises MethodError if it is not a matrix.
        """
        delta = self.raw(t)
        require_matrix(delta.shape, t)
        matrix = delta.to(dtype, copy=True)
        if self.weights[t] == 1:
            return matrix
        return matrix.mul_(self.weights[t])

    def read_only_matrix(self, t: int) -> Tensor:
        """The matrix w_t ΔW_t, read-only: as it was passed if w_t is 1, else in float64."""
        delta = self.raw(t)
        require_matrix(delta.shape, t)
        if self.weights[t] == 1:
            return delta
        return delta.to(torch.float64) * self.weights[t]

    def census(self) -> Census:
        """Which experts changed the tensor. Reads every expert once."""
        energies = []
        for t, weight in enumerate(self.weights):
            energies.append(weight * weight * energy(self.raw(t)))
        return Census.of(energies)

    def zeros(self) -> Tensor:
        """Zeros in the shape of a task vector, float64."""
        return torch.zeros_like(self.raw(0), dtype=torch.float64)

    def combination(self, coefficients: Sequence[float], indices: Sequence[int]) -> Tensor:
        """Σ c_t ΔW_t over ``indices`` in float64, any shape; zeros if there are no indices."""
        total = self.zeros()
        for coefficient, t in zip(coefficients, indices, strict=True):
            total.add_(self.delta(t), alpha=coefficient)
        return total

    def sum(self) -> Tensor:
        """Σ w_t ΔW_t in float64, any shape, reading each expert once."""
        return self.combination(self.weights, range(len(self)))

    def sum_of_counted(self) -> tuple[Census, Tensor]:
        """The census, and Σ w_t ΔW_t of matrices in float64 over the counted experts.

        Reads every expert once, and the left-out ones again to subtract them from the sum.
        """
        total = torch.zeros(())  # takes its shape from the first expert
        energies = []
        for t, weight in enumerate(self.weights):
            delta = self.raw(t)
            require_matrix(delta.shape, t)
            energies.append(weight * weight * energy(delta))
            if t == 0:
                total = torch.zeros_like(delta, dtype=torch.float64)
            total.add_(delta, alpha=weight)
        census = Census.of(energies)
        for t in census.left_out:
            total.sub_(self.raw(t), alpha=self.weights[t])
        return census, total

    def sum_in_float32(self) -> Tensor:
        """Σ_t w_t ΔW_t in float32, any shape, reading each expert once.

        The error is below T·6e-8 of Σ|w_t ΔW_t|, far below the rounding of the base it is added to.
        """
        first = self.raw(0)
        total = torch.zeros_like(first, dtype=torch.float32)
        total.add_(first, alpha=self.weights[0])
        del first
        for t in range(1, len(self)):
            total.add_(self.raw(t), alpha=self.weights[t])
        if not is_finite(total):
            for t in range(len(self)):
                self.delta(t)  # raises MethodError for the expert that holds NaN or Inf
            raise MethodError(
                "The sum of the task vectors leaves the range of float32; use smaller weights."
            )
        return total

    @property
    def total_weight(self) -> float:
        """Σ w_t. Raises MethodError if it is zero: there is no mean then."""
        return require_mean(self.weights)

    def weight_shares(self) -> list[float]:
        """w_t / Σ w_j of each expert; their sum is 1. Raises MethodError if Σ w_j is zero."""
        return [weight / self.total_weight for weight in self.weights]

    def surveyed(
        self, surveys: Sequence[MethodSurvey], parameters: Any, context: Context
    ) -> SurveyContext:
        """Everything that the method knows of the tensor before it merges.

        Missing findings of the tensor are computed from the task vectors, which then must be whole.
        Raises MethodError if findings of the whole model are missing.
        """
        if context.expert_parameters is None:
            expert_parameters: Sequence[Any] = [parameters] * len(self)
        else:
            expert_parameters = context.expert_parameters
        survey_context = SurveyContext(
            parameters=expert_parameters,
            weights=self.weights,
            findings=context.findings or {},
            random_key=context.random_key,
        )
        tensor_surveys = []
        for method_survey in surveys:
            if method_survey.range_for(parameters) is Range.TENSOR:
                tensor_surveys.append(method_survey)
                continue
            # Surveys of the model have been made before, unless these parameters need none.
            is_needed = method_survey.survey(survey_context) is not None
            if is_needed:
                required_findings(context.findings, len(self), method_survey.finds)

        def carry_out(survey: Survey) -> Findings:
            deltas = Computed(len(self), self.raw)
            return findings_of_one_tensor(survey, vectors_for(survey, deltas, context.base))

        return context_after(tensor_surveys, survey_context, carry_out)


def on_experts(
    merge: Callable[[Experts, Parameters, Context], Merged],
) -> MergeFunction[Parameters]:
    """Make a method, called with task vectors and weights, of a function of ``Experts``."""

    @wraps(merge)
    def called(deltas: Deltas, weights: Weights, parameters: Parameters, **context: Any) -> Merged:
        return merge(Experts(deltas, weights), parameters, Context(**context))

    return called


def require_mean(weights: Weights) -> float:
    """The sum of the weights. Raises MethodError if it is zero: there is no mean then."""
    total = sum(weights)
    if total == 0:
        raise MethodError("The experts' weights sum to zero, so they have no mean; change one.")
    return total


def require_one_expert(experts: int) -> None:
    """Raise MethodError for another number of experts."""
    if experts != 1:
        raise MethodError(
            f"This method goes from the base to one expert, but there are {experts}; choose one."
        )


def require_matrix(shape: torch.Size, t: int = 0) -> None:
    """Raise MethodError if this shape of expert t's tensor is not that of a matrix."""
    if len(shape) != 2:
        raise MethodError(
            f"This method merges matrices, not tensors of shape {tuple(shape)}; average this one "
            "or keep it from the base.",
            shapes={f"expert {t + 1}": tuple(shape)},
        )
