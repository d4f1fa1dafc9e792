"""A Ray cluster: begun on this machine for what is to be done, or reached at an address."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from threading import Event, Lock, Thread
from typing import Any, Final

import psutil

from ace_gui.engine.cluster.address import Address
from ace_gui.engine.cluster.pool import TICK, Pool
from ace_gui.engine.cluster.ray_workers import RayWorkers
from ace_gui.errors import ClusterError
from ace_gui.machine import processors

STARTS: Final = 3
"""Of a cluster on this machine, before it is said not to start."""

STORE_BYTES: Final = 200_000_000
"""Of shared memory, for what workers on this machine send; what exceeds it goes to disk."""

SERVERS: Final = ("gcs_server", "raylet")
"""Processes of a cluster on this machine without which it is none."""

_one_at_a_time: Final = Lock()
"""Ray can be started once in a process: after a start that was given up has ended."""

_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_HERE: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as there: bound to the loopback address alone
    "RAY_worker_niceness": "0",  # else whatever runs beside them takes the processor from them
}
"""For a cluster of our own on this machine."""


@contextmanager
def workers_at(
    cluster: str, device: str, threads: int | None = None
) -> Iterator[RayWorkers | None]:
    """Those of a cluster (``Address.of``), one a GPU where the ``device`` is one; None where the
    cluster is empty. Raises ClusterError."""
    if not cluster:
        yield None
        return
    on_gpus = device.startswith("cuda")
    with ray_workers(Address.of(cluster), threads=threads, gpus=on_gpus) as workers:
        yield workers


@contextmanager
def ray_workers(address: Address, *, threads: int | None, gpus: bool) -> Iterator[RayWorkers]:
    """Workers at an address; Ray and they start when there is something to do, and are gone
    afterwards.

    ``threads``: of each, None: this machine's processors shared out among them. ``gpus``: one
    worker a GPU, instead of the processor. Raises ClusterError where there is no Ray; what is asked
    of the workers raises it where there is no cluster.
    """
    if find_spec("ray") is None:
        raise ClusterError(
            "Merging on a cluster needs Ray; install it with: pip install 'ace-workbench[cluster]'."
        )
    each = threads or (max(1, processors() // address.workers) if address.workers else 1)
    with (
        closing(RayCluster(address, each, gpus=gpus)) as cluster,
        closing(Pool(cluster, each, "cuda:0" if gpus else "cpu")) as pool,
    ):
        yield RayWorkers(pool)


class RayCluster:
    """``pool.Cluster``: Ray, in the hands of a thread, as starting it takes seconds.

    The thread stays as long as Ray does: the system ends Ray's servers with who has started them.
    """

    def __init__(self, address: Address, threads: int, *, gpus: bool) -> None:
        self.ray: Any = None
        self.count = 0
        self._address, self._threads, self._gpus = address, threads, gpus
        self._thread: Thread | None = None
        self._begun, self._over = Event(), Event()
        self._failed: ClusterError | None = None
        self._others: set[psutil.Process] | None = None
        self._servers: list[psutil.Process] = []
        self._head: tuple[str, int] | None = None

    def is_ready(self) -> bool:
        """Whether Ray is there; begins to start it. Raises ClusterError where that has failed."""
        if self._thread is None:
            self._thread = Thread(target=self._keep, name="Ray", daemon=True)
            self._thread.start()
        if self._failed is not None:
            raise self._failed
        return self._begun.is_set()

    def is_there(self) -> bool:
        """Whether Ray's servers on this machine are; those of another say so themselves."""
        if self._servers:
            return all(map(_runs, self._servers))
        if not self._head:
            return True
        try:
            with socket.create_connection(self._head, timeout=TICK):
                return True
        except OSError:
            return False

    def close(self) -> None:
        """End it where it was started here, at once also where it is only starting."""
        self._over.set()
        if self._thread is None:
            return
        if self._begun.is_set():
            self._thread.join()
            return
        for process in self._started_here():  # the thread will find them gone, and end
            with suppress(psutil.Error):
                process.kill()

    def _keep(self) -> None:
        """Start Ray, wait, and end it."""
        with _one_at_a_time:
            if self._over.is_set():
                return
            self._others = set(psutil.Process().children())
            with _environment(_SETTINGS | (_HERE if self._address.is_local else {})):
                import ray

                try:
                    self._connect(ray)
                    self.count = _room(ray, self._address, self._threads, gpus=self._gpus)
                    self.ray = ray
                    self._begun.set()
                    self._over.wait()
                except ClusterError as error:
                    self._failed = error
                finally:
                    self._end(ray)

    def _end(self, ray: Any) -> None:
        """Also what stays of it where its servers have ended before."""
        started = list[psutil.Process]()
        with suppress(psutil.Error):
            for process in self._started_here() if self._address.is_local else ():
                started += [process, *process.children(recursive=True)]
        ray.shutdown()
        for process in started:
            with suppress(psutil.Error):
                process.kill()

    def _connect(self, ray: Any) -> None:
        """Start or reach it. A busy machine may take longer than Ray waits: try again then."""
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self._address.workers:
            options["num_cpus"] = self._address.workers * self._threads
            options |= {"object_store_memory": STORE_BYTES, "include_dashboard": False}
        else:
            options["address"] = self._address.url
        for attempt in range(STARTS, 0, -1):
            try:
                ray.init(**options)
                break
            except Exception as error:
                ray.shutdown()
                if attempt == 1 or self._over.is_set() or not self._address.is_local:
                    raise ClusterError(
                        f"The cluster {self._address.url or 'on this machine'} cannot be reached; "
                        "start it, or name another one.",
                        details=str(error),
                    ) from None
        if self._address.is_local:
            self._servers = [each for each in self._started_here() if each.name() in SERVERS]
        elif self._address.url == "auto":
            host, port = ray.get_runtime_context().gcs_address.rsplit(":", 1)
            self._head = (host.strip("[]"), int(port))

    def _started_here(self) -> list[psutil.Process]:
        """Processes since it began; none while another one's start comes to its end."""
        before = self._others
        if before is None:
            return []
        return [each for each in psutil.Process().children() if each not in before]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _room(ray: Any, address: Address, threads: int, *, gpus: bool) -> int:
    """How many workers a cluster has room for, or is to have. Raises ClusterError where it lacks
    the room."""
    if address.workers and not gpus:
        return address.workers
    found = ray.cluster_resources()
    room = int(found.get("GPU", 0)) if gpus else int(found.get("CPU", 0)) // threads
    if gpus and address.workers and address.workers > room:
        raise ClusterError(f"There are {room} GPUs for {address.workers} workers; ask for {room}.")
    if not room:
        raise ClusterError(
            f"The cluster has no {'GPU' if gpus else 'processor'} for a worker; add machines to it."
        )
    return address.workers or room


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
