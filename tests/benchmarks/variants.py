"""ACE's automatic variant by the published one, both homogeneous, in turn:
``python -m tests.benchmarks.variants [--shapes …] [--experts 4] [--rounds 7]``."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from functools import partial

import torch

from ace_gui.engine.devices import use_threads
from ace_gui.methods.ace import AceParameters, ace_batch
from tests.benchmarks.experts import norms, task_vector
from tests.benchmarks.layers import Stopwatch
from tests.benchmarks.measuring import say

SHAPES = "768x768,768x3072,3072x768"
PUBLISHED = {"ε=1e-5": 1e-5, "ε=4e-2": 4e-2}
HEADER = f"{'layer':>11} {'T':>3} " + "".join(
    f"{title:>12}" for title in ("automatic s", *(f"{e} s" for e in PUBLISHED), *PUBLISHED)
)


def main() -> int:
    options = _options()
    use_threads(options.threads)
    clock = time.process_time if options.processor_time else time.perf_counter
    seconds = Stopwatch(device=torch.device(options.device), clock=clock)
    say(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads")
    say("Medians of seconds a layer; the last columns: automatic by published.")
    say(HEADER)
    for shape in options.shapes.split(","):
        outputs, inputs = map(int, shape.split("x"))
        generator = torch.Generator().manual_seed(0)
        lengths = (30.0, *norms(options.experts, 0.3, 1.0))  # the base, then the experts
        made = [task_vector(outputs, inputs, length, generator) for length in lengths]
        base, *deltas = [each.to(options.device) for each in made]
        layer = (deltas, [1.0] * len(deltas), base)
        contestants = [AceParameters(variant="automatic")]
        contestants += [AceParameters(epsilon=each, tau=100.0) for each in PUBLISHED.values()]
        times = [[] for _ in contestants]
        for turn in range(options.rounds + 1):  # the first warms up
            for own, parameters in zip(times, contestants, strict=True):
                own.append(seconds(partial(ace_batch, [layer], parameters)))
                if not turn:
                    own.clear()
        automatic, *published = map(statistics.median, times)
        figures = f"{automatic:>12.3f}" + "".join(f"{each:>12.3f}" for each in published)
        ratios = "".join(f"{automatic / each:>12.2f}" for each in published)
        say(f"{outputs:>5}×{inputs:<5} {options.experts:>3} {figures}{ratios}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.variants")
    parser.add_argument("--shapes", default=SHAPES, help="outputs x inputs")
    parser.add_argument("--experts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7, help="alternating runs of each")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count processor seconds; with --threads 1, for a machine that others use too",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
