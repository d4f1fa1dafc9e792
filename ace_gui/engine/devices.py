"""The devices of this machine, by the names that torch gives them."""

from __future__ import annotations

import threading
from typing import Final

import torch

from ace_gui.engine.contract.events import DeviceInfo, GpuPeak
from ace_gui.engine.gpus import Gpu, fastest_first, gpus, kernels, why_none, why_unfit
from ace_gui.errors import ResourceError
from ace_gui.linalg.products import choose_library
from ace_gui.machine import processors

_STARTED: Final[set[str]] = set()
_STARTING: Final = threading.Lock()

_LARGEST_KEPT: Final = (32 << 20) - (1 << 16)
"""Bytes; glibc's limits follow blocks of up to 32 MiB, its own header included."""


def use_threads(wanted: int | None) -> None:
    """Compute with so many threads; None: as torch chooses, within a container's share."""
    torch.set_num_threads(wanted or min(torch.get_num_threads(), processors()))
    choose_library()
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Have glibc keep up to 64 MB that was freed instead of giving it back at once.

    Its limits follow the largest block that was ever freed. A merge frees and takes blocks of a few
    megabytes all the time, and a quarter of its time went into the system's clearing new pages.
    """
    torch.empty(_LARGEST_KEPT, dtype=torch.uint8)


def available_devices() -> tuple[DeviceInfo, ...]:
    """Every device a merge can run on, the processor first, then the GPUs in torch's order."""
    usable = [gpu for gpu in gpus() if not why_unfit(gpu, kernels())]
    found = [
        DeviceInfo(name=gpu.name, title=gpu.title, memory_bytes=gpu.memory_bytes) for gpu in usable
    ]
    return (DeviceInfo(name="cpu", title="Processor (CPU)"), *found)


def devices_not_used() -> tuple[str, ...]:
    """Why there is no GPU to use, or why one of several cannot be used, a sentence each."""
    found = gpus()
    return (
        tuple(filter(None, (why_unfit(gpu, kernels()) for gpu in found)))
        if found
        else (why_none(),)
    )


def resolve_device(name: str) -> torch.device:
    """The device of that name, ready to compute on; ``auto``: the fastest GPU, or the processor.

    Raises ResourceError for a device that this machine does not have, or that does not start.
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
    """Bytes of a GPU's memory that are free; 0 for the processor."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0


def forget_peak(device: torch.device) -> None:
    """Begin to measure a GPU's peak anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_on(device: torch.device) -> GpuPeak | None:
    """The most of a GPU's memory that was in use since ``forget_peak``."""
    if device.type != "cuda":
        return None
    return GpuPeak(
        allocated=torch.cuda.max_memory_allocated(device),
        reserved=torch.cuda.max_memory_reserved(device),
    )


def work_on(device: torch.device, *, own_stream: bool = False) -> None:
    """Let this thread's work for a GPU, and the memory it pins, go to that one.

    ``own_stream``: work of different threads does not wait for each other's. A thread keeps its
    stream: torch keeps the freed memory of each apart.
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

    The first decomposition loads the library that has them, and it must not be two threads that do
    so at once. Raises ResourceError where even that does not go.
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
