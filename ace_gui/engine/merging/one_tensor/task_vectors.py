"""The task vectors of one tensor, read from disk each time they are requested.

T experts, N elements of a part of a tensor; a matrix is O outputs × I inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints import (
    ChangedInfo,
    ReadChecksums,
    TensorReader,
    non_finite_error,
    non_finite_values,
    runs,
    torch_dtype,
)
from ace_gui.engine.contract.plan import COMBINED, PlanRow
from ace_gui.engine.planning.matrix_parts import of_row
from ace_gui.engine.planning.models import OpenedModel, answering_name
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Part, parts_of
from ace_gui.errors import MethodError, NonFiniteError
from ace_gui.formatting import listing, plain
from ace_gui.linalg.passes import energy, is_finite
from ace_gui.methods.shared.on_demand import OnDemand
from ace_gui.methods.shared.tolerance import STRICT, Tolerance, of_experts, with_output


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


class ModelReader:
    """Reads tensors of a model under the names of the base, and checks that they are finite."""

    def __init__(
        self,
        model: OpenedModel,
        base: ModelReader | None = None,
        checksums: ReadChecksums | None = None,
    ) -> None:
        """Read from ``model``.

        ``base``: the reader that supplies token rows an expert lacks. ``checksums``: records what
        is read.
        """
        self.model = model
        self._base = base
        self.reader = TensorReader(model.checkpoint, checksums)

    def read(self, base_name: str, part: Part | None = None, *, checked: bool = True) -> Tensor:
        """The tensor as stored, or a part of it, flat.

        ``checked``: whether to check for NaN and Inf. Raises NonFiniteError, CheckpointError,
        FileChangedError or ResourceError.
        """
        own = self.model.own_names[base_name]
        if base_name in self.model.token_rows:
            tensor = self._read_by_token(base_name, part)
        else:
            tensor = self.reader.read(own) if part is None else self.reader.read_part(own, *part)
        if checked and not is_finite(tensor):
            raise self._error(own)
        return tensor

    def _read_by_token(self, base_name: str, part: Part | None) -> Tensor:
        """The rows of the base's tokens in the base's order.

        Tokens that this model lacks get the base's rows.
        """
        assert self._base is not None
        rows = self.model.token_rows[base_name]
        shape = self._base.model.shape(base_name)
        width, own = math.prod(shape[1:]), self.model.own_names[base_name]
        start, stop = part or (0, math.prod(shape))
        first, last = start // width, -(-stop // width)
        known = self._base.read(base_name, (first * width, last * width))
        for index, row, count in runs(rows[first:last]):
            read = self.reader.read_part(own, row * width, (row + count) * width)
            known = known.to(torch.promote_types(known.dtype, read.dtype))
            known[index * width : (index + count) * width] = read
        flat = known[start - first * width : stop - first * width]
        return flat.reshape(shape) if part is None else flat

    def non_finite(self, base_name: str) -> str:
        """Where the tensor has NaN or Inf ("3 NaN values (first at [0, 3])").

        Empty if it is finite.
        """
        return self._non_finite(self.model.own_names[base_name])

    def require_finite(self, name: str) -> None:
        """Raise NonFiniteError if a tensor, named as here or in the base, has NaN or Inf."""
        own = self.model.own_names.get(name, name)
        if self._non_finite(own):
            raise self._error(own)

    def _non_finite(self, own: str) -> str:
        shape = self.model.checkpoint.tensors[own].shape
        parts = (self.reader.read_part(own, *part) for part in parts_of(math.prod(shape)))
        try:
            return non_finite_values(parts, shape)
        except NonFiniteError as error:  # in a factor of an adapter
            return f"NaN or Inf in `{error.tensor}`"

    def _error(self, own: str) -> NonFiniteError:
        found = self._non_finite(own)
        return non_finite_error(found, own, self.model.name, self.model.checkpoint.path)

    def will_read(self, base_name: str) -> None:
        """Ask the operating system to read the tensor ahead."""
        self.reader.will_read(self.model.own_names[base_name])

    def change(self, base_name: str, part: Part | None = None) -> Tensor | None:
        """What an adapter adds to the tensor, float32, in stored orientation.

        None for a whole model.

        Computing it as a difference of sums would only add rounding errors.
        """
        model = self.model
        if model.checkpoint.adapter is None or base_name in model.token_rows:
            return None
        info = model.checkpoint.tensors[model.own_names[base_name]]
        if not isinstance(info, ChangedInfo) or info.brought:
            return None
        flat = info.delta(self.reader, *(part or (0, math.prod(info.shape))))
        return flat if part is not None else flat.reshape(info.shape)

    def dtype(self, base_name: str) -> torch.dtype:
        """The dtype of the tensor as stored; float32 for what an adapter adds."""
        stored = torch_dtype(self.model.checkpoint.tensors[self.model.own_names[base_name]].dtype)
        is_added = self.model.checkpoint.adapter is not None and stored != torch.float64
        return torch.float32 if is_added else stored


class Readers:
    """Readers of the base and of every expert of a plan. No file stays open between reads.

    ``checksums``: records everything that the readers read, if ``with_checksums``.
    """

    def __init__(self, prepared: Prepared, *, with_checksums: bool = True) -> None:
        self._files = prepared.files
        self.checksums = ReadChecksums()
        recording = self.checksums if with_checksums else None
        self.base = ModelReader(prepared.base, checksums=recording)
        self.experts = tuple(
            ModelReader(expert, self.base, recording) for expert in prepared.experts
        )

    def will_read(self, row: PlanRow) -> None:
        """Ask the operating system to read the tensors of a row ahead while another is merged."""
        self.base.will_read(row.tensor)
        if row.disposition in COMBINED:
            for t in row.experts:
                self.experts[t].will_read(answering_name(row, self.experts[t].model))

    def check_unchanged(self) -> None:
        """Raises FileChangedError if a file has changed since it was opened and read."""
        for model in (self.base, *self.experts):
            model.reader.check_unchanged()
        self.checksums.require_unchanged(self._files)


Stored = tuple[Tensor, bool]
"""The stored tensor of an expert, and whether it is ΔW_t already."""

Kept = dict[int, Stored]
"""By expert the stored elements of one tensor, or of a part of it. The base is under ``BASE``."""

BASE: Final = -1

CPU: Final = torch.device("cpu")

BLOCK: Final = 1 << 15
"""Elements per expert that are widened to float64 at a time; they fit into a CPU cache."""


class TaskVectors(OnDemand):
    """ΔW_t = W_t − W₀ of one tensor, for the experts that have it.

    They are float32, oriented outputs × inputs.

    Each index reads the expert again, so that at most one has to be in memory. ``base`` is W₀ in
    the same dtype and orientation; matrices stored as inputs × outputs are transposed if the plan
    says so. A float64 base makes everything float64. With a ``part``, all tensors are flat, or in
    rows of ``width`` elements. ``kept``: cache for the stored tensors, so that each is read once;
    None: no cache.
    """

    _checked = True

    def __init__(
        self,
        row: PlanRow,
        readers: Readers,
        device: torch.device,
        part: Part | None = None,
        width: int | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._row = row
        self._device = device
        self.part = part
        self._width = width
        self._kept = kept
        self._experts = tuple(readers.experts[t] for t in row.experts)
        self.names = tuple(expert.model.name for expert in self._experts)
        stored, _ = self._remembered(BASE, lambda: (self._stored(readers.base, row.tensor), False))
        # Integers never get here. Dtypes narrower than float32 are widened exactly.
        self._dtype = torch.float64 if stored.dtype == torch.float64 else torch.float32
        self.base = self._oriented(stored)

    def __len__(self) -> int:
        return len(self._experts)

    def restored(self, merged: Tensor, norm: Tensor) -> tuple[Tensor, float]:
        """A merged weight in its stored orientation in host memory, and a number."""
        return self._turn(merged).cpu(), float(norm)

    def read(self, index: int) -> Tensor:
        """ΔW_t of an expert."""
        stored, is_change = self._remembered(index, partial(self._fetched, index))
        own = self._oriented(stored)
        return own if is_change else own.sub_(self.base)

    def like(self, read: Callable[[Part | None], Tensor]) -> Tensor:
        """Bring another tensor with the row's stored layout into the form of the task vectors.

        ``read`` maps a part of the flattened tensor (None: all of it) to its elements.
        """
        return self._oriented(of_row(self._row, self.part, read).to(self._device))

    def require_finite(self) -> None:
        """No-op: every tensor is checked when it is read."""

    def _remembered(self, index: int, fetch: Callable[[], Stored]) -> Stored:
        if self._kept is None:
            return fetch()
        if index not in self._kept:
            self._kept[index] = fetch()
        return self._kept[index]

    def _fetched(self, index: int) -> Stored:
        """The stored tensor of an expert on the device, and whether it is ΔW_t already."""
        expert = self._experts[index]
        name = answering_name(self._row, expert.model)
        change = of_row(self._row, self.part, partial(expert.change, name))
        if change is not None:
            return self._uploaded(expert, name, change), True
        return self._stored(expert, name), False

    def _stored(self, model: ModelReader, name: str) -> Tensor:
        """The stored tensor of a model on the device."""
        read = partial(model.read, name, checked=self._checked)
        return self._uploaded(model, name, of_row(self._row, self.part, read))

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
        found = of_experts(dtypes, weights, norm)
        return found if output is None else with_output(found, output, norm)

    def _norm_of_base(self) -> float:
        return float(torch.linalg.vector_norm(self.base))

    def _uploaded(self, _model: ModelReader, _name: str, stored: Tensor) -> Tensor:
        return stored.to(self._device)

    def _oriented(self, moved: Tensor) -> Tensor:
        """The tensor in the working dtype; it may be overwritten."""
        ours = self._turn(moved.to(self._dtype, copy=self._kept is not None))
        if self.part is None or self._width is None or not ours.numel():
            return ours
        return ours.reshape(-1, self._width)

    def _turn(self, matrix: Tensor) -> Tensor:
        """Convert between stored and working orientation, contiguous."""
        turned = self._row.transposed and self.part is None
        return (matrix.T if turned else matrix).contiguous()


class GpuVectors(TaskVectors):
    """Like ``TaskVectors``, but nothing waits for the GPU until there is a result.

    ``keep``: every tensor stays on the GPU in its stored dtype, so that it is read and uploaded
    once. NaN and Inf are detected on the GPU; ``restored`` and ``require_finite`` raise the error.
    """

    _checked = False

    def __init__(self, row: PlanRow, readers: Readers, device: torch.device, *, keep: bool) -> None:
        self._finite: list[Tensor] = []
        self._norm: float | None = None
        self._uploads: list[tuple[ModelReader, str]] = []
        super().__init__(row, readers, device, kept={} if keep else None)

    def restored(self, merged: Tensor, norm: Tensor) -> tuple[Tensor, float]:
        """A merged weight in its stored orientation in host memory, and a number.

        Raises NonFiniteError if an input has NaN or Inf.
        """
        stored = self._turn(merged)
        values = torch.empty(stored.shape, dtype=stored.dtype, pin_memory=True)
        values.copy_(stored, non_blocking=True)
        # Waiting for the last operation of a stream waits for all of them.
        finite, found = torch.stack([self._all_finite().double(), norm.double()]).tolist()
        if not finite:
            self._raise_non_finite()
        return values, found

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
    count, base_energy = len(row.experts), 0.0
    gram_TT = torch.zeros(count, count, dtype=torch.float64)
    block_TN = torch.empty(count, BLOCK, dtype=torch.float64)
    for part in parts or parts_of(math.prod(row.shape)):
        deltas = TaskVectors(row, readers, CPU, part)
        base_energy += energy(deltas.base)
        part_TN = torch.stack(list(deltas))
        for some_TN in torch.split(part_TN, BLOCK, dim=1):
            wide_TN = block_TN[:, : some_TN.shape[1]].copy_(some_TN)
            gram_TT.addmm_(wide_TN, wide_TN.T)
    return gram_TT.numpy(), base_energy
