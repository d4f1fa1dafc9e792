"""What is written for a GPU, as far as a processor can tell."""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.contract.events import TensorFinished
from ace_gui.engine.merging import memory_budgets, tensor_merge, units
from ace_gui.engine.merging import merge as merging
from ace_gui.engine.merging.memory_budgets import GPU_AHEAD, MemoryBudget, budgets_of
from ace_gui.engine.merging.merge import merge, under_way
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import MODEL, reports
from ace_gui.engine.merging.tensor_merge import (
    CPU,
    CROWDED,
    DIVIDED,
    FELL_BACK,
    OutputChunk,
    TensorMerge,
    merge_whole,
)
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import NonFiniteError, ResourceError
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.values import NonFinite
from tests.helpers import models
from tests.helpers.recipes import recipe_of


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Prepared:
    """With more matrices than are under way at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(models.ROBERTA, "num_hidden_layers", 6)
        return prepare(recipe_of(models.roberta_family(tmp_path_factory.mktemp("roberta"))))


@pytest.mark.parametrize("name", ["cuda:99", "tpu", "", "meta"])
def test_a_device_that_is_not_there_is_refused_by_name(name: str):
    with pytest.raises(ResourceError, match="available: cpu"):
        resolve_device(name)


def test_matrices_side_by_side_come_in_order_and_are_the_same(prepared: Prepared):
    rows = [row for row in prepared.plan.rows if row.in_base and prepared.is_whole(row)]
    readers = Readers(prepared)

    def merged(ahead: int) -> list[tuple[str, torch.Tensor]]:
        works = ([TensorMerge(row, readers, CPU)] for row in rows)
        with ThreadPoolExecutor(2) as pool:
            return [
                (work.row.name, torch.cat([piece.values for piece in pieces]))
                for ((work, pieces),) in under_way(works, pool, budgets_of(CPU), ahead)
            ]

    sequential = merged(1)
    four = merged(4)
    assert (
        [name for name, _ in sequential] == [name for name, _ in four] == [row.name for row in rows]
    )
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(sequential, four, strict=True))


class Gpu:
    """A GPU, played by the processor, with room for so many matrices at most.

    ``batches``: what was merged together, in no certain order; ``most``: how many of them at once.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, room: float = math.inf, together: int = 4
    ) -> None:
        self.batches: list[tuple[str, ...]] = []
        self.most = 0
        self._room = room
        self._held: list[int] = []
        self._changed = threading.Condition()
        for module in (tensor_merge, memory_budgets):
            monkeypatch.setattr(module, "merge_whole", partial(self._merge, merge_whole))
        monkeypatch.setattr(merging, "resolve_device", lambda name: torch.device(name))
        monkeypatch.setattr(units, "FULL", together * 32 * 32)

    def _merge(
        self,
        honest: Callable[[Sequence[TensorMerge]], list[OutputChunk]],
        works: Sequence[TensorMerge],
    ) -> list[OutputChunk]:
        device = works[0].device
        if device.type == "cpu":
            return honest(works)
        with self._changed:
            self._held.append(len(works))
            self._changed.notify_all()
            if self.most < 2:  # the first waits for company, which the second is
                self._changed.wait_for(lambda: len(self._held) > 1 or self.most > 1, timeout=10)
            self.most = max(self.most, len(self._held))
            crowded = sum(self._held) > self._room
        try:
            if not crowded:
                self.batches.append(tuple(work.row.name for work in works))
                for work in works:
                    work.device = CPU
                return honest(works)
        finally:
            for work in works:
                work.device = device
            with self._changed:
                self._held.remove(len(works))
        raise torch.OutOfMemoryError("CUDA out of memory")


def weights(store: Path) -> dict[str, torch.Tensor]:
    return load_file(store / MODEL / "model.safetensors")


def merge_to(store: Path, prepared: Prepared, device: str = "meta", **options: bool) -> None:
    list(merge(prepared, store, device=device, **options))


def assert_alike(first: Path, second: Path) -> None:
    """To rounding, in which batches differ from single matrices."""
    for (name, mine), theirs in zip(weights(first).items(), weights(second).values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6, msg=name)


def test_a_gpu_merges_matrices_of_a_shape_together(prepared: Prepared, tmp_path, monkeypatch):
    gpu = Gpu(monkeypatch)
    events = list(merge(prepared, tmp_path / "gpu", device="meta"))
    finished = [event.report.name for event in events if isinstance(event, TensorFinished)]
    assert finished == [row.name for row in prepared.plan.rows if row.in_base]
    matrices = {row.name: row.shape for row in prepared.plan.rows if row.disposition == "merged"}
    assert sorted(name for batch in gpu.batches for name in batch) == sorted(matrices)
    assert all(len({matrices[name] for name in batch}) == 1 for batch in gpu.batches)
    assert {len(batch) for batch in gpu.batches if matrices[batch[0]] == (32, 32)} >= {4}
    merge_to(tmp_path / "cpu", prepared, "cpu")
    assert_alike(tmp_path / "gpu", tmp_path / "cpu")
    gpu_reports = reports(tmp_path / "gpu")
    expected = reports(tmp_path / "cpu")
    for name, report in gpu_reports.items():
        assert (report.notes, report.regime) == (expected[name].notes, expected[name].regime)
        assert report.delta_norm == pytest.approx(expected[name].delta_norm)
        assert report.gamma == pytest.approx(expected[name].gamma)


@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("room", [0, 1, 2, 4])
def test_a_gpu_without_room_merges_fewer_at_a_time_then_none_and_says_so(
    room: int, together: int, prepared: Prepared, tmp_path, monkeypatch
):
    gpu = Gpu(monkeypatch, room, together)
    merge_to(tmp_path / "gpu", prepared)
    assert 1 < gpu.most <= GPU_AHEAD
    merge_to(tmp_path / "cpu", prepared, "cpu")
    matrices = {row.name for row in prepared.plan.rows if row.disposition == "merged"}
    notes = {name: report.notes for name, report in reports(tmp_path / "gpu").items()}
    fell_back = {name for name, reported in notes.items() if FELL_BACK in reported}
    crowded = {name for name, reported in notes.items() if CROWDED in reported}
    divided = {name for name, reported in notes.items() if DIVIDED in reported}
    assert fell_back == (matrices if room == 0 else set())
    # For good: not every matrix tries again what did not go before.
    assert crowded < matrices
    assert crowded or room > 1
    assert bool(divided) == (together > max(room, 1))
    assert all(len(batch) <= min(room, together) for batch in gpu.batches)
    assert_alike(tmp_path / "gpu", tmp_path / "cpu")
    if room <= 1 or together == 1:  # each by itself, as on the processor
        first, second = (path / MODEL / "model.safetensors" for path in tmp_path.iterdir())
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("cancelled_after", [1, 3, 8, 20])
def test_a_resumed_merge_merges_the_same_matrices_together(
    cancelled_after: int, prepared: Prepared, tmp_path, monkeypatch
):
    gpu = Gpu(monkeypatch)
    merge_to(tmp_path / "whole", prepared)
    undisturbed = set(gpu.batches)
    threads = threading.active_count()
    running = merge(prepared, tmp_path / "resumed", device="meta")
    for _ in range(cancelled_after + 1):  # the first event is that it starts
        next(running)
    running.close()
    assert threading.active_count() == threads
    gpu.batches.clear()
    done = reports(tmp_path / "resumed")
    assert len(done) == cancelled_after
    merge_to(tmp_path / "resumed", prepared, resume=True)
    assert set(gpu.batches) <= undisturbed
    assert not any(set(batch) <= set(done) for batch in gpu.batches)
    first, second = (path / MODEL / "model.safetensors" for path in tmp_path.iterdir())
    assert first.read_bytes() == second.read_bytes()
    assert len(reports(tmp_path / "resumed")) == len(reports(tmp_path / "whole"))


@pytest.mark.parametrize("choice", ["stop", "keep_base", "skip_expert"])
def test_of_a_batch_only_the_matrix_with_nan_is_treated_differently(
    choice: str, tmp_path, monkeypatch
):
    family = models.roberta_family(tmp_path / "models")
    entries = tuple(ModelEntry(model=path) for path in family.experts.values())
    file = next(family.experts["task1"].glob("*.safetensors"))
    tensors = load_file(file)
    spoilt = next(name for name in tensors if name.endswith("layer.1.attention.self.key.weight"))
    tensors[spoilt][3, 4] = torch.nan
    save_file(tensors, file, metadata={"format": "pt"})
    recipe = Recipe(base_model=family.base, models=entries, non_finite=NonFinite(choice))
    prepared = prepare(recipe)
    gpu = Gpu(monkeypatch)
    if choice == "stop":
        with pytest.raises(NonFiniteError, match=r"key\.weight") as caught:
            merge_to(tmp_path / "gpu", prepared)
        assert caught.value.key == "non_finite"
        return
    merge_to(tmp_path / "gpu", prepared)
    merge_to(tmp_path / "cpu", prepared, "cpu")
    assert_alike(tmp_path / "gpu", tmp_path / "cpu")
    gpu_reports = reports(tmp_path / "gpu")
    expected = reports(tmp_path / "cpu")
    assert [report.notes for report in gpu_reports.values()] == [
        report.notes for report in expected.values()
    ]
    assert any(len(batch) > 1 for batch in gpu.batches)


def test_room_is_halved_once_however_many_ask():
    room = MemoryBudget(math.inf)
    with room.reserve(3) as first, room.reserve(3) as second:
        assert first.contended
        assert second.contended
        room.shrink(first, 2)
        room.shrink(second, 2)
    with room.reserve(2) as stay, room.reserve(1) as third:
        assert stay.limit == third.limit == 3
        room.shrink(third, 1)
    assert room.too_large == math.inf
    with room.reserve(2) as stay:
        assert (stay.limit, stay.contended, room.largest) == (1.5, False, math.inf)
        room.shrink(stay, 2)
    assert room.largest == 1


def test_a_matrix_that_found_no_room_is_not_tried_again_nor_one_as_large():
    room = MemoryBudget(math.inf)
    with room.reserve(8) as stay:
        room.shrink(stay, 1)
    assert not room.admits(8, 1)
    assert not room.admits(9, 1)
    assert room.admits(7, 1)
    assert room.admits(9, 2)  # two smaller ones may still go together


def test_who_finds_no_room_waits_for_it():
    room = MemoryBudget(5)
    order = []

    def enter() -> None:
        with room.reserve(3):
            order.append("second")

    with room.reserve(3):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_more_than_all_the_room_has_it_to_itself():
    room = MemoryBudget(5)
    with room.reserve(7) as stay:
        assert not stay.contended
