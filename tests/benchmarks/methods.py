"""TSV-Merging and Iso-C on the shapes of ViT-B/32, against the published procedures.

``python -m tests.benchmarks.methods`` prints one line a method and shape, and one for all weight
matrices of a block. The literal procedures decompose every matrix in full, in float32; errors are
relative to the same in float64. O outputs, I inputs, T experts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ace_gui.engine.devices import use_threads
from ace_gui.methods import METHODS
from tests.benchmarks.experts import norms, task_vector
from tests.benchmarks.layers import Stopwatch
from tests.benchmarks.measuring import say
from tests.helpers import method_oracles as oracle

BLOCK = {(768, 768): 4, (3072, 768): 1, (768, 3072): 1}
"""Shapes of the weight matrices of one block, and how many there are: q, k, v, output; MLP."""

HEADER = (
    f"{'method':<8} {'shape':>11} {'T':>3} {'literal s':>10} {'ours s':>8} {'ratio':>6} "
    f"{'literal error':>14} {'our error':>10}"
)


def literal_tsv_m(deltas: Sequence[Tensor]) -> Tensor:
    """A full decomposition of each expert and of both stacks of singular vectors."""
    k = min(deltas[0].shape) // len(deltas)
    parts = [torch.linalg.svd(delta, full_matrices=False) for delta in deltas]
    u = torch.cat([part[0][:, :k] for part in parts], dim=1)
    s = torch.cat([part[1][:k] for part in parts])
    v = torch.cat([part[2][:k].T for part in parts], dim=1)
    return _polar(u) @ torch.diag(s) @ _polar(v).T


def literal_iso_c(deltas: Sequence[Tensor]) -> Tensor:
    """A full decomposition of the sum."""
    u, s, vh = torch.linalg.svd(torch.stack(list(deltas)).sum(dim=0), full_matrices=False)
    merged: Tensor = u @ torch.diag(s.mean().expand(len(s))) @ vh
    return merged


def _polar(columns: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(columns, full_matrices=False)
    factor: Tensor = u @ vh
    return factor


LITERAL: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "tsv_m": literal_tsv_m,
    "iso_c": literal_iso_c,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """Medians in seconds, errors relative to float64."""

    literal: float
    ours: float
    literal_error: float
    our_error: float


def measure(
    name: str, shape: tuple[int, int], experts: int, seconds: Stopwatch, rounds: int
) -> Row:
    """Alternate the contestants after one run of each."""
    generator = torch.Generator().manual_seed(0)
    deltas = [
        task_vector(*shape, norm, generator).to(seconds.device) for norm in norms(experts, 0.3, 4.0)
    ]
    method = METHODS[name]
    literal = partial(LITERAL[name], deltas)
    ours = partial(method.merge, deltas, [1.0] * experts, method.parameters())
    exact = LITERAL[name]([delta.double() for delta in deltas]).cpu().numpy()
    errors = [
        oracle.relative_error(found.double().cpu().numpy(), exact)
        for found in (literal(), ours().delta)
    ]
    times = [(seconds(literal), seconds(ours)) for _ in range(rounds)]
    return Row(
        literal=statistics.median(one for one, _ in times),
        ours=statistics.median(other for _, other in times),
        literal_error=errors[0],
        our_error=errors[1],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.methods", description=__doc__)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs of each")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count processor seconds; with --threads 1, for a machine that others use too",
    )
    options = parser.parse_args()
    use_threads(options.threads)
    clock = time.process_time if options.processor_time else time.perf_counter
    seconds = Stopwatch(device=torch.device(options.device), clock=clock)
    say(f"torch {torch.__version__}, {options.device}, {options.threads} threads")
    say(HEADER)
    for name in LITERAL:
        rows = {
            shape: measure(name, shape, options.experts, seconds, options.rounds) for shape in BLOCK
        }
        for shape, row in rows.items():
            say(_line(name, f"{shape[0]}×{shape[1]}", options.experts, row))
        say(_line(name, "a block", options.experts, _whole(rows)))
    return 0


def _whole(rows: dict[tuple[int, int], Row]) -> Row:
    return Row(
        literal=sum(BLOCK[shape] * row.literal for shape, row in rows.items()),
        ours=sum(BLOCK[shape] * row.ours for shape, row in rows.items()),
        literal_error=max(row.literal_error for row in rows.values()),
        our_error=max(row.our_error for row in rows.values()),
    )


def _line(name: str, shape: str, experts: int, row: Row) -> str:
    return (
        f"{name:<8} {shape:>11} {experts:>3} {row.literal:>10.3f} {row.ours:>8.3f} "
        f"{row.literal / row.ours:>6.2f} {row.literal_error:>14.1e} {row.our_error:>10.1e}"
    )


if __name__ == "__main__":
    sys.exit(main())
