"""Task vectors on a GPU: uploaded once if memory suffices, and checked for NaN and Inf there."""

from __future__ import annotations

import torch
from torch import Tensor

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import ModelReader, Readers, TaskVectors


class GpuVectors(TaskVectors):
    """Like ``TaskVectors``, but nothing waits for the GPU until there is a result.

    ``keep``: every tensor stays on the GPU in its stored dtype, so that it is read and uploaded
    once. NaN and Inf are detected on the GPU; ``restored`` and ``require_finite`` raise the error.
    """

    _checked = False

    def __init__(self, row: PlanRow, readers: Readers, device: torch.device, *, keep: bool) -> None:
        self._finite: list[Tensor] = []
        self._norm: float | None = None
        self._read: list[tuple[ModelReader, str]] = []
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
        for model, name in self._read:
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
            self._read.append((model, name))
        return moved
