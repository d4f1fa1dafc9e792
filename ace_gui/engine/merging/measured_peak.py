"""The peak of this process's memory since it was last asked to forget it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from ace_gui.engine.planning.memory import measured_peak_bytes

_PROCESS: Final = Path("/proc/self")


def reset_peak() -> None:
    """Forget the peak so far, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")


def peak_bytes() -> int:
    """Peak resident memory since ``reset_peak``; since the start where that is not possible."""
    with contextlib.suppress(OSError):
        for line in (_PROCESS / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return measured_peak_bytes()
