"""The benchmarks' table: ``python -m tests.benchmarks [--quick] [--minutes 5] [--shapes …]``."""

from __future__ import annotations

import argparse
import sys
import time

import torch

from ace_gui.engine.capabilities import use_threads
from tests.benchmarks import layers
from tests.benchmarks.measuring import say

SHAPES = "768x768,3072x768,768x3072,2048x8192"


def main() -> int:
    options = _options()
    use_threads(options.threads)
    device = torch.device(options.device)
    clock = time.process_time if options.processor_time else time.perf_counter
    seconds = layers.Stopwatch(device=device, clock=clock)
    say(f"torch {torch.__version__}, {_name(device)}, {torch.get_num_threads()} threads")
    say(
        "Seconds a layer; ours merges B of them at once. literal: the published procedure in "
        "float32, on task vectors of float32 or bfloat16 weights. numbers: in which ours computes, "
        "mixed where only the system is solved in float64. floor: the necessary products at the "
        "rates of float32 and float64 products measured in the same rounds."
    )
    say(layers.HEADER)
    end = time.monotonic() + 60 * options.minutes
    rate = layers.rate(torch.float64, seconds)
    for case in layers.cases(options.shapes, options.experts, options.kinds, options.together):
        if layers.least_seconds(case, rate) > end - time.monotonic():
            say(f"{case.title} no time left")
        else:
            patience = min(options.patience, end - time.monotonic())
            say(layers.measure(case, seconds, options.rounds, patience).line())
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--shapes", type=layers.shapes, default=SHAPES, help="outputs x inputs")
    parser.add_argument(
        "--experts", type=layers.integers, default="4,8,20", help="numbers of experts"
    )
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(layers.EPSILON))
    parser.add_argument(
        "--together",
        type=layers.integers,
        default="1",
        help="numbers of layers that ours merges at once",
    )
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs of each")
    parser.add_argument("--patience", type=float, default=60, help="seconds a row may take")
    parser.add_argument("--minutes", type=float, default=60, help="leave out rows beyond them")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count processor seconds; with --threads 1, for a machine that others use too",
    )
    parser.add_argument("--quick", action="store_true", help="T = 8, without the largest shape")
    options = parser.parse_args()
    if options.quick:
        options.experts = [8]
        options.rounds = 3
        options.shapes = [shape for shape in options.shapes if max(shape) < 8192]
    return options


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


if __name__ == "__main__":
    sys.exit(main())
