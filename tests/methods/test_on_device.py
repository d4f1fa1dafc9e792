"""Every method on tensors of a GPU: nothing is mixed with the processor's, nothing comes out
different.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch

from ace_gui.linalg.probing import PROBES
from ace_gui.methods import METHODS, MergeMethod, checked_parameters
from ace_gui.methods.method import MethodInput
from ace_gui.methods.shared.tolerance import STRICT, Tolerance
from tests.benchmarks.experts import task_vector
from tests.helpers.device_stand_in import GPU, DeviceStandIn
from tests.helpers.method_cases import context, matrix_cases

EVERY = pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)


def merge_inputs(method: MergeMethod[Any]) -> tuple[list[torch.Tensor], Any]:
    deltas = [torch.tensor(delta, dtype=torch.float32) for delta in matrix_cases()["tall"]]
    few = {"steps": 3} if "steps" in method.parameters.__dataclass_fields__ else {}
    return deltas[: method.most], checked_parameters(method, few)


@pytest.mark.parametrize("name", ["star", "cart", "knots_ties", "knots_dare_ties"])
def test_what_gram_matrices_show_takes_no_singular_value_decomposition(name: str) -> None:
    """A GPU takes seconds for one of a large matrix in float64."""
    method = METHODS[name]
    generator = torch.Generator().manual_seed(0)
    deltas = [torch.randn(48, 32, generator=generator) for _ in range(3)]
    parameters = checked_parameters(method, {})
    reported = context(method, deltas, parameters)
    with DeviceStandIn().installed() as stand_in:
        there = [delta.to(GPU) for delta in deltas]
        base = reported["base"].to(GPU)
        stand_in.forget()
        method.merge(there, [1.0] * 3, parameters, **reported | {"base": base})
    assert stand_in.operations["_linalg_eigh"]
    assert not stand_in.operations["_linalg_svd"]


@EVERY
def test_it_merges_on_a_gpu_what_it_merges_on_the_processor(method: MergeMethod[Any]) -> None:
    deltas, parameters = merge_inputs(method)
    reported = context(method, deltas, parameters)
    weights = [1.0, 0.5, 2.0, 1.0][: len(deltas)]
    expected = method.merge(deltas, weights, parameters, **reported)
    with DeviceStandIn().installed() as stand_in:
        there = [delta.to(GPU) for delta in deltas]
        base = reported["base"].to(GPU)
        if "measured" in reported:
            by_expert = [tensor.to(GPU) for tensor in reported["measured"].by_expert]
            values = {name: tensor.to(GPU) for name, tensor in reported["measured"].values.items()}
            reported["measured"] = replace(reported["measured"], by_expert=by_expert, values=values)
        stand_in.forget()
        outcome = method.merge(there, weights, parameters, **reported | {"base": base})
        delta = outcome.delta.cpu()
    assert outcome.delta.device == GPU
    torch.testing.assert_close(delta, expected.delta, rtol=1e-6, atol=1e-7)
    for figure in ("gamma", "energies", "notes", "warnings"):
        assert getattr(outcome.diagnostics, figure) == getattr(expected.diagnostics, figure)
    # Random numbers come from the processor, so that every device gets the same; nothing else
    # as large as a matrix does.
    large = [size for size in stand_in.uploads if size >= delta.numel() * 4]
    assert len(large) <= (2 * len(deltas) if method.seeded else 0)
    assert not stand_in.downloads or max(stand_in.downloads) < delta.numel() * 4 * 2


@pytest.mark.parametrize("shape", [(48, 64), (64, 48)], ids=str)
def test_tsv_m_in_float32_stays_on_the_gpu(shape: tuple[int, int]) -> None:
    """Only random vectors come from the processor, and only figures go back."""
    generator = torch.Generator().manual_seed(1)
    deltas = [task_vector(*shape, size, generator) for size in (1.0, 0.6, 0.3)]
    tolerance = Tolerance(rounding=0.1, source="the experts' bfloat16")
    tsv_m = METHODS["tsv_m"]
    parameters = checked_parameters(tsv_m, {})
    expected = tsv_m.merge(deltas, [1.0] * 3, parameters, tolerance=tolerance)
    assert "in float32" in expected.diagnostics.precision
    with DeviceStandIn().installed() as stand_in:
        there = [delta.to(GPU) for delta in deltas]
        stand_in.forget()
        outcome = tsv_m.merge(there, [1.0] * 3, parameters, tolerance=tolerance)
        assert max(stand_in.downloads, default=0) < 8 * min(shape)
        assert max(stand_in.uploads, default=0) <= 8 * PROBES * max(shape)
        delta = outcome.delta.cpu()
    assert outcome.delta.device == GPU
    assert "in float32" in outcome.diagnostics.precision
    torch.testing.assert_close(delta, expected.delta, rtol=1e-3, atol=1e-4)


@EVERY
def test_a_batch_on_a_gpu_is_what_each_is_alone(method: MergeMethod[Any]) -> None:
    if method.merge_batch is None:
        pytest.skip("it merges one matrix at a time")
    deltas, parameters = merge_inputs(method)
    for tau in (0.0, 100.0):
        chosen = replace(parameters, tau=tau, epsilon=1e-3)
        with DeviceStandIn().installed():
            layers = [
                MethodInput([delta.to(GPU) * scale for delta in deltas], [1.0] * len(deltas))
                for scale in (1, 3)
            ]
            batch = [outcome.delta.cpu() for outcome in method.merge_batch(layers, chosen)]
        for scale, merged in zip((1, 3), batch, strict=True):
            alone = method.merge([delta * scale for delta in deltas], [1.0] * len(deltas), chosen)
            torch.testing.assert_close(merged, alone.delta, rtol=1e-4, atol=1e-6)


SHAPES = ((48, 64), (640, 560))
REGIMES = {
    "homogeneous": {"tau": 100.0},
    "heterogeneous": {"tau": 0.0},
    "automatic": {"variant": "automatic"},
}
NUMBERS = {
    "float64": (1e-5, STRICT),
    "float32": (1.0, Tolerance(rounding=0.2, source="the experts' bfloat16")),
}
"""ε for the larger shape and tolerance, by the numbers that the layer's report tells."""


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_ace_waits_for_the_gpu_as_seldom_whatever_the_size(
    shape: tuple[int, int], regime: str, numbers: str
) -> None:
    """For energies, the solution, what float32 left, twice for eigenvectors; for the base's norm.

    One is left of six for the engine, which fetches the result.
    """
    torch.manual_seed(0)
    deltas = [torch.randn(shape) * (1 + t) / 50 for t in range(5)]
    weights = [1.0] * 5
    epsilon, tolerance = NUMBERS[numbers]
    epsilon *= 0.03 if shape == SHAPES[0] else 1.0  # its energies are smaller
    options = REGIMES[regime] | {"epsilon": epsilon}
    parameters = checked_parameters(METHODS["ace"], options)
    with DeviceStandIn().installed() as stand_in:
        there = [delta.to(GPU) for delta in deltas]
        base = torch.ones(shape).to(GPU)
        stand_in.forget()
        merge = METHODS["ace"].merge
        merged = merge(there, weights, parameters, base=base, tolerance=tolerance)
        assert sum(stand_in.waits.values()) <= 5
        assert len(stand_in.unpinned) == stand_in.waits["download"], "no upload waits"
    if regime == "homogeneous":
        assert f"in {numbers}" in merged.diagnostics.precision
