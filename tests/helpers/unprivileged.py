"""Commands as a user runs them whom permissions bind, also where the tests run as root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Root reads and writes everything by two capabilities. Given away, they are gone in what is
# started next, which stays the same user, so that it still gets at the tests' own files.
_DROP = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if libc.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            raise OSError(ctypes.get_errno(), "a capability cannot be dropped")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run_unprivileged(
    *arguments: str | Path, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, without the right to ignore permissions."""
    return subprocess.run(
        [sys.executable, "-c", _DROP, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, **environment},
    )
