"""The task vectors and measurements of one tensor, read when they are requested.

T experts, N elements of a part of a tensor; a matrix is O outputs × I inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.derived import read_factor
from ace_gui.engine.calibrating.model_parameters import CENTRE
from ace_gui.engine.calibrating.statistics_folder import Statistics
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.readers import ModelReader, Readers
from ace_gui.engine.planning.adapter_plan import low_rank_changes
from ace_gui.engine.planning.low_rank_rows import coordinates_of
from ace_gui.engine.planning.models import answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Part, of_row, parts_of
from ace_gui.errors import MethodError
from ace_gui.formatting import listing, plain
from ace_gui.linalg.passes import energy
from ace_gui.methods.shared.experts import Computed, Merged, OnDemand
from ace_gui.methods.shared.low_rank import ThinFactors
from ace_gui.methods.shared.measured import Measured, Need
from ace_gui.methods.shared.tolerance import STRICT, Tolerance, tolerance_of_experts, with_output


@contextmanager
def merging_of(tensor: str, experts: Sequence[str]) -> Iterator[None]:
    """Add the names of the tensor and of the experts, in order, to a MethodError of the block."""
    try:
        yield
    except MethodError as error:
        if error.tensor is None:
            error.tensor = tensor
            error.sentence = f"`{plain(tensor)}` of {listing(experts)}: {error.sentence}"
        raise


class StoredTensor(NamedTuple):
    """A tensor of a model on the device, in its stored dtype and orientation."""

    tensor: Tensor
    is_change: bool
    """Whether it is ΔW_t already, as of an adapter."""


StoredByExpert = dict[int, StoredTensor]
"""By expert the stored elements of one tensor, or of a part of it. The base is under ``BASE``."""

BASE: Final = -1
"""The base in place of an expert's index."""

CPU: Final = torch.device("cpu")

BLOCK: Final = 1 << 15
"""Elements per expert that are widened to float64 at a time; they fit into a CPU cache."""


class TaskVectors(OnDemand):
    """ΔW_t = W_t − W₀ of one tensor, for the experts that have it.

    They are float32, oriented outputs × inputs. Each index reads the expert again, so that at most
    one has to be in memory. ``base`` is W₀ in the same dtype and orientation; matrices stored as
    inputs × outputs are transposed if the plan says so. A float64 base makes everything float64.
    With a ``part``, all tensors are flat, or in rows of ``width`` elements. ``cache``: for the
    stored tensors, so that each is read once; None: no cache. ``checked``: whether NonFiniteError
    is raised for NaN and Inf.
    """

    def __init__(
        self,
        row: PlanRow,
        readers: Readers,
        device: torch.device,
        part: Part | None = None,
        width: int | None = None,
        cache: StoredByExpert | None = None,
        *,
        checked: bool = True,
    ) -> None:
        self._row = row
        self._readers = readers
        self._checked = checked
        self._device = device
        self.part = part
        self._width = width
        self._cache = cache
        self._experts = tuple(readers.experts[t] for t in row.experts)
        self.names = tuple(expert.model.name for expert in self._experts)
        stored = self._cached(BASE, partial(self._stored, readers.base, row.tensor)).tensor
        # Integers never get here. Dtypes narrower than float32 are widened exactly.
        if stored.dtype == torch.float64:
            self._dtype = torch.float64
        else:
            self._dtype = torch.float32
        self.base = self._oriented(stored)

    def __len__(self) -> int:
        return len(self._experts)

    def restored(self, merged: Tensor, norm: Tensor) -> tuple[Tensor, float]:
        """A merged weight in its stored orientation in host memory, and a number."""
        return self._turn(merged).contiguous().cpu(), float(norm)

    def read(self, index: int) -> Tensor:
        """ΔW_t of an expert."""
        stored, is_change = self._cached(index, partial(self._fetched, index))
        if is_change:
            return self._oriented(stored)
        value = self._formed(stored.to(self._dtype))
        is_cached = self._cache is not None and stored.dtype == self._dtype
        if is_cached:
            return value - self.base
        return value.sub_(self.base)

    def low_rank(self) -> list[ThinFactors] | None:
        """Every task vector as a product of an adapter's factors, oriented outputs × inputs.

        None if the row is not merged in coordinates, if it is float64, or on a GPU, where whole
        matrices are fast. Raises NonFiniteError.
        """
        on_processor = self._device == CPU and self._dtype == torch.float32
        if not on_processor or coordinates_of(self._row, self._readers.prepared) is None:
            return None
        outputs, inputs = self.base.shape
        without_change = ThinFactors(torch.zeros(outputs, 0), torch.zeros(0, inputs))
        factors = dict.fromkeys(self._row.experts, without_change)
        for t, change in low_rank_changes(self._readers.prepared, self._row) or ():
            reader = self._readers.experts[t].reader
            left_OR, right_RI = change.factors(partial(read_factor, reader))
            if change.turned != self._row.transposed:
                left_OR, right_RI = right_RI.T, left_OR.T
            factors[t] = ThinFactors(left_OR * change.scale, right_RI)
        return list(factors.values())

    def like(self, read: Callable[[Part | None], Tensor]) -> Tensor:
        """Bring another tensor with the row's stored layout into the form of the task vectors.

        ``read`` maps a part of the flattened tensor (None: all of it) to its elements.
        """
        return self._oriented(of_row(self._row, self.part, read).to(self._device))

    def require_finite(self) -> None:
        """No-op: every tensor is checked when it is read."""

    def _cached(self, index: int, fetch: Callable[[], StoredTensor]) -> StoredTensor:
        """What ``fetch`` gives, cached if there is a cache. ``index``: of the expert, or BASE."""
        if self._cache is None:
            return fetch()
        if index not in self._cache:
            self._cache[index] = fetch()
        return self._cache[index]

    def _fetched(self, index: int) -> StoredTensor:
        """The tensor of an expert, or what its adapter adds."""
        expert = self._experts[index]
        name = answering_name(self._row, expert.model)
        change = of_row(self._row, self.part, partial(expert.change, name))
        if change is not None:
            return StoredTensor(self._uploaded(expert, name, change), is_change=True)
        return self._stored(expert, name)

    def _stored(self, model: ModelReader, name: str) -> StoredTensor:
        """The tensor of a whole model."""
        read = partial(model.read, name, checked=self._checked)
        stored = of_row(self._row, self.part, read)
        return StoredTensor(self._uploaded(model, name, stored), is_change=False)

    def tolerance(self, weights: Sequence[float], output: torch.dtype | None) -> Tolerance:
        """The accuracy that the merged tensor needs.

        ``output``: dtype in which it will be stored, if known.
        """
        if self._dtype == torch.float64:
            return STRICT
        norm = self._norm_of_base()
        if not math.isfinite(norm):
            return STRICT
        dtypes = [expert.dtype(answering_name(self._row, expert.model)) for expert in self._experts]
        tolerance = tolerance_of_experts(dtypes, weights, norm)
        if output is None:
            return tolerance
        return with_output(tolerance, output, norm)

    def _norm_of_base(self) -> float:
        return float(torch.linalg.vector_norm(self.base))

    def _uploaded(self, _model: ModelReader, _name: str, stored: Tensor) -> Tensor:
        return stored.to(self._device)

    def _oriented(self, moved: Tensor) -> Tensor:
        """The tensor in the working dtype; it may be overwritten."""
        return self._formed(moved.to(self._dtype, copy=self._cache is not None))

    def _formed(self, moved: Tensor) -> Tensor:
        """The tensor by outputs × inputs, or a part of it in its rows; the memory is the same."""
        ours = self._turn(moved)
        if self.part is None or self._width is None or not ours.numel():
            return ours
        return ours.reshape(-1, self._width)

    def _turn(self, matrix: Tensor) -> Tensor:
        """Convert between stored and working orientation, as a view: products read either."""
        if self._row.transposed and self.part is None:
            return matrix.T
        return matrix


class GpuVectors(TaskVectors):
    """Like ``TaskVectors``, but nothing waits for the GPU until there is a result.

    ``keep``: every tensor stays on the GPU in its stored dtype, so that it is read and uploaded
    once. NaN and Inf are detected on the GPU; ``restored`` and ``require_finite`` raise the error.
    """

    def __init__(self, row: PlanRow, readers: Readers, device: torch.device, *, keep: bool) -> None:
        self._finite: list[Tensor] = []
        """For each upload, whether it is finite (a truth value on the GPU)."""
        self._norm: float | None = None
        """Norm of the base; None before it is uploaded."""
        self._uploads: list[tuple[ModelReader, str]] = []
        """The models and names of the uploaded tensors."""
        cache: StoredByExpert | None = None
        if keep:
            cache = {}
        super().__init__(row, readers, device, cache=cache, checked=False)

    def restored(self, merged: Tensor, norm: Tensor) -> tuple[Tensor, float]:
        """A merged weight in its stored orientation in host memory, and a number.

        Raises NonFiniteError if an input has NaN or Inf.
        """
        stored = self._turn(merged).contiguous()
        values = torch.empty(stored.shape, dtype=stored.dtype, pin_memory=True)
        values.copy_(stored, non_blocking=True)
        # Waiting for the last operation of a stream waits for all of them.
        finite, norm_value = torch.stack([self._all_finite().double(), norm.double()]).tolist()
        if not finite:
            self._raise_non_finite()
        return values, norm_value

    def require_finite(self) -> None:
        """Raise NonFiniteError if an input has NaN or Inf."""
        if not bool(self._all_finite()):
            self._raise_non_finite()

    def _all_finite(self) -> Tensor:
        return torch.stack([self.base.new_ones((), dtype=torch.bool), *self._finite]).all()

    def _raise_non_finite(self) -> None:
        for model, name in self._uploads:
            model.require_finite(name)

    def _norm_of_base(self) -> float:
        assert self._norm is not None
        return self._norm

    def _uploaded(self, model: ModelReader, name: str, stored: Tensor) -> Tensor:
        """Upload in the stored dtype, from pinned memory, so that copying overlaps computing."""
        if self._norm is None:  # the base comes first, before any work on the GPU
            self._norm = float(torch.linalg.vector_norm(stored, dtype=torch.float32))
        moved = stored.pin_memory().to(self._device, non_blocking=True)
        if moved.is_floating_point() and moved.numel():
            low, high = torch.aminmax(moved)
            self._finite.append(torch.isfinite(low) & torch.isfinite(high))
            self._uploads.append((model, name))
        return moved


def gram(
    row: PlanRow, readers: Readers, parts: Iterable[Part] | None = None
) -> tuple[NDArray[np.float64], float]:
    """⟨ΔW_a, ΔW_b⟩ for all pairs of the row's experts (T × T), and ‖W₀‖²_F, in float64.

    Computed in parts, so that at most one part of every expert is in memory. ``parts``: restrict to
    these.
    """
    count = len(row.experts)
    base_energy = 0.0
    gram_TT = torch.zeros(count, count, dtype=torch.float64)
    block_TN = torch.empty(count, BLOCK, dtype=torch.float64)
    for part in parts or parts_of(math.prod(row.shape)):
        deltas = TaskVectors(row, readers, CPU, part)
        base_energy += energy(deltas.base)
        part_TN = torch.stack(list(deltas))
        for narrow_TN in torch.split(part_TN, BLOCK, dim=1):
            wide_TN = block_TN[:, : narrow_TN.shape[1]].copy_(narrow_TN)
            gram_TT.addmm_(wide_TN, wide_TN.T)
    return gram_TT.numpy(), base_energy


UNSEEN: Final = (
    "Averaged: with the calibration data nothing went through this tensor in at least one expert."
)


def measured_of(
    row: PlanRow, prepared: Prepared, deltas: TaskVectors, need: Need
) -> Measured | None:
    """The measurements of a row by expert. None for an expert without data there.

    Raises MethodError if nothing was measured at all.
    """
    statistics_T = prepared.groundwork.statistics.get(need)
    if statistics_T is None:
        raise MethodError("The experts' data have not been measured yet; merge the whole recipe.")
    if need.learned:
        return _learned(row, deltas, *statistics_T)
    key = _statistics_key(row, need)
    measurements: list[tuple[Statistics, str]] = []  # with the name of the tensor in them
    for t in row.experts:
        name = statistics_T[t].stored(key)
        if name is None:
            return None
        measurements.append((statistics_T[t], name))
    count = len(measurements)

    def gradients(t: int) -> Tensor:
        statistics, name = measurements[t]

        def read(part: Part | None) -> Tensor:
            if part is None:
                return statistics.read(name)
            return statistics.read_part(name, *part)

        return deltas.like(read)

    def inputs(t: int, suffix: str = "") -> Tensor:
        statistics, name = measurements[t]
        return statistics.read(name + suffix).to(deltas.base.device)

    norms = tuple(statistics.manifest.norm for statistics, _ in measurements)
    means = tuple(statistics.manifest.mean for statistics, _ in measurements)
    if need is Need.GRADIENTS:
        return Measured(by_expert=Computed(count, gradients), norms=norms, means=means)
    return Measured(
        by_expert=Computed(count, inputs),
        centres=Computed(count, partial(inputs, suffix=CENTRE)),
        norms=norms,
        means=means,
    )


def _statistics_key(row: PlanRow, need: Need) -> str:
    """The name of a row in the statistics; the matrices of a stack are numbered."""
    key = row.tied_to or row.tensor
    if need is Need.INPUTS and row.part is not None and len(row.tensor_shape) == 3:
        return f"{key}[{row.part.start // prod(row.tensor_shape[1:])}]"
    return key


def _learned(row: PlanRow, deltas: TaskVectors, statistics: Statistics) -> Measured | None:
    """The learned values of a row and of the whole model, for the experts that have the row."""
    tensors: dict[str, list[Tensor]] = {}
    device = deltas.base.device
    names_by_row = _by_row(statistics)
    for stored, name in names_by_row.get(row.tied_to or row.name, ()):
        tensors.setdefault(name, []).append(statistics.read(stored).to(device))
    for stored, name in names_by_row.get("", ()):
        tensors[name] = [statistics.read(stored).to(device)[list(row.experts)]]
    values = {name: torch.cat(pieces) for name, pieces in tensors.items()}
    if values:
        return Measured(values=values, expert_count=len(row.experts))
    return None


@lru_cache(maxsize=4)
def _by_row(statistics: Statistics) -> dict[str, list[tuple[str, str]]]:
    """The stored values by row ("" for the whole model), in the order of the experts.

    Each value comes with its name.
    """
    by_row: dict[str, list[tuple[str, str]]] = {}

    def stage(stored: str) -> int:
        return int(stored.rsplit("/", 1)[1])

    for stored in sorted(statistics.manifest.rows, key=stage):
        row, name, _ = stored.rsplit("/", 2)
        by_row.setdefault(row, []).append((stored, name))
    return by_row


def averaged(merged: Merged) -> Merged:
    """A plain mean instead of the method's result, with a note on the reason."""
    diagnostics = merged.diagnostics
    return replace(merged, diagnostics=replace(diagnostics, notes=(*diagnostics.notes, UNSEEN)))
