"""How long the program takes to show its window, from the start of its process.

The window counts as shown once its texts are on the display; it answers from then on.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bundle.display import Display

RUNS = 5
_PATIENCE = 120.0
_LOOK = 0.005


def seconds_to_window(
    commands: Mapping[str, Sequence[str]], display: Display, runs: int = RUNS
) -> dict[str, float]:
    """Median seconds of each command, run in turn after one warm-up each."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            took = _one(command, display)
            if number:
                seconds[name].append(took)
    return {name: statistics.median(found) for name, found in seconds.items()}


def _one(command: Sequence[str], display: Display) -> float:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "DISPLAY": display.name, "QT_QPA_PLATFORM": "xcb"}
        environment |= {f"XDG_{kind}_HOME": home for kind in ("CONFIG", "CACHE", "STATE", "DATA")}
        started = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            while not display.is_drawn():
                if process.poll() is not None or time.perf_counter() - started > _PATIENCE:
                    raise RuntimeError(f"{' '.join(command)} shows no window")
                time.sleep(_LOOK)
            return time.perf_counter() - started
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def seconds_to_version(executable: Path, runs: int = RUNS) -> float:
    """Median seconds of ``--version``."""
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run([executable, "--version"], check=True, capture_output=True)
        found.append(time.perf_counter() - started)
    return statistics.median(found)
