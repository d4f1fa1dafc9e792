"""Which GPU is taken, and why none is; how many threads compute."""

import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from ace_gui.engine import capabilities
from ace_gui.engine.capabilities import (
    Gpu,
    available_devices,
    devices_not_used,
    engine_ready,
    fastest_first,
    resolve_device,
    use_threads,
    why_none,
    why_unfit,
)
from ace_gui.errors import ResourceError
from tests.helpers.device_stand_in import ERRORS, DeviceStandIn


def gpu(index: int, architecture: str, processors: int = 10, memory: int = 8) -> Gpu:
    return Gpu(
        name=f"cuda:{index}",
        title=f"GPU {index}",
        architecture=architecture,
        processors=processors,
        memory_bytes=memory,
    )


@pytest.mark.parametrize(
    ("architecture", "built_for", "fits"),
    [
        ("sm_86", ["sm_75", "sm_86"], True),
        ("sm_86", ["sm_75", "sm_80"], True),  # the same generation, later
        ("sm_80", ["sm_86"], False),
        ("sm_61", ["sm_70", "sm_80"], False),
        ("sm_35", ["sm_50", "compute_50"], False),
        ("sm_120", ["sm_90", "compute_90"], True),  # compiled when it is loaded
        ("sm_120", ["sm_90", "sm_100"], False),
        ("sm_90", ["sm_90a"], False),
        ("gfx90a", ["gfx906", "gfx90a"], True),
        ("gfx1030", ["gfx906", "gfx90a"], False),
        ("", ["sm_80"], True),  # it does not say: it is tried
        ("sm_80", [], True),
    ],
)
def test_a_gpu_is_used_where_the_build_has_code_for_it(
    architecture: str, built_for: list[str], fits: bool
):
    reported = why_unfit(gpu(3, architecture), built_for)
    assert (reported == "") == fits
    if reported:
        assert "cuda:3" in reported
        assert architecture in reported


def test_the_fastest_in_float64_comes_first():
    display = gpu(0, "sm_61", 3)
    card = gpu(1, "sm_89", 128)
    server = gpu(2, "sm_80", 108)
    assert fastest_first([display, card, server]) == [server, card, display]
    small = gpu(0, "sm_86", 80, memory=8)
    large = gpu(1, "sm_86", 80, memory=24)
    assert fastest_first([small, large]) == [large, small]
    assert fastest_first([small, gpu(1, "sm_86", 80)])[0] is small
    assert fastest_first([Gpu(name="cuda:0", title="GPU 0"), small])[0] is small


def card(name: str, major: int, minor: int, processors: int) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        major=major,
        minor=minor,
        multi_processor_count=processors,
        total_memory=8 * 10**9,
    )


@pytest.fixture
def several(monkeypatch) -> None:
    """More than one GPU, by their properties; None: it cannot say what it is."""
    cards = (card("Old", 3, 5, 90), None, card("Display", 8, 6, 3), card("Large", 8, 6, 82))

    def properties(index: int) -> SimpleNamespace:
        if cards[index] is None:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return cards[index]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80"])
    monkeypatch.setattr(capabilities, "_start", lambda _gpu: None)
    monkeypatch.setattr(capabilities, "work_on", lambda _device: None)


@pytest.mark.usefixtures("several")
def test_auto_takes_the_fastest_gpu_that_can_be_used():
    assert str(resolve_device("auto")) == "cuda:3"
    assert str(resolve_device("cuda:2")) == "cuda:2"
    with pytest.raises(ResourceError, match=r"Old \(cuda:0\) is of architecture sm_35"):
        resolve_device("cuda:0")


@pytest.mark.usefixtures("several")
def test_a_gpu_that_cannot_say_its_name_is_offered_and_one_too_old_is_explained():
    reported = [(device.name, device.title) for device in available_devices()]
    assert reported[1:] == [("cuda:1", "GPU 1"), ("cuda:2", "Display"), ("cuda:3", "Large")]
    assert len(devices_not_used()) == 1
    ready = engine_ready()
    assert len(ready.devices) == 4
    assert "sm_35" in ready.devices_not_used[0]


def test_auto_goes_on_to_the_next_where_one_does_not_start():
    with DeviceStandIn().installed() as stand_in:

        def fails(operation: str) -> None:
            if operation == "linalg_cholesky_ex":
                raise RuntimeError("CUDA error: no kernel image is available for execution")

        stand_in.fails = fails
        assert str(resolve_device("auto")) == "cpu"
        with pytest.raises(ResourceError, match=r"does not compute: CUDA error: no kernel image"):
            resolve_device("cuda:0")


def test_a_device_is_made_ready_before_threads_meet_on_it():
    """Torch's loader of its decompositions fails where two threads come first."""
    with DeviceStandIn().installed() as stand_in:
        assert str(resolve_device("auto")) == "cuda:0"
        assert {"linalg_cholesky_ex", "_linalg_eigh"} <= set(stand_in.operations)
        stand_in.forget()
        resolve_device("cuda:0")
        assert not stand_in.operations


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("Found no NVIDIA driver on your system. Please …", "There is no NVIDIA driver"),
        (
            "The NVIDIA driver on your system is too old (found version 11040). Please …",
            "The NVIDIA driver is too old for this build of torch (CUDA 12.8); update the driver.",
        ),
        ("CUDA unknown error - this may be due to …\nmore", "CUDA does not start: CUDA unknown"),
        ("", "CUDA does not start."),
    ],
)
def test_it_is_said_why_there_is_no_gpu(error: str, sentence: str, monkeypatch):
    def init() -> None:
        raise RuntimeError(error)

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    assert why_none().startswith(sentence)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "unset CUDA_VISIBLE_DEVICES" in why_none()


def test_gpus_of_other_makers_and_builds_without_cuda_are_named(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    assert "processor only" in why_none()
    assert "pytorch.org" in why_none()
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    assert "Intel" in why_none()
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert "Apple" in why_none()
    with pytest.raises(ResourceError, match="Apple"):
        resolve_device("mps")


def test_rocm_goes_the_same_way_and_says_that_it_was_not_tried(monkeypatch):
    properties = SimpleNamespace(
        name="MI250X",
        gcnArchName="gfx90a:sramecc+:xnack-",
        multi_processor_count=110,
        total_memory=64 * 10**9,
    )
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _index: properties)
    (device,) = capabilities.gpus()
    assert device.architecture == "gfx90a"
    assert "not tried" in device.title


def test_a_driver_that_is_half_there_stops_nothing(monkeypatch):
    def fails() -> bool:
        warnings.warn("CUDA initialization: CUDA unknown error", UserWarning, stacklevel=1)
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(torch.cuda, "is_available", fails)
    monkeypatch.setattr(torch.cuda, "init", fails)
    assert [device.name for device in engine_ready().devices] == ["cpu"]
    assert len(devices_not_used()) == 1


@pytest.mark.parametrize("who", ERRORS)
def test_a_gpu_without_any_room_left_is_not_taken(who: str):
    with DeviceStandIn().installed() as stand_in:

        def fails(_operation: str) -> None:
            raise ERRORS[who]()

        stand_in.fails = fails
        assert str(resolve_device("auto")) == "cpu"


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_no_merge_depends_on_the_threads_of_an_earlier_one():
    """Last digits depend on the number of threads."""
    use_threads(None)
    first = torch.get_num_threads()
    for earlier in (1, first + 1):
        use_threads(earlier)
        assert torch.get_num_threads() == earlier
        use_threads(None)
        assert torch.get_num_threads() == first
