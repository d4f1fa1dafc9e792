"""What is predicted of a merge on N workers."""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig

from ace_gui.cli import estimating
from ace_gui.cli.commands import Estimate
from ace_gui.engine.cluster import merge_time, trials
from ace_gui.engine.cluster.estimates import (
    UNIT_SECONDS,
    UNWRITTEN_SHARE,
    PlannedUnit,
    Speed,
    kind_of,
    kind_without_shape,
    planned_units,
    schedule,
)
from ace_gui.engine.cluster.trials import measured_speed, measuring_speed
from ace_gui.engine.contract.events import MergeEstimated
from ace_gui.engine.contract.jobs import EstimateJob
from ace_gui.engine.contract.plan import bytes_in_output
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.merging.units import merge_unit
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.row_work import ASSUMED_BYTES, ASSUMED_FLOPS, assumed_seconds
from ace_gui.engine.runner import Runner
from ace_gui.machine import total_memory
from ace_gui.steps import Steps
from tests.helpers.command import ace_gui
from tests.helpers.models import Family
from tests.helpers.ray_stand_in import RayStandIn
from tests.helpers.recipes import file_of, file_over, recipe_of
from tests.helpers.sparse_models import sparse_model

FAST_DISK = Speed(flops=1e9, read=1e12, write=1e15)


def unit(seconds: float) -> PlannedUnit:
    return PlannedUnit(name="a", rows=1, flops=seconds, bytes=1, memory=1, seconds=seconds)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.integers(1, 9))
def test_bounds_of_every_schedule(lengths: list[float], workers: int):
    planned = sorted(map(unit, lengths), key=lambda planned_unit: -planned_unit.seconds)
    timetable = schedule(planned, workers, 0, FAST_DISK)
    work = sum(lengths) + UNIT_SECONDS * len(lengths)
    longest = max(lengths) + UNIT_SECONDS
    least = max(work / workers, longest)
    assert timetable.seconds >= least * (1 - 1e-9)
    # Graham's bound for giving each to who is free first.
    assert timetable.seconds <= (work / workers + (1 - 1 / workers) * longest) * (1 + 1e-9)
    assert 0 < timetable.busy <= 1 + 1e-9


def test_what_limits_a_merge():
    many = [unit(1.0)] * 64
    units = [unit(64.0), *[unit(0.01)] * 10]
    assert schedule(many, 8, 0, FAST_DISK).bottleneck == "work"
    assert schedule(units, 8, 0, FAST_DISK).bottleneck == "largest unit"
    # What the system keeps in memory is written at the end; more than that, meanwhile.
    unwritten = UNWRITTEN_SHARE * total_memory()
    slow = Speed(flops=1e9, read=1e12, write=unwritten)
    timetable = schedule(many, 8, int(1000 * unwritten), slow)
    assert timetable.bottleneck == "writing"
    assert timetable.seconds == pytest.approx(1000)
    timetable = schedule(many, 8, int(unwritten), slow)
    assert timetable.bottleneck == "work"
    assert timetable.seconds == pytest.approx(schedule(many, 8, 0, slow).seconds + 1)


def test_start_and_looks_count():
    speed = replace(FAST_DISK, start=3.0, scan=8.0)
    more = schedule([unit(1.0)] * 8, 4, 0, speed).seconds
    assert more - schedule([unit(1.0)] * 8, 4, 0, FAST_DISK).seconds == pytest.approx(3 + 8 / 4)


def test_reading_the_output_back_counts_once_whatever_the_workers():
    """The process that writes reads it back after the last unit."""
    speed = replace(FAST_DISK, check_seconds_per_byte=1e-6)
    for workers in (1, 4):
        planned = [unit(1.0)] * 8
        more = schedule(planned, workers, 3_000_000, speed).seconds
        assert more - schedule(planned, workers, 3_000_000, FAST_DISK).seconds == pytest.approx(3)


@pytest.mark.parametrize("method", ["ace", "ties"])
def test_matrices_are_tried_as_the_merge_has_them_in_work(gpt2: Family, monkeypatch, method: str):
    """Several at once with one thread of their own, and one after another in parts."""
    together = list[tuple[bool, int]]()
    running = 0
    most = 0
    lock = threading.Lock()
    barrier = threading.Barrier(2, timeout=5)

    def merged(unit, readers, *arguments):
        nonlocal running, most
        is_whole = readers.prepared.is_whole(unit[0])
        with lock:
            running += 1
            most = max(most, running)
        if is_whole:
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait()
        together.append((is_whole, torch.get_num_threads()))
        try:
            return merge_unit(unit, readers, *arguments)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(trials, "merge_unit", merged)
    monkeypatch.setattr(trials, "matrices_at_once", lambda _prepared, limit: 2)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        measured_speed(prepare(recipe_of(gpt2, merge_method=method)))
    finally:
        torch.set_num_threads(threads)
    assert most == (2 if method == "ace" else 1)
    assert {count for is_whole, count in together if is_whole} <= {1}
    assert {count for is_whole, count in together if not is_whole} <= {2}


def test_the_output_is_read_back_in_a_trial(gpt2: Family, monkeypatch):
    monkeypatch.setattr(trials, "LARGE", 0)
    speed = measured_speed(prepare(recipe_of(gpt2, merge_method="linear")))
    assert speed.check_seconds_per_byte > 0


def test_a_long_merge_is_tried_for_longer(gpt2: Family, monkeypatch):
    prepared = prepare(recipe_of(gpt2))
    monkeypatch.setattr(trials, "TRIAL_SECONDS", 0.0)
    monkeypatch.setattr(trials, "ASSUMED_FLOPS", 1.0)  # it seems to take years
    assert measured_speed(prepared).seconds_by_kind


@pytest.mark.parametrize("method", ["ace", "ties", "pcb"])
def test_a_speed_is_measured_on_real_matrices_and_leaves_nothing(
    gpt2: Family, tmp_path, monkeypatch, method: str
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    prepared = prepare(recipe_of(gpt2, merge_method=method))
    speed = measured_speed(prepared)
    rows = [row for row in prepared.plan.rows if row.in_base]
    assert {kind_of(row, prepared) for row in rows} == speed.seconds_by_kind.keys()
    assert all(seconds > 0 for seconds in speed.seconds_by_kind.values())
    assert bool(speed.scan) is (method != "ace")
    assert not prepared.groundwork.findings  # what it was tried with is no finding
    assert not list(tmp_path.iterdir())


def test_a_speed_is_measured_on_the_workers(gpt2: Family):
    ray = RayStandIn()
    workers = ray.workers()
    prepared = prepare(recipe_of(gpt2, merge_method="ties"))
    workers.begin(prepared)
    speed = measured_speed(prepared, workers)
    assert ray.started == 2
    assert speed.scan > 0
    assert speed.seconds_by_kind.keys() == measured_speed(prepared).seconds_by_kind.keys()


@pytest.mark.parametrize("method", ["ace", "ties", "wudi", "tsv_m", "knots_ties", "linear"])
def test_units_have_all_rows_and_their_cost(gpt2: Family, method: str):
    prepared = prepare(recipe_of(gpt2, merge_method=method))
    planned = planned_units(prepared, FAST_DISK)
    rows = [row for row in prepared.plan.rows if row.in_base]
    assert sum(planned_unit.rows for planned_unit in planned) == len(rows)
    costs = [
        planned_unit.flops / ASSUMED_FLOPS + planned_unit.bytes / ASSUMED_BYTES
        for planned_unit in planned
    ]
    assert costs == pytest.approx(sorted(costs, reverse=True))
    stored = bytes_in_output(rows, None)
    everything = sum(planned_unit.bytes for planned_unit in planned)
    assert everything >= (1 + len(prepared.experts)) * stored * 0.99
    assert all(planned_unit.memory > 0 and planned_unit.seconds > 0 for planned_unit in planned)


@pytest.mark.parametrize("method", ["ace", "ties"])
def test_what_was_not_tried_is_told_from_what_is_like_it(gpt2: Family, monkeypatch, method: str):
    monkeypatch.setattr(trials, "LARGE", 0)
    prepared = prepare(recipe_of(gpt2, merge_method=method))
    speed = measured_speed(prepared)
    rows = [row for row in prepared.plan.rows if row.in_base and row.experts]
    row = max(rows, key=lambda candidate: assumed_seconds(candidate, prepared))
    largest = assumed_seconds(row, prepared)
    alike = kind_without_shape(row, prepared)
    as_large = {
        speed.seconds_by_kind[kind_of(row, prepared)]
        for row in rows
        if assumed_seconds(row, prepared) == largest and kind_without_shape(row, prepared) == alike
    }
    seconds = replace(speed, seconds_by_kind={}).seconds(row, prepared)
    assert any(seconds == pytest.approx(length) for length in as_large)
    smaller = min(rows, key=lambda candidate: assumed_seconds(candidate, prepared))
    less = replace(speed, seconds_by_kind={}).seconds(smaller, prepared)
    assert less < seconds


def test_no_time_no_trial(gpt2: Family, monkeypatch):
    monkeypatch.setattr(trials, "TRIAL_SECONDS", 0.0)
    prepared = prepare(recipe_of(gpt2))
    speed = measured_speed(prepared)
    assert not speed.seconds_by_kind
    assert (speed.flops, speed.read) == (ASSUMED_FLOPS, ASSUMED_BYTES)
    assert all(unit.seconds > 0 for unit in planned_units(prepared, speed))


@pytest.mark.parametrize("method", ["ace", "ties", "tsv_m"])
def test_the_window_estimates_as_the_dry_run_does(gpt2: Family, tmp_path, monkeypatch, method: str):
    """By the same trials: of one speed, both say the same, and both have methods with surveys."""
    speed = measured_speed(prepare(recipe_of(gpt2, merge_method=method)))

    def measuring(*_: object, **__: object) -> Steps[Speed]:
        yield
        return speed

    monkeypatch.setattr(merge_time, "measuring_speed", measuring)
    recipe = recipe_of(gpt2, merge_method=method)
    job = EstimateJob(recipe=recipe, device="cpu")
    runner = Runner()
    events = [event for event in steps_of(job, runner) if isinstance(event, MergeEstimated)]
    (seconds,) = [event.seconds for event in events]
    monkeypatch.delattr(merge_time, "measuring_speed")
    again = [event for event in steps_of(job, Runner()) if isinstance(event, MergeEstimated)]
    assert again == events, "remembered, for this number of threads"
    monkeypatch.setattr(estimating, "measured_speed", lambda *_: speed)
    record = tmp_path / "plan.json"
    command = Estimate(recipe=file_of(tmp_path, gpt2, merge_method=method), json=record)
    estimating.estimate_recipe(command)
    printed = json.loads(record.read_text())
    start = printed["speed"]["start"]
    assert seconds == pytest.approx(printed["schedules"][0]["seconds"] - start)


@pytest.mark.parametrize("method", ["regmean", "adamerging"])
def test_no_time_is_invented_where_nothing_can_be_tried(gpt2: Family, method: str):
    job = EstimateJob(recipe=recipe_of(gpt2, merge_method=method), device="cpu")
    assert not [event for event in steps_of(job, Runner()) if event is not None]


def test_an_estimate_that_nobody_waits_for_leaves_nothing(gpt2: Family, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    steps = measuring_speed(prepare(recipe_of(gpt2)))
    next(steps)
    assert list(tmp_path.iterdir())
    steps.close()
    assert not list(tmp_path.iterdir())


def test_the_time_of_a_command_has_its_start_and_its_end(gpt2: Family, tmp_path):
    record = tmp_path / "plan.json"
    done = ace_gui("estimate", file_of(tmp_path, gpt2), "--threads", "1", "--json", record)
    assert done.returncode == 0, done.stderr
    assert "until the merge begins" in done.stdout
    content = json.loads(record.read_text())
    assert content["schedules"][0]["seconds"] > content["speed"]["start"] > 0


def test_command_reads_headers_alone(tmp_path):
    config = LlamaConfig(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=2, vocab_size=128256
    )
    models = [sparse_model(config, tmp_path / f"model-{t}") for t in range(3)]
    recipe = file_over(tmp_path / "recipe", models[0], models[1:])
    plan_file = tmp_path / "plan.json"
    done = ace_gui(
        "estimate",
        recipe,
        "--speed",
        "1000",
        "--disk",
        "1000",
        "--workers",
        "1,4",
        "--json",
        plan_file,
    )
    assert done.returncode == 0, done.stderr
    assert "limited by" in done.stdout
    content = json.loads(plan_file.read_text())
    assert [entry["workers"] for entry in content["schedules"]] == [1, 4]
    largest = max(content["units"], key=lambda entry: entry["memory"])
    assert largest["memory"] > 8 * 28672 * 8192
    written = sum(path.stat().st_blocks for path in tmp_path.rglob("*.safetensors")) * 512
    assert written < 10_000_000  # nothing has filled the holes


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--workers", "0"), 2, "numbers of workers"),
        (("--workers", "1,,x"), 2, "numbers of workers"),
        (("--cluster", "here"), 1, "is not a cluster"),
    ],
)
def test_wrong_arguments(
    gpt2: Family, tmp_path, arguments: tuple[str, ...], status: int, says: str
):
    done = ace_gui("estimate", file_of(tmp_path, gpt2), *arguments)
    assert (done.returncode, says in done.stderr) == (status, True), done.stderr
