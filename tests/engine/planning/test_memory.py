"""The memory a merge will take is known before it starts, and refused when it is too much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.contract.plan import DISK, CheckVerdict
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.method_steps import merge_deltas
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.merging.task_vectors import TaskVectors
from ace_gui.engine.modules.stored import MODULES
from ace_gui.engine.planning import requirements as budget
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.recipe_models import HEADS
from ace_gui.engine.planning.requirements import (
    matrices_at_once,
    output_checks,
    peak_bytes,
    whole_bytes,
    with_freed,
    working_set,
)
from ace_gui.errors import ResourceError
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.values import After, Cap
from tests.benchmarks.depth import FAMILIES, merged, methods_without_data, save_families
from tests.helpers.device_stand_in import DeviceStandIn
from tests.helpers.live_memory import LiveMemory
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of


def recipe(folder: Path, experts: int, shape: tuple[int, int]) -> Recipe:
    save_file({"fc.weight": torch.zeros(shape)}, folder / "base.safetensors")
    entries = []
    for index in range(experts):
        path = folder / f"expert{index}.safetensors"
        save_file({"fc.weight": torch.full(shape, 1e-3 * (index + 1))}, path)
        entries.append(ModelEntry(model=path))
    return Recipe(base_model=folder / "base.safetensors", models=tuple(entries))


def test_a_tensor_over_the_limit_is_refused_by_name_before_anything_is_written(tmp_path):
    prepared = prepare(recipe(tmp_path, 2, (64, 128)))
    needed = prepared.plan.peak_bytes
    with pytest.raises(ResourceError, match=r"`fc\.weight` needs about") as caught:
        list(merge(prepared, tmp_path / "store", memory_bytes=needed - 1))
    assert caught.value.tensor == "fc.weight"
    assert not (tmp_path / "store").exists()
    assert list(merge(prepared, tmp_path / "store", memory_bytes=needed))


def test_the_host_s_memory_does_not_refuse_what_a_gpu_merges(tmp_path):
    prepared = prepare(recipe(tmp_path, 2, (64, 128)))
    plan = prepared.plan
    host = plan.host_bytes_with_gpu
    assert host < plan.peak_bytes
    with DeviceStandIn().installed():
        *_, finished = merge(prepared, tmp_path / "gpu", device="cuda:0", memory_bytes=host)
        assert 0 < finished.gpu_peak.allocated <= finished.gpu_peak.reserved
        with pytest.raises(ResourceError, match=r"`fc\.weight` needs about"):
            list(merge(prepared, tmp_path / "less", device="cuda:0", memory_bytes=host - 1))
    # A GPU that has no room for it: the processor's memory must have.
    with DeviceStandIn(plan.gpu_bytes - 1).installed(), pytest.raises(ResourceError):
        list(merge(prepared, tmp_path / "small", device="cuda:0", memory_bytes=host))
    *_, finished = merge(prepared, tmp_path / "cpu", device="cpu")
    assert finished.gpu_peak is None


def test_the_check_of_memory_knows_where_the_merge_runs(tmp_path):
    plan = prepare(recipe(tmp_path, 2, (64, 128))).plan
    host = plan.host_bytes_with_gpu
    on_gpu = plan.gpu_bytes
    verdicts = [
        plan.memory_check(2 * host, gpu).verdict for gpu in (0, on_gpu - 1, on_gpu, 2 * on_gpu)
    ]
    assert verdicts == [CheckVerdict.ERROR, CheckVerdict.ERROR, CheckVerdict.OK, CheckVerdict.OK]
    assert plan.memory_check(None, on_gpu).verdict is CheckVerdict.OK


def test_the_estimate_follows_the_orientation_and_what_is_kept_of_the_experts(
    tmp_path, monkeypatch: pytest.MonkeyPatch
):
    made = {}
    for experts, shape in ((2, (512, 64)), (5, (512, 64)), (2, (64, 512))):
        (tmp_path / f"{experts}{shape}").mkdir()
        made[experts, shape] = recipe(tmp_path / f"{experts}{shape}", experts, shape)

    def peaks() -> tuple[int, int, int]:
        few, more, turned = (
            prepare(model_recipe).plan.peak_bytes for model_recipe in made.values()
        )
        return few, more, turned

    few, more, turned = peaks()
    assert few < turned
    expert_bytes = 3 * 512 * 64 * 4  # of three further experts, once while held and once freed
    assert more - few == 2 * expert_bytes
    monkeypatch.setattr(budget, "KEPT_BYTES", 0)
    few, more, turned = peaks()
    assert few == more < turned


@pytest.mark.parametrize("after", [After(spectrum=0.5), After(rank=0.5, scale=2.0, cap=Cap())])
@pytest.mark.parametrize("shape", [(96, 1500), (256, 256), (1500, 96)])
@pytest.mark.parametrize("method", ["ace", "linear", "task_arithmetic", "tsv_m"])
def test_what_is_done_after_a_method_is_counted(
    tmp_path, method: str, shape: tuple[int, int], after: After
):
    with_after = replace(recipe(tmp_path, 3, shape), merge_method=method, after=after)
    for index, path in enumerate(entry.model for entry in with_after.models):
        values = torch.randn(shape, generator=torch.Generator().manual_seed(index))
        save_file({"fc.weight": values}, path)
    prepared = prepare(with_after)
    (row,) = prepared.plan.rows
    deltas = TaskVectors(row, Readers(prepared), torch.device("cpu"))
    with LiveMemory() as memory:
        merge_deltas(row, prepared, deltas)
    declared = whole_bytes(row, prepared)
    assert memory.peak <= declared <= 6 * memory.peak


def test_as_many_matrices_at_a_time_as_threads_and_memory_allow(tmp_path, monkeypatch):
    prepared = prepare(recipe(tmp_path, 2, (64, 128)))
    (row,) = prepared.plan.rows
    none, several = (
        replace(prepared, plan=replace(prepared.plan, rows=(row,) * count)) for count in (0, 3)
    )
    held = working_set(row, prepared)
    single = with_freed(held)
    two = with_freed(2 * held)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert matrices_at_once(none, None) == matrices_at_once(prepared, None) == 1
    assert matrices_at_once(several, None) == matrices_at_once(several, two) == 2
    assert matrices_at_once(several, two - 1) == 1
    assert peak_bytes(several) == two
    monkeypatch.setattr(budget, "SIDE_BY_SIDE_BYTES", 2 * held - 1)
    assert matrices_at_once(several, None) == 1
    assert peak_bytes(several) == single


BESIDE = 10e6
"""Bytes that no tensor needs: blocks of files that are hashed, and what Python keeps."""

ALLOWED = 1.15
"""How far a plan may be exceeded: what fits no longer into what was freed before."""

APART = 16e6
"""Bytes by which two merges of one model may differ: two matrices in float64. Threads do not always
meet at their peaks. What is added has more than twice that."""


@pytest.fixture(scope="module", params=FAMILIES)
def model_folders(request, tmp_path_factory):
    return save_families(tmp_path_factory.mktemp("depth"), request.param)


@pytest.mark.long
@pytest.mark.parametrize("method", methods_without_data())
def test_a_model_twice_as_deep_takes_no_more(method: str, model_folders: tuple[Path, Path]):
    once, twice = (merged(model_folder, method, giving_back=True) for model_folder in model_folders)
    assert twice.peak <= 1.05 * once.peak
    assert twice.growth <= 1.05 * once.growth + APART
    as_it_is = merged(model_folders[1], method)
    assert as_it_is.growth <= ALLOWED * as_it_is.planned + BESIDE


def prepared_by(family: Family, method: str) -> Prepared:
    return prepare(recipe_of(family, merge_method=method))


def size_of(*files: Path) -> int:
    return sum(tensor.nbytes for file in files for tensor in load_file(file).values())


@pytest.mark.parametrize("method", ["emr", "tall_masks", "tsv_c"])
def test_every_byte_of_heads_and_modules_is_counted(method: str, gpt2: Family, tmp_path):
    prepared = prepared_by(gpt2, method)
    list(merge(prepared, tmp_path, device="cpu"))
    heads = size_of(*(tmp_path / MODEL / HEADS).iterdir())
    assert heads > 0
    assert prepared.plan.bytes_for_experts == heads + size_of(tmp_path / MODEL / MODULES)
    assert prepared_by(gpt2, "ace").plan.bytes_for_experts == heads


@pytest.mark.parametrize("resumes", [False, True])
def test_the_disk_must_hold_it_too(resumes: bool, gpt2: Family, tmp_path, monkeypatch):
    plan = prepared_by(gpt2, "tsv_c").plan
    needed = plan.bytes_for_experts + (0 if resumes else plan.bytes_to_write)

    def verdict(free: int) -> CheckVerdict:
        monkeypatch.setattr("ace_gui.engine.planning.requirements.free_bytes", lambda _: free)
        checks = output_checks(
            plan, tmp_path, memory_bytes=None, gpu_memory=0, complete_heads=False, resumes=resumes
        )
        (check,) = [check for check in checks if check.title == DISK]
        return check.verdict

    assert verdict(needed - 1) is CheckVerdict.ERROR
    assert verdict(needed) is not CheckVerdict.ERROR
