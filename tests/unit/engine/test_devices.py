"""What is written for a GPU, as far as a processor can tell."""

import threading
from pathlib import Path

import pytest
import torch

from ace_gui.engine.devices import available_devices, resolve_device
from ace_gui.engine.gpu_room import GpuRoom
from ace_gui.engine.merging import GPU_AHEAD, merge, under_way
from ace_gui.engine.parts import Part
from ace_gui.engine.planning import Prepared, prepare
from ace_gui.engine.store import MODEL, reports
from ace_gui.engine.task_vectors import Readers
from ace_gui.engine.tensor_merge import CPU, CROWDED, FELL_BACK, Piece, TensorMerge
from ace_gui.errors import ResourceError
from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.models import roberta_family


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    family = roberta_family(tmp_path_factory.mktemp("roberta"))
    entries = tuple(ModelEntry(model=path) for path in family.experts.values())
    return prepare(Recipe(base_model=family.base, models=entries))


def test_auto_is_the_first_gpu_or_else_the_processor() -> None:
    names = [device.name for device in available_devices()]
    assert names[0] == "cpu"
    assert str(resolve_device("auto")) == (names[1] if len(names) > 1 else "cpu")


@pytest.mark.parametrize("name", ["cuda:99", "tpu", "", "meta"])
def test_a_device_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(ResourceError, match="available: cpu"):
        resolve_device(name)


def test_matrices_side_by_side_come_in_order_and_are_the_same(
    prepared: Prepared, tmp_path: Path
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    rows = [row for row in prepared.plan.rows if row.in_base]
    readers = Readers(prepared)

    def merged(ahead: int) -> list[tuple[str, torch.Tensor]]:
        works = ((row, TensorMerge(row, prepared, readers, CPU)) for row in rows)
        with ThreadPoolExecutor(2) as pool:
            return [
                (row.name, torch.cat([piece.values for piece in pieces]))
                for row, _, pieces in under_way(works, pool, ahead)
            ]

    one, four = merged(1), merged(4)
    assert [name for name, _ in one] == [name for name, _ in four] == [row.name for row in rows]
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(one, four, strict=True))


class SmallGpu:
    """A GPU, played by the processor, with room for one matrix at most."""

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = 0
        self._room = room
        self._held = 0
        self._changed = threading.Condition()
        self._honest = TensorMerge._merged
        gpu = self
        monkeypatch.setattr(
            TensorMerge, "_merged", lambda work, device, part: gpu.merged(work, device, part)
        )
        monkeypatch.setattr("ace_gui.engine.merging.resolve_device", lambda _: torch.device("meta"))

    def merged(self, work: TensorMerge, device: torch.device, part: Part | None) -> Piece:
        if device.type == "cpu":
            return self._honest(work, device, part)
        with self._changed:
            self._held += 1
            self._changed.notify_all()
            if self.most < 2:  # the first waits for company, which the second is
                self._changed.wait_for(lambda: self._held > 1 or self.most > 1, timeout=10)
            self.most = max(self.most, self._held)
            crowded = self._held > self._room
        try:
            if not crowded:
                return self._honest(work, CPU, part)
        finally:
            with self._changed:
                self._held -= 1
        raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("room", [0, 1])
def test_a_gpu_without_room_merges_fewer_at_a_time_then_none_and_says_so(
    room: int, prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = SmallGpu(room, monkeypatch)
    list(merge(prepared, tmp_path / "gpu"))
    assert 1 < gpu.most <= GPU_AHEAD
    monkeypatch.undo()
    list(merge(prepared, tmp_path / "cpu", device="cpu"))
    matrices = {row.name for row in prepared.plan.rows if row.disposition == "merged"}
    notes = {name: report.notes for name, report in reports(tmp_path / "gpu").items()}
    fell_back = {name for name, told in notes.items() if FELL_BACK in told}
    crowded = {name for name, told in notes.items() if CROWDED in told}
    assert fell_back == (matrices if room == 0 else set())
    # For good: not every matrix tries again what did not go before.
    assert 0 < len(crowded) <= 2 * GPU_AHEAD < len(matrices)
    weights = f"{MODEL}/model.safetensors"
    assert (tmp_path / "gpu" / weights).read_bytes() == (tmp_path / "cpu" / weights).read_bytes()


def test_places_are_halved_once_however_many_ask() -> None:
    room = GpuRoom(4)
    with room.place() as first, room.place() as second:
        assert first == second == 4
        room.halve(first)
        room.halve(second)
    with room.place() as places:
        assert places == 2
        room.halve(places)
    with room.place() as places:
        assert places == 1
        room.halve(places)
    with room.place() as places:
        assert places == 1


def test_who_finds_no_place_waits_for_one() -> None:
    room, order = GpuRoom(1), []

    def enter() -> None:
        with room.place():
            order.append("second")

    with room.place():
        other = threading.Thread(target=enter)
        other.start()
        other.join(0.05)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
