"""Whole merges as processes: ``python -m tests.benchmarks.end_to_end [--sets gpt2,vit] …``.

On checkpoints it makes itself: ours (ACE and averaging) against the literal procedure as a whole
program; peak memory above a process that only imports torch; reading and writing against the
disk's own rates; processor time against its bound (``bound``), measured between the rounds. Every
figure is of whole processes: the best of some rounds, and the first one, which finds no description
of the architecture in the cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.benchmarks import measuring
from tests.benchmarks.bound import Rates, bound, matrices, measured_rates, operations
from tests.benchmarks.checkpoints import gpt2_set, llama_set, vit_b32_set
from tests.benchmarks.measuring import Run, say
from tests.helpers.recipes import file_over

SETS: dict[str, Callable[..., tuple[Path, list[Path]]]] = {
    "gpt2": gpt2_set,
    "vit": vit_b32_set,
    "llama": llama_set,
}
EPSILON = {"gpt2": 4e-2, "vit": 1e-5, "llama": 1e-5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="gpt2,vit")
    parser.add_argument("--experts", default="3,7,20")
    parser.add_argument(
        "--literal", type=int, default=7, help="experts of the literal run; 0: none"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, help="of the models; their usual number without")
    parser.add_argument("--threads", type=int, help="of every process")
    options = parser.parse_args()
    idle = min((measuring.idle_torch() for _ in range(2)), key=lambda run: run.seconds)
    say(f"a process that imports torch: {idle.seconds:.2f} s, {mb(idle.peak_bytes)}")
    for name in options.sets.split(","):
        for experts in map(int, options.experts.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
                measure_set(name, experts, Path(folder), idle, options)


def measure_set(
    name: str, experts: int, folder: Path, idle: Run, options: argparse.Namespace
) -> None:
    """One set of checkpoints: every program on it in turn."""
    fewer = {} if options.layers is None else {"layers": options.layers}
    base, tuned = SETS[name](folder / "models", experts, **fewer)
    size = sum(path.stat().st_size for path in (folder / "models").rglob("*.safetensors"))
    written = (base / "model.safetensors").stat().st_size
    read = measuring.read_rate(base / "model.safetensors")
    write = measuring.write_rate(folder)
    say(
        f"\n{name}, {experts} experts: {mb(size)} to read at {read / 1e9:.2f} GB/s (cached), "
        f"{mb(written)} to write at {write / 1e9:.2f} GB/s: {size / read + written / write:.1f} s"
    )
    ours = {
        method: file_over(folder / method, base, tuned, merge_method=method)
        for method in ("ace", "linear")
    }
    runs: dict[str, list[Run]] = {method: [] for method in ours}
    rates: list[Rates] = []
    for _ in range(options.rounds):
        rates.append(measured_rates())
        for method, path in ours.items():
            if not runs[method]:
                shutil.rmtree(folder / "cache", ignore_errors=True)
            runs[method].append(
                merge(path, folder / "out", options.device, threads=options.threads)
            )
    best = {method: min(attempts, key=lambda run: run.seconds) for method, attempts in runs.items()}
    for method, run in best.items():
        beside = (run.seconds - idle.seconds) / (size / read + written / write)
        first, *later = runs[method]
        peaks = [mb(run.peak_bytes - idle.peak_bytes) for run in later]
        say(
            f"  ours, {method:<8} {seconds(run)}, {', '.join(peaks)} over torch; first "
            f"{first.seconds:.1f} s, {mb(first.peak_bytes - idle.peak_bytes)}; "
            f"torch aside {beside:.2f} × the disk's time"
        )
        products = operations(base, experts) if method == "ace" else 0.0
        say(f"                {bound(rates, products, size + written).beside(runs[method])}")
    if experts == options.literal:
        arguments = [base, folder / "literal", str(EPSILON[name]), *tuned]
        compare_with_literal(arguments, runs["ace"], idle, options.threads, saved(base, experts))


def compare_with_literal(
    arguments: Sequence[str | Path],
    ours: Sequence[Run],
    idle: Run,
    threads: int | None,
    most: float,
) -> None:
    """The literal program on the same models. ``most``: the ratio of operations."""
    module = [sys.executable, "-m", "tests.benchmarks.literal_merge"]
    literal = measuring.run([*module, *arguments], threads=threads)
    wall = min(run.seconds for run in ours)
    processor = min(run.processor_seconds for run in ours)
    say(
        f"  literal, ace  {seconds(literal)}, {mb(literal.peak_bytes - idle.peak_bytes)} over "
        f"torch: {literal.seconds / wall:.2f} × ours by wall time, "
        f"{literal.processor_seconds / processor:.2f} × by processor time "
        f"({most:.2f} × by operations)"
    )


def saved(base: Path, experts: int) -> float:
    """How many times the operations of our sums and solutions the literal ones take.

    Homogeneous layers: of symmetric matrices one half is needed, and the smaller side may be used.
    """
    literal = ours = 0.0
    for o, i in matrices(base):
        literal += (6 * experts + 2) * o * i**2 + 2 * i**3
        wide = (3 * experts - 2) * o * i**2
        ours += min(wide, experts * (o * i**2 + 3 * o**2 * i)) + i**3 / 3 + 2 * o * i**2
    return literal / ours


def merge(
    path: Path, out: Path, device: str, *, keep: bool = False, threads: int | None = None
) -> Run:
    """``ace-gui merge`` as a process; the output is removed again unless it shall be kept."""
    command = [sys.executable, "-m", "ace_gui", "merge", path, "--out", out, "--device", device]
    run = measuring.run(command, threads=threads)
    if run.status != 0:
        raise SystemExit(f"ace-gui merge ended with status {run.status}")
    if not keep:
        shutil.rmtree(out)
    return run


def seconds(run: Run) -> str:
    return f"{run.seconds:6.1f} s wall {run.processor_seconds:6.1f} s processor"


def mb(count: float) -> str:
    return f"{count / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
