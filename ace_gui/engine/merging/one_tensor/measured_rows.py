"""What was measured with the experts' data for one tensor, read when it is needed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Final

import torch
from torch import Tensor

from ace_gui.engine.calibrating.grams import CENTRE
from ace_gui.engine.calibrating.statistics_folder import Statistics
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import TaskVectors
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import MethodError
from ace_gui.methods.method import Merged
from ace_gui.methods.shared.measured import Measured, Need
from ace_gui.methods.shared.on_demand import Computed

UNSEEN: Final = (
    "Averaged: with the calibration data nothing went through this tensor in at least one expert."
)


def need_of(row: PlanRow, prepared: Prepared) -> Need | None:
    """Which measurements the method of the row needs."""
    return prepared.method_of(row).need(prepared.parameters_of(row))


def measured_of(
    row: PlanRow, prepared: Prepared, deltas: TaskVectors, need: Need
) -> Measured | None:
    """The measurements of a row by expert. None for an expert without data there.

    Raises MethodError if nothing was measured at all.
    """
    known = prepared.measurements.get(need)
    if known is None:
        raise MethodError("The experts' data have not been measured yet; merge the whole recipe.")
    if need.learned:
        return _learned(row, deltas, *known)
    key = row.tied_to or row.tensor
    if need is Need.INPUTS and row.part is not None and len(row.tensor_shape) == 3:
        key = f"{key}[{row.part.start // prod(row.tensor_shape[1:])}]"
    pairs = [(known[t], known[t].stored(key)) for t in row.experts]
    found = [(statistics, stored) for statistics, stored in pairs if stored is not None]
    if len(found) < len(pairs):
        return None
    device = deltas.base.device

    def gradients(t: int) -> Tensor:
        statistics, stored = found[t]
        return deltas.like(
            lambda part: (
                statistics.read(stored) if part is None else statistics.read_part(stored, *part)
            )
        )

    def inputs(t: int, suffix: str = "") -> Tensor:
        statistics, stored = found[t]
        return statistics.read(stored + suffix).to(device)

    by_entries = need is Need.GRADIENTS
    manifests = [statistics.manifest for statistics, _ in found]
    return Measured(
        each=Computed(len(found), gradients if by_entries else inputs),
        centres=Computed(0 if by_entries else len(found), partial(inputs, suffix=CENTRE)),
        norms=tuple(manifest.norm for manifest in manifests),
        means=tuple(manifest.mean for manifest in manifests),
    )


def _learned(row: PlanRow, deltas: TaskVectors, statistics: Statistics) -> Measured | None:
    """What was learned for a row and for the whole model, for the experts that have it."""
    each: dict[str, list[Tensor]] = {}
    device, own = deltas.base.device, _by_row(statistics)
    for stored, name in own.get(row.tied_to or row.name, ()):
        each.setdefault(name, []).append(statistics.read(stored).to(device))
    for stored, name in own.get("", ()):
        each[name] = [statistics.read(stored).to(device)[list(row.experts)]]
    values = {name: torch.cat(found) for name, found in each.items()}
    return Measured(values=values, experts=len(row.experts)) if values else None


@lru_cache(maxsize=4)
def _by_row(statistics: Statistics) -> dict[str, list[tuple[str, str]]]:
    """The stored values by row ("" for the whole model), in the order of the experts.

    Each value comes with its name.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for stored in sorted(statistics.manifest.rows, key=lambda each: int(each.rsplit("/", 1)[1])):
        row, name, _ = stored.rsplit("/", 2)
        found.setdefault(row, []).append((stored, name))
    return found


def averaged(merged: Merged) -> Merged:
    """A plain mean instead of the method's result, with a note on the reason."""
    found = merged.diagnostics
    return replace(merged, diagnostics=replace(found, notes=(*found.notes, UNSEEN)))
