"""Whole merges, and what a close look at one should show: computed in float64 by NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.engine.contract.events import TensorFinished
from ace_gui.engine.contract.plan import PlanRow
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
    events = merge(prepared, store, **options)
    taken = 0
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


def files(folder: Path) -> dict[str, bytes]:
    """What every file in a folder holds, by its path in it."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


Array = NDArray[np.float64]


def row_named(prepared: Prepared, ending: str) -> PlanRow:
    """The one row whose name ends so."""
    (row,) = [row for row in prepared.plan.rows if row.name.endswith(ending)]
    return row


def deltas_of(prepared: Prepared, row: PlanRow) -> dict[str, Array]:
    """ΔW_t by expert, exactly as float32 arithmetic on the files gives it, outputs × inputs."""
    base = tensor(prepared.base.checkpoint.path, row.name)
    deltas = {}
    for t in row.experts:
        expert = prepared.experts[t]
        delta = tensor(expert.checkpoint.path, expert.own_names[row.name]) - base
        deltas[expert.name] = (delta.T if row.transposed else delta).astype(np.float64)
    return deltas


def tensor(folder: Path, name: str) -> NDArray[np.float32]:
    """One tensor of a model in a folder."""
    loaded = load_file(folder / "model.safetensors" if folder.is_dir() else folder)
    array: NDArray[np.float32] = loaded[name].float().numpy()
    return array


def singular_values(matrix: Array) -> Array:
    """Largest first."""
    values: Array = np.linalg.svd(matrix, compute_uv=False)
    return values


def leading_vectors(matrix: Array, k: int) -> tuple[Array, Array]:
    """The k leading left and right singular vectors, as columns."""
    u, _, vh = np.linalg.svd(matrix, full_matrices=False)
    return u[:, :k], vh[:k].T
