"""A Ray cluster: started on this machine for one task, or reached at an address."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, Self

import psutil

from ace_gui.engine.cluster import leftovers
from ace_gui.errors import ClusterError

TICK_SECONDS: Final = 0.1
"""Longest wait at a time, in seconds. A longer wait is several of these, and can be stopped after
each of them.
"""

STARTS: Final = 3
"""Number of attempts to start a cluster on this machine."""

STORE_BYTES: Final = 200_000_000
"""Shared memory for results of workers on this machine; the rest goes to disk."""

SERVERS: Final = ("gcs_server", "raylet")
"""Processes without which a cluster on this machine does not work."""

REACH_SECONDS: Final = 20.0
"""Seconds in which a cluster at an address must answer; Ray itself may wait for minutes."""

IMPORT_SECONDS: Final = 120.0
"""Seconds in which Ray can be imported, also on a busy machine."""

END_SECONDS: Final = 5.0
"""Seconds in which Ray may end its cluster on this machine. Then its processes are killed."""

LONGEST_FOLDER: Final = 16
"""Longest path of a cluster's folder in characters, because paths of sockets are limited."""

MOST_WORKERS: Final = 4096
"""Most workers on this machine."""

_LOCAL: Final = re.compile(r"local:([0-9]{1,4})")
_REMOTE: Final = re.compile(r"ray://[A-Za-z0-9.\-\[\]:_]+:[0-9]{1,5}")

_log = logging.getLogger(__name__)

_one_at_a_time: Final = Lock()
"""Ray can be started once in a process, and again only after an abandoned start has ended."""

_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without a GPU keep CUDA_VISIBLE_DEVICES
}
"""Settings of every cluster, as environment variables."""

_LOCAL_SETTINGS: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback only, as on Linux
    "RAY_worker_niceness": "0",  # otherwise other processes get the CPU first
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "1",  # nothing in it is worth waiting for
    "RAY_AUTH_MODE": "token",
    "SPT_NOENV": "1",  # renamed processes keep their environment, in which ``leftovers`` looks
}
"""Further settings of a cluster that is started on this machine."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """The workers' location: on this machine (``workers``), or in a cluster (``url``)."""

    workers: int | None = None
    """Number of workers on this machine, in a temporary cluster for the merge; None: as many as the
    cluster at ``url`` can run.
    """
    url: str = ""
    """Address of a cluster; "auto": the one that this machine belongs to; empty: workers here."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``local:N``, ``auto`` or ``ray://HOST:PORT``. Raises ClusterError."""
        local = _LOCAL.fullmatch(text)
        if local and 1 <= int(local[1]) <= MOST_WORKERS:
            return cls(workers=int(local[1]))
        if text == "auto" or _REMOTE.fullmatch(text):
            return cls(url=text)
        raise ClusterError(
            f"{text!r} is not a cluster; give local:N (N processes here), auto, or ray://HOST:PORT."
        )

    @property
    def is_local(self) -> bool:
        """Whether the workers are started for this merge, on this machine."""
        return self.workers is not None


class RayCluster:
    """The cluster of the workers, controlled by a thread because starting takes seconds.

    The thread lives as long as Ray, because the system ends Ray's servers with the thread that
    started them.
    """

    def __init__(self, address: Address, threads: int, *, needs_gpus: bool) -> None:
        """``threads``: of each worker. ``needs_gpus``: whether each worker needs one."""
        self.ray: Any = None
        """The module, once the cluster ``is_ready``."""
        self.count = 0
        """Number of workers that it can run, once it ``is_ready``."""
        self._address = address
        self._threads = threads
        self._needs_gpus = needs_gpus
        self._thread: Thread | None = None
        self._has_begun = Event()
        self._must_end = Event()
        self._failure: ClusterError | None = None
        """Why Ray could not be started."""
        self._earlier_children: set[psutil.Process] | None = None
        """Child processes before Ray was started; None before the start."""
        self._servers: list[psutil.Process] = []
        """Ray's servers on this machine."""
        self._head_address: tuple[str, int] | None = None
        """Host and port of the server of a cluster that this machine belongs to."""
        self._guard: subprocess.Popen[str] | None = None
        """The process that ends a local cluster when this one is gone (``leftovers``)."""
        self._folder = ""
        """The folder of a local cluster."""

    def is_ready(self) -> bool:
        """Whether Ray runs; the first call starts it. Raises ClusterError if starting failed."""
        if self._thread is None:
            self._thread = Thread(target=self._start_and_end, name="Ray", daemon=True)
            self._thread.start()
        if self._failure is not None:
            raise self._failure
        return self._has_begun.is_set()

    def has_servers(self) -> bool:
        """Whether Ray's servers on this machine run; those elsewhere report errors themselves."""
        if self._servers:
            return all(map(_runs, self._servers))
        if not self._head_address:
            return True
        try:
            with socket.create_connection(self._head_address, timeout=TICK_SECONDS):
                return True
        except OSError:
            return False

    def close(self) -> None:
        """End the cluster if it was started here, also while it is starting."""
        self._must_end.set()
        if self._thread is None:
            return
        if self._has_begun.is_set():
            longest_seconds = None
            if self._address.is_local:
                longest_seconds = END_SECONDS
            self._thread.join(longest_seconds)
        else:
            # Without its servers, the start fails, and the thread ends.
            for process in self._started_here():
                with suppress(psutil.Error):
                    process.kill()
        self._end_leftovers()

    def _start_and_end(self) -> None:
        """Start Ray, wait until it must end, and end it."""
        with _one_at_a_time:
            if self._must_end.is_set():
                return
            settings = dict(_SETTINGS)
            if self._address.is_local:
                settings |= _LOCAL_SETTINGS
                settings[leftovers.TOKEN] = _token()
                self._begin_guard()
            self._earlier_children = set(psutil.Process().children())
            with _environment(settings):
                try:
                    self._run()
                except ClusterError as error:
                    self._failure = error

    def _run(self) -> None:
        """Reach the cluster, and keep it until it ``_must_end``. Raises ClusterError."""
        if not self._address.is_local:
            _require_answer(self._address.url, self._must_end)
        import ray

        _prepare_ray()
        try:
            self._connect(ray)
            self.count = _count_of_workers(
                ray, self._address, self._threads, needs_gpus=self._needs_gpus
            )
            self.ray = ray
            self._has_begun.set()
            self._must_end.wait()
        finally:
            self._end(ray)

    def _begin_guard(self) -> None:
        """Create a private folder for the cluster, and the process that ends the cluster.

        That process does so when this one has ended (``leftovers``).
        """
        parent = tempfile.gettempdir()
        if len(parent) > LONGEST_FOLDER and os.name == "posix":
            parent = "/tmp"
        self._folder = tempfile.mkdtemp(prefix="ace-ray-", dir=parent)
        self._guard = subprocess.Popen(
            [sys.executable, "-P", leftovers.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{_token()}\n{self._folder}\n")
        self._guard.stdin.flush()

    def _end_leftovers(self) -> None:
        """Kill remaining processes of the cluster, and remove its folder."""
        if self._guard is not None:
            self._guard.communicate()  # closes its input, which makes it end all; waits for its end
            self._guard = None

    def _end(self, ray: Any) -> None:
        """End Ray, including what remains of it if its servers have ended before."""
        ray_processes = list[psutil.Process]()
        if self._address.is_local:
            with suppress(psutil.Error):
                for process in self._started_here():
                    ray_processes.append(process)
                    ray_processes += process.children(recursive=True)
        ray.shutdown()
        for process in ray_processes:
            with suppress(psutil.Error):
                process.kill()

    def _connect(self, ray: Any) -> None:
        """Start or reach the cluster.

        On a busy machine, Ray may exceed its own time limit. A local cluster is then started again,
        up to ``STARTS`` times in all.
        """
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self._address.workers is not None:
            options["num_cpus"] = self._address.workers * self._threads
            options |= {"object_store_memory": STORE_BYTES, "include_dashboard": False}
            options["_temp_dir"] = str(Path(self._folder, "ray"))  # Ray opens it to all users
        else:
            options["address"] = self._address.url
        for attempt in range(1, STARTS + 1):
            try:
                ray.init(**options)
                break
            except Exception as error:
                ray.shutdown()
                is_last = attempt == STARTS or not self._address.is_local
                if is_last or self._must_end.is_set():
                    raise _unreachable(self._address.url, str(error)) from None
        if self._address.is_local:
            processes = self._started_here()
            self._servers = [process for process in processes if process.name() in SERVERS]
        elif self._address.url == "auto":
            host, port = ray.get_runtime_context().gcs_address.rsplit(":", 1)
            self._head_address = (host.strip("[]"), int(port))

    def _started_here(self) -> list[psutil.Process]:
        """Ray processes that this cluster started.

        There are none before its turn comes: this process starts one cluster at a time, after the
        one before has ended (``_one_at_a_time``).
        """
        earlier = self._earlier_children
        if earlier is None:
            return []
        return [process for process in psutil.Process().children() if process not in earlier]


@cache
def _token() -> str:
    """The secret needed to reach this process's clusters; it is written to no file."""
    return secrets.token_hex(32)


def _prepare_ray() -> None:
    """Make Ray read its settings again, and log what its servers report.

    Ray reads only once per process how clusters are protected, while a local one has a token and
    others may have none. It prints reports among a command's results; ``log_to_driver`` concerns
    only the output of workers.
    """
    raylet: Any = import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
    driver: Any = import_module("ray._private.worker")
    driver.print_to_stdstream = _logged


def _logged(report: Mapping[str, Any], **_: object) -> None:
    _log.info("%s: %s", report.get("pid"), " ".join(map(str, report.get("lines", ()))))


def _require_answer(url: str, must_end: Event) -> None:
    """Raise ClusterError unless the cluster at an address answers, or if it ``must_end`` before.

    Another process asks first, because it can be ended, unlike a call of Ray.
    """
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_ask, args=(url, sending), daemon=True)
    process.start()
    sending.close()  # the other process has its own copy
    try:
        # ``_ask`` sends a reply when it has imported Ray, and one when the cluster has answered.
        for seconds in (IMPORT_SECONDS, REACH_SECONDS):
            failure = _failure_in_reply(receiving, seconds, must_end)
            if failure:
                raise _unreachable(url, failure)
    finally:
        process.kill()
        process.join()
        process.close()
        receiving.close()


def _failure_in_reply(connection: Connection, seconds: float, must_end: Event) -> str:
    """What the other process says went wrong; empty for success.

    If it ``must_end``, the sentence does not matter, as the merge has been stopped.
    """
    started = time.monotonic()
    while not connection.poll(TICK_SECONDS):
        if must_end.is_set() or time.monotonic() - started > seconds:
            return f"no answer in {seconds:g} seconds"
    try:
        return str(connection.recv())
    except EOFError:
        return "the process that asked has ended"


def _ask(url: str, connection: Connection) -> None:
    """Run in another process: report that Ray is imported, and then whether the cluster answers.

    A report is empty if all is well.
    """
    import ray

    connection.send("")
    try:
        ray.init(address=url, log_to_driver=False, logging_level="CRITICAL")
        ray.cluster_resources()
        connection.send("")
    except Exception as error:
        connection.send(str(error) or type(error).__name__)


def _unreachable(url: str, details: str) -> ClusterError:
    return ClusterError(
        f"The cluster {url or 'on this machine'} cannot be reached; start it, or name another one.",
        details=details,
    )


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _count_of_workers(ray: Any, address: Address, threads: int, *, needs_gpus: bool) -> int:
    """The number of workers of a cluster: as requested, or as many as it can run.

    Raises ClusterError if it cannot run any.
    """
    requested = address.workers
    if requested and not needs_gpus:  # processors are shared, if need be
        return requested
    resources = ray.cluster_resources()
    if needs_gpus:
        resource = "GPU"
        possible = int(resources.get("GPU", 0))
    else:
        resource = "processor"
        possible = int(resources.get("CPU", 0)) // threads
    if requested and requested > possible:  # only of GPUs
        raise ClusterError(
            f"There are {possible} GPUs for {requested} workers; ask for {possible}."
        )
    if not possible:
        raise ClusterError(f"The cluster has no {resource} for a worker; add machines to it.")
    return requested or possible


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Environment variables that Ray reads when it is imported and started."""
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
