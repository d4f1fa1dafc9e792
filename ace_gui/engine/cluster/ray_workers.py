"""Workers of a Ray cluster: who gets which unit, and what happens when one of them is lost."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ace_gui.engine.cluster.address import Address
from ace_gui.engine.cluster.estimates import unit_bytes, unit_flops
from ace_gui.engine.cluster.worker import Kind, Order, Worker
from ace_gui.engine.merging.how_read import how_read
from ace_gui.engine.merging.units import Unit, UnitMerged
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.errors import ClusterError, WorkbenchError
from ace_gui.machine import processors
from ace_gui.paths import statistics_folder
from ace_gui.recipe import Recipe

ATTEMPTS: Final = 3
"""Workers that may be lost over one unit, the last one included, before the merge stops."""

AHEAD: Final = 2
"""Units that a worker has: one under way, and one that it need not wait for."""

LONGEST_SECONDS: Final = 3600.0
"""After which a worker that works on one unit is taken to hang."""

STARTS: Final = 3
"""Of a cluster on this machine, before it is said not to start."""

STARTING_SECONDS: Final = 300.0
"""For which a worker may open the models."""

STORE_BYTES: Final = 200_000_000
"""Of shared memory, for what workers on this machine send; what exceeds it goes to disk."""

_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""As on Windows and macOS: Ray's servers bind to the loopback address, and to no other."""


@dataclass(eq=False)
class _Task:
    """A unit on its way. ``losses``: workers that were lost over it."""

    unit: Unit
    losses: int = 0


@dataclass(eq=False)
class _Member:
    """A worker. ``given``: by the handles of what it was given, in order; ``since``: when it could
    begin with the first of them."""

    handle: Any
    given: dict[Any, _Task] = field(default_factory=dict)
    since: float = 0.0


@contextmanager
def ray_workers(address: Address, *, threads: int | None, gpus: bool) -> Iterator[RayWorkers]:
    """Workers at an address, ready to be used for one merge; afterwards they are gone.

    ``threads``: of each, None: this machine's processors shared out among them. ``gpus``: one
    worker a GPU, instead of the processor. Raises ClusterError where there is no Ray or no cluster.
    """
    settings = _SETTINGS | (_LOOPBACK if address.is_local else {})
    ray = _imported(settings)
    if address.is_local:
        assert address.workers is not None
        each = threads or max(1, processors() // address.workers)
        options: dict[str, Any] = {
            "num_cpus": address.workers * each,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
        }
    else:
        each, options = threads or 1, {"address": address.url}
    with _environment(settings):
        _connect(ray, options | {"log_to_driver": False, "logging_level": "ERROR"}, address)
        try:
            count = address.workers or _room(ray, each, gpus=gpus)
            yield RayWorkers(ray, count, each, "cuda:0" if gpus else "cpu")
        finally:
            ray.shutdown()


def _connect(ray: Any, options: Mapping[str, Any], address: Address) -> None:
    """Start or reach the cluster. A busy machine may take longer than Ray waits: try again then.

    Raises ClusterError.
    """
    for attempt in range(STARTS, 0, -1):
        try:
            ray.init(**options)
            return
        except Exception as error:
            ray.shutdown()
            if attempt == 1 or not address.is_local:
                raise ClusterError(
                    f"The cluster {address.url or 'on this machine'} cannot be reached; start it, "
                    "or name another one.",
                    details=str(error),
                ) from None


class RayWorkers:
    """``Workers`` of a cluster that is there. ``notes``: what should be said of it."""

    def __init__(self, ray: Any, count: int, threads: int, device: str) -> None:
        self.threads = threads
        self.device = device
        self.notes: tuple[str, ...] = ()
        self.lost = 0
        self.longest = LONGEST_SECONDS
        self._ray = ray
        self._count = count
        self._members: list[_Member] = []

    def merged(
        self, units: Sequence[Unit], prepared: Prepared, dtypes: Mapping[str, str]
    ) -> Iterator[UnitMerged]:
        """The units as they get done, those with most work first. Raises as ``Workers`` says."""
        largest = sorted(units, key=lambda unit: -unit_flops(unit, prepared))
        tasks = deque(_Task(unit) for unit in largest)
        order = Order(
            recipe=_absolute(prepared.plan.recipe),
            headers=how_read(prepared),
            dtypes=dict(dtypes),
            findings=[(*key, found) for key, found in prepared.findings.items()],
            measured={
                need: [statistics_folder() / each.key for each in own]
                for need, own in prepared.measurements.items()
            },
            device=self.device,
            threads=self.threads,
        )
        try:
            self._start(order, min(self._count, len(tasks)))
            yield from self._all(tasks, order, prepared)
        finally:
            for member in self._members:
                with suppress(Exception):  # whatever Ray has to say of one that is gone
                    self._ray.kill(member.handle)
            self._members = []

    def _all(self, tasks: deque[_Task], order: Order, prepared: Prepared) -> Iterator[UnitMerged]:
        while tasks or any(member.given for member in self._members):
            for _ in range(AHEAD):
                for member in self._members:
                    if tasks and len(member.given) < AHEAD:
                        self._give(member, tasks.popleft())
            waited = [ref for member in self._members for ref in member.given]
            ready, _ = self._ray.wait(waited, timeout=1.0)
            for member in list(self._members):
                done = next(iter(member.given), None)  # a worker does one after another
                if done in ready:
                    found = self._result(member, done)
                    if found is None:
                        self._replace(member, tasks, order, prepared)
                    else:
                        yield found
                elif member.given and time.monotonic() - member.since > self.longest:
                    self._replace(member, tasks, order, prepared)

    def _result(self, member: _Member, done: Any) -> UnitMerged | None:
        """What a worker sends; None where it is lost."""
        try:
            found: UnitMerged | WorkbenchError = self._ray.get(done)
        except self._lost:
            return None
        del member.given[done]
        member.since = time.monotonic()
        if isinstance(found, WorkbenchError):
            raise found
        return found

    @property
    def _lost(self) -> tuple[type[Exception], ...]:
        """How Ray says that a worker, its machine, or what it has sent is gone."""
        errors = self._ray.exceptions
        return (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
        )

    def _give(self, member: _Member, task: _Task) -> None:
        if not member.given:
            member.since = time.monotonic()
        names = [row.name for row in task.unit]
        member.given[member.handle.merge.remote(names)] = task

    def _replace(
        self, member: _Member, tasks: deque[_Task], order: Order, prepared: Prepared
    ) -> None:
        """A worker is lost: another one takes its place, and what it had goes to the front.

        Raises ClusterError where the unit that it worked on has cost too many workers.
        """
        self.lost += 1
        with suppress(Exception):
            self._ray.kill(member.handle)
        self._members.remove(member)
        given = list(member.given.values())
        given[0].losses += 1
        if given[0].losses >= ATTEMPTS:
            need = unit_bytes(given[0].unit, prepared)
            raise ClusterError(
                f"{ATTEMPTS} workers were lost while they merged `{given[0].unit[0].name}`, which "
                f"takes about {need / 1e9:.1f} GB; give workers more memory, then resume.",
                tensor=given[0].unit[0].name,
            )
        tasks.extendleft(reversed(given))
        self._start(order, 1)

    def _start(self, order: Order, count: int) -> None:
        """Start workers and have them open the models. Raises ClusterError."""
        gpu = 1 if self.device != "cpu" else 0
        made = self._ray.remote(Worker).options(
            num_cpus=self.threads,
            num_gpus=gpu,
            max_restarts=0,
            runtime_env={"env_vars": {"OMP_NUM_THREADS": str(self.threads)}},
        )
        started = [_Member(made.remote(order)) for _ in range(count)]
        self._members += started
        try:
            kinds = self._ray.get(
                [member.handle.kind.remote() for member in started], timeout=STARTING_SECONDS
            )
        except (*self._lost, self._ray.exceptions.GetTimeoutError) as error:
            raise ClusterError(
                "The cluster's workers cannot be started; see whether its machines have processors "
                "and memory to spare, and this program.",
                details=str(error),
            ) from None
        for kind in kinds:
            if isinstance(kind, WorkbenchError):
                raise kind
        self._check(kinds)

    def _check(self, kinds: Sequence[Kind]) -> None:
        """Refuse workers of other versions; note that a cluster is mixed."""
        here = Kind.here("cpu")
        for kind in kinds:
            if (kind.code, kind.libraries) != (here.code, here.libraries):
                raise ClusterError(
                    f"{kind.node} has another version of this program or of its libraries; "
                    "install the same ones on all machines."
                )
        if len({(kind.processor, kind.device) for kind in kinds}) > 1:
            self.notes = (
                "The workers' processors or GPUs are not all of one kind: a merge by others may "
                "differ in the last digits.",
            )


def _absolute(recipe: Recipe) -> Recipe:
    """As other machines must read it."""
    models = tuple(replace(entry, model=entry.model.absolute()) for entry in recipe.models)
    return replace(recipe, base_model=recipe.base_model.absolute(), models=models)


def _room(ray: Any, threads: int, *, gpus: bool) -> int:
    """How many workers a cluster has room for. Raises ClusterError where that is none."""
    found = ray.cluster_resources()
    room = int(found.get("GPU", 0)) if gpus else int(found.get("CPU", 0)) // threads
    if not room:
        raise ClusterError(
            f"The cluster has no {'GPU' if gpus else 'processor'} for a worker; add machines to it."
        )
    return room


def _imported(settings: Mapping[str, str]) -> Any:
    try:
        with _environment(settings):
            import ray
    except ImportError:
        raise ClusterError(
            "Merging on a cluster needs Ray; install it with: pip install 'ace-workbench[cluster]'."
        ) from None
    return ray


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the environment that Ray reads when it is imported and started."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
