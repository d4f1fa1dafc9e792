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

_SECONDS: Final = 10.0
_PAUSE: Final = 0.1


def end_all(token: str, folder: str) -> None:
    """Kill the processes of the cluster with this token, then remove its folder."""
    quiet = 0
    started = time.monotonic()
    while quiet < 2 and time.monotonic() - started < _SECONDS:
        processes = [leftover for leftover in psutil.process_iter() if _is_of(leftover, token)]
        for process in processes:
            try:
                process.kill()
            except psutil.Error:
                continue
        if processes:
            quiet = 0
        else:
            quiet = quiet + 1
        time.sleep(_PAUSE)
    shutil.rmtree(folder, ignore_errors=True)


def _is_of(process: psutil.Process, token: str) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get(TOKEN) == token
    except (psutil.Error, OSError):
        return False


def main() -> None:
    """Wait for the end of the input."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    token = sys.stdin.readline().strip()
    folder = sys.stdin.readline().rstrip("\n")
    sys.stdin.read()
    if token and folder:
        end_all(token, folder)


if __name__ == "__main__":
    main()
