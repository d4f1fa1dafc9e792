"""What happens to one tensor: read, merge, round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ace_gui.engine.events import LayerReport, Regime
from ace_gui.engine.plan import Disposition, PlanRow
from ace_gui.engine.planning import Prepared
from ace_gui.engine.task_vectors import Readers, TaskVectors
from ace_gui.errors import OutputError
from ace_gui.methods import get_method
from ace_gui.methods.base import Merged


@dataclass(frozen=True, kw_only=True)
class MergedTensor:
    """A tensor of the output, as stored by the base but not yet rounded, and what was done."""

    tensor: Tensor
    report: LayerReport


def merge_tensor(
    row: PlanRow, prepared: Prepared, readers: Readers, device: torch.device
) -> MergedTensor:
    """Carry out one row of the plan.

    Raises NonFiniteError, CheckpointError, FileChangedError or MethodError.
    """
    if row.disposition not in {Disposition.MERGED, Disposition.AVERAGED}:
        return MergedTensor(tensor=readers.base.read(row.name), report=LayerReport(name=row.name))
    deltas = TaskVectors(row, readers, device)
    merged = merge_deltas(row, prepared, deltas)
    norm = float(torch.linalg.vector_norm(merged.delta))
    weight = deltas.base + merged.delta.to(deltas.base.dtype)
    return MergedTensor(
        tensor=deltas.restored(weight), report=report_of(row, deltas.names, merged, norm)
    )


def merge_deltas(
    row: PlanRow, prepared: Prepared, deltas: TaskVectors, *, keep_preliminary: bool = False
) -> Merged:
    """The merged task vector of one tensor: the recipe's method, or the mean."""
    weights = tuple(prepared.plan.recipe.weights[t] for t in row.experts)
    if row.disposition == Disposition.AVERAGED:
        mean: Any = get_method("linear")
        return mean.merge(deltas, weights, mean.parameters())  # type: ignore[no-any-return]
    merged: Merged = prepared.method.merge(
        deltas, weights, prepared.parameters, keep_preliminary=keep_preliminary
    )
    return merged


def report_of(
    row: PlanRow, names: tuple[str, ...], merged: Merged, norm: float | None
) -> LayerReport:
    """The diagnostics of a method as a plain value, with the experts' names."""
    found = merged.diagnostics
    regime = None
    if found.heterogeneous is not None:
        regime = Regime.HETEROGENEOUS if found.heterogeneous else Regime.HOMOGENEOUS
    return LayerReport(
        name=row.name,
        gamma=found.gamma,
        regime=regime,
        ridge_mass=found.ridge_mass,
        energies=dict(zip(names, found.energies, strict=True)) if found.energies else None,
        delta_norm=norm,
        notes=found.notes,
    )


def rounded(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """The tensor in the output's dtype, rounded once.

    Raises OutputError where finite values leave the range of the dtype.
    """
    if not tensor.is_floating_point() or tensor.dtype == dtype:
        return tensor
    result = tensor.to(dtype)
    if result.numel() and not bool(torch.isfinite(result).all()):
        lost = int((~torch.isfinite(result)).sum())
        plain = str(dtype).removeprefix("torch.")
        raise OutputError(
            f"{lost} values of `{name}` do not fit into {plain}; choose bfloat16 or float32.",
            tensor=name,
        )
    return result
