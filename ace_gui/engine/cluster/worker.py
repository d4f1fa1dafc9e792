"""Code in a worker's process: it opens the models itself, and runs the calls it gets."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import torch

from ace_gui.engine.calibrating.statistics_folder import Statistics
from ace_gui.engine.capabilities import resolve_device, use_threads
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.memory_budgets import MemoryBudgets, budgets_of
from ace_gui.engine.merging.merge_manifest import layout_digest
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.units import (
    Scan,
    Scanned,
    SharedOutput,
    Unit,
    UnitMerged,
    merge_unit,
    scan_rows,
)
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import ClusterError, WorkbenchError, is_out_of_memory
from ace_gui.linalg.products import product_library
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings
from ace_gui.processes import go_offline
from ace_gui.recipe import Recipe
from ace_gui.versions import COMPUTING, code_digest, library_versions

WORKER_TITLE: Final = "ray::Worker"
"""Title of the process of a ``Worker``."""


@dataclass(frozen=True, kw_only=True)
class WorkerIdentity:
    """Where a worker is, and what its rounding depends on."""

    node: str
    """Name of its machine."""
    process: int
    """Its process id."""
    processor: str
    """Its architecture, vector instructions and library of products."""
    device: str
    """Where it computes."""
    libraries: Mapping[str, str]
    """Versions by name."""
    code: str
    """Digest of the program's source code."""

    @classmethod
    def here(cls, device: str) -> WorkerIdentity:
        """The identity of this process. ``device``: where it computes."""
        torch_device = resolve_device(device)
        if torch_device.type == "cuda":
            device_name = torch.cuda.get_device_name(torch_device)
        else:
            device_name = "cpu"
        vectors = torch.backends.cpu.get_cpu_capability()
        return cls(
            node=platform.node(),
            process=os.getpid(),
            processor=f"{platform.machine()} {vectors}, products by {product_library()}",
            device=device_name,
            libraries=dict(library_versions()),
            code=code_digest(*COMPUTING),
        )

    def kill(self) -> None:
        """Kill the worker if it is on this machine.

        A worker that a signal has suspended would ignore Ray and keep its resources.
        """
        if self.node == platform.node() and self.process != os.getpid():
            with suppress(psutil.Error):
                process = psutil.Process(self.process)
                command = process.cmdline()
                is_worker = bool(command) and WORKER_TITLE in command[0]
                if is_worker:  # the id may be reused for another process
                    process.kill()


class WorkerLost:
    """The result of a call that ran out of memory, or whose worker has ended: it is replaced."""


class Worker:
    """Runs one call after another. Keeps the models of a merge open."""

    def __init__(self, threads: int, device: str) -> None:
        go_offline()
        use_threads(threads)
        self._device = device
        self._failure: WorkbenchError | WorkerLost | None = None
        """The first failure, which all later calls return."""
        # Set by ``prepare``, which is called first:
        self._prepared: Prepared
        self._readers: Readers
        self._budgets: MemoryBudgets
        self._rows: dict[str, PlanRow]
        # Set by ``set_scan``, before any ``scan``:
        self._scan: Scan
        # Set by ``set_merge``, before any ``merge``:
        self._dtypes: Mapping[str, str]
        self._output: SharedOutput | None

    def do(self, name: str, *arguments: Any) -> Any:
        """Run the method of this name and return its result.

        A WorkbenchError and a lack of memory are not raised but returned, by every later call, too.
        """
        if self._failure is None:
            try:
                return getattr(self, name)(*arguments)
            except WorkbenchError as error:
                self._failure = error
            except (MemoryError, RuntimeError, OSError) as error:
                if not is_out_of_memory(error):
                    raise
                self._failure = WorkerLost()
        return self._failure

    def identity(self) -> WorkerIdentity:
        """Where it is, and what its results' rounding depends on."""
        return WorkerIdentity.here(self._device)

    def prepare(
        self, recipe: Recipe, expected_digest: str, measured: Mapping[Need, Sequence[Path]]
    ) -> None:
        """Open the models of a merge.

        ``expected_digest``: the ``layout_digest`` of the machine that merges; ``measured``: folders
        of measurements.
        Raises ClusterError if the models differ on this machine.
        """
        self._prepared = prepare(recipe)
        if layout_digest(self._prepared) != expected_digest:
            raise ClusterError(
                f"The models on {platform.node()} are not those on the machine that merges; give "
                "all machines the same files under the same paths."
            )
        groundwork = self._prepared.groundwork
        for need, folders in measured.items():
            if need.learned:
                statistics = groundwork.learned
            else:
                statistics = groundwork.measurements
            statistics[need] = tuple(map(Statistics, folders))
        self._budgets = budgets_of(resolve_device(self._device))
        self._readers = Readers(self._prepared)
        self._rows = {row.name: row for row in self._prepared.plan.rows}

    def set_scan(self, scan: Scan) -> None:
        """Set the scan, which is one pass of a survey, for the following calls."""
        self._scan = scan

    def scan(self, names: Sequence[str]) -> Scanned:
        """Scan the rows of these names."""
        return scan_rows(self._scan, self._rows_of(names), self._readers)

    def set_merge(
        self,
        findings: Sequence[tuple[str, object, Findings]],
        dtypes: Mapping[str, str],
        output: SharedOutput | None,
    ) -> None:
        """Set what merging needs besides the models.

        ``findings``: on the whole model, by method and parameters. ``dtypes``: of the output.
        ``output``: its location; None: results are sent.
        """
        for method, parameters, model_findings in findings:
            self._prepared.groundwork.findings[method, parameters] = model_findings
        self._dtypes = dtypes
        self._output = output

    def merge(self, names: Sequence[str]) -> UnitMerged:
        """Merge the rows of these names."""
        unit = self._rows_of(names)
        return merge_unit(unit, self._readers, self._budgets, self._dtypes, self._output)

    def run(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Call a function of this package."""
        return function(*arguments)

    def _rows_of(self, names: Sequence[str]) -> Unit:
        return tuple(self._rows[name] for name in names)
