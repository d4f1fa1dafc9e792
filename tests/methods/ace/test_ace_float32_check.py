"""The error that ACE's check expects of float32, beside the true one, over layers of many kinds."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from ace_gui.ace_variants import AUTOMATIC, PUBLISHED
from ace_gui.methods.ace import AceParameters, ace, algorithm, closed_form, float32_check
from ace_gui.methods.ace.energies import measure
from ace_gui.methods.ace.float32_check import ProbedSums
from ace_gui.methods.ace.problem import Rule
from ace_gui.methods.shared.experts import Experts
from ace_gui.methods.shared.tolerance import Tolerance, tolerance_of_experts
from tests.benchmarks.exactness import ExactnessCase, measured
from tests.benchmarks.experts import task_vector
from tests.helpers.ace_cases import (
    Array,
    CountedDeltas,
    decaying_deltas,
    low_rank_deltas,
    random_deltas,
    spread,
)

COARSE = Tolerance(rounding=1.0)
"""Weights of 16 bits, with which every layer is probed."""


def like_fine_tuning(T: int, m: int, n: int, norms: float | Array, seed: int) -> Array:
    """A few strong directions over dense noise."""
    generator = torch.Generator().manual_seed(seed)
    sizes = np.broadcast_to(norms, (T,))
    return np.array([task_vector(m, n, float(size), generator).double() for size in sizes])


def with_unequal_inputs(T: int, m: int, n: int, norms: float | Array, seed: int) -> Array:
    """Inputs that change by very different amounts, so that errors are not isotropic."""
    deltas = np.random.default_rng(seed).standard_normal((T, m, n)) * np.geomspace(1, 1e-3, n)
    sizes = np.linalg.norm(deltas, axis=(1, 2))
    return deltas * (np.broadcast_to(norms, (T,)) / sizes)[:, None, None]


Make = Callable[[int, int, int, float | Array, int], Array]
SPECTRA: dict[str, Make] = {
    "flat": random_deltas,
    "rank-deficient": lambda T, m, n, norms, seed: low_rank_deltas(T, m, n, 4, norms, seed),
    "decaying": lambda T, m, n, norms, seed: decaying_deltas(T, m, n, 1e4, norms, seed),
    "fine-tuning": like_fine_tuning,
    "tiny": lambda T, m, n, norms, seed: like_fine_tuning(T, m, n, np.multiply(norms, 1e-9), seed),
    "unequal-inputs": with_unequal_inputs,
}
by_spectrum = pytest.mark.parametrize("make", SPECTRA.values(), ids=SPECTRA)
by_shape = pytest.mark.parametrize(("m", "n"), [(24, 96), (64, 64), (128, 48)])
by_rule = pytest.mark.parametrize("rule", list(Rule), ids=lambda rule: rule.name.lower())
by_condition = pytest.mark.parametrize("condition", [3.0, 1e3, 1e6])


def tensors(deltas: Array) -> list[torch.Tensor]:
    return [torch.from_numpy(delta).float() for delta in deltas]


def ridge(deltas: Sequence[torch.Tensor], rule: Rule, condition: float) -> float:
    """ε for which S has about this condition number."""
    centred = [(delta - delta.mean(dim=0)).double() for delta in deltas]
    weights = [1.0 if rule is Rule.HOMOGENEOUS else float(c.norm()) ** -2 for c in centred]
    rows = torch.cat([weight**0.5 * c for weight, c in zip(weights, centred, strict=True)])
    return float(torch.linalg.matrix_norm(rows, 2)) ** 2 / (condition * sum(weights))


def predicted_and_true(
    deltas: Sequence[torch.Tensor], rule: Rule, condition: float
) -> tuple[float, float]:
    """The measured error of float32 in W_pre, without the safety, and the true one."""
    variant = AUTOMATIC if rule is Rule.AUTOMATIC else PUBLISHED
    parameters = AceParameters(variant=variant, epsilon=ridge(deltas, rule, condition))
    layers = [Experts(deltas, [1.0] * len(deltas))]
    energies, probes = measure(layers, parameters, [COARSE])
    assert probes is not None
    problem = algorithm.weighed(layers, energies, rule, parameters, [COARSE])
    terms = closed_form.solve(problem, torch.float32, probes.probes_PI)
    exact_BOI = closed_form.solve(problem).preliminary_BOI
    (precision,) = ProbedSums.of(probes, problem, [0]).precisions(terms, problem)
    true = float((terms.preliminary_BOI.double() - exact_BOI).norm())
    if terms.cuts[0]:  # is refused in any case
        return true, true
    return precision.error / float32_check.SAFETY, true


@by_spectrum
@by_shape
@by_rule
@by_condition
@pytest.mark.parametrize("T", [2, 6])
def test_the_true_error_is_never_larger_than_the_one_that_counts(
    make: Make, m: int, n: int, rule: Rule, condition: float, T: int
) -> None:
    norms = 0.3 if rule is Rule.HOMOGENEOUS else spread(T, 5)
    predicted, true = predicted_and_true(tensors(make(T, m, n, norms, m)), rule, condition)
    assert true <= float32_check.SAFETY * predicted


@pytest.mark.parametrize("make", [random_deltas, like_fine_tuning], ids=["flat", "fine-tuning"])
@pytest.mark.parametrize(("m", "n"), [(64, 64), (128, 48), (96, 160)])
@by_rule
@by_condition
def test_where_errors_are_isotropic_they_are_predicted_within_a_factor(
    make: Make, m: int, n: int, rule: Rule, condition: float
) -> None:
    """The worst case of the inverse, 1/e, would be up to thousands of times too much."""
    norms = 0.3 if rule is Rule.HOMOGENEOUS else spread(4, 5)
    predicted, true = predicted_and_true(tensors(make(4, m, n, norms, n)), rule, condition)
    assert predicted <= 3 * true


@pytest.mark.parametrize("shape", [(384, 96), (192, 64), (128, 128)])
@pytest.mark.parametrize("condition", [3e4, 1e5, 3e5])
def test_a_published_merge_in_16_bits_takes_float32_where_it_is_exact_enough(
    shape: tuple[int, int], condition: float
) -> None:
    """The inverse is far smaller than 1/e, as rounding fills all directions."""
    case = ExactnessCase(
        dtype=torch.bfloat16,
        ratio=10.0,
        condition=condition,
        heterogeneous=False,
        shape=shape,
        experts=4,
    )
    row = measured(case)
    assert row.numbers.startswith("float32")
    assert row.missed <= row.allowed
    assert (row.missed**2 + row.rounding**2) ** 0.5 <= 1.02 * row.rounding


@pytest.mark.parametrize("variant", [AUTOMATIC, PUBLISHED])
def test_float32_models_are_not_tried_in_vain(variant: str) -> None:
    """Two readings: one for the energies, one for the sums in float64."""
    deltas = CountedDeltas(tensors(like_fine_tuning(4, 96, 300, 0.3, 1)))
    parameters = AceParameters(variant=variant, epsilon=1e-6, tau=100.0)
    merged = ace(deltas, [1.0] * 4, parameters, base=torch.ones(96, 300))
    assert "float64" in merged.diagnostics.precision
    assert set(deltas.reads.values()) == {2}


def test_what_float32_solves_too_coarsely_is_not_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float32_check, "ROUNDING", 1e-12)  # float32 is always tried
    decompositions = list[torch.dtype]()

    def counted(matrix_BOI: torch.Tensor, *arguments: object) -> object:
        decompositions.append(matrix_BOI.dtype)
        return polars(matrix_BOI, *arguments)

    polars = algorithm.top_polars
    monkeypatch.setattr(algorithm, "top_polars", counted)
    deltas = CountedDeltas(tensors(like_fine_tuning(4, 48, 40, 0.3, 1)))
    merged = ace(deltas, [1.0] * 4, AceParameters(tau=0.0))
    assert "float64" in merged.diagnostics.precision
    assert set(deltas.reads.values()) == {3}
    assert len(decompositions) == 1


def test_rounding_of_the_experts_alone_decides_what_is_allowed() -> None:
    """The same task vectors, from weights of 16 bits and of float32."""
    deltas = tensors(like_fine_tuning(4, 128, 64, 0.3, 2))
    parameters = AceParameters(epsilon=1e-5, tau=100.0)
    coarse = tolerance_of_experts([torch.bfloat16] * 4, [1.0] * 4, 3.0)
    exact = ace(deltas, [1.0] * 4, parameters)
    rounded = ace(deltas, [1.0] * 4, parameters, tolerance=coarse)
    assert "float64" in exact.diagnostics.precision
    assert "float32" in rounded.diagnostics.precision
    error = float((rounded.delta - exact.delta).norm() / exact.delta.norm())
    assert error <= coarse.relative(float(exact.delta.norm()))
