"""What is written for a GPU, as far as a processor can tell."""

from pathlib import Path

import pytest
import torch

from ace_gui.engine.devices import available_devices, resolve_device
from ace_gui.engine.merging import merge, under_way
from ace_gui.engine.parts import Part
from ace_gui.engine.planning import Prepared, prepare
from ace_gui.engine.store import MODEL, reports
from ace_gui.engine.task_vectors import Readers
from ace_gui.engine.tensor_merge import CPU, FELL_BACK, Piece, TensorMerge
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


def test_a_gpu_without_room_hands_the_matrix_to_the_processor_and_says_so(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = TensorMerge._merged

    def crowded(self: TensorMerge, device: torch.device, part: Part | None) -> Piece:
        if device.type != "cpu":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return honest(self, device, part)

    monkeypatch.setattr(TensorMerge, "_merged", crowded)
    monkeypatch.setattr("ace_gui.engine.merging.resolve_device", lambda _: torch.device("meta"))
    list(merge(prepared, tmp_path / "gpu"))
    monkeypatch.undo()
    list(merge(prepared, tmp_path / "cpu", device="cpu"))
    matrices = {row.name for row in prepared.plan.rows if row.disposition == "merged"}
    noted = {
        name for name, report in reports(tmp_path / "gpu").items() if FELL_BACK in report.notes
    }
    assert noted == matrices
    weights = f"{MODEL}/model.safetensors"
    assert (tmp_path / "gpu" / weights).read_bytes() == (tmp_path / "cpu" / weights).read_bytes()
