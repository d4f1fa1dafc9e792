"""Routers route: where inputs come from other tasks than they are said to, scores fall."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import ace_gui
from ace_gui.paths import Sample

RECIPE = Sample.IMAGES.recipe
TASKS = ("digits", "shapes", "textures", "glyphs", "counts")
IMAGES = 40
"""Of each task."""

METHODS = ("twin_merging", "free_merging")
"""Whose routers learn from whose the inputs are."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def recipe(folder: Path, method: str, calibration: Path, **parameters: Any) -> Path:
    """The sample's recipe with another method, and calibration images of one's own."""
    document = yaml.safe_load(RECIPE.read_text())
    home = RECIPE.parent
    document |= {"base_model": str(home / "base"), "merge_method": method}
    del document["after"], document["poolers"]
    document["parameters"] = parameters
    for model in document["models"]:
        model["model"] = str(home / model["model"])
    for task in document["tasks"]:
        task |= {"data": str(home / task["data"]), "calibration": str(calibration)}
    file = folder / f"{method}-{calibration.stem}.yaml"
    file.write_text(json.dumps(document))
    return file


def mean_score(file: Path, folder: Path) -> float:
    scores = ace_gui.evaluate(file, [folder], limit=IMAGES).scores
    return float(np.mean([s.score for s in scores if not s.own and s.model != "base"]))


def shuffled(folder: Path) -> Path:
    """Calibration images that are shuffled among the tasks."""
    arrays = dict(np.load(RECIPE.parent / "calibration.npz"))
    pool = np.concatenate([arrays[f"{task}_images"] for task in TASKS])
    pool = np.random.default_rng(0).permutation(pool)
    for task, images in zip(TASKS, np.split(pool, len(TASKS)), strict=True):
        arrays[f"{task}_images"] = images
    file = folder / "shuffled.npz"
    np.savez(file, **arrays)
    return file


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_a_router_that_learned_from_other_tasks_inputs_is_worse(
    method: str, tmp_path: Path
) -> None:
    scores = []
    for calibration in (RECIPE.parent / "calibration.npz", shuffled(tmp_path)):
        file = recipe(tmp_path, method, calibration)
        out = ace_gui.merge(file, tmp_path / file.stem, device="cpu").folder
        scores.append(mean_score(file, out))
    assert scores[0] > scores[1] + 0.02, scores


GATES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "smile": ("SmileExperts", "weights", {}),
    "wemoe": ("BlockRouter", "forward", {"steps": 40, "learning_rate": 1e-3, "patience": 0}),
}
"""By method: the class that says who takes part, where it does so, and parameters."""


@contextmanager
def looking_elsewhere(model: Any, foreign_image: torch.Tensor, method: str) -> Iterator[None]:
    """Within it the gates see what another image gives to their layers."""
    kind, name, _ = GATES[method]
    gates = [module for module in model.modules() if type(module).__name__ == kind]
    assert gates

    def reported(gate: Any) -> Any:
        cache: list[torch.Tensor] = []

        def first(inputs: torch.Tensor) -> torch.Tensor:
            if not cache:
                cache.append(getattr(type(gate), name)(gate, inputs))
            return cache[0]

        return first

    for gate in gates:
        setattr(gate, name, reported(gate))
    model(foreign_image)
    yield
    for gate in gates:
        delattr(gate, name)


@pytest.mark.long
@pytest.mark.parametrize("method", GATES)
def test_gates_that_see_another_tasks_image_are_worse(method: str, tmp_path: Path) -> None:
    file = recipe(tmp_path, method, RECIPE.parent / "calibration.npz", **GATES[method][2])
    model = ace_gui.load_model(ace_gui.merge(file, tmp_path / "out", device="cpu").folder)
    held = np.load(RECIPE.parent / "heldout.npz")
    images = {t: torch.tensor(held[f"{t}_images"][:IMAGES]).float()[:, None] for t in TASKS}
    right = {True: 0, False: 0}
    for n, task in enumerate(TASKS):
        foreign_images = images[TASKS[(n + 1) % len(TASKS)]]
        labels = held[f"{task}_labels"]
        classes = torch.tensor(np.unique(labels).astype(int))
        for at in range(IMAGES):
            image, foreign_image = (
                pixels[at : at + 1] / 127.5 - 1 for pixels in (images[task], foreign_images)
            )
            for elsewhere in (False, True):
                looking = (
                    looking_elsewhere(model, foreign_image, method) if elsewhere else nullcontext()
                )
                with torch.inference_mode(), looking:
                    said = model(image).logits[0, classes].argmax()
                right[elsewhere] += int(classes[said] == labels[at])
    assert right[False] > right[True] + 0.02 * IMAGES * len(TASKS), right
