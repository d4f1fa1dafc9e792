"""A stand-in for Ray that runs everything in this process, and loses workers when it is told to.

What is sent is pickled on the way, as Ray does it. Nothing of ours is replaced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any

import cloudpickle as pickle

from ace_gui.engine.cluster.ray_workers import RayWorkers

Fails = Callable[[str, int], bool]
"""From the name of a call and its number to whether the worker is lost over it."""


class WorkerLostError(Exception):
    pass


@dataclass(eq=False)
class Ref:
    owner: Handle
    call: str
    arguments: bytes


class Handle:
    def __init__(self, ray: RayStandIn, kind: type, arguments: bytes) -> None:
        self.ray = ray
        self.alive = True
        self._kind = kind
        self._arguments = arguments
        self._made: Any = None

        self._calls: deque[Ref] = deque()
        self.do = SimpleNamespace(remote=self._ask)

    def _ask(self, call: str, *arguments: Any) -> Ref:
        self._calls.append(Ref(self, call, pickle.dumps(arguments)))
        return self._calls[-1]

    def result(self, ref: Ref) -> Any:
        """Of a call, after all that was asked before it."""
        if self._made is None:
            self._made = self._kind(*pickle.loads(self._arguments))
        while True:
            oldest = self._calls.popleft()
            answer = self._made.do(oldest.call, *pickle.loads(oldest.arguments))
            if oldest is ref:
                return answer


class RayStandIn:
    """``started``: workers so far; ``killed``: of them; ``hangs``: calls that never end.

    ``asked_for``: what each worker was to have of its machine. It is a cluster, too, with room for
    ``count`` workers, which is there after ``starting`` questions, and ``ended`` or not.
    """

    exceptions = SimpleNamespace(
        RayActorError=WorkerLostError,
        WorkerCrashedError=WorkerLostError,
        ObjectLostError=WorkerLostError,
        OutOfMemoryError=WorkerLostError,
        NodeDiedError=WorkerLostError,
    )

    def __init__(self, fails: Fails = lambda call, number: False) -> None:
        self.fails = fails
        self.hangs: Fails = lambda call, number: False
        self.ray = self
        self.count = 2
        self.starting = 0
        self.ended = False
        self.started = 0
        self.killed = 0
        self.asked_for: list[dict[str, Any]] = []
        self._numbers = count()
        self._ref_numbers: dict[Ref, int] = {}

    def workers(self, count: int = 2, threads: int = 1, device: str = "cpu") -> RayWorkers:
        """So many workers of it."""
        self.count = count
        cluster: Any = self
        return RayWorkers(cluster, threads, device)

    def is_ready(self) -> bool:
        self.starting -= 1
        return self.starting < 0

    def has_servers(self) -> bool:
        return not self.ended

    def remote(self, kind: type) -> Any:
        def make(*arguments: Any) -> Handle:
            self.started += 1
            return Handle(self, kind, pickle.dumps(arguments))

        def options(**settings: Any) -> Any:
            self.asked_for.append(settings)
            return SimpleNamespace(remote=make)

        return SimpleNamespace(options=options)

    def _number(self, ref: Ref) -> int:
        if ref not in self._ref_numbers:
            self._ref_numbers[ref] = next(self._numbers)
        return self._ref_numbers[ref]

    def wait(self, refs: Sequence[Ref], timeout: float) -> tuple[list[Ref], list[Ref]]:
        done = [ref for ref in refs if not self.hangs(ref.call, self._number(ref))]
        return done, [ref for ref in refs if ref not in done]

    def get(self, ref: Ref) -> Any:
        if not ref.owner.alive or self.fails(ref.call, self._number(ref)):
            ref.owner.alive = False
            raise WorkerLostError
        return pickle.loads(pickle.dumps(ref.owner.result(ref)))

    def kill(self, handle: Handle) -> None:
        handle.alive = False
        self.killed += 1
