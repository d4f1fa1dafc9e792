"""What runs in a worker's process: it opens the models itself, and merges the units it is given."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ace_gui.engine.calibrating.statistics_folder import Statistics
from ace_gui.engine.devices import resolve_device, use_threads
from ace_gui.engine.merging.gpu_memory import rooms_of
from ace_gui.engine.merging.how_read import how_read
from ace_gui.engine.merging.task_vectors import Readers
from ace_gui.engine.merging.units import UnitMerged, merge_unit
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import ClusterError, WorkbenchError
from ace_gui.linalg.split import choose
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings
from ace_gui.offline import go_offline
from ace_gui.recipe import Recipe
from ace_gui.versions import COMPUTING, code_digest, library_versions


@dataclass(frozen=True, kw_only=True)
class Kind:
    """On what a worker's last digits depend. ``processor``: of its machine; ``node``: its name."""

    node: str
    processor: str
    device: str
    libraries: Mapping[str, str]
    code: str

    @classmethod
    def here(cls, device: str) -> Kind:
        """Of this process; ``device``: on what it computes."""
        where = resolve_device(device)
        gpu = torch.cuda.get_device_name(where) if where.type == "cuda" else ""
        vectors = torch.backends.cpu.get_cpu_capability()
        return cls(
            node=platform.node(),
            processor=f"{platform.machine()} {vectors}",
            device=gpu or "cpu",
            libraries=dict(library_versions()),
            code=code_digest(*COMPUTING),
        )


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker must know of a merge. ``headers``: what ``how_read`` must find on its machine.

    ``dtypes``: of the output's tensors; ``findings``: what methods know of the whole model, by the
    name of a method and its parameters; ``measured``: folders of what was measured with data.
    """

    recipe: Recipe
    headers: str
    dtypes: Mapping[str, str]
    findings: Sequence[tuple[str, object, Findings]]
    measured: Mapping[Need, Sequence[Path]]
    device: str
    threads: int


class Worker:
    """Prepares the recipe once, then merges unit after unit.

    Errors that are ours are returned and not raised, as they are.
    """

    def __init__(self, order: Order) -> None:
        go_offline()
        use_threads(order.threads)
        self._order = order
        self._rooms = rooms_of(resolve_device(order.device))
        self._failed: WorkbenchError | None = None
        try:
            self._prepare()
        except WorkbenchError as error:
            self._failed = error

    def _prepare(self) -> None:
        self._prepared = prepare(self._order.recipe)
        if how_read(self._prepared) != self._order.headers:
            raise ClusterError(
                f"The models on {platform.node()} are not those on the machine that merges; give "
                "all machines the same files under the same paths."
            )
        for method, parameters, found in self._order.findings:
            self._prepared.findings[method, parameters] = found
        for need, folders in self._order.measured.items():
            self._prepared.measurements[need] = tuple(map(Statistics, folders))
        choose(self._rooms.device, False)  # float64 everywhere, however fast a worker is in it
        self._readers = Readers(self._prepared)
        self._rows = {row.name: row for row in self._prepared.plan.rows}

    def kind(self) -> Kind | WorkbenchError:
        """On what its results depend; or why it cannot work."""
        return self._failed or Kind.here(self._order.device)

    def merge(self, names: Sequence[str]) -> UnitMerged | WorkbenchError:
        """Merge the rows of these names."""
        unit = tuple(self._rows[name] for name in names)
        try:
            return merge_unit(unit, self._prepared, self._readers, self._rooms, self._order.dtypes)
        except WorkbenchError as error:
            return error
