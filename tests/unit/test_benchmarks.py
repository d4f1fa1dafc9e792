"""The benchmarks stay outside the test run; what they name must exist all the same."""

import pytest
import torch

from tests.benchmarks import ablation, layers, stages
from tests.benchmarks.experts import norms, task_vector


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


@pytest.mark.parametrize("shape", [(24, 40), (40, 24)])
def test_both_sides_of_the_ablation_agree(shape: tuple[int, int]) -> None:

    generator = torch.Generator().manual_seed(0)
    deltas = [task_vector(*shape, size, generator) for size in norms(3, 0.3, 1.0)]
    found = list(ablation.rows(deltas))
    assert len(found) == 7
    for name, without, with_it in found:
        reference, value = without().double(), with_it().double()
        assert float((value - reference).norm() / reference.norm()) < 1e-6, name


def test_necessary_products_of_a_square_layer() -> None:
    case = layers.Case(outputs=100, inputs=100, experts=2, kind="hom.")
    assert layers.products(case) == (2 * 3e6, 1e6 / 3 + 2e6)
