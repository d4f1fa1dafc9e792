"""Whole merges, for tests that look at what comes out of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepared import Prepared


def merged_tensors(prepared: Prepared, store: Path, **options: Any) -> dict[str, Tensor]:
    """Every tensor of the model that a merge with these ``options`` leaves in its store."""
    for _ in merge(prepared, store, **options):
        pass
    return load_file(store / MODEL / "model.safetensors")
