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

    ``ENTRY``: any tensor, in flat parts; every entry of the result depends only on that entry of
    the experts and on the findings of the method's surveys. ``ROW``: any tensor, in parts of whole
    rows, one per output; every row of the result depends only on that row and the findings.
    ``TENSOR``: any tensor, whole; matrices of linear layers oriented outputs × inputs. ``MATRIX``:
    those matrices only; everything else is averaged.
    """

    ENTRY = "entry"
    ROW = "row"
    TENSOR = "tensor"
    MATRIX = "matrix"


class MethodInput(NamedTuple):
    """The input of a method for one tensor: task vectors, weights, W₀, and more."""

    deltas: Deltas
    weights: Weights
    base: Tensor | None = None
    tolerance: Tolerance = STRICT
    measured: Measured | None = None


class BatchFunction(Protocol[ParametersIn]):
    """A method for several tensors of one shape at once, which uses a GPU better.

    ``layers``: all have the same number of experts and are on one device. The memory is the sum
    over all layers.
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

    ``survey``: returns the survey of the whole model from the parameters and the number of experts,
    or None if none is needed. ``for_survey``: the parameters that it uses; None: all.
    ``tensor_surveys``: for entry or row methods, surveys of each tensor before its first part, in
    order. Without their findings, the method treats the tensor as whole. ``sums``: whether the
    change is Σ c·ΔW, where c depends only on weights and parameters. ``votes``: whether the parts
    of a tensor decide something together; until all parts have voted, the sum of votes counts as 0.

    ``modules``: what it stores for each expert besides the merged weights. ``merge_batch``: the
    method for several tensors at once, if available; such a method draws no random numbers and
    needs no survey. ``working_memory``: for a whole tensor; None: a generous default. Entry and row
    methods get small parts. ``flops``: operations for a matrix.

    ``needs``: returns the statistics that must first be measured with the experts' data, from the
    parameters; None if it needs no data. A tensor without statistics is averaged. ``learning``: how
    it learns from data, for methods that need it. ``layer_norms``: whether it first needs the mean
    size of its merged tensors of each role; these are its findings, by role, the same for every
    expert. ``defaults``: returns the defaults that follow from the base's config, which may be
    empty, each with a sentence on its source.
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
        """The statistics that must be measured with the experts' data before the merge."""
        return None if self.needs is None else self.needs(parameters)
