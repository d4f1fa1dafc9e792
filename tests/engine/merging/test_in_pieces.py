"""What is merged entry by entry or row by row comes out the same in pieces of any size."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.engine import streaming
from ace_gui.engine.merging import surveying
from ace_gui.engine.merging.method_steps import merge_deltas
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.task_vectors import TaskVectors
from ace_gui.engine.merging.tensor_merge import OutputChunk, in_the_end
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods import METHODS
from ace_gui.methods.method import Kind
from tests.helpers.checkpoints import same_bits
from tests.helpers.merges import merged_tensors
from tests.helpers.method_cases import needs_data
from tests.helpers.recipes import recipe_over

PIECE = 64
"""Entries of a piece here; of the model's shapes some are just smaller, some just larger."""

SHAPES = [
    (),
    (0,),
    (1,),
    (PIECE - 1,),
    (PIECE,),
    (PIECE + 1,),
    (3 * PIECE,),
    (0, 5),
    (5, 0),
    (1, 2 * PIECE + 1),
    (2 * PIECE + 1, 1),
    (7, 9),
    (8, 8),
    (5, 13),
    (13, 11),
    (4, PIECE),
    (3, 4, 3, 5),
]
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]

CASES: list[tuple[str, dict[str, Any]]] = [
    *((m.name, {}) for m in METHODS.values() if m.kind in {Kind.ENTRY, Kind.ROW}),
    ("ties", {"trim": "tensor"}),
    ("ties", {"trim": "tensor", "density": 0.9, "combine": "sum"}),
    ("dare_ties", {"trim_density": 0.3}),
    ("dare_ties", {"balanced": "positive"}),
    *((name, {"rescale": "by norm"}) for name in ("ties", "dare_linear", "dare_ties", "della")),
    *((name, {"rescale": "by norm"}) for name in ("della_linear", "breadcrumbs")),
    ("dare_ties", {"rescale": "by norm", "trim_density": 0.3}),
    ("breadcrumbs", {"density": 0.5, "gamma": 0.2}),
    ("breadcrumbs_ties", {"density": 1.0}),
    ("della", {"epsilon": 0.0}),
    ("pcb", {"trim": "tensor", "density": 0.3}),
    ("sce", {"select_topk": 0.3, "alike_below": 0.0}),
    ("sce", {"select_topk": 0.01}),
    *((n, {"points": "weights", "base_weight": 0.5}) for n in ("karcher", "multislerp")),
    ("multislerp", {"points": "weights", "base_weight": 0.0}),
    *(("nuslerp", {where: True}) for where in ("row_wise", "column_wise")),
    ("model_stock", {"filter_wise": True}),
]
CASES = [(name, parameters) for name, parameters in CASES if not needs_data(METHODS[name])]
SUMS = {"sce", "slerp", "nuslerp", "base_slerp", "karcher", "multislerp", "model_stock", "nan"}
"""Whose coefficients are sums over a tensor: they round differently in other pieces."""


def models(folder: Path, count: int) -> list[Path]:
    """A base and experts, every shape in two formats, coarse so that magnitudes are equal."""
    generator = torch.Generator().manual_seed(0)
    names = {
        f"{'x'.join(map(str, shape)) or 'number'}.{str(dtype).removeprefix('torch.')}": (
            shape,
            dtype,
        )
        for position, shape in enumerate(SHAPES)
        for dtype in (DTYPES[position % 4], DTYPES[(position + 1) % 4])
    }
    paths = []
    for index in range(count):
        tensors = {
            name: (torch.randn(shape, generator=generator) * 8).round().div(8).to(dtype)
            for name, (shape, dtype) in names.items()
        }
        paths.append(folder / f"model{index}")
        paths[-1].mkdir(parents=True)
        save_file(tensors, paths[-1] / "model.safetensors")
    return paths


def turned(prepared: Prepared, *, matrices: bool) -> Prepared:
    """The same plan with every matrix stored inputs × outputs."""
    rows = tuple(
        replace(row, transposed=matrices and len(row.shape) == 2) for row in prepared.plan.rows
    )
    return replace(prepared, plan=replace(prepared.plan, rows=rows))


@pytest.mark.parametrize(
    "method", ["slerp", "nuslerp", "base_slerp", "karcher", "multislerp", "model_stock", "nan"]
)
def test_what_needs_only_sums_over_a_tensor_never_has_it_whole(method: str) -> None:
    assert not METHODS[method].needs_whole(METHODS[method].parameters())


def experts_of(method: str) -> int:
    return min(3, METHODS[method].most or 3)


@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize(("method", "parameters"), CASES, ids=str)
def test_pieces_are_what_the_method_makes_of_the_whole_tensor(
    method: str, parameters: dict[str, Any], transposed: bool, tmp_path, monkeypatch
):
    """As the window looks at one, and a cap merges it: random masks are the same there."""
    monkeypatch.setattr(streaming, "PART_ELEMENTS", PIECE)
    monkeypatch.setattr(surveying, "PASS_ELEMENTS", PIECE)
    base, *experts = models(tmp_path, 1 + min(3, METHODS[method].most or 3))
    recipe = recipe_over(base, experts, merge_method=method, parameters=parameters)
    prepared = turned(prepare(recipe), matrices=transposed)
    pieces = merged_tensors(prepared, tmp_path / "pieces", device="cpu")
    readers = Readers(prepared)
    changed = False
    assert len(pieces) == 2 * len(SHAPES)
    for row in prepared.plan.rows:
        deltas = TaskVectors(row, readers, torch.device("cpu"))
        merged = deltas.base + merge_deltas(row, prepared, deltas).delta
        changed |= not torch.equal(merged, deltas.base)
        expected = merged.T if row.transposed else merged
        if method in SUMS:
            torch.testing.assert_close(pieces[row.name], expected, rtol=1e-6, atol=1e-6)
        else:
            assert same_bits(pieces[row.name], expected), row.name
    assert changed


def test_a_row_is_never_cut(monkeypatch):
    monkeypatch.setattr(streaming, "PART_ELEMENTS", PIECE)
    for width in (1, 7, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE):
        for outputs in (0, 1, 2, 9, 64):
            parts = list(streaming.parts_of(width * outputs, width))
            assert all(start % width == stop % width == 0 for start, stop in parts)
            assert all(stop - start <= max(PIECE, width) for start, stop in parts)
            joined = [0, *(stop for _, stop in parts)]
            assert [start for start, _ in parts] == joined[:-1]
            assert joined[-1] == width * outputs


def test_of_what_begins_anew_only_the_last_is_held():
    """Two results of a tensor at once would take twice the memory."""
    held: list[weakref.ref[torch.Tensor]] = []

    def begun_anew() -> Iterator[OutputChunk]:
        for value in (1.0, 2.0):
            for start in (0, 2):
                values = torch.full((2,), value)
                held.append(weakref.ref(values))
                yield OutputChunk(start=start, values=values)
        assert [reference() is None for reference in held] == [True, True, False, False]

    assert [float(piece.values[0]) for piece in in_the_end(begun_anew())] == [2.0, 2.0]
