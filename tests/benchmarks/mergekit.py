"""Ours against mergekit, both as processes: ``python -m tests.benchmarks.mergekit [--mergekit …]``.

On checkpoints it makes itself, with one mergekit file for both: TIES, task arithmetic and averaging
in alternating rounds, and how far the two results are apart. mergekit 0.1.5 is expected as
``mergekit-yaml`` on PATH, or wherever ``--mergekit`` says; it needs an environment of its own.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from tests.benchmarks import measuring
from tests.benchmarks.checkpoints import gpt2_set, llama_set
from tests.benchmarks.end_to_end import mb, merge, say, seconds
from tests.benchmarks.measuring import Run

SETS: dict[str, tuple[Callable[..., tuple[Path, list[Path]]], int, str]] = {
    "gpt2": (gpt2_set, 7, "float32"),
    "llama": (llama_set, 3, "bfloat16"),
}
"""Models, how many experts, and the format of all of them and of the output."""

PARAMETERS: dict[str, dict[str, Any]] = {
    "ties": {"density": 0.2},
    "task_arithmetic": {"lambda": 0.3},
    "linear": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mergekit", default="mergekit-yaml", help="its command")
    parser.add_argument("--methods", default=",".join(PARAMETERS))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    command = shutil.which(options.mergekit)
    if command is None:
        raise SystemExit(f"{options.mergekit} is not a command; name mergekit's with --mergekit.")
    # It asks the hub about every base for its model card, even of local ones.
    os.environ["HF_HUB_OFFLINE"] = "1"
    idle = measuring.idle_torch()
    say(f"a process that imports torch: {idle.seconds:.2f} s, {mb(idle.peak_bytes)}")
    for chosen in options.sets.split(","):
        make, experts, dtype = SETS[chosen]
        say(f"{chosen}, {experts} experts, {dtype}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            base, tuned = make(folder / "models", experts)
            for method in options.methods.split(","):
                path = recipe(folder, base, tuned, method, dtype)
                compare(method, command, path, base, options.rounds)


def recipe(folder: Path, base: Path, tuned: list[Path], method: str, dtype: str) -> Path:
    """A mergekit file for one method; averages are of the experts alone."""
    document: dict[str, Any] = {
        "merge_method": method,
        "models": [{"model": str(path), "parameters": {"weight": 1.0}} for path in tuned],
        "dtype": dtype,
    }
    if method != "linear":
        document |= {"base_model": str(base), "parameters": PARAMETERS[method]}
    path = folder / f"{method}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def compare(method: str, command: str, path: Path, base: Path, rounds: int) -> None:
    """Both programs on one file in turn: time, memory, and the distance of the results."""
    ours: list[Run] = []
    theirs: list[Run] = []
    mine, other = path.with_suffix(".ours"), path.with_suffix(".theirs")
    for _ in range(rounds):
        ours.append(merge(path, mine, "cpu", keep=True))
        run = measuring.run([command, path, other, "--no-copy-tokenizer", "--no-write-model-card"])
        if run.status != 0:
            raise SystemExit(f"mergekit ended with status {run.status}")
        theirs.append(run)
        apart = distance(mine, other, base)
        shutil.rmtree(mine)
        shutil.rmtree(other)
    best, rival = (min(runs, key=lambda run: run.seconds) for runs in (ours, theirs))
    say(
        f"{method:<16} ours {seconds(best)} {mb(best.peak_bytes)}; mergekit {seconds(rival)} "
        f"{mb(rival.peak_bytes)}: {rival.seconds / best.seconds:.1f} × in wall, "
        f"{rival.processor_seconds / best.processor_seconds:.1f} × in processor time, "
        f"{best.peak_bytes / rival.peak_bytes:.2f} of its memory; {apart:.1e} apart"
    )


def distance(mine: Path, other: Path, base: Path) -> float:
    """‖W − W'‖_F over the whole model, by ‖W' − W₀‖_F."""
    readers = [TensorReader(open_checkpoint(folder)) for folder in (mine, other, base)]
    names = set.intersection(*(set(open_checkpoint(f).tensors) for f in (mine, other, base)))
    gap = change = 0.0
    for name in names:
        first, second, start = (reader.read(name) for reader in readers)
        if first.is_floating_point():
            first, second, start = (each.float() for each in (first, second, start))
            gap += float(torch.dist(first, second)) ** 2
            change += float(torch.dist(second, start)) ** 2
    return math.sqrt(gap / change)


if __name__ == "__main__":
    main()
