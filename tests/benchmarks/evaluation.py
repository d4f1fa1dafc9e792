"""Scores of the sample's models by the workbench, and by a plain loop over transformers, in turn:
``python -m tests.benchmarks.evaluation [--rounds 5]``.

The base does every task, with the expert's head, and each expert its own; so does a merge with kept
heads. Both load every model that they ask, in one process that has all libraries in memory, and
no score is remembered from one turn to the next. Medians, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image

import ace_gui
from ace_gui.engine.capabilities import use_threads
from ace_gui.paths import Sample, scores_folder
from tests.benchmarks.measuring import say

BATCH = 64


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.evaluation")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    use_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    recipe = Sample.IMAGES.recipe
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        merged = Path(folder) / "merged"
        ace_gui.merge(recipe, merged, device="cpu")
        contestants = {
            "ours": lambda: ours(recipe, merged),
            "plain": lambda: plain(recipe.parent, merged),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
        for _ in range(options.rounds + 1):  # the first warms up
            for name, contestant in contestants.items():
                shutil.rmtree(scores_folder(), ignore_errors=True)
                times[name].append(clocked(contestant))
    say(f"15 trials of 400 examples, torch {torch.__version__}, {options.threads} threads")
    say(f"{'':10}{'wall s':>10}{'processor s':>14}")
    medians = {
        name: [statistics.median(pair[n] for pair in rounds[1:]) for n in (0, 1)]
        for name, rounds in times.items()
    }
    for name, (wall, processor) in medians.items():
        say(f"{name:10}{wall:>10.2f}{processor:>14.2f}")
    ratios = [a / b for a, b in zip(medians["ours"], medians["plain"], strict=True)]
    say(f"{'ratio':10}{ratios[0]:>10.2f}{ratios[1]:>14.2f}")
    return 0


def clocked(run: Callable[[], int]) -> tuple[float, float]:
    """Seconds of wall and of processor time. A run says how many trials it did."""
    wall = time.perf_counter()
    processor = time.process_time()
    count = run()
    seconds = time.perf_counter() - wall, time.process_time() - processor
    if count != 15:
        raise RuntimeError(f"{count} trials instead of 15.")
    return seconds


def ours(recipe: Path, merged: Path) -> int:
    return len(ace_gui.evaluate(recipe, [merged], device="cpu").scores)


def plain(folder: Path, merged: Path) -> int:
    """One model has all heads in one."""
    data = np.load(folder / "heldout.npz")
    count = 0
    tasks = [name.removesuffix("_images") for name in data.files if name.endswith("_images")]
    models = [(folder / "base", tasks), (merged, tasks)]
    models += [(folder / "experts" / task, [task]) for task in tasks]
    for path, model_tasks in models:
        model = transformers.AutoModelForImageClassification.from_pretrained(path).float().eval()
        processor = transformers.AutoImageProcessor.from_pretrained(path)
        for task in model_tasks:
            labels = [n for n, name in model.config.id2label.items() if name.startswith(task)]
            answers: list[int] = []
            pictures = [Image.fromarray(pixels) for pixels in data[f"{task}_images"]]
            for start in range(0, len(pictures), BATCH):
                inputs = processor(pictures[start : start + BATCH], return_tensors="pt")
                with torch.inference_mode():
                    answers += model(**inputs).logits[:, labels].argmax(1).tolist()
            np.mean(np.array(answers) == data[f"{task}_labels"])
            count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
