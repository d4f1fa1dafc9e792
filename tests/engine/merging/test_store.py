"""Merging into a store: cancel, kill, resume, export; always the same bits or an error."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ace_gui.engine.contract.events import MergeFinished, MergeStarted, TensorFinished
from ace_gui.engine.contract.jobs import ReadStoresJob
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.merging import merge_manifest as manifest
from ace_gui.engine.merging.journal import JOURNAL
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL, read_finished
from ace_gui.engine.output.exporting import export, publish
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.runner import Runner
from ace_gui.errors import FileChangedError, OutputError, RecipeError, ResumeError
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.output_forms import ModelExport
from tests.helpers.merges import stopped_merge
from tests.helpers.models import Family, roberta_family
from tests.helpers.recipes import recipe_of


@pytest.fixture(scope="module")
def finished_store(prepared: Prepared, tmp_path_factory) -> Path:
    store = tmp_path_factory.mktemp("whole") / "store"
    list(merge(prepared, store))
    return store


def bits(folder: Path) -> dict[str, bytes]:
    return {
        name: tensor.view(torch.uint8).numpy().tobytes()
        for path in folder.glob("*.safetensors")
        for name, tensor in load_file(path).items()
    }


def test_events_tell_the_whole_story(prepared: Prepared, tmp_path):
    events = list(merge(prepared, tmp_path / "store"))
    first, *middle, last = events
    total = sum(row.in_base for row in prepared.plan.rows)
    assert isinstance(first, MergeStarted)
    assert (first.total, first.done) == (total, 0)
    assert all(isinstance(event, TensorFinished) for event in middle)
    assert [event.done for event in middle] == list(range(1, total + 1))
    assert middle[-1].bytes_done == first.bytes_total
    assert isinstance(last, MergeFinished)


@pytest.mark.parametrize("missing", [41, 22, 1, 0])
def test_a_stopped_merge_resumes_to_the_same_bits(
    prepared: Prepared, finished_store: Path, tmp_path, missing: int
):
    store = tmp_path / "store"
    tensors = sum(row.in_base for row in prepared.plan.rows) - missing
    stopped_merge(prepared, store, tensors)
    with pytest.raises(OutputError, match="not complete"):
        read_finished(store)
    started = next(iter(events := merge(prepared, store, resume=True)))
    assert isinstance(started, MergeStarted)
    assert started.done == tensors
    assert len(started.reports) == tensors
    list(events)
    assert bits(store / MODEL) == bits(finished_store / MODEL)


def test_a_cut_journal_line_and_flipped_bytes_are_merged_again(
    prepared: Prepared, finished_store: Path, tmp_path
):
    store = tmp_path / "store"
    stopped_merge(prepared, store, 9)
    journal = store / JOURNAL
    journal.write_text(journal.read_text()[:-30])
    data = bytearray((store / MODEL / "model.safetensors").read_bytes())
    written = next(row for row in prepared.plan.rows if row.in_base)
    index = data.find(
        load_file(finished_store / MODEL / "model.safetensors")[written.name].numpy().tobytes()
    )
    data[index] ^= 1
    (store / MODEL / "model.safetensors").write_bytes(data)
    started = next(iter(events := merge(prepared, store, resume=True)))
    assert isinstance(started, MergeStarted)
    assert started.done == 7
    list(events)
    assert bits(store / MODEL) == bits(finished_store / MODEL)


def test_resuming_follows_no_link(prepared: Prepared, tmp_path):
    """In the place of every file and folder of a store, the store itself, and beside them."""
    begun = tmp_path / "begun"
    stopped_merge(prepared, begun, 9)
    inside = [path.relative_to(begun) for path in begun.rglob("*")]
    assert {Path(JOURNAL), Path(MODEL), Path(MODEL, "model.safetensors")} <= set(inside)
    for number, name in enumerate([*inside, Path(), Path("training"), Path(MODEL, "config.json")]):
        store = tmp_path / f"store-{number}"
        elsewhere = tmp_path / f"elsewhere-{number}"
        shutil.copytree(begun, store)
        if (store / name).exists():
            (store / name).rename(elsewhere)
        else:
            elsewhere.mkdir()
        (store / name).symlink_to(elsewhere)
        files = [path for path in (elsewhere, *elsewhere.rglob("*")) if path.is_file()]
        before = {path: path.read_bytes() for path in files}
        with pytest.raises(ResumeError, match="link") as caught:
            list(merge(prepared, store, resume=True))
        assert caught.value.path == store / name
        assert {path: path.read_bytes() for path in files} == before
        assert files == [path for path in (elsewhere, *elsewhere.rglob("*")) if path.is_file()]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"parameters": {"tau": 0.5}}, "recipe"),
        ("matrices_at_once", "side_by_side differs"),
        # Changed arithmetic must not mix with old bits, whatever the version says.
        ("code_digest", "this program's own code"),
    ],
)
def test_resuming_another_merge_is_refused_by_name(
    changed: Any, words: str, prepared: Prepared, tmp_path, monkeypatch
):
    stopped_merge(prepared, tmp_path / "store", 3)
    if isinstance(changed, str):
        monkeypatch.setattr(manifest, changed, lambda *_: 7)
    else:
        prepared = prepare(dataclasses.replace(prepared.plan.recipe, **changed))
    with pytest.raises(ResumeError, match=words):
        list(merge(prepared, tmp_path / "store", resume=True))


def test_without_resume_a_merge_begins_anew(prepared: Prepared, tmp_path):
    store = tmp_path / "store"
    stopped_merge(prepared, store, 3)
    started = next(iter(events := merge(prepared, store)))
    assert isinstance(started, MergeStarted)
    assert started.done == 0
    events.close()


def test_a_folder_of_someone_else_is_never_removed(prepared: Prepared, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="was not made by this program"):
        list(merge(prepared, tmp_path))
    assert (tmp_path / "mine.txt").exists()


def test_export_rounds_once_and_shards(prepared: Prepared, finished_store: Path, tmp_path):
    events = list(
        export(finished_store, tmp_path / "out", ModelExport(dtype="bfloat16", gigabytes=20e-6))
    )
    last = events[-1]
    assert "model.safetensors.index.json" in last.files
    stored = load_file(finished_store / MODEL / "model.safetensors")
    written = {
        name: tensor
        for path in (tmp_path / "out").glob("*.safetensors")
        for name, tensor in load_file(path).items()
    }
    assert written.keys() == stored.keys()
    assert all(
        torch.equal(written[name], tensor.to(torch.bfloat16)) for name, tensor in stored.items()
    )
    assert (tmp_path / "out" / "heads" / "task0.safetensors").exists()


def test_export_that_overflows_leaves_nothing(finished_store: Path, roberta: Family, tmp_path):
    base = load_file(roberta.base / "model.safetensors")
    big = {name: tensor * 1e6 for name, tensor in base.items()}
    from safetensors.torch import save_file

    (tmp_path / "base").mkdir()
    save_file(big, tmp_path / "base" / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in big.items()}, tmp_path / "expert.safetensors")
    entry = ModelEntry(model=tmp_path / "expert.safetensors")
    prepared = prepare(Recipe(base_model=tmp_path / "base", models=(entry,)))
    list(merge(prepared, tmp_path / "store"))
    with pytest.raises(OutputError, match="do not fit into float16"):
        list(export(tmp_path / "store", tmp_path / "out", ModelExport(dtype="float16")))
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_store_has_one_merge_at_a_time(prepared: Prepared, tmp_path):
    store = tmp_path / "store"
    first = merge(prepared, store)
    assert isinstance(next(first), MergeStarted)
    for resume in (False, True):
        with pytest.raises(OutputError, match="Another merge or export is writing this"):
            list(merge(prepared, store, resume=resume))
    assert isinstance(list(first)[-1], MergeFinished)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_publish_moves_the_store(prepared: Prepared, finished_store: Path, tmp_path):
    list(merge(prepared, tmp_path / ".out.partial", as_output=True))
    publish(tmp_path / ".out.partial", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert bits(tmp_path / "out") == bits(finished_store / MODEL)  # the base is float32


def test_a_merge_without_experts_is_refused(roberta: Family, tmp_path):
    prepared = prepare(Recipe(base_model=roberta.base, models=()))
    with pytest.raises(RecipeError, match="at least one expert"):
        list(merge(prepared, tmp_path / "store"))


def test_complete_heads_of_other_experts_than_were_merged_are_refused(prepared: Prepared, tmp_path):
    list(merge(prepared, tmp_path / "store"))
    file = prepared.experts[0].checkpoint.files[0].path
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    try:
        with pytest.raises(FileChangedError):
            list(export(tmp_path / "store", tmp_path / "out", ModelExport(complete_heads=True)))
    finally:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_store_is_outdated_once_a_model_is_another_file(tmp_path):
    family = roberta_family(tmp_path / "models", experts=2)
    prepared = prepare(recipe_of(family))
    list(merge(prepared, tmp_path / "store"))
    job = ReadStoresJob(stores=(tmp_path / "gone", tmp_path / "store"))
    nothing, read = steps_of(job, Runner())
    assert nothing is None
    assert not read.outdated
    names = {row.name for row in prepared.plan.rows if row.in_base}
    assert {report.name for report in read.reports} == names
    weights = next(iter(family.experts.values())) / "model.safetensors"
    later = weights.stat().st_mtime + 5
    os.utime(weights, (later, later))
    *_, read = steps_of(job, Runner())
    assert read.outdated
