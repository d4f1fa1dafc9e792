"""The operations of a merge on the workers of a Ray cluster: units, and surveys of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

from ace_gui.engine.cluster.estimates import largest_first, unit_bytes
from ace_gui.engine.cluster.pool import Call, Cluster, Pool
from ace_gui.engine.cluster.worker import Order
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.merge_manifest import layout_digest
from ace_gui.engine.merging.units import Scan, Scanned, SharedOutput, Unit, UnitMerged
from ace_gui.engine.planning.prepared import Prepared

LOOKED: Final = 1 << 24
"""Elements of the tensors whose findings a worker reports at a time."""

WRITTEN: Final = "The workers reach the output folder: they have written it themselves."
SENT: Final = "The workers do not reach the output folder: they have sent what it got."
MIXED: Final = (
    "The workers' processors or GPUs are not all of one kind: a merge by others may differ in the "
    "last digits."
)


class RayWorkers(Pool):
    """``Workers`` of a cluster.

    ``scan_seconds``: total seconds that they have spent on surveys.
    """

    def __init__(self, cluster: Cluster, threads: int, device: str) -> None:
        super().__init__(cluster, threads, device)
        self.scan_seconds = 0.0
        self._written: set[bool] = set()

    @property
    def notes(self) -> tuple[str, ...]:
        """Which workers have written, how many were lost, and whether they differ."""
        found = [WRITTEN if True in self._written else SENT]
        if self.lost:
            found.append(f"Lost workers that were replaced: {self.lost}.")
        return (*found, MIXED) if self.mixed else tuple(found)

    def begin(self, prepared: Prepared) -> None:
        """Have the workers open the models."""
        self.broadcast(
            "prepare",
            Order(
                recipe=prepared.plan.recipe.absolute(),
                headers=layout_digest(prepared),
                measured={
                    need: [each.folder for each in own]
                    for need, own in prepared.measurements.items()
                },
            ),
        )

    def map_unordered(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        about: Sequence[str],
    ) -> Iterator[tuple[int, Any] | None]:
        """Yield a function's result for each of several arguments, with its index, as it comes."""
        calls = [
            Call(name="run", arguments=(function, given), about=word)
            for given, word in zip(arguments, about, strict=True)
        ]
        return self.results(calls, ahead=1)

    def scanned(self, scan: Scan, rows: Sequence[PlanRow]) -> Iterator[Scanned | None]:
        """The results of ``scan`` for each row, in order."""
        self.broadcast("seek", scan)
        calls = [
            Call(name="scan", arguments=([row.name for row in pack],), about=pack[0].name)
            for pack in _packs(rows)
        ]
        arrived: dict[int, Scanned] = {}
        following = 0
        for result in self.results(calls):
            if result is None:
                yield None
                continue
            arrived[result[0]] = result[1]
            self.scan_seconds += result[1].seconds
            while following in arrived:
                yield arrived.pop(following)
                following += 1

    def merged(
        self,
        units: Sequence[Unit],
        prepared: Prepared,
        dtypes: Mapping[str, str],
        shared: SharedOutput | None,
    ) -> Iterator[UnitMerged | None]:
        """The merged units as they finish, most work first. Raises the errors of ``Workers``."""
        found = [(*key, findings) for key, findings in prepared.findings.items()]
        self.broadcast("know", found, dict(dtypes), shared)
        calls = [
            Call(
                name="merge",
                arguments=([row.name for row in unit],),
                about=unit[0].name,
                memory=unit_bytes(unit, prepared),
            )
            for unit in largest_first(units, prepared)
        ]
        for result in self.results(calls):
            if result is not None:
                self._written.update(row.written is not None for row in result[1].rows)
            yield None if result is None else result[1]


def _packs(rows: Sequence[PlanRow]) -> list[list[PlanRow]]:
    """Rows that are surveyed in one call, in order."""
    packs: list[list[PlanRow]] = []
    entries = LOOKED
    for row in rows:
        entries += prod(row.shape)
        if entries > LOOKED:
            packs.append([])
            entries = prod(row.shape)
        packs[-1].append(row)
    return packs
