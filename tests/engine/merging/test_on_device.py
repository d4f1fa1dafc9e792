"""Whole merges on a GPU that the processor plays: what is where, and what is done without room."""

import math
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.layer_spectra import spectrum, subspaces
from ace_gui.engine.merging import memory_budgets, units
from ace_gui.engine.merging.memory_budgets import GPU_AHEAD, MemoryBudget, budgets_of, merged_within
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import reports
from ace_gui.engine.merging.tensor_merge import DIVIDED, FELL_BACK, TensorMerge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import whole_bytes
from ace_gui.engine.report.page import merge_reports
from ace_gui.errors import NonFiniteError, lacks_room
from ace_gui.methods.ace.probes import PROBES
from tests.helpers import models
from tests.helpers.device_stand_in import ERRORS, GPU, DeviceStandIn
from tests.helpers.merges import merged_tensors
from tests.helpers.recipes import recipe_of


@pytest.fixture(scope="module")
def expected(prepared: Prepared, tmp_path_factory) -> dict[str, torch.Tensor]:
    return merged_tensors(prepared, tmp_path_factory.mktemp("cpu") / "store", device="cpu")


def matrices(prepared: Prepared) -> set[str]:
    return {row.name for row in prepared.plan.rows if row.disposition == "merged"}


def fell_back(store: Path) -> set[str]:
    return {name for name, report in reports(store).items() if FELL_BACK in report.notes}


def assert_alike(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=1e-5, atol=1e-6, msg=name)


def failing(who: str, when: Callable[[str], bool]) -> Callable[[str], None]:
    def fails(operation: str) -> None:
        if when(operation):
            raise ERRORS[who]()

    return fails


def test_a_whole_merge_on_a_gpu_is_that_on_the_processor(
    prepared: Prepared, expected: dict[str, torch.Tensor], tmp_path
):
    with DeviceStandIn().installed() as stand_in:
        tensors = merged_tensors(prepared, tmp_path / "gpu", device="auto")
    assert_alike(tensors, expected)
    assert not fell_back(tmp_path / "gpu")
    assert stand_in.uploads
    assert not stand_in.allocated, "a merge leaves nothing on the GPU"


def test_every_thread_keeps_one_stream(prepared: Prepared, tmp_path):
    """Torch keeps the freed memory of every stream apart."""
    with DeviceStandIn().installed() as stand_in:
        merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    assert 1 <= len(stand_in.streams) <= GPU_AHEAD


def test_the_first_decomposition_comes_before_the_threads(prepared: Prepared, tmp_path):
    main = threading.get_ident()
    first = []
    with DeviceStandIn().installed() as stand_in:

        def fails(operation: str) -> None:
            if operation in {"linalg_cholesky_ex", "_linalg_eigh"}:
                first.append((operation, threading.get_ident()))

        stand_in.fails = fails
        merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    assert first[:2] == [("linalg_cholesky_ex", main), ("_linalg_eigh", main)]


@pytest.mark.parametrize(
    ("who", "where"),
    [
        ("allocator", "_to_copy"),
        ("cublas", "addmm_"),
        ("pinned", "pin_memory"),
        ("solver", "linalg_cholesky_ex"),
    ],
)
def test_a_gpu_without_room_hands_every_matrix_to_the_processor(
    who: str, where: str, prepared: Prepared, expected: dict[str, torch.Tensor], tmp_path
):
    main = threading.get_ident()
    with DeviceStandIn().installed() as stand_in:
        here = threading.get_ident
        names = {where, "baddbmm_"} if where == "addmm_" else {where}
        stand_in.fails = failing(who, lambda name: name in names and here() != main)
        tensors = merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    assert fell_back(tmp_path / "gpu") == matrices(prepared)
    for name, tensor in expected.items():
        assert torch.equal(tensors[name], tensor), name
    assert not stand_in.allocated


def test_what_cannot_fit_is_not_tried_again(prepared: Prepared):
    rows = [row for row in prepared.plan.rows if row.disposition == "merged"]
    alike = [row for row in rows if row.shape == (32, 32)]
    readers = Readers(prepared)
    tried = []
    with DeviceStandIn().installed() as stand_in, ThreadPoolExecutor(1) as pool:

        def fails(operation: str) -> None:
            if operation == "pin_memory":
                tried.append(operation)
                raise ERRORS["pinned"]()

        stand_in.fails = fails
        budgets = budgets_of(GPU)
        for row in alike:
            work = TensorMerge(row, readers, GPU)
            merged_within([work], pool, budgets)
            assert FELL_BACK in work.report.notes
    assert len(alike) > 2
    assert len(tried) == 2  # of the first alone: with its experts there, then without


@pytest.mark.parametrize("capacity", [40_000, 100_000, 400_000])
def test_a_small_gpu_merges_what_it_has_room_for(
    capacity: int, prepared: Prepared, expected: dict[str, torch.Tensor], tmp_path
):
    with DeviceStandIn(capacity).installed() as stand_in:
        tensors = merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    assert_alike(tensors, expected)
    assert stand_in.peak <= capacity
    notes = [note for report in reports(tmp_path / "gpu").values() for note in report.notes]
    assert capacity > 100_000 or FELL_BACK in notes or DIVIDED in notes


def test_the_processor_merges_no_more_at_a_time_than_it_has_room_for(
    prepared: Prepared, tmp_path, monkeypatch
):
    """What a GPU has no room for waits for room in the processor's memory."""
    there = [0]
    most = [0]
    lock = threading.Lock()
    honest = TensorMerge.pieces

    def counted(work, pool):
        if not prepared.is_whole(work.row):
            yield from honest(work, pool)
            return
        if work.device.type == "cuda":
            raise ERRORS["allocator"]()
        with lock:
            there[0] += work.gpu_bytes
            most[0] = max(most[0], there[0])
        yield from honest(work, pool)
        with lock:
            there[0] -= work.gpu_bytes

    monkeypatch.setattr(TensorMerge, "pieces", counted)
    monkeypatch.setattr(units, "FULL", 1)
    rows = [row for row in prepared.plan.rows if row.disposition == "merged"]
    room = 2 * max(whole_bytes(row, prepared) for row in rows)
    monkeypatch.setattr(memory_budgets, "SIDE_BY_SIDE_BYTES", room)
    with DeviceStandIn().installed():
        merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    assert 0 < most[0] <= room


def test_other_errors_are_not_taken_for_lack_of_room(prepared: Prepared, tmp_path):
    def fails(operation: str) -> None:
        if operation in {"addmm_", "baddbmm_"}:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with DeviceStandIn().installed() as stand_in:
        stand_in.fails = fails
        with pytest.raises(RuntimeError, match="illegal memory access"):
            merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    assert not lacks_room(RuntimeError("linalg.eigh: The algorithm failed to converge"))


@pytest.mark.parametrize("who", ERRORS)
def test_spectra_subspaces_and_reports_do_without_a_gpu_that_has_no_room(
    who: str, prepared: Prepared, tmp_path
):
    row = next(row for row in prepared.plan.rows if row.disposition == "merged")
    cpu = torch.device("cpu")

    def all_of(device: torch.device, folder: Path) -> tuple[object, ...]:
        cache = InspectionCache(folder)
        *_, spectra = spectrum(prepared, row, device, cache)
        *_, directions = subspaces(prepared, row, device, cache)
        reported = [
            merge_report
            for merge_report in merge_reports(prepared, [row], device)
            if merge_report is not None
        ]
        return spectra, directions, reported

    spectra, directions, (reported,) = all_of(cpu, tmp_path / "cpu")
    with DeviceStandIn().installed() as stand_in:
        stand_in.fails = failing(who, lambda name: name in {"addmm_", "baddbmm_", "mm"})
        on_gpu, along, (said,) = all_of(GPU, tmp_path / "gpu")
    np.testing.assert_allclose(on_gpu.merged, spectra.merged, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(along.overlap, directions.overlap, rtol=1e-6)
    assert said.gamma == pytest.approx(reported.gamma)
    assert FELL_BACK in said.notes


def test_every_thread_says_for_which_gpu_it_works(prepared: Prepared, tmp_path):
    """Otherwise memory is pinned through the first one, which then holds some for nothing."""
    row = next(row for row in prepared.plan.rows if row.disposition == "merged")
    with DeviceStandIn().installed() as stand_in:
        device = resolve_device("cuda:0")
        tried = stand_in.astray  # it computes a little there before it is chosen
        merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
        assert stand_in.uploads
        for look in (spectrum, subspaces):
            stand_in.forget()
            list(look(prepared, row, device, InspectionCache(tmp_path / look.__name__)))
            assert stand_in.uploads
        list(merge_reports(prepared, [row], device))
    assert stand_in.astray == tried


def test_room_is_unlimited_on_the_processor():
    assert memory_budgets.bytes_free(torch.device("cpu")) == math.inf
    assert MemoryBudget(math.inf).admits(10**12, 2)


def test_every_expert_is_uploaded_once_where_it_fits(prepared: Prepared, tmp_path):
    merged = [row for row in prepared.plan.rows if row.disposition == "merged"]
    with DeviceStandIn().installed() as stand_in:
        merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    expected = Counter[int]()
    for row in merged:
        expected[4 * math.prod(row.shape)] += 1 + len(row.experts)
    uploads = Counter(stand_in.uploads)
    assert not expected - uploads
    # Of 64 inputs, the random vectors of ACE's checks are as large as a matrix of 32 × 32.
    beyond = [size for size in (uploads - expected).elements() if size >= 32 * 32 * 4]
    assert beyond in ([], [PROBES * 8 * 64])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("tau", [0.0, 100.0])
def test_a_merge_waits_six_times_a_matrix_at_most(
    tau: float, dtype: str, prepared: Prepared, tmp_path, monkeypatch
):
    monkeypatch.setattr(units, "FULL", 1)  # one matrix at a time
    parameters = {"epsilon": 0.1, "tau": tau}
    recipe = replace(prepared.plan.recipe, parameters=parameters, out_dtype=dtype)
    with DeviceStandIn().installed() as stand_in:
        merged_tensors(prepare(recipe), tmp_path / "gpu", device="cuda:0", as_output=True)
    started = 2  # a solver of each kind, before the threads
    waits = sum(stand_in.waits.values()) - started
    assert waits <= 6 * len(matrices(prepared))
    assert len(stand_in.unpinned) == stand_in.waits["download"], "no upload waits"
    said = {report.precision for report in reports(tmp_path / "gpu").values() if report.regime}
    assert dtype == "float32" or any(
        sentence.startswith("Computed in float32, ") for sentence in said
    )


def test_without_room_for_them_experts_are_uploaded_when_they_are_read(prepared: Prepared):
    row = next(row for row in prepared.plan.rows if row.shape == (32, 32) and row.experts)
    stored = []
    with DeviceStandIn().installed() as stand_in, ThreadPoolExecutor(1) as pool:
        for bytes_per_batch in (math.inf, 0.0):
            work = TensorMerge(row, Readers(prepared), GPU)
            stand_in.forget()
            budgets = replace(budgets_of(GPU), bytes_per_batch=bytes_per_batch)
            ((piece,),) = merged_within([work], pool, budgets)
            stored.append(piece.values)
            uploads = [size for size in stand_in.uploads if size == 32 * 32 * 4]
            assert (len(uploads) == 1 + len(row.experts)) == (bytes_per_batch > 0)
    assert torch.equal(*stored)


def test_results_are_downloaded_once_into_pinned_memory(prepared: Prepared, tmp_path):
    merged = [row for row in prepared.plan.rows if row.disposition == "merged"]
    with DeviceStandIn().installed() as stand_in:
        merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    large = [size for size in stand_in.downloads if size >= 32 * 32 * 4]
    assert sorted(large) == sorted(4 * math.prod(row.shape) for row in merged)
    assert max(stand_in.unpinned) < 32 * 64 * 4, "only figures make the processor wait"


def test_batches_are_uploaded_while_others_are_computed(prepared: Prepared, tmp_path):
    """One waits in the middle of its products till another has brought its tensors."""
    waiting = threading.Event()
    brought = threading.Event()
    met = []
    first: list[int] = []

    def seen(operation: str) -> None:
        thread = threading.get_ident()
        if operation in {"addmm_", "baddbmm_"} and not first:
            first.append(thread)
            waiting.set()
            met.append(brought.wait(10))
        elif operation == "pin_memory" and waiting.is_set() and thread not in first:
            brought.set()

    with DeviceStandIn().installed() as stand_in:
        stand_in.fails = seen
        merged_tensors(prepared, tmp_path / "gpu", device="cuda:0")
    assert met == [True]


@pytest.mark.parametrize("transposed", [False, True])
def test_nan_is_found_on_the_gpu_and_named(transposed: bool, tmp_path):
    make = models.gpt2_family if transposed else models.roberta_family
    family = make(tmp_path / "models")
    folder = next(iter(family.experts.values()))
    file = next(folder.glob("*.safetensors"))
    tensors = load_file(file)
    name = max(
        (name for name in tensors if "h.0" in name or "layer.0" in name),
        key=lambda name: tensors[name].numel(),
    )
    tensors[name][2, 3] = torch.nan
    save_file(tensors, file, metadata={"format": "pt"})
    spoilt = prepare(recipe_of(family))
    with DeviceStandIn().installed(), pytest.raises(NonFiniteError, match=r"1 NaN value") as caught:
        merged_tensors(spoilt, tmp_path / "gpu", device="cuda:0")
    assert caught.value.tensor == name
