"""How time and memory grow: ``python -m tests.benchmarks.scaling [--minutes 3]``.

Whole merges as processes, of GPT-2s with few layers: over the number of layers, then over the
number of experts. Memory should not grow with either, time in proportion to both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import measuring
from tests.benchmarks.checkpoints import gpt2_set
from tests.benchmarks.end_to_end import mb, merge, recipe

EXPERTS, LAYERS = 4, 2
"""What stays the same while the other one grows."""


def sizes() -> Iterator[tuple[int, int]]:
    """Experts and layers of every row."""
    for layers in (LAYERS, 2 * LAYERS, 4 * LAYERS):
        yield EXPERTS, layers
    for experts in (2, 8, 16):
        yield experts, LAYERS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scaling")
    parser.add_argument("--minutes", type=float, default=5, help="start no row after them")
    parser.add_argument("--methods", default="ace,linear,ties,tsv_m")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    idle = measuring.idle_torch()
    print(f"a process that imports torch: {idle.seconds:.2f} s, {mb(idle.peak_bytes)}")
    print("experts layers method   wall s processor s   memory")
    end = time.monotonic() + 60 * options.minutes
    for experts, layers in sizes():
        if time.monotonic() > end:
            print(f"{experts:>7} {layers:>6} no time left")
            continue
        with tempfile.TemporaryDirectory() as folder:
            base, tuned = gpt2_set(Path(folder) / "models", experts, layers=layers)
            for method in options.methods.split(","):
                path = recipe(Path(folder), base, tuned, method)
                run = merge(path, Path(folder) / "out", options.device)
                memory = mb(run.peak_bytes - idle.peak_bytes)
                print(
                    f"{experts:>7} {layers:>6} {method:<7} {run.seconds:>7.2f} "
                    f"{run.processor_seconds:>11.2f} {memory:>8}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
