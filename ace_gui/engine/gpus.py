"""The GPUs of this machine: which can be used, which is the fastest, and why there is none.

CUDA and ROCm use the same functions of torch; nothing here was tried with ROCm.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

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
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    except Exception:  # a broken driver may raise anything
        return []
    return [_gpu(index) for index in range(count)]


def _gpu(index: int) -> Gpu:
    name = f"cuda:{index}"
    try:
        found = torch.cuda.get_device_properties(index)
        if torch.version.hip is not None:
            architecture = found.gcnArchName.partition(":")[0]
            title = f"{found.name} (ROCm, not tried yet)"
        else:
            architecture, title = f"sm_{found.major}{found.minor}", found.name
        return Gpu(
            name=name,
            title=title,
            architecture=architecture,
            processors=found.multi_processor_count,
            memory_bytes=found.total_memory,
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
    """Why this build of torch does not support a GPU, a sentence; empty if it does."""
    if not gpu.architecture or not built_for or gpu.architecture in built_for:
        return ""
    if any(_runs(gpu.architecture, each) for each in built_for):
        return ""
    return (
        f"{gpu.title} ({gpu.name}) is of architecture {gpu.architecture}, which this build of "
        f"torch has no code for (it has {', '.join(built_for)}); install another build, {GET_TORCH}"
        "."
    )


def _runs(architecture: str, built: str) -> bool:
    """Whether the code runs: binaries on later GPUs of a generation, PTX on all later ones."""
    own, code = _capability(architecture, "sm"), _capability(built, "sm")
    if own and code:
        return own[0] == code[0] and own[1] >= code[1]
    general = _capability(built, "compute")
    return bool(own and general and own >= general)


def _capability(text: str, kind: str) -> tuple[int, int] | None:
    """ "sm_86" to (8, 6); None for another kind, and for code of one GPU alone ("sm_90a")."""
    found = re.fullmatch(rf"{kind}_(\d+)(\d)", text)
    return (int(found[1]), int(found[2])) if found else None


def fastest_first(found: Sequence[Gpu]) -> list[Gpu]:
    """GPUs sorted by float64 multiplications per cycle, then by memory, then in torch's order."""
    return sorted(found, key=lambda gpu: (-_doubles(gpu), -gpu.memory_bytes))


def _doubles(gpu: Gpu) -> int:
    found = _capability(gpu.architecture, "sm")
    if found is None:
        return _AMD_DOUBLES.get(gpu.architecture, 2) * gpu.processors
    return _DOUBLES.get(f"{found[0]}.{found[1]}", 2) * gpu.processors


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
        made_for = f" (CUDA {torch.version.cuda})" if torch.version.cuda else ""
        return f"The NVIDIA driver is too old for this build of torch{made_for}; update the driver."
    first = error.strip().partition("\n")[0].rstrip(".")
    return f"CUDA does not start: {first}." if first else "CUDA does not start."
