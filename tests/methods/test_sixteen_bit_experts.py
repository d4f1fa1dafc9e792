"""Every method on matrices of 16-bit and 32-bit models: the error beside the output's rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ace_gui.methods import METHODS, checked_parameters
from ace_gui.methods.shared.tolerance import Tolerance, tolerance_of_experts, with_output
from ace_gui.methods.wudi import WudiParameters, wudi
from tests.benchmarks.experts import task_vector
from tests.helpers import method_oracles as oracle
from tests.helpers.method_cases import context
from tests.helpers.method_checks import CHECKS, LARGEST_ERROR, Check

FORMATS = [torch.bfloat16, torch.float16, torch.float32]
T = 3
# Elections among the coordinates of KnOTS depend on the last digits of its basis.
NAMES = {"linear", "task_arithmetic", "ties", "dare_linear", "dare_ties", "della", "breadcrumbs"}
NAMES |= {"pcb", "sce", "emr", "tsv_m", "iso_c", "iso_cts", "cart", "star", "wudi", "fr_merging"}
CASES = [
    check for check in CHECKS if check.method in NAMES and "base_weight" not in check.parameters
]


def weights(shape: tuple[int, int], dtype: torch.dtype) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """W₀ of ten times the norm of the changes, and ΔW_t, all of that format, as float32."""
    generator = torch.Generator().manual_seed(sum(shape))
    base = torch.randn(*shape, generator=generator).mul_(0.05).to(dtype).float()
    changes = [task_vector(*shape, 0.1 * float(base.norm()), generator) for _ in range(T)]
    return base, [(base + change).to(dtype).float() - base for change in changes]


def tolerance_of(base: torch.Tensor, dtype: torch.dtype) -> Tolerance:
    norm = float(base.norm())
    return with_output(tolerance_of_experts([dtype] * T, [1.0] * T, norm), dtype, norm)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("check", CASES, ids=str)
def test_the_error_does_not_show_beside_the_rounding(check: Check, dtype: torch.dtype) -> None:
    base, deltas = weights((24, 36), dtype)
    method = METHODS[check.method]
    parameters = checked_parameters(method, check.parameters)
    extra: dict[str, Any] = context(method, deltas, parameters)
    extra |= {"base": base, "tolerance": tolerance_of(base, dtype)}
    delta = method.merge(deltas, [1.0] * T, parameters, **extra).delta.double()
    exact = torch.from_numpy(check.oracle(torch.stack(deltas).double().numpy()))
    if dtype == torch.float32:
        assert oracle.relative_error(delta.numpy(), exact.numpy()) <= LARGEST_ERROR
        return
    merged = base.double() + exact
    ours = ((base.double() + delta).to(dtype).double() - merged).norm()
    best = (merged.to(dtype).double() - merged).norm()
    assert float(ours) <= 1.02 * float(best)


def test_ties_keeps_all_that_are_as_large_as_the_last_one() -> None:
    """As the authors do. Of changes of a few steps of a 16-bit number a fifth may be equal: to keep
    exactly the wanted share is to keep whichever come first, a result that depends on the order."""
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(300, 300, generator=generator).mul_(0.02).bfloat16().float()
    changes = [torch.randn(300, 300, generator=generator) * 1e-4 for _ in range(T)]
    deltas = torch.stack([(base + change).bfloat16().float() - base for change in changes])
    exact = deltas.double().numpy()
    equal = [np.mean(abs(delta) == np.quantile(abs(delta), 0.8, method="lower")) for delta in exact]
    assert min(equal) > 0.1

    parameters = {"density": 0.2, "trim": "tensor"}
    checked = checked_parameters(METHODS["ties"], parameters)
    vector = METHODS["ties"].merge(list(deltas), [1.0] * T, checked).delta
    assert oracle.relative_error(vector.double().numpy(), oracle.ties(exact, 0.2)) <= 1e-7

    forwards, backwards = (_ties_of_so_many(exact, 0.2, step) for step in (1, -1))
    assert oracle.relative_error(forwards, backwards) > 0.3


def _ties_of_so_many(deltas: NDArray[np.float64], density: float, step: int) -> NDArray[np.float64]:
    """TIES with exactly the wanted share: of equal entries the first ones, or the last ones."""
    trimmed = np.zeros((T, deltas[0].size))
    for row, entries in zip(trimmed, deltas.reshape(T, -1)[:, ::step], strict=True):
        indices = np.argsort(-abs(entries), kind="stable")[: int(density * entries.size)]
        row[indices] = entries[indices]
    return oracle.elect(trimmed[:, ::step].reshape(deltas.shape), "mean", None, "positive")


@pytest.mark.parametrize("shape", [(48, 32), (32, 48), (7, 24)])
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_wudi_steps_in_float32_where_16_bits_show_no_more(
    dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    base, deltas = weights(shape, dtype)
    tolerance = tolerance_of(base, dtype)
    outcome = wudi(deltas, [1.0] * T, WudiParameters(), tolerance=tolerance)
    strict = wudi(deltas, [1.0] * T, WudiParameters())
    if dtype == torch.float32:
        assert torch.equal(outcome.delta, strict.delta)
        assert "float64" in outcome.diagnostics.precision
        return
    assert str(dtype).removeprefix("torch.") in outcome.diagnostics.precision
    error = float((outcome.delta.double() - strict.delta.double()).norm() / strict.delta.norm())
    assert 0 < error <= tolerance.relative(float(strict.delta.norm()))


def test_wudi_in_float32_that_strays_is_done_again_in_float64() -> None:
    """A tolerance that float32 cannot keep: the rows that are followed in float64 show it."""
    _, deltas = weights((48, 32), torch.float32)
    impossible = Tolerance(rounding=1e-30, source="a test")
    parameters = WudiParameters(learning_rate=1.0, steps=300)  # steps far larger than the weights
    outcome = wudi(deltas, [1.0] * T, parameters, tolerance=impossible)
    assert torch.equal(outcome.delta, wudi(deltas, [1.0] * T, parameters).delta)
    assert outcome.diagnostics.precision.startswith("Computed in float64")


@pytest.mark.parametrize("name", ["tsv_m", "iso_c", "iso_cts", "star", "fr_merging", "knots_ties"])
def test_what_float32_could_not_hold_says_float64(name: str) -> None:
    base, deltas = weights((24, 36), torch.bfloat16)
    method = METHODS[name]
    extra: dict[str, Any] = context(method, deltas) | {"base": base}
    outcome = method.merge(deltas, [1.0] * T, method.parameters(), **extra)
    assert outcome.diagnostics.precision.startswith("Computed in float64")
