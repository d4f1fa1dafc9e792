"""Ends every process of a cluster on this machine as soon as the process that started it is gone.

It runs as a script in its own process, because the starting process may be killed and Ray's agents
would remain. Its input is one line with the cluster's token and one with its folder. The end of the
input ends the cluster.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import Final

import psutil

TOKEN: Final = "RAY_AUTH_TOKEN"
"""Environment variable with the token, set in every process of a cluster and nowhere else."""

_LONGEST_SECONDS: Final = 10.0
"""Seconds after which it no longer looks for processes."""

_PAUSE_SECONDS: Final = 0.1
"""Seconds between two looks."""


def end_all(token: str, folder: str) -> None:
    """Kill the processes of the cluster with this token, then remove its folder.

    It ends when it has found none twice in a row, as processes may still start others.
    """
    empty_looks = 0
    started = time.monotonic()
    while empty_looks < 2 and time.monotonic() - started < _LONGEST_SECONDS:
        processes = [leftover for leftover in psutil.process_iter() if _is_of(leftover, token)]
        for process in processes:
            try:
                process.kill()
            except psutil.Error:
                continue
        if processes:
            empty_looks = 0
        else:
            empty_looks += 1
        time.sleep(_PAUSE_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _is_of(process: psutil.Process, token: str) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get(TOKEN) == token
    except (psutil.Error, OSError):
        return False


def main() -> None:
    """Wait for the end of the input."""
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, signal.SIG_IGN)
    token = sys.stdin.readline().strip()
    folder = sys.stdin.readline().rstrip("\n")
    sys.stdin.read()  # returns when the starting process closes the input or is gone
    if token and folder:
        end_all(token, folder)


if __name__ == "__main__":
    main()
