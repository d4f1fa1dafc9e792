"""Whole merges, for tests that look at what comes out of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from ace_gui.engine.contract.events import TensorFinished
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.output.exporting import publish
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.output_files import staging_folder
from ace_gui.recipe import Recipe


def merged_tensors(prepared: Prepared, store: Path, **options: Any) -> dict[str, Tensor]:
    """Every tensor of the model that a merge with these ``options`` leaves in its store."""
    list(merge(prepared, store, **options))
    return load_file(store / MODEL / "model.safetensors")


def stopped_merge(prepared: Prepared, store: Path, tensors: int = 1, **options: Any) -> None:
    """Merge that many tensors, then go away as a cancelled job does."""
    events, taken = merge(prepared, store, **options), 0
    for event in events:
        taken += isinstance(event, TensorFinished)
        if taken == tensors:
            break
    events.close()


def merged_folder(recipe: Recipe, out: Path) -> Path:
    """The folder ``out`` with the merge of a recipe, published."""
    list(merge(prepare(recipe), staging_folder(out), device="cpu", as_output=True))
    publish(staging_folder(out), out)
    return out
