"""The workers of a Ray cluster: they merge units and survey the model; lost ones are replaced."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import prod
from typing import Any, Final

from ace_gui.engine.cluster.estimates import largest_first, unit_bytes
from ace_gui.engine.cluster.ray_cluster import TICK_SECONDS, Address, RayCluster
from ace_gui.engine.cluster.worker import Worker, WorkerIdentity, WorkerLost
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.merge_manifest import layout_digest
from ace_gui.engine.merging.units import Scan, Scanned, SharedOutput, Unit, UnitMerged
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import packed
from ace_gui.errors import ClusterError, WorkbenchError, is_out_of_memory
from ace_gui.formatting import human_bytes
from ace_gui.machine import processors

SCANNED_ELEMENTS: Final = 1 << 24
"""Elements of the tensors whose findings a worker reports at a time."""

WRITTEN_NOTE: Final = "The workers reach the output folder and have written the tensors themselves."
SENT_NOTE: Final = "The workers do not reach the output folder, so they have sent the tensors."
MIXED_NOTE: Final = (
    "The workers' processors or GPUs are not all of one kind, so a merge by other workers may "
    "differ in the last digits."
)


MOST_LOSSES: Final = 3
"""Number of workers lost during one call after which the merge gives up."""

AHEAD: Final = 2
"""Calls that a worker has at once: one running, and one in reserve so that it need not wait."""

LONGEST_SECONDS: Final = 3600.0
"""Seconds after which a worker with one running call counts as hanging."""

STARTING_SECONDS: Final = 300.0
"""Seconds in which a worker may start and open the models."""

WATCH_SECONDS: Final = 2.0
"""Seconds between two checks that the cluster's servers still run."""

ENDED: Final = "The cluster's server has ended; see that the cluster is up, then resume."


@dataclass(eq=False, kw_only=True)
class Call:
    """A call to a worker: a method of ``Worker``."""

    name: str
    """The method."""
    arguments: tuple[Any, ...] = ()
    """For the method."""
    about: str = ""
    """A tensor or model, for messages."""
    memory: int = 0
    """Estimated bytes."""
    index: int = 0
    """Its place among all requested calls."""
    losses: int = 0
    """Number of workers lost during it."""


@dataclass(eq=False)
class _Member:
    """A worker of the cluster as this process sees it; ``Worker`` is what runs in the worker."""

    actor: Any
    """Ray's handle of its ``Worker``."""
    identity: WorkerIdentity | None = None
    """None while it starts."""
    calls_by_result: dict[Any, Call] = field(default_factory=dict)
    """Its calls by Ray's handles of their results, in order; the first one is running."""
    running_since: float = field(default_factory=time.monotonic)
    """When it could begin the running call, by ``time.monotonic``."""

    def send(self, call: Call) -> None:
        """Have it run a call, after those that it has."""
        result = self.actor.do.remote(call.name, *call.arguments)
        self.calls_by_result[result] = call

    def calls_besides(self, start: Call) -> list[Call]:
        """Its calls, without the one by which it starts."""
        return [call for call in self.calls_by_result.values() if call is not start]


class RayWorkers:
    """The workers of a cluster, started when there is work and removed by ``close``.

    They have the methods of ``merging.units.Workers``, by which a merge uses them.
    """

    def __init__(self, cluster: RayCluster, threads: int, device: str) -> None:
        """``threads``, ``device``: of each worker."""
        self.threads = threads
        self.device = device
        self.lost = 0
        """Number of workers that were lost and replaced."""
        self.longest_seconds = LONGEST_SECONDS
        """Seconds after which a call counts as hanging."""
        self.scan_seconds = 0.0
        """Seconds that all workers have spent on surveys."""
        self._cluster = cluster
        self._checked_at = time.monotonic()
        """When the cluster's servers were found to run, by ``time.monotonic``."""
        self._members: list[_Member] = []
        self._broadcasts: dict[str, tuple[Any, ...]] = {}
        """Arguments of the calls that every worker makes first, by method."""
        self._computing_kinds: set[tuple[str, str]] = set()
        """Processor and device of the workers, as far as they differ."""
        self._start_call = Call(name="identity")
        """Every new worker gets this same call after its broadcasts, which return nothing. So the
        result of this call is its first one, and says that it has started.
        """
        self._has_written = False
        """Whether a worker has written tensors itself."""

    @property
    def count(self) -> int:
        """The largest number of workers; 0 before the cluster is ``ready``."""
        return self._cluster.count

    @property
    def _ray(self) -> Any:
        return self._cluster.ray

    def ready(self) -> Iterator[None]:
        """Wait for the cluster, step by step. Raises ClusterError."""
        while not self._cluster.is_ready():
            yield None
            time.sleep(TICK_SECONDS)

    @property
    def mixed(self) -> bool:
        """Whether rounding may depend on which worker computes what."""
        return len(self._computing_kinds) > 1

    @property
    def notes(self) -> tuple[str, ...]:
        """Which workers have written, how many were lost, and whether they differ."""
        sentences = []
        if self._has_written:
            sentences.append(WRITTEN_NOTE)
        else:
            sentences.append(SENT_NOTE)
        if self.lost:
            sentences.append(f"Lost workers that were replaced: {self.lost}.")
        if self.mixed:
            sentences.append(MIXED_NOTE)
        return tuple(sentences)

    def begin(self, prepared: Prepared) -> None:
        """Make the workers open the models."""
        folders = {}
        for need, statistics_of_experts in prepared.groundwork.statistics.items():
            folders[need] = [statistics.folder for statistics in statistics_of_experts]
        recipe = prepared.recipe.absolute()
        self.broadcast("prepare", recipe, layout_digest(prepared), folders)

    def map_unordered(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        about: Sequence[str],
    ) -> Iterator[tuple[int, Any] | None]:
        """Call the function with each of the arguments; yield each result with its index.

        ``about``: for each of them, a tensor or model, for messages.
        """
        calls = []
        for arguments_of_call, subject in zip(arguments, about, strict=True):
            call_arguments = (function, arguments_of_call)
            calls.append(Call(name="run", arguments=call_arguments, about=subject))
        # None in reserve: it could wait behind a long call while another worker has nothing to do.
        return self.results(calls, ahead=1)

    def scanned(self, scan: Scan, rows: Sequence[PlanRow]) -> Iterator[Scanned | None]:
        """The results of ``scan``, one for each pack of rows, in the order of the rows."""
        self.broadcast("set_scan", scan)
        packs = packed(rows, lambda row: prod(row.shape), SCANNED_ELEMENTS)
        calls = []
        for pack in packs:
            names = [row.name for row in pack]
            calls.append(Call(name="scan", arguments=(names,), about=names[0]))
        early: dict[int, Scanned] = {}  # results that arrive before earlier ones
        next_index = 0
        for result in self.results(calls):
            if result is None:
                yield None
                continue
            index, scanned = result
            early[index] = scanned
            self.scan_seconds += scanned.seconds
            while next_index in early:
                yield early.pop(next_index)
                next_index += 1

    def merged(
        self,
        units: Sequence[Unit],
        prepared: Prepared,
        dtypes: Mapping[str, str],
        shared: SharedOutput | None,
    ) -> Iterator[UnitMerged | None]:
        """The merged units as they finish, most work first. Raises the errors of ``Workers``."""
        findings = []
        for (method, parameters), model_findings in prepared.groundwork.findings.items():
            findings.append((method, parameters, model_findings))
        self.broadcast("set_merge", findings, dict(dtypes), shared)
        calls = []
        for unit in largest_first(units, prepared):
            names = [row.name for row in unit]
            memory = unit_bytes(unit, prepared)
            calls.append(Call(name="merge", arguments=(names,), about=names[0], memory=memory))
        for result in self.results(calls):
            if result is None:
                yield None
                continue
            _, merged = result
            if any(row.written is not None for row in merged.rows):
                self._has_written = True
            yield merged

    def broadcast(self, name: str, *arguments: Any) -> None:
        """Make every present and future worker run this before any later call.

        It replaces an earlier broadcast of this name. Its errors are raised with the next results.
        """
        self._broadcasts[name] = arguments
        for member in self._members:
            member.actor.do.remote(name, *arguments)

    def results(
        self, calls: Sequence[Call], *, ahead: int = AHEAD
    ) -> Iterator[tuple[int, Any] | None]:
        """Yield results with the index of their call as they arrive; calls are assigned in order.

        None: still waiting. Stopping the iteration stops the workers. Raises the errors of the
        calls, and ClusterError.
        """
        waiting = deque(calls)
        unfinished = len(calls)
        for index, call in enumerate(calls):
            call.index = index
        if unfinished:
            yield from self.ready()
        try:
            while unfinished:
                self._require_cluster()
                while len(self._members) < min(self.count, unfinished):
                    self._add_member()
                self._give_out(waiting, ahead)
                for call, result in self._arrived(waiting):
                    unfinished -= 1
                    yield call.index, result
                yield None
        except ConnectionError as error:  # from Ray, for a cluster at an address
            raise ClusterError(ENDED, details=str(error)) from None
        finally:
            for member in self._busy():
                self._dismiss(member)

    def _busy(self) -> list[_Member]:
        """The workers that have calls."""
        return [member for member in self._members if member.calls_by_result]

    def _require_cluster(self) -> None:
        """Raise ClusterError if the cluster has ended.

        Ray itself would wait for it, then kill this process.
        """
        if time.monotonic() - self._checked_at > WATCH_SECONDS:
            if not self._cluster.has_servers():
                raise ClusterError(ENDED)
            self._checked_at = time.monotonic()

    def close(self) -> None:
        """Stop the workers, even if they are busy."""
        for member in list(self._members):
            self._dismiss(member)

    def _add_member(self) -> None:
        if self.device == "cpu":
            gpus = 0
        else:
            gpus = 1
        actor_class = self._ray.remote(Worker)
        actor_class = actor_class.options(num_cpus=self.threads, num_gpus=gpus, max_restarts=0)
        member = _Member(actor_class.remote(self.threads, self.device))
        for name, arguments in self._broadcasts.items():
            member.actor.do.remote(name, *arguments)
        member.send(self._start_call)
        self._members.append(member)

    def _give_out(self, waiting: deque[Call], ahead: int) -> None:
        """Assign calls until every worker has ``ahead``: first one to each, then a second one."""
        for count in range(1, ahead + 1):
            for member in self._members:
                if not waiting or len(member.calls_besides(self._start_call)) >= count:
                    continue
                call = waiting.popleft()
                if not member.calls_by_result:
                    member.running_since = time.monotonic()
                member.send(call)

    def _arrived(self, waiting: deque[Call]) -> Iterator[tuple[Call, Any]]:
        """Results that arrive within a moment; calls of lost workers go back to ``waiting``."""
        busy = self._busy()
        handles = [next(iter(member.calls_by_result)) for member in busy]  # of running calls
        ready, _ = self._ray.wait(handles, timeout=TICK_SECONDS)
        for member, handle in zip(busy, handles, strict=True):
            call = member.calls_by_result[handle]
            if handle not in ready:
                if call is self._start_call:
                    longest_seconds = STARTING_SECONDS
                else:
                    longest_seconds = self.longest_seconds
                if time.monotonic() - member.running_since > longest_seconds:
                    self._remove_lost(member, waiting)
                continue
            result = self._result_of(handle)
            if isinstance(result, WorkerLost):
                self._remove_lost(member, waiting)
                continue
            del member.calls_by_result[handle]
            member.running_since = time.monotonic()
            if isinstance(result, WorkbenchError):
                raise result
            if call is self._start_call:
                member.identity = result
                self._check(result)
            else:
                yield call, result

    def _result_of(self, handle: Any) -> Any:
        """The result of a call; WorkerLost if there is none."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
        ):
            return WorkerLost()
        except Exception as error:
            if is_out_of_memory(error):  # also while sending the result
                return WorkerLost()
            raise

    def _remove_lost(self, member: _Member, waiting: deque[Call]) -> None:
        """Remove a lost worker; its calls are the next of those that are ``waiting``.

        Raises ClusterError if its running call has cost too many workers.
        """
        self.lost += 1
        self._dismiss(member)
        running = next(iter(member.calls_by_result.values()))
        running.losses += 1
        if running.losses >= MOST_LOSSES:
            raise _too_many_losses(running, starting=running is self._start_call)
        calls = member.calls_besides(self._start_call)
        waiting.extendleft(reversed(calls))  # in their order: ``extendleft`` reverses it again

    def _dismiss(self, member: _Member) -> None:
        with suppress(Exception):  # Ray may raise anything for a lost worker
            self._ray.kill(member.actor)
        if member.identity is not None:
            member.identity.kill()
        self._members.remove(member)

    def _check(self, identity: WorkerIdentity) -> None:
        """Check a worker that has started, and note what it computes with.

        Raises ClusterError for one of another version.
        """
        self._start_call.losses = 0  # so only losses in a row count, as all workers share the call
        here = WorkerIdentity.here("cpu")
        if identity.code != here.code or identity.libraries != here.libraries:
            raise ClusterError(
                f"{identity.node} has another version of this program or of its libraries; "
                "install the same ones on all machines."
            )
        self._computing_kinds.add((identity.processor, identity.device))


@contextmanager
def workers_at(
    cluster: str, device: str, threads: int | None = None
) -> Iterator[RayWorkers | None]:
    """The workers of a cluster (``Address.of``), one per GPU if the ``device`` is one.

    None if the address is empty. Ray and they start when there is work, and end afterwards.
    ``threads``: of each worker; None: this machine's processors divided by their number. Raises
    ClusterError if Ray is missing; calls raise it if there is no cluster.
    """
    if not cluster:
        yield None
        return
    address = Address.of(cluster)
    needs_gpus = device.startswith("cuda")
    if find_spec("ray") is None:
        raise ClusterError(
            "Merging on a cluster needs Ray; install it, in the folder of the source, with: "
            "pip install '.[cluster]'."
        )
    if threads:
        worker_threads = threads
    elif address.workers:
        worker_threads = max(1, processors() // address.workers)
    else:
        worker_threads = 1
    if needs_gpus:
        worker_device = "cuda:0"  # Ray shows each worker only its own
    else:
        worker_device = "cpu"
    with (
        closing(RayCluster(address, worker_threads, needs_gpus=needs_gpus)) as ray_cluster,
        closing(RayWorkers(ray_cluster, worker_threads, worker_device)) as workers,
    ):
        yield workers


def _too_many_losses(call: Call, *, starting: bool) -> ClusterError:
    if starting:
        return ClusterError(
            "The cluster's workers cannot be started; check that its machines have free processors "
            "and memory, and this program."
        )
    if call.memory:
        memory = f", which takes about {human_bytes(call.memory)}"
    else:
        memory = ""
    return ClusterError(
        f"{MOST_LOSSES} workers were lost while they worked on `{call.about}`{memory}; give "
        "workers more memory, then resume.",
        tensor=call.about,
    )
