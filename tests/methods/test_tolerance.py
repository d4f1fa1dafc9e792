"""How exact a merge must be, and that ACE is: error by tolerance over formats and conditions."""

import math

import pytest
import torch

from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.shared.tolerance import (
    EXACT,
    STRICT,
    rounding_of,
    tolerance_of_experts,
    with_output,
)
from tests.benchmarks.experts import task_vector

FORMATS = [torch.float32, torch.bfloat16, torch.float16]
REGIMES = [pytest.param(100.0, id="homogeneous"), pytest.param(0.0, id="heterogeneous")]
T = 3


def weights(
    shape: tuple[int, int], dtype: torch.dtype, ratio: float, spread: float
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """W₀ of ``ratio`` times the norm of the changes, and ΔW_t in float32, all of that format."""
    generator = torch.Generator().manual_seed(sum(shape))
    base = torch.randn(*shape, generator=generator)
    base = base.mul_(0.3 * ratio / float(base.norm())).to(dtype).float()
    changes = [task_vector(*shape, 0.3 / spread**t, generator) for t in range(T)]
    return base, [(base + change).to(dtype).float() - base for change in changes]


@pytest.mark.parametrize("tau", REGIMES)
@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 1e-4, 1e-2])
@pytest.mark.parametrize("ratio", [3.0, 30.0])
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", [(96, 96), (192, 64), (32, 192)])
def test_the_error_is_within_the_tolerance(
    shape: tuple[int, int], dtype: torch.dtype, ratio: float, epsilon: float, tau: float
) -> None:
    base, deltas = weights(shape, dtype, ratio, spread=2.0)
    parameters = AceParameters(epsilon=epsilon, tau=tau)
    norm = float(base.norm())
    tolerance = with_output(tolerance_of_experts([dtype] * T, [1.0] * T, norm), dtype, norm)
    outcome = ace(deltas, [1.0] * T, parameters, tolerance=tolerance)
    exact = ace([delta.double() for delta in deltas], [1.0] * T, parameters).delta.double()
    error = float((outcome.delta - exact).norm())
    allowed = tolerance.relative(float(exact.norm()))
    # The error in float32 is estimated; a third of 1e-5 is allowed, so that 1e-5 holds.
    assert error <= max(allowed, 1e-5 * (dtype == torch.float32)) * float(exact.norm())
    assert outcome.diagnostics.precision.startswith("Computed in float")
    if dtype == torch.float32:
        strict = ace(deltas, [1.0] * T, parameters)
        assert torch.equal(outcome.delta, strict.delta)
        return
    rounded = (base.double() + outcome.delta.double()).to(dtype).double()
    best = (base.double() + exact).to(dtype).double()
    merged = base.double() + exact
    assert float((rounded - merged).norm()) <= 1.02 * float((best - merged).norm())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_float32_is_taken_where_16_bits_show_no_more(dtype: torch.dtype) -> None:
    base, deltas = weights((96, 96), dtype, 10.0, spread=1.0)
    tolerance = tolerance_of_experts([dtype] * T, [1.0] * T, float(base.norm()))
    parameters = AceParameters(epsilon=1e-3, tau=100.0)
    outcome = ace(deltas, [1.0] * T, parameters, tolerance=tolerance)
    assert outcome.diagnostics.precision.startswith("Computed in float32, which leaves")
    assert str(dtype).removeprefix("torch.") in outcome.diagnostics.precision
    strict = ace(deltas, [1.0] * T, parameters)
    assert "float64" in strict.diagnostics.precision


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_rounding_of_a_format(dtype: torch.dtype) -> None:
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    measured = float((values.to(dtype).double() - values).norm() / values.norm())
    assert 0.75 * measured < rounding_of(dtype) <= measured


def test_what_is_float32_or_wider_has_no_rounding_to_hide_behind() -> None:
    exact = tolerance_of_experts([torch.float32, torch.float64], [1.0, 1.0], 1e6)
    assert exact.relative(1e-6) == EXACT == STRICT.relative(1.0)
    assert with_output(exact, torch.float32, 1e6).relative(1e-6) == EXACT


def test_the_tolerance_is_a_fifth_of_the_larger_rounding() -> None:
    half = torch.float16
    norm = 10.0
    experts = tolerance_of_experts([half] * 2, [1.0, 1.0], norm)
    assert experts.relative(1.0) == pytest.approx(rounding_of(half) * norm / 5)
    mixed = tolerance_of_experts([half, torch.float32], [1.0, 1.0], norm)
    assert mixed.rounding == pytest.approx(experts.rounding / math.sqrt(2))
    output = with_output(experts, torch.bfloat16, 1.0)
    assert output.relative(1.0) == pytest.approx(
        max(rounding_of(torch.bfloat16), rounding_of(half) * norm) / 5
    )
    assert with_output(experts, torch.bfloat16, norm).source == "the output's bfloat16"


def test_a_factor_afterwards_enlarges_errors_but_not_roundings() -> None:
    tolerance = tolerance_of_experts([torch.float16], [1.0], 10.0)
    assert tolerance.scaled(-2.0).relative(1.0) == pytest.approx(tolerance.relative(1.0) / 2)
    assert tolerance.scaled(0.1) == tolerance
