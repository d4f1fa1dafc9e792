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
from ace_gui.methods.shared.kit import Flops, WorkingMemory, self_product_flops
from ace_gui.methods.shared.learning import Learning
from ace_gui.methods.shared.measured import Measured, Need
from ace_gui.methods.shared.survey import MethodSurvey, Range, SurveyContext
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
    outputs: int | None = None


class BatchFunction(Protocol[ParametersIn]):
    """A method for several tensors of one shape at once, which uses a GPU better.

    ``layers``: all have the same number of experts and are on one device. The memory is the sum
    over all layers.
    """

    def __call__(self, layers: Sequence[MethodInput], parameters: ParametersIn) -> list[Merged]:
        """Merge each. Raises MethodError if the method cannot be applied to one of them."""
        ...


Defaults = Callable[[Mapping[str, object]], Mapping[str, tuple[ParameterValue, str]]]
"""A function from the base's config, which may be empty, to defaults by parameter.

Each has a sentence on its source.
"""


@dataclass(frozen=True, kw_only=True)
class MergeMethod(Generic[Parameters]):
    """One entry of the registry."""

    name: str
    """Its name in a recipe: small letters, digits and _."""

    title: str
    """Its name for people."""

    summary: str
    """What it does, in one to three sentences."""

    formula: str
    """Its formula, a line for each part; the first begins with "W = " or "merged matrix: "."""

    citation: str
    """The paper, with its arXiv number."""

    parameters: type[Parameters]
    """A frozen dataclass whose fields are made by ``parameter``, all with defaults."""

    merge: MergeFunction[Parameters]
    """Its mathematics."""

    merge_batch: BatchFunction[Parameters] | None = None
    """The same for several tensors at once. Such a method draws no random numbers and has no
    surveys. None: one tensor at a time.
    """

    kind: Kind = Kind.MATRIX
    """Which tensors it gets, and in what form."""

    whole: Callable[[Parameters], bool] | None = None
    """Whether an entry or row method needs tensors whole with these parameters; None: never."""

    seeded: bool = False
    """Whether it draws random numbers, and therefore needs a random key."""

    heterogeneity: bool = False
    """Whether it has a γ and regimes."""

    least: int = 1
    """The smallest number of experts that it can merge."""

    most: int | None = None
    """The largest number of experts that it can merge; None: any number."""

    for_one_expert: tuple[str, ...] = ()
    """Names of the parameters that may differ between experts.

    They may not where the parameters need a survey of the whole model.
    """

    narrowest: int = 1
    """Minimum number of outputs and of inputs of a matrix; a narrower one is averaged."""

    surveys: tuple[MethodSurvey, ...] = ()
    """What it must know of the whole model, or of a tensor, before it merges, in this order.

    ``merge`` gets the findings of all as ``findings``, also if it gets parts of a tensor. A method
    that also works without the engine calls ``Experts.surveyed`` for those that are missing.
    """

    votes: bool = False
    """Whether the parts of a tensor decide something together.

    Until all parts have voted, the sum of votes counts as 0.
    """

    outputs_alike: bool = False
    """Whether all outputs are treated alike: an orthogonal map of the outputs that keeps their mean
    then maps the result. Such a method may get task vectors in coordinates of fewer outputs
    (``shared.low_rank``), with the number of outputs in its context.
    """

    sums: bool = False
    """Whether the change is Σ c·ΔW, where c depends only on weights and parameters."""

    modules: Modules[Parameters] | None = None
    """What it stores for each expert besides the merged weights."""

    working_memory: WorkingMemory | None = None
    """The float64 numbers that it holds for a whole tensor; None: a generous default.

    Entry and row methods get small parts.
    """

    needs: Callable[[Parameters], Need | None] | None = None
    """Returns the statistics that must first be measured with the experts' data.

    A tensor without statistics is averaged. None: it needs no data.
    """

    learning: Learning[Any] | None = None
    """How it learns from data, for methods that do."""

    layer_norms: Callable[[Parameters], bool] | None = None
    """Whether it first needs the mean size of its merged tensors of each role.

    These are its findings, by role, the same for every expert. None: never.
    """

    flops: Flops = self_product_flops
    """Operations for a matrix."""

    defaults: Defaults | None = None
    """The defaults that follow from the base's config."""

    def needs_whole(self, parameters: Parameters) -> bool:
        """Whether it must get tensors in one piece with these parameters."""
        if self.kind in {Kind.TENSOR, Kind.MATRIX}:
            return True
        return self.whole is not None and self.whole(parameters)

    def need(self, parameters: Parameters) -> Need | None:
        """The statistics that must be measured with the experts' data before the merge."""
        if self.needs is None:
            return None
        return self.needs(parameters)

    def surveys_over(self, survey_range: Range, parameters: Parameters) -> list[MethodSurvey]:
        """Its surveys of the model, or of each tensor, with these parameters."""
        return [survey for survey in self.surveys if survey.range_for(parameters) is survey_range]

    def needs_model(self, parameters: Parameters, experts: int) -> bool:
        """Whether it must survey the whole model before it merges this number of experts."""
        before = SurveyContext.of_model(parameters, experts)
        surveys = self.surveys_over(Range.MODEL, parameters)
        return any(survey.due(before) is not None for survey in surveys)
