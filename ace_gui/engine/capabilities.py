"""What the engine offers, as plain values: methods, scopes, the devices of this machine.

Devices have torch's names. GPUs that torch cannot use are named with the reason.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from ace_gui.architecture.scopes import SCOPES
from ace_gui.engine.contract.events import DeviceInfo, EngineReady, GpuPeak, MethodInfo
from ace_gui.errors import ResourceError
from ace_gui.machine import processors, total_memory
from ace_gui.methods import METHODS, PROBLEMS, families, parameter_fields
from ace_gui.methods.shared.expert_modules import ModuleKind, kind_of, learns
from ace_gui.methods.shared.measured import Need

_AT_FIRST: Final = torch.get_num_threads()
"""Torch's number of threads before any merge changed it: no merge depends on an earlier one."""

_STARTED: Final[set[str]] = set()
_STARTING: Final = threading.Lock()


def use_threads(threads: int | None) -> None:
    """Compute with this number of threads; None: torch's default, within a container's limit.

    Also makes glibc keep up to 64 MB of freed memory instead of returning it at once: its
    thresholds adapt to the largest block ever freed, up to 32 MiB with its own header. A merge
    frees blocks of a few megabytes all the time, and spent a quarter of its time while the system
    cleared new pages.
    """
    torch.set_num_threads(threads or min(_AT_FIRST, processors()))
    torch.empty((32 << 20) - (1 << 16), dtype=torch.uint8)


def available_devices() -> tuple[DeviceInfo, ...]:
    """Every device a merge can run on, the CPU first, then the GPUs in torch's order."""
    usable = [gpu for gpu in gpus() if not why_unfit(gpu, kernels())]
    infos = [
        DeviceInfo(name=gpu.name, title=gpu.title, memory_bytes=gpu.memory_bytes) for gpu in usable
    ]
    return (DeviceInfo(name="cpu", title="Processor (CPU)"), *infos)


def devices_not_used() -> tuple[str, ...]:
    """Why there is no GPU to use, or why one of several cannot be used, one sentence each."""
    present = gpus()
    if present:
        reasons = [why_unfit(gpu, kernels()) for gpu in present]
    else:
        reasons = [why_none()]
    return tuple(filter(None, reasons))


def resolve_device(name: str) -> torch.device:
    """The device of that name, ready to compute on; ``auto``: the fastest GPU, or the CPU.

    Raises ResourceError for a device that this machine lacks, or that does not start.
    """
    if name == "cpu":
        return torch.device("cpu")
    if name == "cuda":
        device_name = "cuda:0"
    else:
        device_name = name
    for gpu in fastest_first(gpus()):
        if why_unfit(gpu, kernels()) or device_name not in ("auto", gpu.name):
            continue
        try:
            _start(gpu)
        except ResourceError:
            if device_name == "auto":
                continue
            raise
        device = torch.device(gpu.name)
        work_on(device)
        return device
    if device_name == "auto":
        return torch.device("cpu")
    names = ", ".join(device.name for device in available_devices())
    raise ResourceError(
        f"There is no device {name!r} to use on this machine; available: {names}. "
        + " ".join(devices_not_used())
    )


def memory_of(device: torch.device) -> int:
    """Free memory of a GPU in bytes; 0 for the CPU."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return 0


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


GET_TORCH: Final = "see https://pytorch.org/get-started/locally"

_DOUBLES: Final = {"6.0": 32, "6.1": 4, "7.0": 32, "8.0": 32, "9.0": 64, "10.0": 64, "10.3": 2}
"""Float64 multiplications per cycle of a multiprocessor, by compute capability.

Source: CUDA C++ Programming Guide, arithmetic instructions. Other cards are made for graphics: 2.
"""

_AMD_DOUBLES: Final = {"gfx906": 32, "gfx908": 64, "gfx90a": 128, "gfx942": 128, "gfx950": 64}


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU.

    ``architecture``: as in the names of torch's builds ("sm_86", "gfx90a"); empty if unknown.
    ``processors``: multiprocessors; ``memory_bytes``: total memory; both 0 if unknown.
    """

    name: str
    title: str
    architecture: str = ""
    processors: int = 0
    memory_bytes: int = 0


def gpus() -> list[Gpu]:
    """Every GPU that torch finds, whether or not it can be used. Never fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ``why_none`` says the same in a sentence
            if torch.cuda.is_available():
                count = torch.cuda.device_count()
            else:
                count = 0
    except Exception:  # a broken driver may raise anything
        return []
    return [_gpu(index) for index in range(count)]


def _gpu(index: int) -> Gpu:
    name = f"cuda:{index}"
    try:
        properties = torch.cuda.get_device_properties(index)
        if torch.version.hip is not None:
            architecture = properties.gcnArchName.partition(":")[0]
            title = f"{properties.name} (ROCm, not tried yet)"
        else:
            architecture = f"sm_{properties.major}{properties.minor}"
            title = properties.name
        return Gpu(
            name=name,
            title=title,
            architecture=architecture,
            processors=properties.multi_processor_count,
            memory_bytes=properties.total_memory,
        )
    except Exception:  # a GPU without properties may still compute
        return Gpu(name=name, title=f"GPU {index}")


def kernels() -> list[str]:
    """The architectures that this build of torch supports; empty if unknown."""
    try:
        return list(torch.cuda.get_arch_list())
    except Exception:
        return []


def why_unfit(gpu: Gpu, built_for: Sequence[str]) -> str:
    """A sentence on why this build of torch does not support a GPU; empty if it does."""
    if not gpu.architecture or not built_for or gpu.architecture in built_for:
        return ""
    if any(_runs(gpu.architecture, architecture) for architecture in built_for):
        return ""
    return (
        f"{gpu.title} ({gpu.name}) is of architecture {gpu.architecture}, which this build of "
        f"torch has no code for (it has {', '.join(built_for)}); install another build, {GET_TORCH}"
        "."
    )


def _runs(architecture: str, built: str) -> bool:
    """Whether the code runs: binaries on later GPUs of a generation, PTX on all later ones."""
    gpu = _capability(architecture, "sm")
    binary = _capability(built, "sm")
    if gpu and binary:
        return gpu[0] == binary[0] and gpu[1] >= binary[1]
    ptx = _capability(built, "compute")
    return bool(gpu and ptx and gpu >= ptx)


def _capability(text: str, kind: str) -> tuple[int, int] | None:
    """ "sm_86" to (8, 6); None for another kind, and for code of only one GPU ("sm_90a")."""
    match = re.fullmatch(rf"{kind}_(\d+)(\d)", text)
    if match:
        return (int(match[1]), int(match[2]))
    return None


def fastest_first(gpus: Sequence[Gpu]) -> list[Gpu]:
    """GPUs sorted by float64 multiplications per cycle, then by memory, then in torch's order."""
    return sorted(gpus, key=lambda gpu: (-_doubles(gpu), -gpu.memory_bytes))


def _doubles(gpu: Gpu) -> int:
    capability = _capability(gpu.architecture, "sm")
    if capability is None:
        return _AMD_DOUBLES.get(gpu.architecture, 2) * gpu.processors
    return _DOUBLES.get(f"{capability[0]}.{capability[1]}", 2) * gpu.processors


def why_none() -> str:
    """Why torch finds no GPU, in a sentence that says what to do."""
    if torch.backends.mps.is_available():
        return "Apple's GPUs are not used: they have no float64, in which the methods compute."
    if torch.xpu.is_available():
        return "Intel's GPUs are not used: nothing was tried on them."
    if torch.version.cuda is None and torch.version.hip is None:
        return (
            "This build of torch computes on the processor only, as the one that pip installs on "
            f"Windows does; for an NVIDIA GPU install one built for CUDA, {GET_TORCH}."
        )
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if os.environ.get(name, "0").strip() in {"", "-1"}:
            return f"The GPUs are hidden from this program; unset {name} to use them."
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except Exception as error:
        return _cuda_reason(str(error))
    return "Torch finds no GPU."


def _cuda_reason(error: str) -> str:
    """The sentence for torch's error when CUDA does not start."""
    if "no NVIDIA driver" in error:
        return "There is no NVIDIA driver, or no NVIDIA GPU; install the driver to use one."
    if "too old" in error:
        if torch.version.cuda:
            made_for = f" (CUDA {torch.version.cuda})"
        else:
            made_for = ""
        return f"The NVIDIA driver is too old for this build of torch{made_for}; update the driver."
    first = error.strip().partition("\n")[0].rstrip(".")
    if first:
        return f"CUDA does not start: {first}."
    return "CUDA does not start."


_NEEDS: Final[Mapping[Need | None, str]] = {
    None: "",
    Need.INPUTS: "Needs inputs of each expert's task: tasks with calibration data, without labels.",
    Need.GRADIENTS: (
        "Needs inputs of each expert's task: tasks with calibration data, without labels. Takes "
        "gradients, which is several times slower than only inputs."
    ),
    Need.ENTROPY: (
        "Needs inputs of each expert's task: tasks with calibration data, without labels. Learns "
        "in many steps, each as long as a training step of one model; leaves plain weights."
    ),
    Need.ANSWERS: (
        "Needs inputs of each expert's task: tasks with calibration data, without labels. Learns "
        "from the experts' answers in many steps, each as long as one or two training steps of "
        "one model; leaves plain weights."
    ),
    Need.LOSS: (
        "Needs a few labelled inputs of each expert's task: tasks with calibration data that have "
        "labels. Learns in steps, each as long as a training step; leaves plain weights."
    ),
}


_ROUTED: Final = (ModuleKind.SMILE, ModuleKind.MIXTURE, ModuleKind.CHOICE, ModuleKind.BLOCKS)
_LEAVES: Final[Mapping[ModuleKind | None, str]] = {
    ModuleKind.TASK: "Stores modules: given the task, they restore that expert's model.",
    ModuleKind.SURGERY: "Stores modules for each task; the task must be given.",
    **dict.fromkeys(_ROUTED, "Stores modules, and a router that finds the expert of each example."),
}


def engine_ready() -> EngineReady:
    """The first event of an engine process."""
    return EngineReady(
        methods=tuple(method_info(name) for name in METHODS),
        devices=available_devices(),
        devices_not_used=devices_not_used(),
        scopes=tuple((scope.name, scope.description) for scope in SCOPES.values()),
        threads=torch.get_num_threads(),
        memory_bytes=total_memory(),
        problems=PROBLEMS,
    )


def method_info(name: str) -> MethodInfo:
    """A registered method, for a list of methods or a help text."""
    method = METHODS[name]
    if method.modules is None:
        kind = None
    else:
        kind = kind_of(method.modules)
    need = Need.INPUTS if learns(method.modules) else method.need(method.parameters())
    return MethodInfo(
        name=method.name,
        title=method.title,
        family=next(title for title, family in families().items() if method in family),
        summary=method.summary,
        formula=method.formula,
        citation=method.citation,
        least=method.least,
        most=method.most,
        seeded=method.seeded,
        needs=_NEEDS[need],
        leaves=_LEAVES.get(kind, ""),
        routes=kind in _ROUTED,
        learns=method.learning is not None,
        fields=parameter_fields(method),
    )
