"""Ours against mergekit 0.1.5: ``python -m tests.benchmarks.mergekit {speed,forms} …``.

``speed``: both as processes, on checkpoints it makes itself, with one mergekit file for both: TIES,
task arithmetic and averaging in alternating rounds, and how far the two results are apart.
``forms``: for every form of ``tests.helpers.mergekit_files``, on tiny models, how far the change of
the tensor that differs most is from mergekit's, or the sentence that refuses the file.
mergekit needs an environment of its own: ``--mergekit`` and ``--python`` say where it is.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import WorkbenchError
from ace_gui.recipe.recipe_file import load_recipe
from tests.benchmarks import measuring
from tests.benchmarks.bound import Rates, bound, measured_rates
from tests.benchmarks.checkpoints import gpt2_set, llama_set
from tests.benchmarks.end_to_end import mb, merge, say, seconds
from tests.benchmarks.measuring import Run
from tests.helpers.mergekit_files import DEPARTS, EXAMPLES, REFUSED, SAME, make_models
from tests.helpers.merges import merged_tensors

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

LARGEST = 2e-4
"""Of a change; what is left is mergekit's rounding to float32 of whole weights."""

THEIRS = """
import pathlib, yaml
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
options = MergeOptions(copy_tokenizer=False, write_model_card=False)
for file in sorted(pathlib.Path().glob("*.yaml")):
    try:
        config = MergeConfiguration.model_validate(yaml.safe_load(file.read_text()))
        run_merge(config, str(file.with_suffix(".theirs")), options)
    except Exception as error:
        file.with_suffix(".error").write_text(repr(error))
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mergekit")
    parts = parser.add_subparsers(required=True)
    speed = parts.add_parser("speed")
    speed.add_argument("--mergekit", default="mergekit-yaml", help="its command")
    speed.add_argument("--methods", default=",".join(PARAMETERS))
    speed.add_argument("--sets", default=",".join(SETS))
    speed.add_argument("--rounds", type=int, default=3)
    speed.set_defaults(run=compare_speed)
    forms = parts.add_parser("forms")
    forms.add_argument("--python", required=True, help="of mergekit's environment")
    forms.set_defaults(run=compare_forms)
    options = parser.parse_args()
    # It asks the hub about every base for its model card, even of local ones.
    os.environ["HF_HUB_OFFLINE"] = "1"
    options.run(options)


def compare_speed(options: argparse.Namespace) -> None:
    command = shutil.which(options.mergekit)
    if command is None:
        raise SystemExit(f"{options.mergekit} is not a command; name mergekit's with --mergekit.")
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
    rates: list[Rates] = []
    mine = path.with_suffix(".ours")
    their_folder = path.with_suffix(".theirs")
    for _ in range(rounds):
        rates.append(measured_rates())
        ours.append(merge(path, mine, "cpu", keep=True))
        run = measuring.run(
            [command, path, their_folder, "--no-copy-tokenizer", "--no-write-model-card"]
        )
        if run.status != 0:
            raise SystemExit(f"mergekit ended with status {run.status}")
        theirs.append(run)
        apart = distance(mine, their_folder, base)
        shutil.rmtree(mine)
        shutil.rmtree(their_folder)
    best, rival = (min(runs, key=lambda run: run.seconds) for runs in (ours, theirs))
    say(
        f"{method:<16} ours {seconds(best)} {mb(best.peak_bytes)}; mergekit {seconds(rival)} "
        f"{mb(rival.peak_bytes)}: {rival.seconds / best.seconds:.1f} × in wall, "
        f"{rival.processor_seconds / best.processor_seconds:.1f} × in processor time, "
        f"{best.peak_bytes / rival.peak_bytes:.2f} of its memory; {apart:.1e} apart"
    )
    size = sum(file.stat().st_size for file in base.parent.rglob("*.safetensors"))
    size += sum(file.stat().st_size for file in base.rglob("*.safetensors"))
    say(f"{'':<16} ours {bound(rates, 0.0, size).beside(ours)}")


def distance(mine: Path, theirs: Path, base: Path) -> float:
    """‖W − W'‖_F over the whole model, by ‖W' − W₀‖_F."""
    readers = [TensorReader(open_checkpoint(folder)) for folder in (mine, theirs, base)]
    names = set.intersection(*(set(open_checkpoint(f).tensors) for f in (mine, theirs, base)))
    gap = change = 0.0
    for name in names:
        first, second, start = (reader.read(name) for reader in readers)
        if first.is_floating_point():
            first, second, start = (tensor.float() for tensor in (first, second, start))
            gap += float(torch.dist(first, second)) ** 2
            change += float(torch.dist(second, start)) ** 2
    return math.sqrt(gap / change)


def compare_forms(options: argparse.Namespace) -> None:
    everything = SAME | DEPARTS | REFUSED | EXAMPLES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_models(folder)
        for number, document in enumerate(everything.values()):
            written = json.dumps({**document, "dtype": "float32"})
            (folder / f"{number}.yaml").write_text(written)
        subprocess.run([options.python, "-c", THEIRS], cwd=folder, check=True)
        bad = [
            title
            for number, title in enumerate(everything)
            if not printed(title, of_form(folder / f"{number}.yaml"))
        ]
    raise SystemExit(f"{len(bad)} differ" if bad else 0)


def printed(title: str, outcome: float | str) -> bool:
    """Print a line; whether it is as it should be."""
    good = title not in SAME or (isinstance(outcome, float) and outcome < LARGEST)
    said = f"{outcome:.1e}" if isinstance(outcome, float) else outcome
    print(f"{'' if good else 'WRONG '}{title}: {said}", flush=True)
    return good


def of_form(file: Path) -> float | str:
    """The largest distance of a tensor's changes, by their size; or why there is none."""
    store = file.with_suffix(".store")
    theirs = file.with_suffix(".theirs")
    try:
        prepared = prepare(load_recipe(file))
        mine = merged_tensors(prepared, store, device="cpu", as_output=True)
    except WorkbenchError as error:
        return error.sentence
    if not (theirs / "model.safetensors").exists():
        return f"mergekit: {file.with_suffix('.error').read_text()}"
    their_tensors = load_file(theirs / "model.safetensors")
    base = load_file(file.parent / "base" / "model.safetensors")
    return max(
        tensors_apart(
            mine[name], their_tensors[name], base.get(name, torch.zeros_like(their_tensors[name]))
        )
        for name in their_tensors
    )


def tensors_apart(mine: Tensor, theirs: Tensor, base: Tensor) -> float:
    """‖W − W'‖ by ‖W' − W₀‖; where that is no more than rounding, by a share of ‖W₀‖."""
    change = max(float(torch.dist(theirs, base)), 1e-3 * float(base.norm()))
    return float(torch.dist(mine.double(), theirs.double())) / (change or 1.0)


if __name__ == "__main__":
    main()
