"""A Ray cluster: begun on this machine for what is to be done, or reached at an address."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ace_gui.engine.cluster.address import Address
from ace_gui.engine.cluster.pool import Pool
from ace_gui.engine.cluster.ray_workers import RayWorkers
from ace_gui.errors import ClusterError
from ace_gui.machine import processors

STARTS: Final = 3
"""Of a cluster on this machine, before it is said not to start."""

STORE_BYTES: Final = 200_000_000
"""Of shared memory, for what workers on this machine send; what exceeds it goes to disk."""

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
    """Workers at an address, which start when there is something to do and are gone afterwards.

    ``threads``: of each, None: this machine's processors shared out among them. ``gpus``: one
    worker a GPU, instead of the processor. Raises ClusterError where there is no Ray or no cluster.
    """
    settings = _SETTINGS | (_HERE if address.is_local else {})
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
            if gpus and count > (room := _room(ray, each, gpus=True)):
                raise ClusterError(f"There are {room} GPUs for {count} workers; ask for {room}.")
            pool = Pool(ray, count, each, "cuda:0" if gpus else "cpu")
            try:
                yield RayWorkers(pool)
            finally:
                pool.close()
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
