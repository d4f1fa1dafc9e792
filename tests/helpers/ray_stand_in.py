"""A stand-in for Ray that runs everything in this process, and loses workers when it is told to.

What is sent is pickled on the way, as Ray does it. Nothing of ours is replaced.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any

Fails = Callable[[str, int], bool]
"""From the name of a call and its number to whether the worker is lost over it."""


class WorkerLostError(Exception):
    pass


class TookTooLongError(Exception):
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
        self._kind, self._arguments = kind, arguments
        self._made: Any = None

    def __getattr__(self, call: str) -> Any:
        if call.startswith("_"):
            raise AttributeError(call)
        return SimpleNamespace(remote=lambda *given: Ref(self, call, pickle.dumps(given)))

    def run(self, call: str, arguments: bytes) -> Any:
        if self._made is None:
            self._made = self._kind(*pickle.loads(self._arguments))
        return getattr(self._made, call)(*pickle.loads(arguments))


class RayStandIn:
    """``started``: workers so far; ``killed``: of them; ``hangs``: calls that never end."""

    exceptions = SimpleNamespace(
        RayActorError=WorkerLostError,
        WorkerCrashedError=WorkerLostError,
        ObjectLostError=WorkerLostError,
        OutOfMemoryError=WorkerLostError,
        NodeDiedError=WorkerLostError,
        GetTimeoutError=TookTooLongError,
    )

    def __init__(self, fails: Fails = lambda call, number: False) -> None:
        self.fails = fails
        self.hangs: Fails = lambda call, number: False
        self.started = 0
        self.killed = 0
        self._numbers = count()
        self._known: dict[Ref, int] = {}

    def remote(self, kind: type) -> Any:
        def make(*arguments: Any) -> Handle:
            self.started += 1
            return Handle(self, kind, pickle.dumps(arguments))

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=make))

    def _number(self, ref: Ref) -> int:
        return self._known.setdefault(ref, next(self._numbers))

    def wait(self, refs: Sequence[Ref], timeout: float) -> tuple[list[Ref], list[Ref]]:
        done = [ref for ref in refs if not self.hangs(ref.call, self._number(ref))]
        return done, [ref for ref in refs if ref not in done]

    def get(self, refs: Any, timeout: float | None = None) -> Any:
        if isinstance(refs, list):
            return [self.get(ref) for ref in refs]
        if not refs.owner.alive or self.fails(refs.call, self._number(refs)):
            refs.owner.alive = False
            raise WorkerLostError
        return pickle.loads(pickle.dumps(refs.owner.run(refs.call, refs.arguments)))

    def kill(self, handle: Handle) -> None:
        handle.alive = False
        self.killed += 1
