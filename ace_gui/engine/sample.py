"""The sample project: its recipe, and held-out accuracies of its base, experts and merges.

N images of H × W pixels.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ace_gui.architecture.loading import load_pretrained
from ace_gui.engine.contract.events import SampleAccuracy
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepare import prepare
from ace_gui.methods import method_variant
from ace_gui.paths import resource_path
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe

BATCH: Final = 200
COMPARED: Final = ("linear", "task_arithmetic", "ace", "ace:automatic")
"""The merges of the sample's table, each with its method's defaults."""

EXPERTS: Final = "experts"
"""The row of the table in which every expert is asked about its own task."""


@dataclass(frozen=True, kw_only=True)
class SampleTask:
    """One task: held-out images (N × H × W, uint8), and which of the head's labels are its own."""

    name: str
    expert: Path
    label_ids: tuple[int, ...]
    image_NHW: NDArray[np.uint8]
    target_N: NDArray[np.int64]


def sample_recipe() -> Recipe:
    """The sample's recipe, as it comes with the application."""
    return load_recipe(resource_path("sample/sample.yaml"))


def is_sample(recipe: Recipe) -> bool:
    """Whether the recipe merges experts of the sample, so that its tasks can be asked about."""
    sample = sample_recipe()
    known = {entry.model for entry in sample.models}
    same = recipe.base_model == sample.base_model
    return same and all(entry.model in known for entry in recipe.models)


def sample_tasks() -> tuple[SampleTask, ...]:
    """The sample's tasks with their held-out data."""
    folder = resource_path("sample")
    described = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    with np.load(folder / described["held_out"], allow_pickle=False) as held_out:
        return tuple(
            SampleTask(
                name=task["name"],
                expert=folder / task["expert"],
                label_ids=tuple(task["label_ids"]),
                image_NHW=held_out[task["images"]],
                target_N=held_out[task["targets"]].astype(np.int64),
            )
            for task in described["tasks"]
        )


def sample_accuracies() -> Iterator[SampleAccuracy]:
    """Held-out accuracy of the base, of each expert on its own task, and of the merges."""
    recipe, tasks = sample_recipe(), sample_tasks()
    yield folder_accuracy("base", recipe.base_model, tasks)
    yield SampleAccuracy(
        model=EXPERTS,
        by_task={task.name: accuracy(_load(task.expert), task) for task in tasks},
    )
    for name in COMPARED:
        with tempfile.TemporaryDirectory(prefix="ace-sample-") as folder:
            store = Path(folder) / "store"
            method, variant = method_variant(name)
            changed = dataclasses.replace(recipe, merge_method=method.name, parameters=variant)
            for _ in merge(prepare(changed), store, device="cpu", as_output=True):
                pass
            yield folder_accuracy(
                ", ".join((method.title, *variant.values())), store / MODEL, tasks
            )


def folder_accuracy(title: str, folder: Path, tasks: tuple[SampleTask, ...]) -> SampleAccuracy:
    """Held-out accuracy of the model in a folder on every task."""
    model = _load(folder)
    return SampleAccuracy(model=title, by_task={task.name: accuracy(model, task) for task in tasks})


def accuracy(model: Any, task: SampleTask) -> float:
    """Share of held-out images whose best label, among the task's own, is right."""
    own = torch.tensor(task.label_ids)
    right = 0
    with torch.inference_mode():
        for start in range(0, len(task.image_NHW), BATCH):
            image_NHW = torch.from_numpy(task.image_NHW[start : start + BATCH])
            pixels_NCHW = ((image_NHW.float() / 255 - 0.5) / 0.5).unsqueeze(1)
            best_N = own[model(pixel_values=pixels_NCHW).logits[:, own].argmax(dim=1)]
            target_N = torch.from_numpy(task.target_N[start : start + BATCH])
            right += int((best_N == target_N).sum())
    return right / len(task.image_NHW)


def _load(folder: Path) -> Any:
    model, _ = load_pretrained(folder)
    return model.float()
