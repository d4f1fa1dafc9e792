"""A click on a layer: ``python -m tests.benchmarks.inspection [--threads 2] [--rounds 5]``.

One matrix of a base and its experts, on disk and in the system's cache of files; spectra, subspaces
and distribution of it, first time and remembered, in processor and wall seconds. "something": until
the first of it is there, of the spectra the experts'. "merge" is the merge alone, which is the
greater part of a first time: the rest is what the look adds to it. "merged": after a merge of the
model, whose store is asked first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.devices import use_threads
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.inspecting.layer_distribution import distribution
from ace_gui.engine.inspecting.layer_spectrum import spectrum
from ace_gui.engine.inspecting.layer_subspaces import subspaces
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.one_tensor.task_vectors import Readers, TaskVectors
from ace_gui.engine.merging.one_tensor.tensor_merge import merge_deltas
from ace_gui.engine.planning.prepare import Prepared, prepare
from ace_gui.recipe import ModelEntry, Recipe
from tests.benchmarks.experts import norms, task_vector
from tests.benchmarks.measuring import say

CPU = torch.device("cpu")
NAME = "layer.0.dense.weight"
KINDS = {"hom.": 100.0, "het.": 0.0}
"""τ by regime."""

Look = Callable[[Prepared, PlanRow, InspectionCache, Path], Iterator[object]]
LOOKS: dict[str, Look] = {
    "spectrum": lambda prepared, row, cache, _store: spectrum(prepared, row, CPU, cache),
    "spectrum, merged": lambda prepared, row, cache, store: spectrum(
        prepared, row, CPU, cache, store
    ),
    "subspaces": lambda prepared, row, cache, _store: subspaces(prepared, row, CPU, cache),
    "distribution": lambda prepared, row, cache, _store: distribution(prepared, row, cache),
}


def main() -> int:
    options = _options()
    use_threads(options.threads)
    outputs, inputs = map(int, options.shape.split("x"))
    say(f"{outputs}×{inputs}, {options.experts} experts, {options.threads} threads")
    titles = ("something s", "all s", "processor s", "remembered ms")
    say(" ".join((f"{'what':<24}", *(f"{title:>13}" for title in titles))))
    with tempfile.TemporaryDirectory(prefix="ace-look-") as folder:
        models = _models(Path(folder), outputs, inputs, options.experts)
        for kind, tau in KINDS.items():
            parameters = {"epsilon": 1e-5, "tau": tau}
            prepared = prepare(
                Recipe(base_model=models[0], models=models[1], parameters=parameters)
            )
            merged = statistics.median(_merge(prepared) for _ in range(options.rounds))
            say(f"{'merge, ' + kind:<24} {'':>13} {merged:>13.2f}")
            store = Path(folder) / f"store {kind}"
            for _ in merge(prepared, store, device="cpu"):
                pass
            for title, look in LOOKS.items():
                rounds = [_look(look, prepared, store) for _ in range(options.rounds)]
                *seconds, again = map(statistics.median, zip(*rounds, strict=True))
                what = f"{title}, {kind}"
                shown = [*(f"{each:>13.2f}" for each in seconds), f"{1e3 * again:>13.1f}"]
                say(" ".join((f"{what:<24}", *shown)))
    return 0


def _models(
    folder: Path, outputs: int, inputs: int, experts: int
) -> tuple[Path, tuple[ModelEntry, ...]]:
    generator = torch.Generator().manual_seed(0)
    base = 0.02 * torch.randn(outputs, inputs, generator=generator)
    save_file({NAME: base}, folder / "base.safetensors", {"format": "pt"})
    entries = []
    for t, norm in enumerate(norms(experts, 0.3, 3.0)):
        file = folder / f"expert{t}.safetensors"
        tuned = base + task_vector(outputs, inputs, norm, generator)
        save_file({NAME: tuned}, file, {"format": "pt"})
        entries.append(ModelEntry(model=file))
    return folder / "base.safetensors", tuple(entries)


def _merge(prepared: Prepared) -> float:
    (row,) = prepared.plan.rows
    started = time.perf_counter()
    deltas = TaskVectors(row, Readers(prepared), CPU)
    merge_deltas(row, prepared, deltas, keep_preliminary=True)
    return time.perf_counter() - started


def _look(look: Look, prepared: Prepared, store: Path) -> tuple[float, float, float, float]:
    """Wall seconds until something and all is there, processor seconds; wall seconds once more."""
    (row,) = prepared.plan.rows
    with tempfile.TemporaryDirectory(dir=store.parent) as cache:
        started, used = time.perf_counter(), time.process_time()
        steps = look(prepared, row, InspectionCache(Path(cache)), store)
        next(step for step in steps if step is not None)
        something = time.perf_counter() - started
        list(steps)
        everything, processor = time.perf_counter() - started, time.process_time() - used
        started = time.perf_counter()
        list(look(prepared, row, InspectionCache(Path(cache)), store))
        return something, everything, processor, time.perf_counter() - started


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.inspection")
    parser.add_argument("--shape", default="768x3072", help="outputs x inputs")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
