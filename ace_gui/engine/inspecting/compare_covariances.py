"""ACE's claim on one's own models: its data-free covariances beside the measured ones.

O outputs, I inputs, T experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import torch

from ace_gui.engine.calibrating.calibrate import measure
from ace_gui.engine.contract.covariance_match import CovarianceMatch, CovariancesCompared
from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.measured_rows import measured_of
from ace_gui.engine.merging.task_vectors import Readers, TaskVectors
from ace_gui.engine.planning.prepare import prepare
from ace_gui.linalg.agreement import cosine, leading_directions, overlap
from ace_gui.linalg.blocks import gram
from ace_gui.linalg.centring import centre_
from ace_gui.methods.shared.measured import Measured, Need, covariance
from ace_gui.recipe import Recipe

SHARE: Final = 8
"""Of so many directions, one counts as leading."""


def compare_covariances(
    recipe: Recipe, device: torch.device
) -> Iterator[PassProgress | CovariancesCompared]:
    """Measure the experts' inputs, then compare matrix by matrix, as ACE would merge them.

    A matrix through which nothing went in one of the experts is left out. Raises what ``prepare``
    and ``measure`` raise.
    """
    plain = replace(recipe, merge_method="ace", parameters={}, overrides=())
    prepared = prepare(plain)
    yield from (event for event in measure(prepared, Need.INPUTS, device) if event is not None)
    readers = Readers(prepared)
    rows = [
        row
        for row in prepared.plan.rows
        if row.disposition is Disposition.MERGED and row.experts and row.tied_to is None
    ]
    for place, row in enumerate(rows, 1):
        deltas = TaskVectors(row, readers, device)
        measured = measured_of(row, prepared, deltas, Need.INPUTS)
        matches = () if measured is None else _matches(row, deltas, measured)
        yield CovariancesCompared(matches=matches, done=place, total=len(rows))


def _matches(row: PlanRow, deltas: TaskVectors, measured: Measured) -> tuple[CovarianceMatch, ...]:
    found = []
    for t, name in enumerate(deltas.names):
        delta_OI = deltas[t].to(torch.float64)
        centre_(delta_OI)
        proxy_II = gram(delta_OI)
        if not float(proxy_II.diagonal().sum()):
            continue  # the expert does not change this matrix
        own_II = covariance(measured, t)
        k = max(1, len(own_II) // SHARE)
        others = [
            cosine(proxy_II, covariance(measured, other), centred=True)
            for other in range(len(deltas))
            if other != t
        ]
        found.append(
            CovarianceMatch(
                name=row.name,
                role=row.role,
                expert=name,
                cosine=cosine(proxy_II, own_II),
                centred=cosine(proxy_II, own_II, centred=True),
                others=sum(others) / len(others) if others else None,
                overlap=overlap(leading_directions(proxy_II, k), leading_directions(own_II, k)),
                chance=k / len(own_II),
            )
        )
    return tuple(found)
