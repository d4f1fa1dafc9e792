"""What a merge method is: a pure function on task vectors, its parameters, its papers.

T experts, O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from torch import Tensor

from ace_gui.field_info import ParameterValue
from ace_gui.methods.shared.expert_modules import Modules
from ace_gui.methods.shared.experts import Deltas, Merged, MergeFunction, Weights
from ace_gui.methods.shared.kit import Flops, WorkingMemory, products_with_itself
from ace_gui.methods.shared.learning import Learning
from ace_gui.methods.shared.measured import Measured, Need
from ace_gui.methods.shared.survey import Survey, TensorSurvey
from ace_gui.methods.shared.tolerance import STRICT, Tolerance

Parameters = TypeVar("Parameters")
ParametersIn = TypeVar("ParametersIn", contravariant=True)


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
