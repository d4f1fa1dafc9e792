"""Entries on disk: found again, replaced when broken, removed when old."""

import dataclasses
import logging
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ace_gui.checkpoints.input_files import FileStamp
from ace_gui.engine import kept_files
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.inspecting.layer_context import InspectionCache, cache_key
from ace_gui.engine.kept_files import text_array, text_of
from tests.helpers.damage import ANY_FILE

ROW = PlanRow(
    name="layer.0",
    role="query",
    shape=(4, 4),
    dtype="F32",
    disposition=Disposition.MERGED,
    reason="a matrix",
    experts=(0, 1),
)
STAMP = FileStamp(path=Path("/models/a"), size=10, mtime_ns=5, inode=1, device=1)


def test_what_was_put_is_found_again(tmp_path):
    sigma = np.linspace(3, 0, 7)
    InspectionCache(tmp_path).put("key", {"sigma": sigma, "told": text_array("ΔW “ok”")})
    entry = InspectionCache(tmp_path).get("key")
    assert np.array_equal(entry["sigma"], sigma)
    assert text_of(entry["told"]) == "ΔW “ok”"
    assert InspectionCache(tmp_path).get("another") is None


def test_every_cut_of_an_entry_is_noticed(tmp_path):
    cache = InspectionCache(tmp_path)
    cache.put("key", {"sigma": np.arange(5.0)})
    file = tmp_path / "key.safetensors"
    contents = file.read_bytes()
    for end in range(0, len(contents) - 1, 7):
        file.write_bytes(contents[:end])
        assert cache.get("key") is None


@pytest.mark.parametrize("damage", ANY_FILE)
def test_a_damaged_entry_is_computed_anew(damage: str, tmp_path, caplog):
    cache = InspectionCache(tmp_path)
    cache.put("key", {"sigma": np.arange(50.0)})
    ANY_FILE[damage](tmp_path / "key.safetensors")
    entry = cache.get("key")
    if damage in {"last bit", "longer"}:  # behind the end of a zip: nothing of the entry
        assert entry is None or np.array_equal(entry["sigma"], np.arange(50.0))
    else:
        assert entry is None
        assert ("computed again" in caplog.text) == (tmp_path / "key.safetensors").exists()
    cache.put("key", {"sigma": np.ones(2)})
    assert (cache.get("key") is None) == (damage == "folder")
    assert len(list(tmp_path.iterdir())) == 1


BROKEN: list[bytes | dict[str, torch.Tensor]] = [
    b"",
    b"PK\x03\x04 nonsense",
    pickle.dumps({"sigma": 1}),
    {},
    {"other": torch.ones(3)},
    {"sigma": torch.ones(3)},
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_entry_counts_as_absent_and_is_replaced(
    tmp_path, broken: bytes | dict[str, torch.Tensor]
):
    file = tmp_path / "key.safetensors"
    cache = InspectionCache(tmp_path)
    file.write_bytes(broken) if isinstance(broken, bytes) else save_file(broken, file)
    assert cache.get("key") is None
    cache.put("key", {"sigma": np.ones(2)})
    assert cache.get("key") is not None


def test_another_entry_is_not_taken_for_it(tmp_path):
    cache = InspectionCache(tmp_path)
    cache.put("one", {"sigma": np.ones(3)})
    (tmp_path / "one.safetensors").rename(tmp_path / "other.safetensors")
    assert cache.get("other") is None


def test_nothing_of_someone_else_is_removed(tmp_path):
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    InspectionCache(tmp_path, limit_bytes=0).put("key", {"sigma": np.zeros(1000)})
    assert {path.name for path in tmp_path.iterdir()} == {"folder.safetensors", "notes.txt"}


def test_the_oldest_entries_go_first(tmp_path):
    array = {"sigma": np.zeros(1000)}
    for number in range(6):
        InspectionCache(tmp_path).put(f"{number}", array)
        os.utime(tmp_path / f"{number}.safetensors", ns=(number, number))
    size = (tmp_path / "0.safetensors").stat().st_size
    InspectionCache(tmp_path).get("0")  # used just now
    InspectionCache(tmp_path, limit_bytes=4 * size).put("n", array)
    assert {path.stem for path in tmp_path.iterdir()} == {"0", "4", "5", "n"}


def test_a_folder_that_cannot_be_written_costs_no_result(tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    cache = InspectionCache(tmp_path / "file")
    with caplog.at_level(logging.INFO):
        cache.put("key", {"sigma": np.ones(1)})
    assert "cannot be kept" in caplog.text
    assert cache.get("key") is None


def test_nothing_half_written_is_left_behind(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_files, "save_file", full)
    InspectionCache(tmp_path).put("key", {"sigma": np.ones(1)})
    assert list(tmp_path.iterdir()) == []


def test_the_key_says_everything_that_matters():
    key = cache_key("spectrum", ROW, (STAMP,))
    assert key == cache_key("spectrum", ROW, (STAMP,))
    other_keys = {
        cache_key("overlap", ROW, (STAMP,)),
        cache_key("spectrum", dataclasses.replace(ROW, name="layer.1"), (STAMP,)),
        cache_key("spectrum", dataclasses.replace(ROW, transposed=True), (STAMP,)),
        cache_key("spectrum", ROW, (dataclasses.replace(STAMP, size=11),)),
        cache_key("spectrum", ROW, (dataclasses.replace(STAMP, mtime_ns=6),)),
        cache_key("spectrum", ROW, (dataclasses.replace(STAMP, path=Path("/models/b")),)),
        cache_key("spectrum", ROW, (STAMP, STAMP)),
        cache_key("spectrum", ROW, ()),
    }
    assert len(other_keys | {key}) == 9
    averaged = dataclasses.replace(ROW, disposition=Disposition.AVERAGED, reason="chosen so")
    assert cache_key("spectrum", averaged, (STAMP,)) == key, "what becomes of it does not matter"
