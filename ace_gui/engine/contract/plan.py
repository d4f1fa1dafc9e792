"""The checks of a merge, and its plan: how the merged model obtains each tensor, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from pathlib import Path
from typing import Final

from ace_gui.ace_variants import AUTOMATIC
from ace_gui.formatting import human_bytes
from ace_gui.recipe import Recipe
from ace_gui.recipe.output_forms import Output
from ace_gui.recipe.values import ParameterValue
from ace_gui.stored_formats import FORMATS, RECIPE_TAGS, is_float


class CheckVerdict(StrEnum):
    """The result of a check. The value is shown to users."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


DISK: Final = "Disk"
MEMORY: Final = "Memory"
"""Titles of the checks for memory and disk space."""

OUTPUT: Final = "Output"
"""Title of the checks on the form in which a merge is written; merges in a store have none."""

RECIPE: Final = "Recipe"
"""Title of the check on how the recipe's file was read."""

CALIBRATION: Final = "Calibration data"
ALIGNMENT: Final = "Alignment"
OF_INPUTS: Final = frozenset({CALIBRATION, ALIGNMENT})
"""Titles of the checks of the tasks' inputs, which some merges need."""

_ROOMY: Final = 1.25
"""Space is ample from this multiple of the need."""

WORST_FIRST: Final = (CheckVerdict.ERROR, CheckVerdict.WARNING, CheckVerdict.NOTE, CheckVerdict.OK)
EVERYTHING: Final = "all models"
"""The subject of a check that concerns no single model."""


@dataclass(frozen=True)
class Check:
    """One check.

    ``title``: what was checked ("Vocabulary"). ``details``: all findings, one per line, shown on
    demand. ``subject``: the model, or ``EVERYTHING``.
    """

    title: str
    sentence: str
    verdict: CheckVerdict = CheckVerdict.OK
    details: str = ""
    subject: str = EVERYTHING

    @property
    def is_worry(self) -> bool:
        """Whether the user should read it before merging."""
        return self.verdict in (CheckVerdict.WARNING, CheckVerdict.ERROR)

    @property
    def line(self) -> str:
        """The subject and the sentence, for a list without columns."""
        if self.subject == EVERYTHING:
            about = self.title
        else:
            about = f"{self.title}, {self.subject}"
        return f"{about}: {self.sentence}"

    @property
    def key(self) -> tuple[str, str, CheckVerdict]:
        """Identifies an accepted check.

        It does not contain the figures of the sentence, which may change.
        """
        return self.subject, self.title, self.verdict


def worst_first(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Errors, warnings, notes, then passed checks; otherwise in the given order."""
    return tuple(sorted(checks, key=lambda check: WORST_FIRST.index(check.verdict)))


def replaced(checks: Iterable[Check], *replacements: Check) -> tuple[Check, ...]:
    """The checks, worst first; those that share a title with ``replacements`` give way to these."""
    titles = {check.title for check in replacements}
    return worst_first((*(check for check in checks if check.title not in titles), *replacements))


def disk_check(needed: int, free: int, advice: str, output: str = "the merged model") -> Check:
    """Whether the disk has space for the output; sizes in bytes."""
    what = f"About {human_bytes(needed)} for {output}; {human_bytes(free)} free."
    return _room(DISK, what, needed, free, advice)


def _room(title: str, sentence: str, needed: int, free: int, advice: str) -> Check:
    verdict = CheckVerdict.OK
    if needed > free:
        verdict = CheckVerdict.ERROR
        sentence = f"{sentence} {advice}"
    elif _ROOMY * needed > free:
        verdict = CheckVerdict.WARNING
        sentence = " ".join((sentence, "That is tight.", advice))
    return Check(title, sentence, verdict)


class Disposition(StrEnum):
    """How the merged model obtains a tensor. The value is shown to users."""

    MERGED = "merged"
    AVERAGED = "averaged"
    BASE = "kept from base"
    PER_EXPERT = "kept per expert"
    COPIED = "copied"
    DROPPED = "dropped"


ROLE_FAMILIES: Final = ("attention", "MLP", "embedding", "norm", "other")
"""Each family of roles has one colour and one symbol in all plots."""

_ATTENTION: Final = frozenset({"query", "key", "value", "query+key+value", "attention output"})

COMBINED = frozenset({Disposition.MERGED, Disposition.AVERAGED})
"""Dispositions that read the tensor of every expert."""


@dataclass(frozen=True, kw_only=True)
class RowOverride:
    """The settings of one tensor that differ from the recipe's.

    ``parameters``: of ``method``, all resolved. ``weights``: one per expert of the recipe. ``own``:
    for each expert its own values of parameters; empty if none has any. ``rules``: indices of the
    recipe's rules that led to it.
    """

    method: str
    parameters: Mapping[str, ParameterValue]
    weights: tuple[float, ...]
    rules: tuple[int, ...]
    own: tuple[Mapping[str, ParameterValue], ...] = ()


@dataclass(frozen=True, kw_only=True)
class RowAfter:
    """The steps after the method for one matrix; the recipe's ``After``, resolved for it.

    ``scale``: the factor of its depth times the global one. ``cap``: δ of the cap; None: no cap.
    """

    rank: float = 1.0
    spectrum: float = 1.0
    scale: float = 1.0
    cap: float | None = None

    @property
    def reshapes(self) -> bool:
        """Whether the singular values change by more than a common factor."""
        return self.rank != 1 or self.spectrum != 1


NOTHING_AFTER: Final = RowAfter()


@dataclass(frozen=True, kw_only=True)
class MatrixPart:
    """One of several matrices that a stored tensor holds.

    Its flattened elements from ``start`` to ``stop`` consist of repetitions of length ``period``,
    and the matrix has elements ``first`` to ``last`` of every repetition. These are all elements if
    the matrix is contiguous, and a third of each row in GPT-2, which stores query, key and value
    side by side.
    """

    tensor: str
    """Name of the stored tensor."""
    tensor_shape: tuple[int, ...]
    """Shape of the stored tensor."""
    start: int
    """First element of the stored tensor that counts."""
    stop: int
    """The element after the last."""
    period: int
    """Length of a repetition, in elements."""
    first: int
    """Position in each repetition of the first element that counts."""
    last: int
    """The position after the last element that counts."""

    @property
    def elements(self) -> int:
        """The number of elements of the matrix."""
        return (self.stop - self.start) // self.period * (self.last - self.first)

    @property
    def in_one_piece(self) -> bool:
        """Whether its elements are contiguous in the tensor."""
        return self.last - self.first == self.period

    @property
    def fills_stretch(self) -> bool:
        """Whether it is the last of the parts that share elements ``start`` to ``stop``."""
        return self.last == self.period

    @property
    def ends_tensor(self) -> bool:
        """Whether it is the last part of its tensor."""
        return self.fills_stretch and self.stop == prod(self.tensor_shape)


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One tensor of the output, or of the experts' heads; or one of the matrices in a tensor."""

    name: str
    """The base's name, followed by "[query]" or "[7]" if the row is a ``part`` of the tensor. The
    parts of a tensor follow one another in stored order.
    """
    role: str
    """What the tensor does."""
    shape: tuple[int, ...]
    """The base's as stored, or the first owner's if the base lacks the tensor."""
    dtype: str
    """A safetensors tag, of the same tensor as ``shape``."""
    disposition: Disposition
    """What is done with it."""
    reason: str
    """Why, as a sentence."""
    in_base: bool = True
    """Whether the base has the tensor."""
    block: int | None = None
    """Its transformer block; None outside blocks."""
    transposed: bool = False
    """Whether it is stored as inputs × outputs, and merged as outputs × inputs."""
    tied_to: str | None = None
    """Name of the tensor whose storage it shares; None if it has its own."""
    experts: tuple[int, ...] = ()
    """Indices of the experts that have it."""
    override: RowOverride | None = None
    """Its own settings; None if the recipe's method, parameters and weights apply."""
    part: MatrixPart | None = None
    """Its place in the stored tensor; None for a whole tensor."""
    after: RowAfter = NOTHING_AFTER
    """The steps after the method."""
    written: str = ""
    """Its dtype tag in an output of the base's formats, if it is quantised there; empty: ``dtype``,
    in which it is read."""

    @property
    def tensor(self) -> str:
        """The base's name of the stored tensor."""
        if self.part is None:
            return self.name
        return self.part.tensor

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """Shape of the stored tensor."""
        if self.part is None:
            return self.shape
        return self.part.tensor_shape

    @property
    def is_merged(self) -> bool:
        """Whether a method merges it."""
        return self.disposition is Disposition.MERGED

    @property
    def is_combined(self) -> bool:
        """Whether the tensor of every expert is read for it: it is merged or averaged."""
        return self.disposition in COMBINED

    @property
    def ends_tensor(self) -> bool:
        """Whether the stored tensor is complete after this row."""
        return self.part is None or self.part.ends_tensor

    def output_dtype(self, dtype: str | None) -> str:
        """The dtype tag in an output of the recipe's dtype ``dtype`` (None: as in the base)."""
        if dtype is None and self.written:
            return self.written
        if dtype is None or self.disposition is Disposition.COPIED or not is_float(self.dtype):
            return self.dtype
        return RECIPE_TAGS[dtype]

    @property
    def store_dtype(self) -> str:
        """The dtype tag in a store that is exported later.

        It is wide enough to round values only once.
        """
        if self.dtype == "F64":
            return self.dtype
        return self.output_dtype("float32")


@dataclass(frozen=True, kw_only=True)
class ExpertSummary:
    """One line of the list of experts."""

    name: str
    """In the recipe."""
    path: str
    """As text."""
    bytes: int
    """Of its weights."""
    dtype: str
    """The most frequent, a safetensors tag."""
    architecture: str
    """For people."""
    warnings: tuple[str, ...] = ()
    """One sentence each."""
    folder: Path | None = None
    """What libraries load it from; None for a single file."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything known before any tensor is read."""

    recipe: Recipe
    """What was planned."""
    base: ExpertSummary
    """The base model."""
    experts: tuple[ExpertSummary, ...]
    """In the recipe's order."""
    rows: tuple[PlanRow, ...]
    """One per tensor, or per matrix in it, in the base's order."""
    parameters: Mapping[str, ParameterValue]
    """The method's parameters, all resolved."""
    parameter_notes: Mapping[str, str]
    """By name, the origin of a value that the recipe left open."""
    heterogeneity: bool
    """Whether the method separates tensors by γ."""
    warnings: tuple[str, ...] = ()
    """One sentence each."""
    checks: tuple[Check, ...] = ()
    """Worst first."""
    bytes_to_write: int = 0
    """Size of the output."""
    bytes_for_experts: int = 0
    """Size of heads and of what the method stores for each expert."""
    peak_bytes: int = 0
    """Estimated peak memory of the merge."""
    largest_tensor: str = ""
    """The tensor that determines it."""
    gpu_bytes: int = 0
    """Estimated peak memory of a GPU."""
    host_bytes_with_gpu: int = 0
    """Estimated peak memory of the machine if a GPU merges."""
    free_memory: int = 0
    """Of the machine at planning, in bytes."""

    @property
    def all_bytes_to_write(self) -> int:
        """Size of the output, with what belongs to each expert."""
        return self.bytes_to_write + self.bytes_for_experts

    def memory_check(self, memory_bytes: int | None, gpu_memory: int = 0) -> Check:
        """Whether memory suffices for a merge.

        ``memory_bytes``: memory limit, None: all free memory. ``gpu_memory``: bytes of the GPU
        used, 0 for the CPU.
        """
        enough = bool(gpu_memory) and gpu_memory >= self.gpu_bytes
        if enough:
            needed = self.host_bytes_with_gpu
        else:
            needed = self.peak_bytes
        free = self.free_memory
        state = "free"
        first = "Close other programs"
        if memory_bytes is not None:
            free = memory_bytes
            state = "allowed"
            first = "Allow more"
        what = f"About {human_bytes(needed)} for the largest tensor, `{self.largest_tensor}`"
        advice = f"{first}, or keep that tensor from the base."
        return _room(MEMORY, f"{what}; {human_bytes(free)} {state}.", needed, free, advice)

    @property
    def input_folders(self) -> tuple[Path, ...]:
        """The folders of the models, in which no output may lie; a single file has none."""
        folders = (model.folder for model in (self.base, *self.experts))
        return tuple(folder for folder in folders if folder is not None)

    def has_regimes(self, row: PlanRow) -> bool:
        """Whether the method of a row separates tensors by γ, with or without a threshold."""
        if row.override is None:
            return self.heterogeneity
        return "tau" in row.override.parameters

    def tau_of(self, row: PlanRow) -> float | None:
        """The threshold of γ for a row; None if its method or variant has none."""
        values = self._values_of(row)
        if values.get("variant") == AUTOMATIC:
            tau = None
        else:
            tau = values.get("tau")
        if tau is None:
            return None
        return float(tau)

    def delta_of(self, row: PlanRow) -> float | None:
        """δ of the narrowest cap on the change of a row; None if there is none."""
        values = self._values_of(row)
        if row.after.cap is None:
            caps = []
        else:
            caps = [row.after.cap]
        if values.get("variant") == AUTOMATIC and "delta" in values:
            caps.append(float(values["delta"]))
        return min(caps, default=None)

    def _values_of(self, row: PlanRow) -> Mapping[str, ParameterValue]:
        if row.override is None:
            return self.parameters
        return row.override.parameters


def bytes_in_output(rows: Iterable[PlanRow], dtype: str | None) -> int:
    """Size of the merged model's tensors in an output of this dtype (None: as in the base)."""
    return _bytes((row, row.output_dtype(dtype)) for row in rows if row.in_base)


def models_on_disk(plan: Plan, output: Output, *, complete_heads: bool) -> int:
    """How many whole models are on the disk while a merge is written in a form.

    ``complete_heads``: also a whole model for each expert with a head of its own.
    """
    if not output.traits.through_model:
        return 0
    models = 1 + output.traits.models_beside
    models += output.traits.models_per_expert * len(plan.experts)
    if complete_heads:
        heads = [row.experts for row in plan.rows if row.disposition is Disposition.PER_EXPERT]
        models += len(set().union(*heads))
    return models


def bytes_in_store(rows: Iterable[PlanRow]) -> int:
    """Size of the merged model's tensors in a store that is exported later."""
    return _bytes((row, row.store_dtype) for row in rows if row.in_base)


def _bytes(rows: Iterable[tuple[PlanRow, str]]) -> int:
    return sum(prod(row.shape) * FORMATS[dtype].bits // 8 for row, dtype in rows)


def role_family(role: str) -> str:
    """The one of ``ROLE_FAMILIES`` for a role ("query", "MLP up", "position embedding")."""
    if role in _ATTENTION:
        return "attention"
    if role.startswith("MLP"):
        return "MLP"
    if "embedding" in role or role == "vocabulary head":
        return "embedding"
    if role == "norm":
        return "norm"
    return "other"
