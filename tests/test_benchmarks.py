"""The benchmarks stay outside the test run; what they name must exist all the same."""

from pathlib import Path

import pytest
import torch

from ace_gui.engine.devices import resolve_device
from tests.benchmarks import ablation, first_gpu, layers, stages
from tests.benchmarks.experts import norms, task_vector
from tests.helpers.device_stand_in import DeviceStandIn
from tests.helpers.models import roberta_family
from tests.helpers.recipes import file_of, recipe_of


def test_every_stage_of_the_profile_names_a_function() -> None:
    missing = [
        f"{owner}.{name}"
        for _, owner, name in stages.functions()
        if not callable(getattr(owner, name, None))
    ]
    assert not missing


def test_time_spent_in_another_stage_counts_there_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 4.0, 10.0])  # the outer begins, the inner from 1 to 4, the outer ends
    monkeypatch.setattr(stages.time, "perf_counter", lambda: next(now))
    clocks = stages.Clocks()
    inner = clocks.wrapped("inner", lambda: None)
    clocks.wrapped("outer", inner)()
    assert dict(clocks.main) == {"inner": 3.0, "outer": 7.0}


@pytest.mark.parametrize("shape", [(12, 40), (24, 40), (40, 24)])
def test_both_sides_of_the_ablation_agree(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    deltas = [task_vector(*shape, size, generator) for size in norms(3, 0.3, 1.0)]
    found = list(ablation.rows(deltas))
    assert len(found) == 9
    for name, without, with_it in found:
        reference, value = without().double(), with_it().double()
        assert float((value - reference).norm() / reference.norm()) < 1e-6, name


@pytest.mark.parametrize(
    ("shape", "sums", "after"),
    [
        ((100, 100), 2e6 + 2e6, 1e6 / 3 + 2e6),
        ((100, 240), 2 * 5.76e6 + 2 * 5.76e6, 240**3 / 3 + 2 * 5.76e6),
        ((100, 400), 200**2 * 400, 8e6 / 3 + 2 * 100 * 200**2 + 2 * 200 * 100 * 400),
    ],
)
def test_necessary_products(shape: tuple[int, int], sums: float, after: float) -> None:
    """Two experts: on the inputs' side, again, and by way of the products between experts."""
    case = layers.Case(outputs=shape[0], inputs=shape[1], experts=2, kind="hom.")
    assert layers.products(case) == (sums, after)


def test_the_script_for_the_first_gpu_runs_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = file_of(tmp_path, roberta_family(tmp_path / "models"))
    few = ["--methods", "linear", "--processes", "0", "--shapes", "6x8"]
    words = [str(recipe), "cpu", *few, "--together", "1", "--rounds", "1"]
    assert first_gpu.main(words) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_what_it_compares_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = recipe_of(roberta_family(tmp_path / "models"))
    with DeviceStandIn().installed():
        first_gpu.every_method(recipe, resolve_device("cuda:0"), tmp_path, ["karcher", "slerp"])
        first_gpu.little_memory(recipe, resolve_device("cuda:0"), tmp_path)
    _, karcher, slerp, *_ = capsys.readouterr().out.splitlines()
    assert karcher.split()[0] == "karcher"
    assert float(karcher.split()[3]) < 1e-5
    assert "experts" in slerp  # it merges two, and says so
