"""Measuring whole processes and the disk they work on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CHUNK = 16 * 2**20


WATCH = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - started
unit = 1 if sys.platform == "darwin" else 1024
with open(sys.argv[1], "w") as file:
    json.dump(dict(
        status=os.waitstatus_to_exitcode(status),
        seconds=seconds,
        processor_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * unit,
    ), file)
"""
"""Runs the command from a small process: a child's peak counts what its parent held at the fork."""


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    print(line, flush=True)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished process: wall time and processor time in seconds, peak resident memory in bytes.

    The peak is that of the largest single process among it and the children it waited for.
    """

    status: int
    seconds: float
    processor_seconds: float
    peak_bytes: int


def run(command: Sequence[str | Path], *, threads: int | None = None) -> Run:
    """Run a command to its end; its output goes where ours goes (Linux, macOS)."""
    environment = dict(os.environ)
    # An installed program has its bytecode; without this, compiling ours would count as its start.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        words = [sys.executable, "-S", "-c", WATCH, report.name, *map(str, command)]
        subprocess.run(words, env=environment, check=True)
        return Run(**json.load(report))


def idle_torch() -> Run:
    """A process that imports torch and ends: start-up time and memory to compare with."""
    return run([sys.executable, "-c", "import torch"])


def write_rate(folder: Path, size: int = 2**30) -> float:
    """Bytes a second of writing one file through to the disk."""
    path = folder / "rate-of-writing"
    chunk = os.urandom(CHUNK)
    started = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(max(1, size // CHUNK)):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    written = path.stat().st_size
    path.unlink()
    return written / seconds


def read_rate(path: Path) -> float:
    """Bytes a second of reading a file from the system's memory once from its start."""
    buffer = bytearray(CHUNK)
    with path.open("rb", buffering=0) as file:
        started = time.perf_counter()
        while file.readinto(buffer):
            pass
        seconds = time.perf_counter() - started
    return path.stat().st_size / seconds
