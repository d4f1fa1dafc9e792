"""Make the sample project: a small vision transformer and five experts fine-tuned from it.

    python packaging/sample/make_image_sample.py [--out resources/sample]

Five little vision tasks share one model and one classification head over all their labels:
handwritten digits (scikit-learn's copy of the UCI set), shapes, textures, glyphs and counts
(drawn here). Every image has a difficulty in [0, 1], which drives rotation, noise, lighting,
clutter. The base is trained on all tasks at low difficulty, so that it knows every label well and
is mediocre where it gets hard. An expert is the base fine-tuned on one task at high difficulty,
with the head frozen and the softmax restricted to the labels of the task. Merging the experts
should give one model that is good at all five hard tasks.

Runs on one CPU thread in about ten minutes. Everything is seeded; the same versions of torch,
NumPy and scikit-learn on the same kind of processor give the same files. Held-out images come
from seeds, and for the digits from scans, that training never sees.

Shape letters: N images, H = W = 16 pixels.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sample_images import DRAWERS, SIDE, Labels, draw_digits
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from training import RECIPE_START, round_to_half, train
from transformers import ViTConfig, ViTForImageClassification
from transformers.utils.logging import disable_progress_bar

SEED = 2026
# ranges of difficulty: training the base, the experts' tasks
EASY = (0.0, 0.4)
HARD = (0.7, 1.0)
HELD_OUT = 400  # images a task
CALIBRATION = 256  # other images a task, to measure and to learn with


# --- tasks -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task: its labels, the first one's place in the shared head, the expert's training."""

    name: str
    title: str
    description: str
    labels: tuple[str, ...]
    first_label: int
    steps: int


class Images:
    """Images of every task; the handwritten scans are split once, 400 of them held out."""

    def __init__(self) -> None:
        digits = load_digits()
        order = np.random.default_rng(SEED).permutation(len(digits.images))
        self.scans = digits.images[order] / 16
        self.digit = digits.target[order]

    def batch(
        self, task: Task, n: int, rng: np.random.Generator, difficulty: tuple[float, float]
    ) -> tuple[NDArray[np.uint8], Labels]:
        """Return n training images (uint8, N × H × W) with their labels in the shared head."""
        return self._make(task, rng, difficulty, rng.integers(HELD_OUT, len(self.scans), n))

    def held_out(self, task: Task) -> tuple[NDArray[np.uint8], Labels]:
        """Return the 400 hard images of a task that no training sees."""
        rng = np.random.default_rng([SEED, task.first_label, 1])
        return self._make(task, rng, HARD, np.arange(HELD_OUT))

    def calibration(self, task: Task) -> tuple[NDArray[np.uint8], Labels]:
        """Return 256 hard images of a task, of training scans, for methods that want data."""
        rng = np.random.default_rng([SEED, task.first_label, 2])
        return self.batch(task, CALIBRATION, rng, HARD)

    def _make(
        self,
        task: Task,
        rng: np.random.Generator,
        difficulty_range: tuple[float, float],
        scans: Labels,
    ) -> tuple[NDArray[np.uint8], Labels]:
        difficulty = rng.uniform(*difficulty_range, len(scans))
        if task.name == "digits":
            labels = self.digit[scans]
            image = draw_digits(rng, self.scans[scans], difficulty)
        else:
            labels = rng.integers(0, len(task.labels), len(scans))
            image = DRAWERS[task.name](rng, labels, difficulty)
        return np.uint8(np.clip(image, 0, 1) * 255 + 0.5), labels + task.first_label


def tasks() -> tuple[Task, ...]:
    """Return the five tasks, with their places in the shared head."""
    rows = (
        # Digits and shapes are the hard ones, so their experts train longer.
        ("digits", "Handwritten digits", "0 to 9, negative, turned, unevenly lit", 600,
         "0 1 2 3 4 5 6 7 8 9"),
        ("shapes", "Shapes", "six outlines, turned, under salt and pepper", 600,
         "disc square triangle cross ring frame"),
        ("textures", "Textures", "stripes, checks and circles, faint and noisy", 200,
         "rows columns diagonal-up diagonal-down checks circles"),
        ("glyphs", "Glyphs", "eight invented signs of three strokes on ruled paper", 200,
         " ".join(f"glyph-{k}" for k in range(1, 9))),
        ("counts", "Counts", "one to five dots of any size in fog", 200,
         "one two three four five"),
    )  # fmt: skip
    made = []
    first = 0
    for name, title, description, steps, labels in rows:
        task = Task(
            name=name,
            title=title,
            description=description,
            labels=tuple(labels.split()),
            first_label=first,
            steps=steps,
        )
        made.append(task)
        first += len(task.labels)
    return tuple(made)


# --- training ----------------------------------------------------------------------------------


def new_model(all_tasks: tuple[Task, ...]) -> ViTForImageClassification:
    """Return an untrained transformer of 4 layers × 128 with one head over all labels."""
    names = [f"{task.name}/{label}" for task in all_tasks for label in task.labels]
    config = ViTConfig(
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        image_size=SIDE,
        patch_size=4,
        num_channels=1,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
    )
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return ViTForImageClassification(config)


def pixel_values(image_NHW: NDArray[np.uint8]) -> torch.Tensor:
    """Return float32 N × 1 × H × W in [−1, 1], as preprocessor_config.json says."""
    return (torch.from_numpy(image_NHW).float() / 255 - 0.5).div(0.5)[:, None]


def base_losses(
    model: ViTForImageClassification, images: Images, all_tasks: tuple[Task, ...]
) -> Iterator[torch.Tensor]:
    """Yield the loss of batches that mix all tasks at low difficulty, 28 images each."""
    rng = np.random.default_rng([SEED, 100])
    while True:
        batches = [images.batch(task, 28, rng, EASY) for task in all_tasks]
        x = pixel_values(np.concatenate([image for image, _ in batches]))
        y = torch.from_numpy(np.concatenate([labels for _, labels in batches]))
        yield cross_entropy(model(pixel_values=x).logits, y, label_smoothing=0.05)


def expert_losses(
    model: ViTForImageClassification, images: Images, task: Task
) -> Iterator[torch.Tensor]:
    """Yield the loss of batches of one task at high difficulty, over the task's own labels."""
    rng = np.random.default_rng([SEED, 200 + task.first_label])
    while True:
        image, labels = images.batch(task, 64, rng, HARD)
        yield cross_entropy(
            own_logits(model, image, task), torch.from_numpy(labels - task.first_label)
        )


def own_logits(
    model: ViTForImageClassification, image_NHW: NDArray[np.uint8], task: Task
) -> torch.Tensor:
    """Return the logits of the task's own labels."""
    logits = model(pixel_values=pixel_values(image_NHW)).logits
    return logits[:, task.first_label : task.first_label + len(task.labels)]


def accuracy(model: ViTForImageClassification, images: Images, task: Task) -> float:
    """Return the share of held-out images whose best label, of the task's own, is right."""
    image, labels = images.held_out(task)
    with torch.inference_mode():
        best = own_logits(model, image, task).argmax(1).numpy() + task.first_label
    return float((best == labels).mean())


# --- files -------------------------------------------------------------------------------------


def save_model(model: ViTForImageClassification, folder: Path) -> None:
    """Write a Hugging Face folder in float16: config, weights, image processor."""
    copy.deepcopy(model).half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes for the owner alone
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": SIDE, "width": SIDE},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5],
        "image_std": [0.5],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n")


def save_tasks(images: Images, all_tasks: tuple[Task, ...], out: Path) -> None:
    """Write held-out and calibration images, and the recipe of the merge with the tasks."""
    held_out = {}
    calibration = {}
    recipe = [*RECIPE_START]
    recipe += [f"  - model: experts/{task.name}\n    name: {task.name}" for task in all_tasks]
    recipe += ["tasks:"]
    for task in all_tasks:
        image, labels = images.held_out(task)
        held_out |= {f"{task.name}_images": image, f"{task.name}_labels": labels.astype(np.uint8)}
        image, labels = images.calibration(task)
        calibration[f"{task.name}_images"] = image
        calibration[f"{task.name}_labels"] = labels.astype(np.uint8)
        columns = f"{{image: {task.name}_images, label: {task.name}_labels}}"
        recipe += [
            f"  - name: {task.name}  # {task.title}: {task.description}",
            f"    expert: {task.name}",
            "    data: heldout.npz",
            "    calibration: calibration.npz",
            f"    columns: {columns}",
            f"    labels: [{', '.join(f'{task.name}/{label}' for label in task.labels)}]",
        ]
    np.savez_compressed(out / "heldout.npz", **held_out)
    np.savez_compressed(out / "calibration.npz", **calibration)
    (out / "sample.yaml").write_text("\n".join(recipe) + "\n")


def make(out: Path) -> None:
    """Train everything and write it below ``out``, printing held-out accuracies on the way."""
    torch.set_num_threads(1)
    disable_progress_bar()
    torch.manual_seed(SEED)
    images, all_tasks, started = Images(), tasks(), time.monotonic()

    def report(who: str) -> None:
        scores = "  ".join(f"{accuracy(model, images, task):.3f}" for task in all_tasks)
        print(f"{who:10}{scores}   {time.monotonic() - started:4.0f} s", flush=True)

    print(f"{'':10}{'  '.join(f'{task.name[:5]:5}' for task in all_tasks)}")
    model = new_model(all_tasks)
    losses = base_losses(model, images, all_tasks)
    train(model, losses, steps=2000, rate=1e-3, decay=0.05, warm_up=100)
    round_to_half(model)
    save_model(model, out / "base")
    report("base")
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.classifier.requires_grad_(False)
    for task in all_tasks:
        model.load_state_dict(base)
        losses = expert_losses(model, images, task)
        train(model, losses, steps=task.steps, rate=1e-4, decay=0.0, warm_up=20)
        round_to_half(model)
        save_model(model, out / "experts" / task.name)
        report(task.name)
    save_tasks(images, all_tasks, out)


def main() -> None:
    """Read the command line and make the sample project."""
    parser = argparse.ArgumentParser(description="Make the sample project.")
    parser.add_argument("--out", type=Path, default=Path("resources/sample"), help="where to write")
    make(parser.parse_args().out)


if __name__ == "__main__":
    main()
