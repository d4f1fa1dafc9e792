"""Workers of a Ray cluster: who gets which call, and what happens when one of them is lost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ace_gui.engine.cluster.worker import Kind, NoMemory, Worker
from ace_gui.errors import ClusterError, WorkbenchError, is_out_of_memory
from ace_gui.formatting import human_bytes

ATTEMPTS: Final = 3
"""Workers that may be lost over one call, the last one included, before there is an end to it."""

AHEAD: Final = 2
"""Calls that a worker has: one under way, and one that it need not wait for."""

LONGEST_SECONDS: Final = 3600.0
"""After which a worker that works on one call is taken to hang."""

STARTING_SECONDS: Final = 300.0
"""For which a worker may start and open the models."""

WATCH_SECONDS: Final = 2.0
"""After which the cluster's servers are looked for again."""

ENDED: Final = "The cluster's server has ended; see that the cluster is up, then resume."

TICK: Final = 0.1
"""Seconds after which whoever waits for results is asked whether to go on."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a worker is asked to do: a method of ``Worker``.

    ``about``: a tensor or model, for sentences; ``memory``: bytes that it takes, about.
    """

    name: str
    arguments: tuple[Any, ...]
    about: str
    memory: int = 0


@dataclass(eq=False)
class _Task:
    """A call on its way; without one, the start of a worker. ``losses``: workers lost over it."""

    index: int = -1
    call: Call | None = None
    losses: int = 0


@dataclass(eq=False)
class _Member:
    """A worker. ``given``: by the handles of what it was given, in order; ``since``: when it could
    begin with the first of them; ``kind``: None while it starts."""

    handle: Any
    kind: Kind | None = None
    given: dict[Any, _Task] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)


class Cluster(Protocol):
    """Where the workers are. ``ray``: its module; ``count``: how many it has room for, once it
    ``is_ready``."""

    ray: Any
    count: int

    def is_ready(self) -> bool:
        """Whether it has started; asking begins that. Raises ClusterError."""
        ...

    def is_there(self) -> bool:
        """Whether its servers have not ended since."""
        ...


class Pool:
    """Workers of a cluster, started when there is something to do, gone after ``close``.

    ``lost``: how many were replaced. ``longest``: seconds that a call may take. ``mixed``: whether
    their processors or GPUs are of several kinds.
    """

    def __init__(self, cluster: Cluster, threads: int, device: str) -> None:
        self.threads = threads
        self.device = device
        self.lost = 0
        self.longest = LONGEST_SECONDS
        self._cluster = cluster
        self._seen = time.monotonic()
        self._members: list[_Member] = []
        self._told: dict[str, tuple[Any, ...]] = {}
        self._kinds: set[tuple[str, str]] = set()
        self._start = _Task()

    @property
    def count(self) -> int:
        """How many workers there are at most; 0 before the cluster is ``ready``."""
        return self._cluster.count

    @property
    def _ray(self) -> Any:
        return self._cluster.ray

    def ready(self) -> Iterator[None]:
        """Wait for the cluster, step by step. Raises ClusterError."""
        while not self._cluster.is_ready():
            yield None
            time.sleep(TICK)

    @property
    def mixed(self) -> bool:
        """Whether the last digits may depend on which worker does what."""
        return len(self._kinds) > 1

    def tell(self, name: str, *arguments: Any) -> None:
        """Have every worker do this before what it is asked later, those that come later, too.

        It replaces what was told under the same name. What goes wrong is raised with the next
        results.
        """
        self._told[name] = arguments
        for member in self._members:
            member.handle.do.remote(name, *arguments)

    def results(
        self, calls: Sequence[Call], *, ahead: int = AHEAD
    ) -> Iterator[tuple[int, Any] | None]:
        """The results as they come, each with the place of its call; the first calls are given out
        first. None: still waiting. Stopping the iteration stops the workers.

        Raises what the calls raise, and ClusterError.
        """
        left = deque(_Task(index, call) for index, call in enumerate(calls))
        unfinished = len(left)
        if unfinished:
            yield from self.ready()
        try:
            while unfinished:
                self._require_cluster()
                while len(self._members) < min(self.count, unfinished):
                    self._add_member()
                self._give_out(left, ahead)
                for task, found in self._arrived(left):
                    unfinished -= 1
                    yield task.index, found
                yield None
        except ConnectionError as error:  # as Ray says it of a cluster at an address
            raise ClusterError(ENDED, details=str(error)) from None
        finally:
            for member in [each for each in self._members if each.given]:
                self._dismiss(member)

    def _require_cluster(self) -> None:
        """Raise ClusterError where it has ended: Ray itself would wait for it, then end us."""
        if time.monotonic() - self._seen > WATCH_SECONDS:
            if not self._cluster.is_there():
                raise ClusterError(ENDED)
            self._seen = time.monotonic()

    def close(self) -> None:
        """Stop the workers, whatever they do."""
        for member in list(self._members):
            self._dismiss(member)

    def _add_member(self) -> None:
        gpu = 0 if self.device == "cpu" else 1
        made = self._ray.remote(Worker).options(num_cpus=self.threads, num_gpus=gpu, max_restarts=0)
        member = _Member(made.remote(self.threads, self.device))
        for name, arguments in self._told.items():
            member.handle.do.remote(name, *arguments)
        member.given[member.handle.do.remote("kind")] = self._start
        self._members.append(member)

    def _give_out(self, left: deque[_Task], ahead: int) -> None:
        """To everybody one call, then to everybody another."""
        for most in range(1, ahead + 1):
            for member in self._members:
                if not left or sum(task.call is not None for task in member.given.values()) >= most:
                    continue
                task = left.popleft()
                assert task.call is not None
                if not member.given:
                    member.since = time.monotonic()
                asked = member.handle.do.remote(task.call.name, *task.call.arguments)
                member.given[asked] = task

    def _arrived(self, left: deque[_Task]) -> Iterator[tuple[_Task, Any]]:
        """What is there within a moment; calls of workers that are lost go back to ``left``."""
        busy = [member for member in self._members if member.given]
        waited = [next(iter(member.given)) for member in busy]
        ready, _ = self._ray.wait(waited, timeout=TICK)
        for member, asked in zip(busy, waited, strict=True):
            task = member.given[asked]
            if asked not in ready:
                if time.monotonic() - member.since > self._limit(task):
                    left.extendleft(reversed(self._without(member)))
                continue
            found = self._found(asked)
            if isinstance(found, NoMemory):
                left.extendleft(reversed(self._without(member)))
                continue
            del member.given[asked]
            member.since = time.monotonic()
            if isinstance(found, WorkbenchError):
                raise found
            if task.call is None:
                member.kind = found
                self._welcome(found)
            else:
                yield task, found

    def _found(self, asked: Any) -> Any:
        """What came of a call; of a worker that is gone the same as of one without memory."""
        try:
            return self._ray.get(asked)
        except self._losses:
            return NoMemory()
        except Exception as error:
            if is_out_of_memory(error):  # also where it could not even send what it found
                return NoMemory()
            raise

    def _limit(self, task: _Task) -> float:
        return STARTING_SECONDS if task.call is None else self.longest

    @property
    def _losses(self) -> tuple[type[Exception], ...]:
        """How Ray says that a worker, its machine, or what it has sent is gone."""
        errors = self._ray.exceptions
        return (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
        )

    def _without(self, member: _Member) -> list[_Task]:
        """A worker is lost: the calls that it had, for others.

        Raises ClusterError where that with which it was busy has cost too many workers.
        """
        self.lost += 1
        self._dismiss(member)
        busy, *others = member.given.values()
        busy.losses += 1
        if busy.losses >= ATTEMPTS:
            raise _given_up(busy.call)
        return [task for task in (busy, *others) if task.call is not None]

    def _dismiss(self, member: _Member) -> None:
        with suppress(Exception):  # whatever Ray has to say of one that is gone
            self._ray.kill(member.handle)
        if member.kind is not None:
            member.kind.kill()
        self._members.remove(member)

    def _welcome(self, kind: Kind) -> None:
        """Refuse workers of other versions; remember that a cluster is mixed."""
        self._start.losses = 0
        here = Kind.here("cpu")
        if (kind.code, kind.libraries) != (here.code, here.libraries):
            raise ClusterError(
                f"{kind.node} has another version of this program or of its libraries; "
                "install the same ones on all machines."
            )
        self._kinds.add((kind.processor, kind.device))


def _given_up(call: Call | None) -> ClusterError:
    if call is None:
        return ClusterError(
            "The cluster's workers cannot be started; see whether its machines have processors and "
            "memory to spare, and this program."
        )
    memory = f", which takes about {human_bytes(call.memory)}" if call.memory else ""
    return ClusterError(
        f"{ATTEMPTS} workers were lost while they worked on `{call.about}`{memory}; give workers "
        "more memory, then resume.",
        tensor=call.about,
    )
