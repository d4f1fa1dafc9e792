"""What a merge method is: a pure function on task vectors, its parameters, its papers.

T experts, O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypedDict, TypeVar

from torch import Tensor

from ace_gui.field_info import ParameterValue
from ace_gui.methods.shared.expert_modules import Modules
from ace_gui.methods.shared.kit import Flops, WorkingMemory, products_with_itself
from ace_gui.methods.shared.learning import Learning
from ace_gui.methods.shared.measured import Measured, Need
from ace_gui.methods.shared.survey import (
    Findings,
    RandomKey,
    Survey,
    TensorSurvey,
    found_at_once,
    found_by,
)
from ace_gui.methods.shared.tolerance import STRICT, Tolerance

Deltas = Sequence[Tensor]
"""One task vector an expert, all of one shape and dtype.

Any sequence will do, also one that reads an expert's tensor from disk each time it is indexed; a
method therefore never keeps more of them than it needs.
"""

Weights = Sequence[float]
"""One weight an expert."""


Parameters = TypeVar("Parameters")
ParametersIn = TypeVar("ParametersIn", contravariant=True)


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Figures of a method on one tensor; None where it has no such figure.

    ``energies``: ‖ΔW_t‖²_F, one an expert. ``traces``: the same centred over outputs, of matrices.
    ``left_out``: indices of experts with numerically no change, which took no part. ``gamma``:
    heterogeneity (ACE, Eq. 7); ``log_variance``: Var ln E in it. ``heterogeneous``: the regime.
    ``ridge_mass``: Σ_t ε_t. ``condition``: upper bound on the condition number of the
    solved system. ``refinement_cosine``: of the refinement with the summed task vectors;
    ``refinement_ratio``: its norm by that of the solution before it. ``cap_factor``: by how much a
    cap scaled the change, 1 where it was short enough. ``precision``: in which numbers it was
    computed, and why they are exact enough. ``reshaped``: the singular values of the change before
    and after it was given others, the largest first. ``notes``: departures from the published
    procedure that were taken here; ``warnings``: what may be wrong with the result, and what one
    can do. A sentence each.
    """

    energies: tuple[float, ...] = ()
    traces: tuple[float, ...] = ()
    left_out: tuple[int, ...] = ()
    gamma: float | None = None
    log_variance: float | None = None
    heterogeneous: bool | None = None
    ridge_mass: float | None = None
    condition: float | None = None
    refinement_cosine: float | None = None
    refinement_ratio: float | None = None
    cap_factor: float | None = None
    precision: str = ""
    reshaped: tuple[Sequence[float], Sequence[float]] | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


SURPLUS: Final = "surplus"
"""Finding: the sum of the votes of a tensor's parts, the same for every expert."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    """A part's contribution to a decision of the whole tensor, by the sign of a sum.

    ``surplus``: the part's share of the sum. ``matters``: whether the part's result depends on the
    decision.
    """

    surplus: float = 0.0
    matters: bool = False

    def __add__(self, other: Vote) -> Vote:
        return Vote(surplus=self.surplus + other.surplus, matters=self.matters or other.matters)


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A merged task vector, with further findings of the method.

    ``delta``: to add to the base, same shape as the task vectors, float32 or float64.
    ``preliminary``: the solution before refinement, if the method has one and it was requested.
    ``vote``: for methods whose parts vote, if their parameters need it.
    """

    delta: Tensor
    diagnostics: Diagnostics = Diagnostics()
    preliminary: Tensor | None = None
    vote: Vote = Vote()


class Kind(StrEnum):
    """Which tensors a method gets, and in what form.

    ``ENTRY``: any tensor, in flat parts; every entry of the result depends on that entry of the
    experts, and on what the method's surveys found, alone. ``ROW``: any tensor, in parts of whole
    rows, an output each; every row of the result depends on that row likewise. ``TENSOR``: any
    tensor, whole; matrices of linear layers oriented outputs × inputs. ``MATRIX``: those matrices
    only; everything else is averaged.
    """

    ENTRY = "entry"
    ROW = "row"
    TENSOR = "tensor"
    MATRIX = "matrix"


class Context(TypedDict, total=False):
    """Further arguments for methods; most methods ignore them.

    ``keep_preliminary``: also return the solution before refinement, if there is one.
    ``random_key``: for methods that draw random numbers. ``findings``: of the method's survey of
    the whole model, for the experts that have the tensor; for methods that requested one. ``own``:
    parameters for each expert, if the method supports them. ``base``: W₀, shaped and oriented as
    the task vectors; for methods that work on whole weights. ``tolerance``: required accuracy of
    the result, for methods that can save time by it. ``measured``: the statistics of the experts'
    data that the method ``needs``.
    """

    keep_preliminary: bool
    random_key: RandomKey | None
    findings: Findings | None
    own: Sequence[Any] | None
    base: Tensor | None
    tolerance: Tolerance
    measured: Measured | None


class MergeFunction(Protocol[ParametersIn]):
    """The mathematics of a method: task vectors in, merged task vector out."""

    def __call__(
        self,
        deltas: Deltas,
        weights: Weights,
        parameters: ParametersIn,
        *,
        keep_preliminary: bool = False,
        random_key: RandomKey | None = None,
        findings: Findings | None = None,
        own: Sequence[Any] | None = None,
        base: Tensor | None = None,
        tolerance: Tolerance = STRICT,
        measured: Measured | None = None,
    ) -> Merged:
        """Merge. Raises MethodError if the method cannot be applied."""
        ...


class MethodInput(NamedTuple):
    """The input of a method for one tensor: its task vectors, their weights, W₀, and the rest."""

    deltas: Deltas
    weights: Weights
    base: Tensor | None = None
    tolerance: Tolerance = STRICT
    measured: Measured | None = None


class BatchFunction(Protocol[ParametersIn]):
    """The same for several tensors of one shape at once, which uses a GPU better.

    ``layers``: each with the same number of experts, all on one device. The memory for one layer is
    needed for all at the same time.
    """

    def __call__(self, layers: Sequence[MethodInput], parameters: ParametersIn) -> list[Merged]:
        """Merge each. Raises MethodError if the method cannot be applied to one of them."""
        ...


def completed(
    surveys: Sequence[TensorSurvey],
    deltas: Deltas,
    weights: Weights,
    parameters: Any,
    context: Context,
) -> tuple[Sequence[Any], Findings]:
    """The parameters for each expert, its own or the same for all, and a method's findings.

    These are completed where the method was given a whole tensor without them.
    """
    own, found = context.get("own"), context.get("findings") or {}
    each = [parameters] * len(deltas) if own is None else own
    carry_out = partial(found_at_once, deltas=deltas)
    return each, found_by(surveys, each, weights, found, context.get("random_key"), carry_out)


@dataclass(frozen=True, kw_only=True)
class MergeMethod(Generic[Parameters]):
    """One entry of the registry.

    ``seeded``: draws random numbers, and therefore needs a random key. ``heterogeneity``: has a γ
    and regimes. ``least``, ``most``: number of experts it can merge; ``most`` None: any number.
    ``narrowest``: minimum number of outputs and of inputs of a matrix; a narrower one is averaged.
    ``for_one_expert``: parameters that may differ between experts, if no survey is needed.

    ``survey``: from the parameters and the number of experts to the survey of the whole model, None
    if it is not needed. ``for_survey``: the parameters that it uses; None: all. ``tensor_surveys``:
    for entry or row methods, surveys of each tensor before its first part, one after the other;
    without their findings, the method treats the tensor as whole. ``sums``: its change is Σ c·ΔW,
    with c of weights and parameters alone. ``votes``: its parts decide something together; until
    all were merged once, a sum of 0 is assumed.

    ``modules``: what it stores for each expert besides the merged weights. ``merge_batch``: the
    method for several tensors at once, if available; such a method draws no random numbers and
    needs no survey. ``working_memory``: for a whole tensor, None for a generous default; entry and
    row methods get small parts. ``flops``: of a matrix.

    ``needs``: from the parameters to the statistics to measure with the experts' data first, None
    without data; a tensor without statistics is averaged. ``learning``: how it learns from data,
    for methods that need it. ``layer_norms``: whether it first needs the mean size of its merged
    tensors of each role; these are its findings, by role, the same for every expert. ``defaults``:
    from the base's config, which may be empty, to the defaults that follow from it, each with a
    sentence about its source.
    """

    name: str
    title: str
    summary: str
    formula: str
    citation: str
    parameters: type[Parameters]
    merge: MergeFunction[Parameters]
    merge_batch: BatchFunction[Parameters] | None = None
    kind: Kind = Kind.MATRIX
    seeded: bool = False
    heterogeneity: bool = False
    least: int = 1
    most: int | None = None
    for_one_expert: tuple[str, ...] = ()
    narrowest: int = 1
    survey: Callable[[Parameters, int], Survey | None] | None = None
    for_survey: tuple[str, ...] | None = None
    tensor_surveys: tuple[TensorSurvey, ...] = ()
    votes: bool = False
    sums: bool = False
    modules: Modules[Parameters] | None = None
    working_memory: WorkingMemory | None = None
    needs: Callable[[Parameters], Need | None] | None = None
    learning: Learning[Any] | None = None
    layer_norms: Callable[[Parameters], bool] | None = None
    flops: Flops = products_with_itself
    defaults: Callable[[Mapping[str, object]], Mapping[str, tuple[ParameterValue, str]]] | None = (
        None
    )

    def need(self, parameters: Parameters) -> Need | None:
        """What must be measured with the experts' data before it merges."""
        return None if self.needs is None else self.needs(parameters)
