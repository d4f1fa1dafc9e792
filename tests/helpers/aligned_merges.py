"""Small families whose merges are aligned with their experts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import MergeFinished
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import written
from tests.helpers.scored_models import save_chat_model

INPUTS = 20
"""Inputs of each task of the families."""


def recipe_with(file: Path, **keys: Any) -> Path:
    """The recipe, merged by task arithmetic, with other keys."""
    recipe = json.loads(file.read_text())
    recipe |= {"merge_method": "task_arithmetic", **keys}
    changed = file.with_name("changed.yaml")
    changed.write_text(json.dumps(recipe))
    return changed


def merged(
    file: Path, out: Path, options: Options | None = None, **keys: Any
) -> tuple[Mapping[str, Tensor], Distilled | None]:
    """The merged tensors, and what the alignment gave."""
    distilled: Distilled | None = None
    recipe = load_recipe(recipe_with(file, **keys))
    for event in merge_to_folder(recipe, out, options or Options(device="cpu")):
        if isinstance(event, MergeFinished):
            distilled = event.distilled
    return load_file(out / "model.safetensors"), distilled


def different(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> set[str]:
    """The names of the tensors that differ in any bit."""
    assert first.keys() == second.keys()
    return {name for name in first if not torch.equal(first[name], second[name])}


def chat_family(folder: Path) -> Path:
    """Two chat models whose answers are generated; their inputs have no labels."""
    for seed, name in enumerate(("base", "one", "other")):
        save_chat_model(folder / name, seed=seed)
    file = written(folder, ("one", "other"), "text,label", lambda text: f"{text},{text[:4]}")
    recipe = json.loads(file.read_text())
    for task in recipe["tasks"]:
        task |= {"kind": "text-to-text", "max_new_tokens": 6}
    file.write_text(json.dumps(recipe))
    return file
