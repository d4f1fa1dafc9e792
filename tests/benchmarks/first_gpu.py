"""What a GPU makes of a recipe: ``python -m tests.benchmarks.first_gpu RECIPE.yaml cuda:0``.

For a machine with a GPU, the first time: everything that a processor cannot show, in one run, to be
copied from the terminal. A part that fails says so and the next one begins. ``cpu`` for the device
tries the script itself. The recipe decides the size: ACE-Merging's authors give 4.32 s and 2.04 GB
for eight ViT-L/14, 4.70 s and 1.02 GB for seven GPT-2 (A800).
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.capabilities import available_devices, devices_not_used, resolve_device
from ace_gui.engine.contract.events import MergeFinished
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL, reports
from ace_gui.engine.merging.tensor_merge import CROWDED, DIVIDED, FELL_BACK
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import WorkbenchError
from ace_gui.machine import peak_memory, reset_peak_memory
from ace_gui.methods import METHODS
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from tests.benchmarks import layers
from tests.benchmarks.measuring import say

FRESH = 5
"""Processes, each of which merges as its first work on the GPU."""

SHAPES = [(1024, 1024), (4096, 1024), (1024, 4096)]
LITTLE = 0.02
"""Share of the GPU's memory that the merge is to make do with once."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Merged:
    """A finished merge; ``folder`` has the model, ``finished`` the time and the GPU's peak."""

    folder: Path
    finished: MergeFinished

    def tensors(self) -> dict[str, Tensor]:
        return weights(self.folder)


def main(arguments: list[str] | None = None) -> int:
    """Every part in turn; returns how many failed."""
    options = _options(arguments)
    recipe = load_recipe(options.recipe)
    device = resolve_device(options.device)
    describe(device)
    parts: dict[str, Callable[[Path], None]] = {
        "fresh processes": lambda folder: fresh(options.recipe, options.device, folder, options),
        "every method": lambda folder: every_method(recipe, device, folder, options.methods),
        "little memory": lambda folder: little_memory(recipe, device, folder),
        "decompositions": lambda _: decompositions(device, options.shapes),
        "layers": lambda _: table(device, options),
        "profile": lambda folder: profile(recipe, device, folder),
    }
    return sum(_failed(title, part) for title, part in parts.items())


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.first_gpu")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("device")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument("--processes", type=int, default=FRESH)
    parser.add_argument("--shapes", type=layers.shapes, default=SHAPES, help="1024x1024,4096x1024")
    parser.add_argument("--together", type=layers.integers, default=[1, 4, 8])
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs of a layer")
    return parser.parse_args(arguments)


def _failed(title: str, part: Callable[[Path], None]) -> bool:
    say(f"\n== {title}")
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            part(Path(folder))
    except Exception:
        say(f"FAILED\n{traceback.format_exc(limit=-6)}")
        return True
    say(f"({time.perf_counter() - started:.1f} s)")
    return False


def describe(device: torch.device) -> None:
    """The machine, in a few lines."""
    say(f"torch {torch.__version__}, CUDA {torch.version.cuda}, ROCm {torch.version.hip}")
    say(f"{platform.platform()}, Python {platform.python_version()}, computing on {device}")
    for available in available_devices():
        size = f"  {available.memory_bytes / 1e9:.1f} GB" if available.memory_bytes else ""
        say(f"{available.name}  {available.title}{size}")
    for sentence in devices_not_used():
        say(sentence)
    if device.type == "cuda":
        say(str(torch.cuda.get_device_properties(device)))
        say(f"solver: {torch.backends.cuda.preferred_linalg_library()}")


def fresh(recipe: Path, device: str, folder: Path, options: argparse.Namespace) -> None:
    """(a) Whether the first merge of a process survives its threads meeting on the GPU."""
    for number in range(options.processes):
        words = ["merge", str(recipe), "--out", str(folder / str(number)), "--device", device]
        started = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-m", "ace_gui", *words, "--verbose"],
            capture_output=True,
            text=True,
            check=False,
        )
        last = ended.stderr.strip().splitlines()[-1:] if ended.returncode else []
        say(f"{number + 1}: exit {ended.returncode}, {time.perf_counter() - started:.1f} s {last}")


def every_method(recipe: Recipe, device: torch.device, folder: Path, methods: list[str]) -> None:
    """(b) The device's weights against the processor's, as a share of the merged change."""
    say(f"{'method':<18} {'cpu s':>8} {'here s':>8} {'apart':>9} {'alloc GB':>9} {'res. GB':>8}")
    base: dict[str, Tensor] | None = None
    for name in methods:
        method_recipe = recipe
        if name != recipe.merge_method:
            method_recipe = dataclasses.replace(
                recipe, merge_method=name, parameters={}, overrides=()
            )
        try:
            cpu = merged(method_recipe, torch.device("cpu"), folder / f"{name}-cpu")
            here = merged(method_recipe, device, folder / f"{name}-here")
        except WorkbenchError as error:
            say(f"{name:<18} {error.sentence}")
            continue
        base = base or weights(prepare(recipe).base.checkpoint.folder or recipe.base_model)
        apart = distance(here.tensors(), cpu.tensors(), base)
        say(
            f"{name:<18} {cpu.finished.seconds:>8.2f} {here.finished.seconds:>8.2f} "
            f"{apart:>9.1e} {_peaks(here.finished)} {_fallbacks(here)}"
        )


def little_memory(recipe: Recipe, device: torch.device, folder: Path) -> None:
    """(c) The merge finishes with hardly any memory of the GPU, and takes little of the host's."""
    with _share_of_memory(device, LITTLE):
        reset_peak_memory()
        run = merged(recipe, device, folder / "little")
    say(f"{run.finished.seconds:.2f} s, {_peaks(run.finished)} GB, {_fallbacks(run)}")
    say(f"host: {peak_memory() / 1e9:.2f} GB at most")


def decompositions(device: torch.device, shapes: list[tuple[int, int]]) -> None:
    """Seconds of what the solvers are asked for, in float64: which of them is slow here."""
    seconds = layers.Stopwatch(device=device)
    say(f"{'N':>6} {'product':>10} {'cholesky':>10} {'eigh':>10} {'svd':>10}")
    for size in sorted({min(shape) for shape in shapes}):
        square = torch.randn(size, size, dtype=torch.float64, device=device)
        definite = square @ square.T + size * torch.eye(size, dtype=torch.float64, device=device)
        steps: list[Callable[[], object]] = [
            lambda square=square: square @ square,
            lambda definite=definite: torch.linalg.cholesky_ex(definite),
            lambda definite=definite: torch.linalg.eigh(definite),
            lambda square=square: torch.linalg.svd(square, full_matrices=False),
        ]
        say(f"{size:>6} " + " ".join(f"{min(map(seconds, [step] * 2)):>10.4f}" for step in steps))
    single, double = (layers.rate(dtype, seconds) for dtype in (torch.float32, torch.float64))
    say(f"products: {single / 1e12:.2f} Tflop/s in float32, {double / 1e12:.2f} in float64")


def table(device: torch.device, options: argparse.Namespace) -> None:
    """(d) ACE by layer: seconds of ours, of the published procedure and of the products."""
    seconds = layers.Stopwatch(device=device)
    say(layers.HEADER)
    for case in layers.cases(options.shapes, [8], list(layers.EPSILON), options.together):
        say(layers.measure(case, seconds, rounds=options.rounds, patience=20).line())


def profile(recipe: Recipe, device: torch.device, folder: Path) -> None:
    """(e, f) The recipe's own merge after a warm-up, then what the device does in it, and idles."""
    merged(recipe, device, folder / "warm")
    again = merged(recipe, device, folder / "again")
    say(f"{again.finished.seconds:.2f} s, {_peaks(again.finished)} GB, {_fallbacks(again)}")
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as seen:
        run = merged(recipe, device, folder / "profiled")
    column = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    events = seen.key_averages()
    busy = sum(getattr(event, column) for event in events) / 1e6
    say(f"{run.finished.seconds:.2f} s with the profiler, {busy:.2f} s of work there")
    say(events.table(sort_by=column, row_limit=15, max_name_column_width=50))


def merged(recipe: Recipe, device: torch.device, store: Path) -> Merged:
    """Merge into ``store``, as an output."""
    events = list(merge(prepare(recipe), store, device=str(device), as_output=True))
    return Merged(
        folder=store, finished=next(event for event in events if isinstance(event, MergeFinished))
    )


def weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the model in a folder, or in the store of a merge."""
    checkpoint = open_checkpoint(folder / MODEL if (folder / MODEL).is_dir() else folder)
    reader = TensorReader(checkpoint)
    return {name: reader.read(name) for name in checkpoint.tensors}


def distance(first: dict[str, Tensor], second: dict[str, Tensor], base: dict[str, Tensor]) -> float:
    """‖one − other‖ by ‖other − base‖ over all tensors of floats, in float64."""
    apart = change = 0.0
    for name, tensor in second.items():
        if tensor.is_floating_point():
            wide = tensor.double()
            apart += float((first[name].double() - wide).square().sum())
            change += float((wide - base[name].double()).square().sum())
    return (apart / change) ** 0.5 if change else apart**0.5


def _peaks(finished: MergeFinished) -> str:
    if finished.gpu_peak is None:
        return f"{'-':>9} {'-':>8}"
    return f"{finished.gpu_peak.allocated / 1e9:>9.2f} {finished.gpu_peak.reserved / 1e9:>8.2f}"


def _fallbacks(run: Merged) -> str:
    """How many matrices had no room, by what was done."""
    titles = {CROWDED: "crowded", DIVIDED: "divided", FELL_BACK: "on the processor"}
    reported = Counter(note for report in reports(run.folder).values() for note in report.notes)
    return ", ".join(
        f"{reported[note]} {title}" for note, title in titles.items() if reported[note]
    )


@contextmanager
def _share_of_memory(device: torch.device, share: float) -> Iterator[None]:
    if device.type != "cuda":
        yield
        return
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(share, device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


if __name__ == "__main__":
    sys.exit(main())
