"""The devices of this machine, under torch's names."""

from __future__ import annotations

import threading
from typing import Final

import torch

from ace_gui.engine.contract.events import DeviceInfo, GpuPeak
from ace_gui.engine.gpus import Gpu, fastest_first, gpus, kernels, why_none, why_unfit
from ace_gui.errors import ResourceError
from ace_gui.machine import processors

_AT_FIRST: Final = torch.get_num_threads()
"""Before any merge changed it, so that no merge depends on an earlier one."""

_STARTED: Final[set[str]] = set()
_STARTING: Final = threading.Lock()

_LARGEST_KEPT: Final = (32 << 20) - (1 << 16)
"""Bytes; glibc adapts its thresholds to blocks of up to 32 MiB, including its own header."""


def use_threads(wanted: int | None) -> None:
    """Compute with this number of threads; None: torch's at first, within a container's limit."""
    torch.set_num_threads(wanted or min(_AT_FIRST, processors()))
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Make glibc keep up to 64 MB of freed memory instead of returning it at once.

    Its thresholds adapt to the largest block ever freed. A merge allocates and frees blocks of a
    few megabytes all the time, and spent a quarter of its time while the system cleared new pages.
    """
    torch.empty(_LARGEST_KEPT, dtype=torch.uint8)


def available_devices() -> tuple[DeviceInfo, ...]:
    """Every device a merge can run on, the CPU first, then the GPUs in torch's order."""
    usable = [gpu for gpu in gpus() if not why_unfit(gpu, kernels())]
    found = [
        DeviceInfo(name=gpu.name, title=gpu.title, memory_bytes=gpu.memory_bytes) for gpu in usable
    ]
    return (DeviceInfo(name="cpu", title="Processor (CPU)"), *found)


def devices_not_used() -> tuple[str, ...]:
    """Why there is no GPU to use, or why one of several cannot be used, one sentence each."""
    found = gpus()
    return (
        tuple(filter(None, (why_unfit(gpu, kernels()) for gpu in found)))
        if found
        else (why_none(),)
    )


def resolve_device(name: str) -> torch.device:
    """The device of that name, ready to compute on; ``auto``: the fastest GPU, or the CPU.

    Raises ResourceError for a device that this machine lacks, or that does not start.
    """
    if name == "cpu":
        return torch.device("cpu")
    usable = [gpu for gpu in fastest_first(gpus()) if not why_unfit(gpu, kernels())]
    if name == "auto":
        return next((_chosen(gpu) for gpu in usable if _starts(gpu)), torch.device("cpu"))
    wanted = "cuda:0" if name == "cuda" else name
    for gpu in usable:
        if gpu.name == wanted:
            _start(gpu)
            return _chosen(gpu)
    names = ", ".join(device.name for device in available_devices())
    raise ResourceError(
        f"There is no device {name!r} to use on this machine; available: {names}. "
        + " ".join(devices_not_used())
    )


def _chosen(gpu: Gpu) -> torch.device:
    device = torch.device(gpu.name)
    work_on(device)
    return device


def memory_of(device: torch.device) -> int:
    """Free memory of a GPU in bytes; 0 for the CPU."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0


def forget_peak(device: torch.device) -> None:
    """Reset the peak memory of a GPU."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_on(device: torch.device) -> GpuPeak | None:
    """The peak memory of a GPU in bytes since ``forget_peak``."""
    if device.type != "cuda":
        return None
    return GpuPeak(
        allocated=torch.cuda.max_memory_allocated(device),
        reserved=torch.cuda.max_memory_reserved(device),
    )


def work_on(device: torch.device, *, own_stream: bool = False) -> None:
    """Set the GPU for this thread's operations and pinned memory.

    ``own_stream``: operations of different threads do not wait for each other. A thread keeps its
    stream, as torch keeps the freed memory of each stream separate.
    """
    if device.type != "cuda":
        return
    torch.cuda.set_device(device)
    if own_stream:
        torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]


def _starts(gpu: Gpu) -> bool:
    try:
        _start(gpu)
    except ResourceError:
        return False
    return True


def _start(gpu: Gpu) -> None:
    """Compute a little on the GPU, once.

    The first decomposition loads its library, which two threads must not do at the same time.
    Raises ResourceError if this fails.
    """
    device = torch.device(gpu.name)
    with _STARTING:
        if gpu.name in _STARTED:
            return
        try:
            square = torch.eye(2, dtype=torch.float64, device=device)
            torch.linalg.cholesky_ex(square)
            torch.linalg.eigh(square)
        except RuntimeError as error:
            first = str(error).strip().partition("\n")[0].rstrip(".")
            raise ResourceError(
                f"{gpu.title} ({gpu.name}) does not compute: {first}. Choose another device.",
                details=str(error),
            ) from error
        _STARTED.add(gpu.name)
