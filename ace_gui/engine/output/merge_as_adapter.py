"""A finished merge as an adapter: its file, and how much of the change each rank keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from ace_gui.checkpoints import TensorReader, discard
from ace_gui.engine.contract.events import EnergyByRank, Exported, JobProgress
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.engine.merging.store import MODEL, read_finished
from ace_gui.engine.modules.stored import has_modules
from ace_gui.engine.output.adapter_writing import AdapterOptions, write_adapter
from ace_gui.engine.planning.adapter_plan import adapter_plan, require_adapter
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import RecipeError
from ace_gui.linalg.singular import squared_values
from ace_gui.output_files import check_output_folder, staging_folder
from ace_gui.recipe.new_recipes import recipe_for_extraction
from ace_gui.recipe.values import Output, OutputDtype


def export_adapter(
    store: Path,
    folder: Path,
    *,
    dtype: str | None = None,
    rank: int | None = None,
    energy: float | None = None,
) -> Iterator[JobProgress | Exported]:
    """Write the change of a finished merge as an adapter at ``folder``, completely or not at all.

    ``dtype`` None: the recipe's, else float32. Raises RecipeError for a merge that no adapter can
    hold, and the errors of ``write_adapter``.
    """
    manifest = read_finished(store)
    target = check_output_folder(folder, manifest.input_folders)
    dtype = dtype or manifest.recipe.out_dtype
    prepared = _prepared(store, manifest, rank, energy, dtype)
    written = prepared.plan.recipe
    recipe = replace(
        manifest.recipe,
        output=Output.ADAPTER,
        rank=rank,
        energy=energy,
        out_dtype=written.out_dtype,
    )
    described = replace(manifest, recipe=recipe)
    options, claimed = AdapterOptions(balanced=True), False
    events = write_adapter(prepared, target, device="cpu", options=options, described=described)
    try:
        with closing(events):
            for event in events:
                claimed = True
                if isinstance(event, JobProgress | Exported):
                    yield event
    finally:
        if claimed:
            discard(staging_folder(target))


def energy_by_rank(store: Path) -> Iterator[JobProgress | EnergyByRank]:
    """How much of a finished merge's change each rank keeps, one matrix in memory at a time.

    Raises as ``export_adapter`` does.
    """
    prepared = _prepared(store, read_finished(store), 1, None, None)
    (merged,) = prepared.experts
    factored = adapter_plan(prepared).factored
    shares = torch.ones(max((min(each.sides) for each in factored), default=0)).double()
    total, matrices = torch.zeros_like(shares), 0
    with TensorReader(prepared.base.checkpoint) as before, TensorReader(merged.checkpoint) as after:
        for done, each in enumerate(factored):
            yield JobProgress(done=done, total=len(factored))
            change = after.read(each.tensor).double() - before.read(each.tensor).double()
            squares = squared_values(change.reshape(each.shape[0], -1))
            if squares.any():
                kept = shares.clone()
                kept[: len(squares)] = squares.cumsum(0) / squares.sum()
                total, matrices = total + kept, matrices + 1
    yield EnergyByRank(shares=tuple((total / max(matrices, 1)).tolist()), matrices=matrices)


def _prepared(
    store: Path, manifest: Manifest, rank: int | None, energy: float | None, dtype: str | None
) -> Prepared:
    """The extraction from a finished merge."""
    require_adapter(manifest.recipe)
    model = store / MODEL
    if has_modules(model):
        raise RecipeError(
            "The merge leaves task modules, which an adapter cannot hold. Export the full model.",
            key="output",
        )
    recipe = recipe_for_extraction(manifest.recipe.base_model, model, rank, energy)
    return prepare(replace(recipe, out_dtype=cast("OutputDtype | None", dtype)))
