"""The memory and processors that this process may use; a container may allow less than the machine.

Control groups of both versions are read as files. The limits of a process are those of its own
group and of every group above.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_ROOT: Final = Path("/")
_RECLAIMABLE: Final = ("active_file", "inactive_file", "slab_reclaimable")
"""Names in ``memory.stat`` of memory that the kernel can reclaim; version 1 adds total_."""


def free_memory(root: Path = _ROOT) -> int:
    """Bytes that this process can still allocate, under every limit.

    ``root``: the folder of ``proc`` and ``sys``, for tests.
    """
    limits = [psutil.virtual_memory().available, *_left_under_limits()]
    limits += [group.memory_left() for group in _groups(root, "memory")]
    return max(0, int(min(limits)))


def total_memory(root: Path = _ROOT) -> int:
    """Bytes that the machine has, or that the control groups allow."""
    limits = [group.memory_limit() for group in _groups(root, "memory")]
    return int(min([psutil.virtual_memory().total, *limits]))


def reset_peak_memory() -> None:
    """Restart ``peak_memory``, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> int:
    """Peak resident bytes of this process since ``reset_peak_memory``, or since its start.

    0 if the system does not report it.
    """
    for line in _text(Path("/proc/self/status")).splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    return peak * 1024


def processors(root: Path = _ROOT) -> int:
    """Number of processors that this process may use, rounded up."""
    allowed: float = len(psutil.Process().cpu_affinity()) if _HAS_AFFINITY else os.cpu_count() or 1
    shares = [group.processors() for group in _groups(root, "cpu")]
    return max(1, math.ceil(min([allowed, *shares])))


_HAS_AFFINITY: Final = hasattr(psutil.Process, "cpu_affinity")


@dataclass(frozen=True)
class _ControlGroup:
    """A control group: its folder, and whether its version is 1."""

    folder: Path
    is_v1: bool

    def memory_limit(self) -> float:
        names = ("memory.limit_in_bytes",) if self.is_v1 else ("memory.max", "memory.high")
        return min(_number(self.folder / name) for name in names)

    def memory_left(self) -> float:
        """Bytes left; infinite without a limit, or if the group does not report its use."""
        used = _number(self.folder / f"memory.{'usage_in_bytes' if self.is_v1 else 'current'}")
        if math.isinf(used):
            return math.inf
        if self.is_v1:
            prefix = "total_"
        else:
            prefix = ""
        words = _text(self.folder / "memory.stat").split()
        entries = dict(zip(words[::2], words[1::2], strict=False))
        freeable = sum(_as_number(entries.get(f"{prefix}{name}", "0"), 0) for name in _RECLAIMABLE)
        return self.memory_limit() - max(0, used - freeable)

    def processors(self) -> float:
        if self.is_v1:
            quota = _text(self.folder / "cpu.cfs_quota_us").strip()
            period = _text(self.folder / "cpu.cfs_period_us").strip()
        else:
            quota, _, period = _text(self.folder / "cpu.max").strip().partition(" ")
        share = _as_number(quota), _as_number(period, 0)
        if share[0] > 0 and share[1] > 0:
            return share[0] / share[1]
        return math.inf


def _groups(root: Path, controller: str) -> Iterator[_ControlGroup]:
    """The process's control groups that have the controller, from its own upwards."""
    memberships = [line.split(":", 2) for line in _text(root / "proc/self/cgroup").splitlines()]
    for is_v1, root_group, mount_point in _mounts(root, controller):
        for parts in memberships:
            if len(parts) != 3 or (controller in parts[1].split(",")) != is_v1:
                continue
            if not is_v1 and parts[1]:
                continue
            relative = Path(os.path.relpath(f"/{parts[2]}", f"/{root_group}"))
            if ".." in relative.parts:
                folder = mount_point
            else:
                folder = mount_point / relative
            while folder != mount_point:
                yield _ControlGroup(folder, is_v1)
                folder = folder.parent
            yield _ControlGroup(mount_point, is_v1)


def _mounts(root: Path, controller: str) -> Iterator[tuple[bool, str, Path]]:
    """Every hierarchy of the controller: whether it is of version 1, its root group, its folder."""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        types = after.split()
        if len(fields) < 5 or len(types) < 3:
            continue
        is_v1 = types[0] == "cgroup" and controller in types[2].split(",")
        if is_v1 or types[0] == "cgroup2":
            yield is_v1, fields[3], root / fields[4].replace("\\040", " ").lstrip("/")


def _left_under_limits() -> Iterator[float]:
    """Bytes of address space and of data that ``ulimit`` still allows."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = psutil.Process().memory_info()
    for name, in_use in (("RLIMIT_AS", used.vms), ("RLIMIT_DATA", getattr(used, "data", 0))):
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - in_use


def _number(file: Path) -> float:
    return _as_number(_text(file).strip())


def _as_number(text: str, otherwise: float = math.inf) -> float:
    """A whole number; ``otherwise`` for "max" and any other text."""
    if text.isascii() and text.isdigit() and len(text) < 30:
        return int(text)
    return otherwise


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return ""
