"""ACE against the literal transcription: each equation, then the whole procedure."""

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch

from ace_gui.linalg.heterogeneity import GUARD, heterogeneity
from ace_gui.linalg.polar import top_polars
from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.ace_terms import Share, Sums, collect, preliminary, residual
from tests.helpers import ace_oracle as oracle
from tests.helpers.ace_cases import AceCase, Array, ace_cases, random_deltas, spread

CASES = ace_cases()
LARGEST_ERROR = 1e-5
TERM_ERROR = 1e-9  # of a term in float64, ill-conditioned cases included

by_regime = pytest.mark.parametrize("heterogeneous", [False, True])
by_shape = pytest.mark.parametrize(("m", "n"), [(6, 20), (12, 16), (14, 14), (20, 6), (1, 5)])


def reader(deltas: Array) -> Callable[[int], torch.Tensor]:
    return lambda t: torch.from_numpy(deltas[t].copy())[None]


def sums_of(deltas: Array, epsilon: float, heterogeneous: bool) -> Sums:
    ridges = oracle.ridges(deltas, epsilon, heterogeneous)
    shares = [Share(expert=t, weights=(r / epsilon,), ridges=(r,)) for t, r in enumerate(ridges)]
    return collect(reader(deltas), shares, with_residual=True)


def run(case: AceCase, *, keep_preliminary: bool = False):
    dtype = torch.float64 if case.double else torch.float32
    deltas = [torch.from_numpy(delta).to(dtype) for delta in case.deltas]
    parameters = AceParameters(epsilon=case.epsilon, tau=case.tau, k_frac=case.k_frac)
    return ace(deltas, [1.0] * len(deltas), parameters, keep_preliminary=keep_preliminary)


def of(case: AceCase) -> oracle.OracleResult:
    return oracle.ace_oracle(case.deltas, epsilon=case.epsilon, tau=case.tau, k_frac=case.k_frac)


@pytest.mark.parametrize("T", [2, 3, 20])
def test_eq_7_gamma(T: int) -> None:
    deltas = random_deltas(T, 5, 7, spread(T, 30), seed=T)
    found = heterogeneity(list(oracle.energies(deltas)))
    assert found.gamma == pytest.approx(oracle.gamma(deltas), rel=1e-12)


@by_regime
@by_shape
def test_eqs_5_to_10_sums(m: int, n: int, heterogeneous: bool) -> None:
    deltas = random_deltas(4, m, n, spread(4, 20), seed=1)
    sums = sums_of(deltas, 1e-3, heterogeneous)
    scaled = oracle.scaled_proxies(deltas, heterogeneous)
    ridges = oracle.ridges(deltas, 1e-3, heterogeneous)
    tilde, means = zip(*(oracle.centred(delta) for delta in deltas), strict=True)
    regularised = oracle.regularised_proxies(deltas, 1e-3, heterogeneous)
    assert sums.rest is not None
    for found, value in (
        (sums.scaled_BII, sum(scaled)),
        (sums.numerator_BOI, sum(w @ s for w, s in zip(tilde, regularised, strict=True))),
        (sums.rest.ridge_BOI, sum(r * w for r, w in zip(ridges, tilde, strict=True))),
        (sums.rest.total_BOI, sum(deltas)),
        (sums.rest.mean_B1I[:, 0], sum(s @ mean for s, mean in zip(scaled, means, strict=True))),
    ):
        np.testing.assert_allclose(found[0].numpy(), value, rtol=1e-9, atol=1e-12)
    assert sums.ridge_masses == pytest.approx([sum(ridges)])


@by_regime
@by_shape
@pytest.mark.parametrize("epsilon", [1e-5, 4e-2, 10.0])
def test_eqs_11_to_14_preliminary(m: int, n: int, heterogeneous: bool, epsilon: float) -> None:
    deltas = random_deltas(4, m, n, spread(4, 20), seed=2)
    scale = 1 / (oracle.energies(deltas).mean() + GUARD) if heterogeneous else 1.0
    found = preliminary(sums_of(deltas, epsilon, heterogeneous), [scale])
    expected = oracle.preliminary(deltas, epsilon, heterogeneous)
    assert found.cuts == [0]
    np.testing.assert_allclose(found.value_BOI[0].numpy(), expected, rtol=0, atol=TERM_ERROR)


@by_regime
@by_shape
def test_eqs_16_and_17_residual(m: int, n: int, heterogeneous: bool) -> None:
    deltas = random_deltas(5, m, n, spread(5, 20), seed=3)
    sums = sums_of(deltas, 1e-3, heterogeneous)
    assert sums.rest is not None
    found = residual(sums, sums.rest)[0].numpy()
    expected = oracle.residual(deltas, 1e-3, heterogeneous)
    assert oracle.relative_error(found, expected) < 1e-12


@by_shape
def test_eq_18_refinement(m: int, n: int) -> None:
    fused = random_deltas(1, m, n, 1.0, seed=4)[0]
    for k in range(1, min(m, n) + 1):
        (polar,) = top_polars(torch.from_numpy(fused)[None], k, [0.0])
        found = polar.factor_OI.numpy() * polar.mean
        np.testing.assert_allclose(found, oracle.refinement(fused, k), rtol=0, atol=TERM_ERROR)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_whole_procedure(case: AceCase) -> None:
    expected = of(case)
    merged = run(case, keep_preliminary=True)
    found = merged.diagnostics
    assert found.gamma == pytest.approx(expected.gamma, rel=1e-9, abs=1e-15)
    assert found.heterogeneous == expected.heterogeneous
    assert found.ridge_mass == pytest.approx(expected.ridge_mass)
    np.testing.assert_allclose(found.energies, oracle.energies(case.deltas), rtol=1e-6)
    assert merged.delta.dtype == torch.float32
    assert merged.preliminary is not None
    for tensor, reference in (
        (merged.delta, expected.merged),
        (merged.preliminary, expected.preliminary),
    ):
        error = np.linalg.norm(tensor.double().numpy() - reference)
        assert error <= LARGEST_ERROR * np.linalg.norm(reference)


def test_the_cases_cover_what_they_should() -> None:
    regimes = {
        (case.deltas.shape[1] < case.deltas.shape[2], of(case).heterogeneous) for case in CASES
    }
    assert len(regimes) == 4
    assert {len(case.deltas) for case in CASES} >= {2, 5, 20}
    assert {case.epsilon for case in CASES} >= {1e-5, 4e-2}
    heterogeneous = [case for case in CASES if case.name.startswith("heterogeneous")]
    assert all(of(case).heterogeneous for case in heterogeneous)


@by_regime
def test_the_oracle_itself_agrees_with_forty_digits(heterogeneous: bool) -> None:
    """An ill-conditioned W_pre (condition about 1e7) by Eq. 14 in multiple precision."""
    norms = spread(3, 10, 3.0)
    deltas = random_deltas(3, 4, 12, norms, seed=5)
    with mpmath.workdps(40):
        expected = np.array(_precise_preliminary(deltas, 1e-5, heterogeneous).tolist(), float)
    found = oracle.preliminary(deltas, 1e-5, heterogeneous)
    assert oracle.relative_error(found, expected) < 1e-8


def _precise_preliminary(deltas: Array, epsilon: float, heterogeneous: bool):
    T, m, n = deltas.shape
    guard = mpmath.mpf(oracle.GUARD)
    experts = [mpmath.matrix(delta.tolist()) for delta in deltas]
    tilde = [d - mpmath.ones(m, m) * d / m for d in experts]
    proxies = [w.T * w for w in tilde]
    traces = [sum(p[i, i] for i in range(n)) + guard for p in proxies]
    weights = [1 / trace if heterogeneous else mpmath.mpf(1) for trace in traces]
    zero = mpmath.zeros(n, n)
    scaled = sum((w * p for w, p in zip(weights, proxies, strict=True)), zero)
    energy = sum(x * x for d in experts for x in d) / T + guard
    prior = mpmath.ones(n, n) * scaled / n / (energy if heterogeneous else 1)
    regularised = [w * (p + epsilon * mpmath.eye(n)) for w, p in zip(weights, proxies, strict=True)]
    numerator = sum((w * r for w, r in zip(tilde, regularised, strict=True)), mpmath.zeros(m, n))
    return numerator * mpmath.inverse(sum(regularised, zero) + prior)
