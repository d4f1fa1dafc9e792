"""Who merges which unit changes no bit, and a lost worker loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ace_gui.engine import job_steps, streaming
from ace_gui.engine.cluster import ray_workers
from ace_gui.engine.cluster.ray_workers import MOST_LOSSES, Call
from ace_gui.engine.cluster.worker import Worker, WorkerIdentity
from ace_gui.engine.contract.events import MergeFinished, MergeStarted, TensorFinished
from ace_gui.engine.contract.jobs import MergeJob
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import MODEL, checksums
from ace_gui.engine.merging.surveying import (
    groups,
    of_deltas,
    row_contribution,
    surveyed,
)
from ace_gui.engine.merging.tensor_merge import OutputChunk, TensorMerge
from ace_gui.engine.merging.units import PACKED, TOKEN, RowMerged, SharedOutput, scan_rows, units
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.runner import Runner
from ace_gui.errors import (
    ClusterError,
    FileChangedError,
    NonFiniteError,
    ResourceError,
    ResumeError,
)
from ace_gui.methods.shared.survey import Range, SurveyContext
from ace_gui.recipe import Recipe
from tests.helpers.checkpoints import same_bits
from tests.helpers.merges import merged_tensors, stopped_merge
from tests.helpers.models import Family, gpt_oss_family
from tests.helpers.ray_stand_in import RayStandIn
from tests.helpers.recipes import recipe_of


def alone(recipe: Recipe, store: Path) -> dict[str, torch.Tensor]:
    return merged_tensors(prepare(recipe), store, device="cpu")


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        same_bits(first[name], second[name]) for name in first
    )


@pytest.mark.parametrize("method", ["ace", "ties", "dare_ties", "wudi", "linear"])
@pytest.mark.parametrize("count", [1, 3])
def test_same_bits_as_one_process(gpt2: Family, tmp_path, method: str, count: int):
    recipe = recipe_of(gpt2, merge_method=method)
    expected = alone(recipe, tmp_path / "alone")
    tensors = merged_tensors(
        prepare(recipe), tmp_path / "many", workers=RayStandIn().workers(count)
    )
    assert same(tensors, expected)


@pytest.mark.parametrize("seed", range(6))
def test_lost_workers_change_nothing(gpt2: Family, tmp_path, seed: int):
    recipe = recipe_of(gpt2)
    generator = torch.Generator().manual_seed(seed)
    lost = torch.rand(10_000, generator=generator) < 0.15
    ray = RayStandIn(lambda call, number: call == "merge" and bool(lost[number]))
    members = ray.workers()
    expected = alone(recipe, tmp_path / "alone")
    assert same(merged_tensors(prepare(recipe), tmp_path / "many", workers=members), expected)
    assert members.lost > 0
    members.close()
    assert ray.killed == ray.started  # nobody is left


def test_a_worker_that_hangs_is_replaced(gpt2: Family, tmp_path):
    recipe = recipe_of(gpt2)
    ray = RayStandIn()
    ray.hangs = lambda call, number: number == 2
    members = ray.workers()
    members.longest_seconds = 0.0
    tensors = merged_tensors(prepare(recipe), tmp_path / "many", workers=members)
    assert same(tensors, alone(recipe, tmp_path / "alone"))
    assert members.lost >= 1


def test_a_unit_that_costs_too_many_workers_stops_the_merge(gpt2: Family, tmp_path):
    prepared = prepare(recipe_of(gpt2))
    store = tmp_path / "store"
    after = 8
    ray = RayStandIn(lambda call, number: call == "merge" and number > after)
    with pytest.raises(ClusterError, match="give workers more memory, then resume") as stopped:
        merged_tensors(prepared, store, workers=ray.workers(1))
    assert stopped.value.tensor
    assert ray.started == MOST_LOSSES
    # With a cluster that is well, it goes on where it was.
    tensors: dict[str, torch.Tensor] = {}
    again = RayStandIn()
    calls = []
    again.fails = lambda call, number: calls.append(call) is not None
    tensors = merged_tensors(prepared, store, workers=again.workers(), resume=True)
    assert same(tensors, alone(prepared.plan.recipe, tmp_path / "alone"))
    everything = len(units(in_base(prepared), prepared, torch.device("cpu")))
    assert calls.count("merge") < everything


def in_base(prepared: Prepared) -> list:
    return [row for row in prepared.plan.rows if row.in_base]


def test_every_row_is_in_one_unit(gpt2: Family):
    for method in ("ace", "ties", "linear"):
        prepared = prepare(recipe_of(gpt2, merge_method=method))
        rows = in_base(prepared)
        for device in ("cpu", "cuda"):
            all_units = units(rows, prepared, torch.device(device))
            names = [row.name for unit in all_units for row in unit]
            assert sorted(names) == sorted(row.name for row in rows)
            packed = [unit for unit in all_units if not prepared.is_whole(unit[0])]
            for unit in packed:
                entries = sum(torch.Size(row.shape).numel() for row in unit)
                assert len(unit) == 1 or entries <= PACKED


def test_an_interrupted_merge_leaves_no_workers(gpt2: Family, tmp_path):
    ray = RayStandIn()
    stopped_merge(prepare(recipe_of(gpt2)), tmp_path / "store", workers=ray.workers())
    assert ray.started == ray.killed == 2
    assert not (tmp_path / "store" / TOKEN).exists()


def test_errors_arrive_as_they_are(gpt2: Family, tmp_path):
    from safetensors.torch import load_file, save_file

    file = next(iter(gpt2.experts.values())) / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if "mlp" in name and name.endswith("weight"))
    spoilt = tensors[name].clone()
    spoilt[0, 0] = float("nan")
    original = file.read_bytes()
    save_file(tensors | {name: spoilt}, file, metadata={"format": "pt"})
    try:
        with pytest.raises(NonFiniteError) as error:
            merged_tensors(
                prepare(recipe_of(gpt2)), tmp_path / "store", workers=RayStandIn().workers()
            )
        assert error.value.tensor == name
    finally:
        file.write_bytes(original)


def test_a_store_of_one_process_is_not_continued_by_others(gpt2: Family, tmp_path):
    prepared = prepare(recipe_of(gpt2))
    store = tmp_path / "store"
    torch.set_num_threads(2)
    stopped_merge(prepared, store, 3, device="cpu")
    torch.set_num_threads(1)
    with pytest.raises(ResumeError, match="threads"):
        merged_tensors(prepared, store, workers=RayStandIn().workers(), resume=True)


def test_what_machines_read_must_agree(tmp_path):
    from ace_gui.checkpoints.reader import ReadChecksums

    checksums = ReadChecksums()
    checksums.merge({str(tmp_path / "a"): [(0, 8, 1), (8, 16, 2)]})
    checksums.merge({str(tmp_path / "a"): [(0, 8, 1)]})
    with pytest.raises(FileChangedError):
        checksums.merge({str(tmp_path / "a"): [(8, 16, 3)]})


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("ties", {}), ("pcb", {}), ("nan", {"norms": "model"}), ("knots_ties", {})],
)
def test_looks_at_the_whole_model_are_put_together(
    gpt2: Family, method: str, parameters: dict[str, str]
):
    """Looked at by three, one of whom is lost meanwhile: the same findings to the last bit."""
    recipe = recipe_of(gpt2, merge_method=method, parameters=parameters)
    here = prepare(recipe)
    there = prepare(recipe)
    list(surveyed(Readers(here)))
    lost = iter([True])
    ray = RayStandIn(lambda call, number: call == "scan" and next(lost, False))
    members = ray.workers(3)
    members.begin(there)
    readers = Readers(there)
    list(surveyed(readers, workers=members))
    assert here.groundwork.findings
    assert here.groundwork.findings == there.groundwork.findings
    assert members.lost == 1
    assert readers.checksums.fresh()  # so that the journal says what was looked at
    assert members.scan_seconds > 0


def test_counts_are_sent_as_one_sum(gpt2: Family):
    """Those of each tensor together would fill the memory that workers share."""
    prepared = prepare(recipe_of(gpt2, merge_method="ties"))
    (group,) = groups(prepared)
    (declared,) = group.method.surveys_over(Range.MODEL, group.parameters)
    survey = declared.due(SurveyContext.of_model(group.parameters, len(prepared.experts)))
    scan = partial(row_contribution, survey=survey, measure=of_deltas)
    readers = Readers(prepared)
    counts = scan_rows(scan, group.rows, readers).contributions
    assert len(counts) == len(group.rows) > 2
    assert [count is None for count in counts] == [True] * (len(counts) - 1) + [False]
    apart = [scan_rows(scan, [row], readers).contributions[0] for row in group.rows]
    assert torch.equal(counts[-1], sum(apart))


@pytest.mark.parametrize("anew", [True, False], ids=["begun anew", ""])
@pytest.mark.parametrize("reached", [True, False])
def test_workers_write_what_they_reach(
    gpt2: Family, tmp_path, monkeypatch, reached: bool, anew: bool
):
    if anew:
        once = TensorMerge.pieces
        monkeypatch.setattr(streaming, "PART_ELEMENTS", 64)

        def twice(self: TensorMerge, pool: ThreadPoolExecutor) -> Iterator[OutputChunk]:
            yield from list(once(self, pool))[:2]
            yield from once(self, pool)

        monkeypatch.setattr(TensorMerge, "pieces", twice)
    if not reached:
        monkeypatch.setattr(SharedOutput, "is_here", lambda _: False)
    sent = []
    original = RowMerged.pieces
    monkeypatch.setattr(
        RowMerged, "pieces", lambda *arguments: sent.append(arguments) or original(*arguments)
    )
    recipe = recipe_of(gpt2)
    members = RayStandIn().workers()
    prepared = prepare(recipe)
    *_, finished = merge(prepared, tmp_path / "store", workers=members)
    tensors = load_file(tmp_path / "store" / MODEL / "model.safetensors")
    assert same(tensors, alone(recipe, tmp_path / "alone"))
    assert any(row.stretches for row, _ in sent) is not reached
    assert isinstance(finished, MergeFinished)
    assert ("written the tensors themselves" in finished.notes[0]) is reached
    assert checksums(tmp_path / "store") == checksums(tmp_path / "alone")


def test_matrices_between_others_are_sent(tmp_path):
    """Of a tensor that several rows share, one process puts the rows together."""
    family = gpt_oss_family(tmp_path / "family")
    recipe = recipe_of(family)
    rows = in_base(prepare(recipe))
    assert any(row.part is not None for row in rows)
    tensors = merged_tensors(prepare(recipe), tmp_path / "many", workers=RayStandIn().workers())
    assert same(tensors, alone(recipe, tmp_path / "alone"))


def test_another_machine_with_a_folder_of_that_name_writes_nothing(tmp_path):
    shared = SharedOutput(store=tmp_path, model=tmp_path, shards=(), token="a")
    assert not shared.is_here()
    (tmp_path / TOKEN).write_text("b")
    assert not shared.is_here()
    (tmp_path / TOKEN).write_text("a")
    assert shared.is_here()


def test_one_worker_a_gpu():
    """Ray then shows each its own GPU alone, which is the first that it sees."""
    ray = RayStandIn()
    members = ray.workers(device="cuda:0")
    calls = [Call(name="run", arguments=(len, ([],)), about="nothing")] * 2
    with suppress(ResourceError):  # where this machine has no GPU
        list(members.results(calls))
    members.close()
    assert [options["num_gpus"] for options in ray.asked_for[:2]] == [1, 1]
    assert members.device == "cuda:0"


def test_a_cluster_of_several_kinds_says_so(gpt2: Family, tmp_path, monkeypatch):
    kinds = iter([replace(WorkerIdentity.here("cpu"), processor=f"kind {n}") for n in range(2)])
    monkeypatch.setattr(Worker, "identity", lambda _: next(kinds))
    *_, finished = merge(prepare(recipe_of(gpt2)), tmp_path / "s", workers=RayStandIn().workers())
    assert any("not all of one kind" in note for note in finished.notes)


def test_workers_of_another_version_are_refused(gpt2: Family, tmp_path, monkeypatch):
    identity = replace(WorkerIdentity.here("cpu"), code="other")
    monkeypatch.setattr(Worker, "identity", lambda _: identity)
    with pytest.raises(ClusterError, match="another version"):
        list(merge(prepare(recipe_of(gpt2)), tmp_path / "s", workers=RayStandIn().workers()))


def test_workers_that_do_not_start(gpt2: Family, tmp_path):
    ray = RayStandIn(lambda call, number: call == "identity")
    with pytest.raises(ClusterError, match="cannot be started"):
        list(merge(prepare(recipe_of(gpt2)), tmp_path / "s", workers=ray.workers()))
    assert ray.started <= 2 * MOST_LOSSES


def test_a_merge_can_be_stopped_while_the_cluster_starts(gpt2: Family, tmp_path):
    ray = RayStandIn()
    ray.starting = 1 << 30
    events = merge(prepare(recipe_of(gpt2)), tmp_path / "store", workers=ray.workers())
    while not isinstance(next(events), MergeStarted):
        pass
    assert [next(events) for _ in range(3)] == [None] * 3
    events.close()
    assert ray.started == 0


def test_the_head_ends(gpt2: Family, tmp_path, monkeypatch):
    """Ray would say nothing for a minute, and then end the process."""
    monkeypatch.setattr(ray_workers, "WATCH_SECONDS", 0.0)
    ray = RayStandIn()
    prepared = prepare(recipe_of(gpt2))
    store = tmp_path / "store"
    events = merge(prepared, store, workers=ray.workers())
    while not isinstance(next(events), TensorFinished):
        pass
    ray.ended = True
    with pytest.raises(ClusterError, match="server has ended"):
        list(events)
    tensors = merged_tensors(prepared, store, workers=RayStandIn().workers(), resume=True)
    assert same(tensors, alone(prepared.plan.recipe, tmp_path / "alone"))


def test_a_connection_that_breaks(gpt2: Family, tmp_path):
    def fails(call: str, number: int) -> bool:
        if call == "merge" and number > 4:
            raise ConnectionError("gone")
        return False

    with pytest.raises(ClusterError, match="server has ended"):
        list(merge(prepare(recipe_of(gpt2)), tmp_path / "s", workers=RayStandIn(fails).workers()))


def test_workers_without_memory_for_the_models(gpt2: Family, tmp_path, monkeypatch):
    """What they are told is not asked for: what they are asked next says it."""
    original = Worker.prepare
    fails = [True, True]

    def prepare_or_fail(self: Worker, *order: object) -> None:
        if fails and fails.pop():
            raise MemoryError
        original(self, *order)

    monkeypatch.setattr(Worker, "prepare", prepare_or_fail)
    recipe = recipe_of(gpt2)
    members = RayStandIn().workers()
    tensors = merged_tensors(prepare(recipe), tmp_path / "many", workers=members)
    assert same(tensors, alone(recipe, tmp_path / "alone"))
    assert members.lost == 2
    fails += [True] * 100
    with pytest.raises(ClusterError, match="cannot be started"):
        merged_tensors(prepare(recipe), tmp_path / "none", workers=RayStandIn().workers())


def test_waiting_can_be_stopped(gpt2: Family, tmp_path):
    """A worker that works for hours lets a person cancel at once."""
    ray = RayStandIn()
    ray.hangs = lambda call, number: call == "merge"
    job = MergeJob(recipe=recipe_of(gpt2), store=tmp_path / "store", cluster="local:2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_steps, "workers_at", lambda *_: nullcontext(ray.workers()))
        steps = steps_of(job, Runner())
        while not isinstance(next(steps), MergeStarted):
            pass
        for _ in range(20):
            assert next(steps) is None
        steps.close()
    assert ray.started == ray.killed == 2


def test_a_worker_without_memory_hands_its_unit_on(gpt2: Family, tmp_path, monkeypatch):
    original = Worker.merge
    fails = iter([MemoryError(), RuntimeError("not enough memory: 8 GB")])

    def merge_or_fail(self: Worker, names: list[str]) -> object:
        for error in fails:
            raise error
        return original(self, names)

    monkeypatch.setattr(Worker, "merge", merge_or_fail)
    recipe = recipe_of(gpt2)
    members = RayStandIn().workers()
    tensors = merged_tensors(prepare(recipe), tmp_path / "many", workers=members)
    assert same(tensors, alone(recipe, tmp_path / "alone"))
    assert members.lost == 2
