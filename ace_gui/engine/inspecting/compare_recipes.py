"""Several merges of the same experts, one after another, with one row of results each.

T experts.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.checkpoints.staging import discard
from ace_gui.engine.contract.events import (
    CompareProgress,
    Event,
    LearningProgress,
    MergeFinished,
    MethodCompared,
    PassProgress,
    TensorFinished,
    Variant,
)
from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.evaluating.evaluate import merged_scores, require_tasks
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import MODEL, reports
from ace_gui.engine.merging.task_vectors import BLOCK, TaskVectors
from ace_gui.engine.merging.units import Workers
from ace_gui.engine.planning.prepare import OpenedModels, prepare, preparing
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import require_room
from ace_gui.engine.streaming import Executor, parts_of, read_row
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import symbol_of
from ace_gui.linalg.passes import energy
from ace_gui.machine import reset_peak_memory
from ace_gui.method_names import method_label
from ace_gui.methods import checked_parameters, get_method, method_variant, parameter_fields
from ace_gui.recipe import Recipe
from ace_gui.recipe.recommended import METHOD, NAME, TITLE, USUAL, is_recommended, with_recommended
from ace_gui.recipe.values import ParameterValue
from ace_gui.steps import Steps, result_of

CPU = torch.device("cpu")


def by_method(recipe: Recipe, methods: Sequence[str]) -> tuple[Recipe, ...]:
    """The recipe with each of the methods in turn; the recipe's own method keeps its parameters.

    A variant is named like ``ace:automatic``; the method's name alone then means the default
    variant. ``recommended`` is the recommended merge. If the recipe is that merge itself, every
    other name is a method with its defaults. Overrides apply only to the recipe's own method.
    Raises RecipeError for an unknown one.
    """
    if is_recommended(recipe):
        recipe = replace(recipe, parameters={}, **USUAL)
    names = dict.fromkeys(methods)
    with_variants = {name.partition(":")[0] for name in names if ":" in name}
    without_variant = {key: value for key, value in recipe.parameters.items() if key != "variant"}
    if "variant" in recipe.parameters:
        plain = replace(recipe, parameters=without_variant)
    else:
        plain = recipe
    return tuple(_by_method(plain if name in with_variants else recipe, name) for name in names)


def _by_method(recipe: Recipe, name: str) -> Recipe:
    if name == NAME:
        return with_recommended(_by_method(recipe, METHOD))
    method, variant = method_variant(name)
    if method.name != recipe.merge_method:
        return replace(recipe, merge_method=method.name, parameters=variant, overrides=(), notes=())
    if variant:
        return replace(recipe, parameters={**recipe.parameters, **variant})
    return recipe


def by_value(recipe: Recipe, name: str, values: Sequence[ParameterValue]) -> tuple[Recipe, ...]:
    """The recipe with each of the values of one parameter in turn. Raises RecipeError."""
    method = get_method(recipe.merge_method)
    recipes = []
    for value in values:
        parameters = {**recipe.parameters, name: value}
        checked_parameters(method, parameters)
        recipes.append(replace(recipe, parameters=parameters))
    return tuple(recipes)


def title_of(recipe: Recipe) -> str:
    """The method, and those of its parameters that differ from the defaults."""
    if is_recommended(recipe):
        return TITLE
    method = get_method(recipe.merge_method)
    fields = parameter_fields(method)
    defaults = {field.name: field.default for field in fields}
    names = {field.name: symbol_of(field.label) or field.name for field in fields}
    variant = recipe.parameters.get("variant", defaults.get("variant"))
    parts = [method_label(method.title, variant)]
    for name, value in recipe.parameters.items():
        if name != "variant" and value != defaults.get(name):
            parts.append(f"{names.get(name, name)} {value}")
    return ", ".join(parts)


def compare_all(
    recipes: Iterable[Recipe], device: str, workers: Executor | None = None
) -> Iterator[Event]:
    """Merge and measure each recipe; the merged models are removed again.

    ``workers``: each takes one recipe after another; None: this process takes all.
    """
    if workers is not None:
        yield from _side_by_side(tuple(recipes), workers)
        return
    with tempfile.TemporaryDirectory(prefix="ace-compare-") as folder:
        variants = [Variant(recipe=r, store=Path(folder) / str(n)) for n, r in enumerate(recipes)]
        for event in compare(variants, device):
            if isinstance(event, MethodCompared):
                discard(event.variant.store)
            if event is not None:
                yield event


def _side_by_side(recipes: Sequence[Recipe], workers: Executor) -> Iterator[Event]:
    with suppress(WorkbenchError):  # the row of a failed merge has its error
        result_of(require_tasks(prepare(recipes[0]), workers.device, workers=workers))
    titles = [title_of(recipe) for recipe in recipes]
    arguments = [(recipe.absolute(), workers.device) for recipe in recipes]
    arrived: dict[int, MethodCompared] = {}
    following = done = 0
    for result in workers.map_unordered(_alone, arguments, titles):
        if result is None:
            continue
        done = done + 1
        (index, row) = result
        arrived[index] = replace(row, index=index)
        progress = {"index": index, "of": len(recipes), "done": done, "total": len(recipes)}
        yield CompareProgress(title=row.title, **progress)
        while following in arrived:
            yield arrived.pop(following)
            following += 1


def _alone(recipe: Recipe, device: str) -> MethodCompared:
    """The row of one recipe, made in this process."""
    *_, row = compare_all((recipe,), device)
    assert isinstance(row, MethodCompared)
    return row


def compare(
    variants: Sequence[Variant],
    device: str,
    memory_bytes: int | None = None,
    workers: Workers | None = None,
) -> Iterator[Event | None]:
    """Check, merge and measure every variant; a variant that is already merged is only measured.

    If a merge fails, its row has the error. ``memory_bytes``: memory limit of a merge, None: all
    free memory. ``workers``: the processes that carry out each merge, None: this process.
    """
    opened: OpenedModels = []
    for index, variant in enumerate(variants):
        title = title_of(variant.recipe)
        progress = CompareProgress(title=title, index=index, of=len(variants), done=0, total=0)
        yield progress
        try:
            yield from _compared(variant, progress, device, memory_bytes, workers, opened)
        except WorkbenchError as error:
            yield MethodCompared(title=title, variant=variant, index=index, error=error.sentence)


def _compared(
    variant: Variant,
    progress: CompareProgress,
    device: str,
    memory_bytes: int | None,
    workers: Workers | None,
    opened: OpenedModels,
) -> Iterator[Event | None]:
    prepared = yield from preparing(variant.recipe, opened)
    yield from require_tasks(prepared, device)
    finished = variant.finished
    if finished is None:
        exists = variant.store.exists()
        if exists:
            store = None
        else:
            store = variant.store
        require_room(prepared.plan, device, store, memory_bytes)
        reset_peak_memory()
        limits: dict[str, Any] = {"memory_bytes": memory_bytes, "workers": workers}
        events = merge(prepared, variant.store, device=device, resume=exists, **limits)
        finished = yield from _progress_of(events, progress)
    measured = yield from measure(prepared, variant.store)
    if prepared.recipe.tasks:
        yield replace(progress, title=f"{progress.title}, scoring")
    scores = yield from merged_scores(prepared, variant.store / MODEL, device, alone=True)
    layers = tuple(reports(variant.store).values())
    yield MethodCompared(
        title=progress.title,
        variant=variant,
        index=progress.index,
        seconds=finished.seconds,
        peak_bytes=finished.peak_bytes,
        scores=scores,
        parameters=prepared.plan.parameters,
        **measured,
        warned=sum(bool(report.warnings) for report in layers),
        noted=sum(bool(report.notes) for report in layers),
        refined=sum(report.regime is Regime.HETEROGENEOUS for report in layers),
        reports=layers,
        warnings=finished.warnings,
    )


def _progress_of(
    events: Iterator[Event | None], progress: CompareProgress
) -> Generator[Event | None, None, MergeFinished]:
    """Yield the progress of a merge, and return its last event."""
    ended = None
    for event in events:
        if isinstance(event, TensorFinished | PassProgress | LearningProgress):
            yield replace(progress, done=event.done, total=event.total)
        elif event is None:
            yield None
        ended = event
    assert isinstance(ended, MergeFinished)
    return ended


def measure(prepared: Prepared, store: Path) -> Steps[dict[str, Any]]:
    """The distances of the merged model from the base and every expert, over all merged tensors.

    ``norm`` is ‖Δ‖_F of the merged task vector Δ; by expert ``distances`` ‖Δ − ΔW_t‖_F / ‖ΔW_t‖_F,
    ``cosines`` of Δ and ΔW_t, and ``expert_norms``.
    """
    readers = Readers(prepared, with_checksums=False)
    names = prepared.recipe.expert_names
    merged = TensorReader(open_checkpoint(store / MODEL))
    square = 0.0
    figures_3T = np.zeros((3, len(names)))
    rows = []
    for row in prepared.plan.rows:
        if row.in_base and row.is_combined and row.tied_to is None:
            rows.append(row)
    for row in rows:
        for part in parts_of(math.prod(row.shape)):
            deltas = TaskVectors(row, readers, CPU, part, checked=False)
            delta = read_row(merged, row, part).to(deltas.base.dtype) - deltas.base
            square_of_delta = energy(delta)
            square += square_of_delta
            # Only the row's own experts, as the others lack the tensor.
            for index, t in enumerate(row.experts):
                figures_3T[:, t] += *_squares(deltas[index], delta), square_of_delta
        yield None
    if rows:
        return _figures(square, figures_3T, names)
    return {}


def _squares(change: Tensor, delta: Tensor) -> tuple[float, float]:
    """‖change‖² and ‖change − delta‖² of flat tensors, accurate to about 1e-7.

    Computed in pieces that fit into a cache, with float64 sums.
    """
    square = gap = 0.0
    for piece, second_piece in zip(
        torch.split(change, BLOCK), torch.split(delta, BLOCK), strict=True
    ):
        square += float(piece.dot(piece))
        difference = piece - second_piece
        gap += float(difference.dot(difference))
    return square, gap


def _figures(
    square: float, figures_3T: NDArray[np.float64], names: Sequence[str]
) -> dict[str, Any]:
    norm = math.sqrt(square)
    squares_T, gaps_T, deltas_T = figures_3T
    with np.errstate(divide="ignore", invalid="ignore"):
        distances_T = np.sqrt(gaps_T / squares_T)
        cosines_T = (squares_T + deltas_T - gaps_T) / (2 * np.sqrt(squares_T) * norm)
    return {
        "norm": norm,
        "expert_norms": dict(zip(names, np.sqrt(squares_T).tolist(), strict=True)),
        "distances": dict(zip(names, distances_T.tolist(), strict=True)),
        "cosines": dict(zip(names, np.clip(cosines_T, -1, 1).tolist(), strict=True)),
    }


def compared_record(row: MethodCompared) -> dict[str, object]:
    """A row for ``compare --json``."""
    recipe = row.variant.recipe
    record = asdict(replace(row, reports=(), scores=()))
    del record["variant"], record["reports"], record["scores"]
    return {
        "method": recipe.merge_method,
        **{key: _plain(value) for key, value in record.items()},
        "relative_norm": _plain(row.relative_norm),
        "by_task": {task: _plain(score) for task, score in row.by_task.items()},
        "mean_score": row.mean.score,
        "mean_normalised": row.mean.normalised,
        "scores": [score.record() | {"model": row.title} for score in row.scores],
    }


def _plain(value: object) -> object:
    """Replace NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
